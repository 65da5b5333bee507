//! What the programs' tests share: the counts of a command in words, and waiting for what other threads and tasks bring about.

#![allow(dead_code, reason = "every program uses a part of this")]

use std::time::{Duration, Instant};

use hystrix_core::CommandHandle;

/// How long a test waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The counts of a command that are not zero.
pub fn counts(command: &CommandHandle) -> String {
    let counts = command.metrics().cumulative;
    let words = [
        ("ok", counts.success),
        ("failure", counts.failure),
        ("timeout", counts.timeout),
        ("bad_request", counts.bad_request),
        ("short_circuited", counts.short_circuited),
        ("pool_rejected", counts.thread_pool_rejected),
        ("semaphore_rejected", counts.semaphore_rejected),
        ("cancelled", counts.cancelled),
        ("fallback_ok", counts.fallback_success),
        ("fallback_failure", counts.fallback_failure),
        ("fallback_rejected", counts.fallback_rejection),
        ("fallback_missing", counts.fallback_missing),
        ("fallback_skipped", counts.fallback_skipped),
        ("fallback_cancelled", counts.fallback_cancelled),
    ];
    let there = words.iter().filter(|(_, count)| *count > 0);
    there.map(|(word, count)| format!("{word}={count}")).collect::<Vec<_>>().join(" ")
}

/// Waits for something that other threads bring about.
pub fn until(what: &str, reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

/// Waits for something that other tasks bring about, and lets them run.
pub async fn until_async(what: &str, reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        tokio::task::yield_now().await;
    }
}
