//! When the system has no thread to give: an outcome with a cause, and it works again once there is one.
//!
//! In a process whose address space is limited, so that what is reserved leaves no room for a stack.

#![cfg(target_os = "linux")]

mod support;

use std::future::{IntoFuture, pending};

use futures::executor::block_on;
use hystrix_core::{Command, CommandError, FallbackOutcome, Registry, RejectionKind, ThreadPool};

use support::*;

fn in_little_room(name: &str) -> bool {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -v 1500000; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    // One heap, which is there already: a thread's own would count as address space too.
    shell.env("MALLOC_ARENA_MAX", "1");
    in_a_child_of(shell, name)
}

/// Reserves what address space is left, down to pieces that are smaller than a stack.
fn no_room() -> Vec<Vec<u8>> {
    let mut pieces = Vec::with_capacity(4096);
    for size in [64, 16, 4, 1].map(|mebibytes| mebibytes << 20) {
        loop {
            let mut piece = Vec::new();
            if piece.try_reserve_exact(size).is_err() {
                break;
            }
            pieces.push(piece);
        }
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "there is still room for a stack");
    pieces
}

fn refused_for_want_of_a_thread<T, E>(result: &Result<T, CommandError<E>>) -> bool {
    let Err(CommandError::Rejected(rejection)) = result else { return false };
    rejection.kind() == RejectionKind::NoThread && rejection.message().is_some_and(|cause| !cause.is_empty())
}

#[test]
fn bc_075_a_pool_without_a_thread_refuses_and_works_when_there_is_one() {
    if !in_little_room("bc_075_a_pool_without_a_thread_refuses_and_works_when_there_is_one") {
        return;
    }
    let registry = Registry::builder().build();
    let pool = ThreadPool::named("poor").core_size(1).maximum_size(2);
    let command =
        Command::builder("poor").thread_pool(pool).timeout(None).registry(&registry).build().unwrap();
    let taken = no_room();
    for _ in 0..3 {
        assert!(refused_for_want_of_a_thread(&command.run(|| Ok::<_, ()>(1)).execute()));
    }
    assert!(refused_for_want_of_a_thread(&block_on(command.run(|| Ok::<_, ()>(1)).into_future())));
    assert_eq!(command.run(|| Ok::<_, ()>(1)).fallback(|_| Ok(2)).execute(), Ok(2));
    let queued = command.run(|| Ok::<_, ()>(1)).fallback(|_| Ok(2)).queue().wait();
    let rejection = queued.as_ref().err().and_then(|error| error.rejection()).unwrap();
    assert_eq!(rejection.fallback(), Some(FallbackOutcome::Rejection), "a fallback needs a thread too");
    assert_eq!(command.pool().size, 0);
    assert_eq!(command.metrics().cumulative.thread_pool_rejected, 6);
    drop(taken);
    assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));

    until("idle", || command.pool().idle == 1);

    // It needs a second worker, and cannot have it.
    let gate = Gate::new();
    let body = gate.clone();
    let first = command.run(move || Ok::<_, ()>(body.pass())).queue();
    gate.until_came(1);
    let taken = no_room();
    assert!(refused_for_want_of_a_thread(&command.run(|| Ok::<_, ()>(2)).execute()));
    drop(taken);
    assert_eq!(command.run(|| Ok::<_, ()>(2)).execute(), Ok(2));
    gate.open();
    assert_eq!(first.wait(), Ok(()));
    assert_at_rest(&command);
}

#[test]
fn bc_075_a_timeout_without_a_timer_is_refused_before_the_body_runs() {
    if !in_little_room("bc_075_a_timeout_without_a_timer_is_refused_before_the_body_runs") {
        return;
    }
    let registry = Registry::builder().build();
    let command = Command::builder("untimed").timeout("10ms").registry(&registry).build().unwrap();
    let waits = || command.call(pending::<Result<u8, ()>>).into_future();
    let taken = no_room();
    assert!(refused_for_want_of_a_thread(&block_on(waits())));
    assert_eq!(block_on(command.call(|| async { Ok::<_, ()>(1) }).into_future()), Ok(1), "it needs no timer");
    drop(taken);
    assert_eq!(kind(&block_on(waits())), Some(RejectionKind::TimedOut));
    assert_at_rest(&command);
}

#[test]
fn a_name_no_thread_can_have_is_refused_at_once() {
    let lab = Lab::new();
    let error = lab.command("k").thread_pool("a\0b").build().unwrap_err().to_string();
    assert!(error.starts_with("lab/k: thread_pool = ") && error.contains("NUL"), "{error}");
    assert!(lab.registry.pools().is_empty());
}
