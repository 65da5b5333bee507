//! What calls, commands and timeouts keep: nothing on the way of a good call, and nothing afterwards.
//!
//! The counting allocator is the only unsafe code: it passes every call on to the system's.

#![allow(unsafe_code, reason = "an allocator that counts")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use hystrix_core::{Command, Registry, RejectionKind};

use support::*;

struct Counting;

/// The bytes that are allocated now, by whichever thread.
static LIVE: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// The allocations this thread has made.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, SeqCst);
        let _ = MADE.try_with(|made| made.set(made.get() + 1));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests take turns: what one allocates would be counted by another.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that `work` leaves allocated.
fn kept(work: impl FnOnce()) -> isize {
    let before = LIVE.load(SeqCst);
    work();
    LIVE.load(SeqCst) - before
}

/// How often this thread allocates in `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = MADE.get();
    work();
    MADE.get() - before
}

fn polled_once(call: impl Future) {
    let call = pin!(call);
    assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn a_good_call_in_place_allocates_nothing() {
    let _turn = alone();
    let lab = Registry::builder().build();
    let command = Command::builder("good").timeout("1m").registry(&lab).build().unwrap();
    let calls = || {
        for _ in 0..1000 {
            assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
            assert_eq!(command.run(|| Ok::<_, ()>(1)).fallback_value(2).execute(), Ok(1));
            let ready = pin!(command.call(|| async { Ok::<_, ()>(1) }).into_future());
            assert!(ready.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    };
    // The first calls make this thread's shard of the windows.
    calls();
    // A sync call with a timeout and a fallback is handed to the timer in one allocation; the other two have none.
    assert_eq!(allocations(calls), 1000);
    let plain = Command::builder("plain").registry(&lab).build().unwrap();
    let calls = || {
        for _ in 0..1000 {
            assert_eq!(plain.run(|| Ok::<_, ()>(1)).fallback(|_| Ok(2)).execute(), Ok(1));
        }
    };
    calls();
    assert_eq!(allocations(calls), 0);
}

#[test]
fn a_refusal_keeps_nothing_and_touches_no_timer() {
    let _turn = alone();
    let lab = Lab::new();
    let command = lab.command("refused").timeout("1m").build().unwrap();
    command.force_open();
    let refused = || {
        for _ in 0..10_000 {
            let call = pin!(command.call(pending::<Result<(), ()>>).into_future());
            assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
            assert_eq!(lab.registry.armed(), 0);
        }
    };
    refused();
    lab.events.forget();
    let kept = kept(|| {
        refused();
        lab.events.forget();
    });
    assert!(kept < 1024, "{kept}");
}

#[test]
fn an_idle_command_takes_less_than_four_kibibytes() {
    let _turn = alone();
    let registry = Registry::builder().build();
    let keys: Vec<String> = (0..1000).map(|number| format!("idle_{number}")).collect();
    let build = |key: &String| Command::builder(key.clone()).registry(&registry).build().unwrap();
    let mut commands = Vec::with_capacity(keys.len());
    let kept = kept(|| commands.extend(keys.iter().map(build)));
    assert!(kept / 1000 <= 4096, "{} bytes each", kept / 1000);
}

#[test]
fn a_hundred_thousand_pending_timeouts_are_no_trouble_and_leave_nothing() {
    let _turn = alone();
    const CALLS: usize = 100_000;
    let lab = Lab::new();
    let command = lab.command("many").semaphore(None).timeout("1m").build().unwrap();
    let round = || {
        let calls = (0..CALLS).map(|_| {
            let mut call = Box::pin(command.call(pending::<Result<(), ()>>).into_future());
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            call
        });
        let calls: Vec<_> = calls.collect();
        assert_eq!(lab.registry.armed(), CALLS);
        drop(calls);
        assert_eq!(lab.registry.armed(), 0);
        lab.events.forget();
    };
    round();
    let kept = kept(round);
    assert!(kept < 64 * 1024, "{kept}");
}

#[test]
fn bc_057_callers_that_give_up_leave_nothing_in_a_queue() {
    let _turn = alone();
    let lab = Lab::new();
    let command = lab.on_pool("given_up", 1, 100).timeout("1m").build().unwrap();
    let gate = Gate::new();
    let body = gate.clone();
    let busy = command.run(move || Ok::<_, ()>(body.pass())).queue();
    gate.until_came(1);
    let hundred_thousand = || {
        for number in 0..100_000 {
            let owned = Box::new(number);
            polled_once(command.run(move || Ok::<_, ()>(drop(owned))).into_future());
        }
        assert_eq!((command.pool().queued, lab.registry.armed()), (0, 1));
        lab.events.forget();
    };
    hundred_thousand();
    for _ in 0..8 {
        hundred_thousand();
    }
    let kept = kept(hundred_thousand);
    assert!(kept < 16 * 1024, "{kept}");
    gate.open();
    assert_eq!(busy.wait(), Ok(()));
    assert_eq!(counts(&command), "ok=1 cancelled=1000000");
}

#[test]
fn a_queue_that_is_full_of_those_who_wait_refuses_the_rest_and_empties() {
    let _turn = alone();
    let lab = Lab::new();
    let command = lab.on_pool("full", 1, 100).timeout("1m").build().unwrap();
    let gate = Gate::new();
    let body = gate.clone();
    let busy = command.run(move || Ok::<_, ()>(body.pass())).queue();
    gate.until_came(1);
    let waiting: Vec<_> = (0..100).map(|_| command.run(|| Ok::<_, ()>(())).queue()).collect();
    let refused = command.run(|| Ok::<_, ()>(())).execute();
    assert_eq!((command.pool().queued, kind(&refused)), (100, Some(RejectionKind::PoolFull)));
    drop(waiting);
    assert_eq!(command.pool().queued, 0);
    gate.open();
    assert_eq!(busy.wait(), Ok(()));
}
