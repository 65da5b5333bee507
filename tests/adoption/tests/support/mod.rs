//! What the programs' tests share: what the library's own tests do, and waiting among tasks.

#![allow(dead_code, reason = "every program uses a part of this")]
#![allow(unused_imports, reason = "every program uses a part of this")]

#[path = "../../../support/mod.rs"]
mod of_the_library;

use std::time::Instant;

pub use of_the_library::{PATIENCE, counts, until};

/// Waits for something that other tasks bring about, and lets them run.
pub async fn until_async(what: &str, reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        tokio::task::yield_now().await;
    }
}
