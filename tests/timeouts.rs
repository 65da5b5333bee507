//! Deadlines: who decides, who is answered when, what goes on, and what is left behind.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    Command, CommandError, FallbackOutcome, Outcome, Registry, RejectionKind, ThreadPool, cancellation,
    compat, context,
};

use support::*;

/// A body that waits at a gate, says that it ended, and gives a value.
fn waits(gate: &Gate, ended: &Arc<AtomicUsize>) -> impl FnOnce() -> Result<u32, String> + Send + 'static {
    let (gate, ended) = (gate.clone(), ended.clone());
    move || {
        gate.pass();
        ended.fetch_add(1, SeqCst);
        Ok(1)
    }
}

fn zero() -> Arc<AtomicUsize> {
    Arc::default()
}

// ===== on a pool =====

#[test]
fn hc_040_hc_041_hc_042_hc_047_a_pool_caller_is_answered_at_the_timeout() {
    let lab = Lab::new();
    let command = lab.on_pool("late", 3, 0).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let begin = hystrix_core::Clock::now(&lab.clock);
    let bodies = [(); 3].map(|()| waits(&gate, &ended));
    let [missing, good, bad] = bodies;
    let calls = [
        aside({
            let command = command.clone();
            move || command.run(missing).execute()
        }),
        aside({
            let command = command.clone();
            move || {
                let fallback = |error: CommandError<String>| {
                    assert!(error.is_timeout());
                    Ok(2)
                };
                command.run(good).fallback(fallback).execute()
            }
        }),
        aside({
            let command = command.clone();
            move || command.run(bad).fallback(|_| Err("E2".into())).execute()
        }),
    ];
    gate.until_came(3);
    lab.clock.advance(ms(49));
    assert!(calls.iter().all(|call| !call.is_finished()));
    lab.clock.advance(ms(1));
    let [missing, good, bad] = calls.map(joined);
    let Err(CommandError::Rejected(rejection)) = missing else { panic!("{missing:?}") };
    assert_eq!((rejection.kind(), rejection.timeout()), (RejectionKind::TimedOut, Some(ms(50))));
    assert_eq!((good, bad), (Ok(2), Err(CommandError::Inner("E2".into()))));
    assert_eq!(hystrix_core::Clock::now(&lab.clock).since(begin), ms(50));
    assert_eq!(counts(&command), "timeout=3 fallback_ok=1 fallback_failure=1 fallback_missing=1");
    assert_eq!(ended.load(SeqCst), 0);
    gate.open();
    assert_at_rest(&command);
}

#[test]
fn hc_043_queued_and_async_callers_are_answered_alike() {
    let lab = Lab::new();
    let command = lab.on_pool("late", 3, 0).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let queued = command.run(waits(&gate, &ended)).queue();
    let with_fallback = command.run(waits(&gate, &ended)).fallback(|_| Ok(2)).queue();
    let awaited = aside({
        let (command, body) = (command.clone(), waits(&gate, &ended));
        move || block_on(command.run(body).fallback(|_| async { Ok(3) }).into_future())
    });
    gate.until_came(3);
    lab.clock.advance(ms(50));
    assert_eq!(kind(&queued.wait()), Some(RejectionKind::TimedOut));
    assert_eq!((with_fallback.wait(), joined(awaited)), (Ok(2), Ok(3)));
    gate.open();
    assert_at_rest(&command);
}

#[test]
fn hc_044_hc_059_ht_16_kb_03_a_late_result_changes_nothing_but_is_told() {
    let lab = Lab::new();
    let command = lab.on_pool("late", 1, 0).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let body = waits(&gate, &ended);
    let call = aside({
        let command = command.clone();
        move || command.run(body).fallback(|_| Ok(2)).execute()
    });
    gate.until_came(1);
    lab.clock.advance(ms(50));
    assert_eq!(joined(call), Ok(2));
    assert_eq!((command.metrics().abandoned, command.pool().abandoned), (1, 1));
    lab.clock.advance(ms(150));
    gate.open();
    assert_at_rest(&command);
    until("told", || !lab.events.abandoned().is_empty());
    assert_eq!((ended.load(SeqCst), lab.events.calls().len()), (1, 1));
    assert_eq!(counts(&command), "timeout=1 fallback_ok=1");
    let [told] = &lab.events.abandoned()[..] else { panic!("one end is told") };
    assert_eq!((told.outcome, told.ran, told.panicked), (Outcome::Timeout, ms(200), false));
    assert!(lab.events.last_call().abandoned);
    assert!(lab.events.circuits().is_empty());
}

#[test]
fn hc_046_a_queued_call_times_out_though_nobody_looks() {
    let lab = Lab::new();
    let command = lab.on_pool("forgotten", 1, 0).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let call = joined(aside({
        let (command, body) = (command.clone(), waits(&gate, &ended));
        move || command.run(body).queue()
    }));
    gate.until_came(1);
    lab.clock.advance(ms(50));
    assert!(call.is_ready());
    assert_eq!(counts(&command), "timeout=1 fallback_missing=1");
    gate.open();
    assert_at_rest(&command);
}

#[test]
fn a_detached_call_runs_on_and_is_still_timed() {
    let lab = Lab::new();
    let command = lab.on_pool("detached", 1, 1).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    command.run(waits(&gate, &ended)).fallback(|_| Ok(9)).queue().detach();
    command.run(waits(&gate, &ended)).queue().detach();
    gate.until_came(1);
    lab.clock.advance(ms(50));
    until("the fallback", || lab.events.calls().len() == 2);
    assert_eq!(counts(&command), "timeout=2 fallback_ok=1 fallback_missing=1");
    gate.open();
    assert_at_rest(&command);
    assert_eq!(ended.load(SeqCst), 1, "the one in the queue never began");
}

#[test]
fn ht_01_hc_049_bc_038_a_body_that_asks_stops_at_the_timeout() {
    let lab = Lab::new();
    let command = lab.on_pool("asks", 1, 0).timeout("100ms").build().unwrap();
    let begun = Gate::new();
    begun.open();
    let inside = begun.clone();
    let call = aside({
        let command = command.clone();
        move || {
            let body = move || {
                inside.pass();
                let cancellation = cancellation();
                while !cancellation.is_cancelled() {
                    std::thread::yield_now();
                }
                Err::<u32, _>("stopped")
            };
            command.run(body).fallback(|_| Ok(5)).execute()
        }
    });
    begun.until_came(1);
    lab.clock.advance(ms(100));
    assert_eq!(joined(call), Ok(5));
    until("free again", || command.pool().active == 0);
    assert_at_rest(&command);
}

#[test]
fn ht_02_ht_03_ht_05_kb_05_a_body_that_does_not_ask_keeps_its_worker() {
    let lab = Lab::new();
    let command = lab.on_pool("deaf", 1, 0).timeout("100ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let call = aside({
        let (command, body) = (command.clone(), waits(&gate, &ended));
        move || command.run(body).fallback(|_| Ok(5)).execute()
    });
    gate.until_came(1);
    lab.clock.advance(ms(100));
    assert_eq!(joined(call), Ok(5));
    assert_eq!(command.pool().active, 1);
    let second = command.run(|| Ok::<_, String>(1)).execute();
    assert_eq!(kind(&second), Some(RejectionKind::PoolFull), "the pool is full, nothing timed out");
    gate.open();
    assert_at_rest(&command);
    assert_eq!((ended.load(SeqCst), command.run(|| Ok::<_, String>(1)).execute()), (1, Ok(1)));
}

#[test]
fn ht_04_hc_055_bc_042_a_call_that_times_out_in_the_queue_never_runs() {
    let lab = Lab::new();
    let command = lab.on_pool("queue", 1, 5).timeout("200ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let first = command.run(waits(&gate, &ended)).queue();
    gate.until_came(1);
    let ran = Arc::new(AtomicBool::new(false));
    let second = aside({
        let (command, ran) = (command.clone(), ran.clone());
        move || {
            let body = move || {
                ran.store(true, SeqCst);
                Ok::<_, String>(2)
            };
            command.run(body).execute()
        }
    });
    until("queued", || command.pool().queued == 1);
    lab.clock.advance(ms(200));
    assert_eq!(kind(&joined(second)), Some(RejectionKind::TimedOut));
    assert_eq!(command.pool().queued, 0);
    assert_eq!(kind(&first.wait()), Some(RejectionKind::TimedOut));
    gate.open();
    assert_at_rest(&command);
    assert!(!ran.load(SeqCst));
    assert_eq!(command.run(|| Ok::<_, String>(3)).execute(), Ok(3));
}

#[test]
fn hc_053_thirty_callers_time_out_together_each_exactly_once() {
    let lab = Lab::new();
    let command = lab.on_pool("many", 30, 30).timeout("3ms").circuit_breaker(None).build().unwrap();
    for _ in 0..10 {
        let (gate, ended) = (Gate::new(), zero());
        let calls: Vec<_> = (0..30)
            .map(|_| {
                let (command, body) = (command.clone(), waits(&gate, &ended));
                aside(move || command.run(body).fallback(|_| Ok(0)).execute())
            })
            .collect();
        gate.until_came(30);
        lab.clock.advance(ms(3));
        for call in calls {
            assert_eq!(joined(call), Ok(0));
        }
        gate.open();
        assert_at_rest(&command);
        until("free", || command.pool().active == 0);
    }
    assert_eq!(counts(&command), "timeout=300 fallback_ok=300");
}

#[test]
fn to_08_time_in_the_queue_counts() {
    let lab = Lab::new();
    let command = lab.on_pool("counted", 1, 1).timeout("500ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let first = command.run(waits(&gate, &ended)).queue();
    gate.until_came(1);
    let second_gate = Gate::new();
    let second = command.run(waits(&second_gate, &ended)).queue();
    lab.clock.advance(ms(300));
    gate.open();
    assert_eq!(first.wait(), Ok(1));
    second_gate.until_came(1);
    lab.clock.advance(ms(199));
    assert!(!second.is_ready());
    lab.clock.advance(ms(1));
    assert_eq!(kind(&second.wait()), Some(RejectionKind::TimedOut));
    let waited = command.metrics().queue.max();
    assert_eq!(waited, ms(300));
    second_gate.open();
    assert_at_rest(&command);
}

#[test]
fn to_07_a_slot_stays_taken_until_its_uninterruptible_body_ends() {
    let lab = Lab::new();
    let command = lab.on_pool("slots", 1, 1).timeout("500ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let a = command.run(waits(&gate, &ended)).queue();
    gate.until_came(1);
    let b = command.run(waits(&gate, &ended)).queue();
    lab.clock.advance(ms(500));
    assert_eq!([kind(&a.wait()), kind(&b.wait())], [Some(RejectionKind::TimedOut); 2]);
    let c = command.run(waits(&gate, &ended)).queue();
    let d = command.run(waits(&gate, &ended)).queue();
    assert_eq!(kind(&d.wait()), Some(RejectionKind::PoolFull));
    lab.clock.advance(ms(500));
    assert_eq!(kind(&c.wait()), Some(RejectionKind::TimedOut));
    gate.open();
    assert_at_rest(&command);
    assert_eq!(ended.load(SeqCst), 1);
}

#[test]
fn bc_039_abandoned_work_is_accounted_for() {
    let lab = Lab::new();
    let command = lab.on_pool("zombies", 2, 0).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let calls = [(); 2].map(|()| command.run(waits(&gate, &ended)).queue());
    gate.until_came(2);
    lab.clock.advance(ms(50));
    assert!(calls.map(|call| call.wait()).iter().all(|result| kind(result) == Some(RejectionKind::TimedOut)));
    let report = command.pool();
    assert_eq!((report.active, report.abandoned, report.in_use), (2, 2, 2));
    assert!(report.oldest().is_some_and(|task| task.abandoned && task.age == ms(50)));
    assert_eq!(kind(&command.run(|| Ok::<_, ()>(3)).execute()), Some(RejectionKind::PoolFull));
    gate.open();
    assert_at_rest(&command);
    until("free", || command.pool().active == 0);
    assert_eq!(command.run(|| Ok::<_, ()>(4)).execute(), Ok(4));
    assert_eq!(command.metrics().cumulative.success, 1);
}

#[test]
fn an_async_body_on_a_pool_is_dropped_at_the_timeout_and_its_worker_is_free() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let lab = Lab::new();
    let command = lab.on_pool("async_body", 1, 0).timeout("50ms").build().unwrap();
    let dropped = zero();
    let inside = dropped.clone();
    let call = command
        .call(move || async move {
            let _inside = Dropped(inside);
            pending::<Result<u32, ()>>().await
        })
        .queue();
    until("running", || command.pool().active == 1);
    lab.clock.advance(ms(50));
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    until("dropped", || dropped.load(SeqCst) == 1);
    until("free", || command.pool().active == 0);
    assert_eq!(command.metrics().abandoned, 0);
    assert_eq!(command.run(|| Ok::<_, ()>(4)).execute(), Ok(4));
}

// ===== in place, synchronous =====

#[test]
fn hc_048_ht_06_bc_036_to_16_the_end_decides_in_place() {
    let lab = Lab::new();
    let command = lab.command("inside").timeout("100ms").build().unwrap();
    let clock = &lab.clock;
    let takes = |millis| {
        move || {
            clock.advance(ms(millis));
            Ok::<_, ()>(1)
        }
    };
    assert_eq!(command.run(takes(99)).execute(), Ok(1));
    assert_eq!(
        kind(&command.run(takes(100)).execute()),
        Some(RejectionKind::TimedOut),
        "at the deadline is late"
    );
    assert_eq!(command.run(takes(500)).fallback(|_| Ok(9)).execute(), Ok(9));
    assert_eq!(command.run(takes(500)).fallback_value(8).execute(), Ok(8));
    assert_eq!(counts(&command), "ok=1 timeout=3 fallback_ok=2 fallback_missing=1");
    let event = lab.events.last_call();
    assert_eq!((event.body_time(), event.total_time()), (Some(ms(100)), ms(500)));
    assert_at_rest(&command);
}

#[test]
fn ht_06_with_a_fallback_the_timeout_is_counted_at_the_deadline() {
    let lab = Lab::new();
    let command = lab.command("inside").timeout("100ms").circuit_breaker(touchy(1)).build().unwrap();
    let clock = &lab.clock;
    let call = command.run(|| {
        clock.advance(ms(100));
        let seen = command.metrics();
        assert_eq!((seen.cumulative.timeout, seen.in_flight, seen.abandoned), (1, 0, 1));
        assert_eq!(seen.permits_in_use, 1);
        assert_eq!(lab.registry.armed(), 0);
        assert!(cancellation().is_cancelled());
        Ok::<_, ()>(1)
    });
    assert_eq!(call.fallback(|_| Ok(2)).execute(), Ok(2));
    until("told", || lab.events.circuits().len() == 1);
    assert!(command.run(|| Ok::<_, ()>(1)).execute().is_err_and(|error| error.is_short_circuited()));
    assert_at_rest(&command);
}

#[test]
fn an_owning_fallback_runs_at_the_deadline_while_its_caller_is_in_the_body() {
    let lab = Lab::new();
    let command = lab.command("owning").timeout("100ms").build().unwrap();
    let clock = &lab.clock;
    let ran = Arc::new(AtomicBool::new(false));
    let inside = ran.clone();
    let call = command.run(|| {
        clock.advance(ms(100));
        until("the fallback ran", || ran.load(SeqCst));
        Ok::<_, ()>("late".to_owned())
    });
    let answer = call.fallback_owned(move |error| {
        assert!(error.is_timeout());
        inside.store(true, SeqCst);
        Ok(std::thread::current().name().unwrap_or_default().to_owned())
    });
    assert_eq!(answer.execute(), Ok("hystrix-fallback-1".to_owned()));
    assert_eq!(counts(&command), "timeout=1 fallback_ok=1");
    // In time, it runs where its caller waits.
    let answer = command.run(|| Err::<String, _>(())).fallback_owned(|_| Ok("here".to_owned()));
    assert_eq!(answer.execute(), Ok("here".to_owned()));
    assert_at_rest(&command);
}

#[test]
fn an_owning_fallback_may_have_a_condition() {
    let lab = Lab::new();
    let command = lab.command("condition").timeout("100ms").build().unwrap();
    let late = || {
        lab.clock.advance(ms(100));
        Ok::<_, ()>(1)
    };
    let refused = command.run(late).fallback_owned(|_| Ok(2)).fallback_if(|error| !error.is_timeout());
    assert_eq!(kind(&refused.execute()), Some(RejectionKind::TimedOut));
    let wanted = command.run(late).fallback_owned(|_| Ok(2)).fallback_if(|error| error.is_timeout());
    assert_eq!(wanted.execute(), Ok(2));
    assert_eq!(counts(&command), "timeout=2 fallback_ok=1 fallback_skipped=1");
}

#[test]
fn ht_07_hc_056_kb_01_the_permit_is_held_until_the_body_leaves() {
    let lab = Lab::new();
    let command = lab.command("held").semaphore(1).timeout("100ms").build().unwrap();
    let gate = Gate::new();
    let call = aside({
        let (command, gate) = (command.clone(), gate.clone());
        move || {
            let body = || {
                gate.pass();
                Ok::<_, ()>(1)
            };
            command.run(body).fallback(|_| Ok(2)).execute()
        }
    });
    gate.until_came(1);
    lab.clock.advance(ms(200));
    let second = command.run(|| Ok::<_, ()>(3)).execute();
    assert_eq!(kind(&second), Some(RejectionKind::PermitsExhausted));
    gate.open();
    assert_eq!(joined(call), Ok(2));
    assert_eq!(command.run(|| Ok::<_, ()>(3)).execute(), Ok(3));
}

#[test]
fn ht_07_hystrixes_release_lets_more_in_than_there_are_permits() {
    let lab = Lab::new();
    let command = lab.command("as_hystrix").semaphore(1).timeout("100ms");
    let command = command.permit_release(compat::ReleaseAtTimeout).build().unwrap();
    let gate = Gate::new();
    let call = aside({
        let (command, gate) = (command.clone(), gate.clone());
        move || {
            let body = || {
                gate.pass();
                Ok::<_, ()>(1)
            };
            command.run(body).fallback(|_| Ok(2)).execute()
        }
    });
    gate.until_came(1);
    assert!(command.run(|| Ok::<_, ()>(3)).execute().is_err());
    lab.clock.advance(ms(100));
    assert_eq!(command.run(|| Ok::<_, ()>(3)).execute(), Ok(3));
    gate.open();
    assert_eq!(joined(call), Ok(2));
    assert_at_rest(&command);
}

#[test]
fn ht_08_without_a_written_timeout_a_body_in_place_has_none() {
    let lab = Lab::new();
    let unset = lab.command("unset").build().unwrap();
    let off = lab.command("off").timeout(None).build().unwrap();
    for command in [unset, off] {
        let clock = &lab.clock;
        let call = command.run(|| {
            clock.advance(Duration::from_secs(3600));
            Ok::<_, ()>(1)
        });
        assert_eq!(call.execute(), Ok(1));
    }
}

#[test]
fn a_written_timeout_without_a_fallback_arms_nothing() {
    let lab = Lab::new();
    let command = lab.command("unarmed").timeout("1s").build().unwrap();
    let armed = command.run(|| Ok::<_, ()>(lab.registry.armed())).execute();
    assert_eq!(armed, Ok(0));
    let armed = command.run(|| Ok::<_, ()>(lab.registry.armed())).fallback(|_| Ok(9)).execute();
    assert_eq!(armed, Ok(1));
    assert_eq!(lab.registry.armed(), 0);
}

// ===== in a task =====

#[test]
fn an_async_body_is_dropped_at_its_timeout_and_its_permit_is_free() {
    let lab = Lab::new();
    let command = lab.command("task").semaphore(1).timeout("100ms").build().unwrap();
    let mut call = pin!(command.call(pending::<Result<u32, ()>>).fallback(|_| Ok(4)).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    assert_eq!((lab.clock.armed(), command.metrics().permits_in_use), (1, 1));
    lab.clock.advance(ms(99));
    assert!(call.as_mut().poll(&mut cx).is_pending());
    lab.clock.advance(ms(1));
    assert_eq!(call.as_mut().poll(&mut cx), Poll::Ready(Ok(4)));
    assert_eq!(counts(&command), "timeout=1 fallback_ok=1");
    assert_at_rest(&command);
}

#[test]
fn the_default_timeout_of_a_task_is_a_second_and_arms_at_the_first_wait() {
    let lab = Lab::new();
    let command = lab.command("default").build().unwrap();
    assert_eq!(block_on(command.call(|| async { Ok::<_, ()>(lab.registry.armed()) }).into_future()), Ok(0));
    let mut call = pin!(command.call(pending::<Result<(), ()>>).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    lab.clock.advance(ms(1000));
    assert!(matches!(call.as_mut().poll(&mut cx), Poll::Ready(Err(error)) if error.is_timeout()));
}

#[test]
fn bc_037_a_timeout_is_stamped_with_its_deadline_however_late_it_is_seen() {
    let lab = Lab::new();
    let command = lab.command("starved").timeout("100ms").build().unwrap();
    let mut call = pin!(command.call(pending::<Result<(), ()>>).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    // A neighbour blocks the thread for half a second; nobody polls.
    lab.clock.advance(ms(500));
    assert!(call.as_mut().poll(&mut cx).is_ready());
    let event = lab.events.last_call();
    assert_eq!((event.outcome, event.body_time()), (Outcome::Timeout, Some(ms(100))));
    assert_eq!(command.metrics().body.max(), ms(100));
}

#[test]
fn bc_036_an_async_body_that_never_yields_is_a_timeout_all_the_same() {
    let lab = Lab::new();
    let command = lab.command("busy").timeout("100ms").build().unwrap();
    let clock = lab.clock.clone();
    let call = command.call(|| async {
        clock.advance(ms(300));
        Ok::<_, ()>(1)
    });
    assert_eq!(block_on(call.fallback(|_| Ok(9)).into_future()), Ok(9));
    assert_eq!(counts(&command), "timeout=1 fallback_ok=1");
    assert_eq!(command.metrics().body.max(), ms(300));
}

#[test]
fn to_14_a_caller_that_leaves_is_cancelled_and_not_timed_out() {
    let lab = Lab::new();
    let command = lab.command("leaves").timeout("500ms").build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut call = pin!(command.call(pending::<Result<(), ()>>).into_future());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        lab.clock.advance(ms(200));
    }
    assert_eq!((counts(&command).as_str(), lab.registry.armed()), ("cancelled=1", 0));
    // Dropped after the timer had called the deadline: the timeout was first.
    {
        let mut call = pin!(command.call(pending::<Result<(), ()>>).fallback(|_| Ok(())).into_future());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        lab.clock.advance(ms(500));
    }
    assert_eq!(counts(&command), "timeout=1 cancelled=1 fallback_cancelled=1");
    assert_at_rest(&command);
}

#[test]
fn to_18_the_outer_deadline_cuts_what_is_inside() {
    let lab = Lab::new();
    let outer = lab.command("outer").timeout("300ms").build().unwrap();
    let inner = lab.command("inner").timeout("500ms").build().unwrap();
    let mut call = pin!(
        outer.call(|| async { inner.call(pending::<Result<(), ()>>).await.map_err(drop) }).into_future()
    );
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    lab.clock.advance(ms(300));
    assert!(matches!(call.as_mut().poll(&mut cx), Poll::Ready(Err(error)) if error.is_timeout()));
    assert_eq!(
        (counts(&outer).as_str(), counts(&inner).as_str()),
        ("timeout=1 fallback_missing=1", "cancelled=1")
    );
}

// ===== races, edges, and what is left =====

#[test]
fn bc_043_ht_15_to_15_every_call_has_exactly_one_outcome() {
    const CALLS: usize = 4000;
    let registry = Registry::builder().build();
    let pool = ThreadPool::named("race").core_size(8);
    let command =
        Command::builder("race").registry(&registry).thread_pool(pool).timeout(Duration::from_micros(300));
    let command = command.circuit_breaker(None).build().unwrap();
    let (fallbacks, values) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (command, fallbacks, values) = (&command, &fallbacks, &values);
            scope.spawn(move || {
                for call in 0..CALLS as u64 / 4 {
                    // Between a tenth of the timeout and twice it: both come first, about as often.
                    let spins = (thread * 7919 + call * 104_729) % 600;
                    let body = move || {
                        let until = std::time::Instant::now() + Duration::from_micros(spins);
                        while std::time::Instant::now() < until {
                            std::hint::spin_loop();
                        }
                        Ok::<_, ()>(true)
                    };
                    let answer = command.run(body).fallback(|error| {
                        assert!(error.rejection().is_some());
                        Ok(false)
                    });
                    let counter = if answer.execute().unwrap() { values } else { fallbacks };
                    counter.fetch_add(1, SeqCst);
                }
            });
        }
    });
    assert_at_rest(&command);
    let counts = command.metrics().cumulative;
    let refused = counts.thread_pool_rejected;
    assert_eq!(counts.success as usize, values.into_inner());
    assert_eq!((counts.timeout + refused) as usize, fallbacks.into_inner());
    assert_eq!(counts.fallback_success, counts.timeout + refused);
    assert_eq!(counts.attempts() as usize, CALLS);
    assert_eq!(command.metrics().body.count() as usize, CALLS - refused as usize - unbegun(&command));
}

/// Calls that timed out in the queue have no body's latency.
fn unbegun(command: &hystrix_core::PoolCommand) -> usize {
    let seen = command.metrics();
    (seen.cumulative.success + seen.cumulative.timeout) as usize - seen.body.count() as usize
}

#[test]
fn bc_040_to_13_the_longest_timeout_is_no_timeout() {
    let lab = Lab::new();
    for (key, timeout) in [("max", Duration::MAX), ("millis", Duration::from_millis(u64::MAX))] {
        let here = lab.command(key).timeout(timeout).build().unwrap();
        assert_eq!(here.run(|| Ok::<_, ()>(1)).fallback(|_| Ok(2)).execute(), Ok(1));
        let mut call = pin!(here.call(pending::<Result<(), ()>>).into_future());
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        lab.clock.advance(Duration::from_secs(100 * 365 * 24 * 3600));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let pool = lab.on_pool("max_pool", 1, 0).timeout(Duration::MAX).build().unwrap();
    assert_eq!(pool.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
}

#[test]
fn bc_041_hc_058_kb_58_a_zero_timeout_is_refused_when_built() {
    let lab = Lab::new();
    let error = lab.command("zero").timeout(Duration::ZERO).build().unwrap_err();
    assert_eq!((error.field(), error.value()), ("timeout", "0ns"));
    assert_eq!(lab.command("zero").timeout("0ms").build().unwrap_err().field(), "timeout");
    let error = lab.command("text").timeout("a while").build().unwrap_err();
    assert!(error.to_string().contains("250ms"), "{error}");
}

#[test]
fn bc_044_bc_047_kb_59_finished_and_refused_calls_leave_the_timer_alone() {
    let lab = Lab::new();
    let command = lab.command("long").semaphore(4).timeout("10s").build().unwrap();
    let pool = lab.on_pool("long_pool", 1, 0).timeout("10s").build().unwrap();
    let kept = Arc::new(());
    for _ in 0..10_000 {
        let inside = kept.clone();
        let call = command.run(move || Ok::<_, ()>(drop(inside)));
        call.fallback(|_| Ok(())).execute().unwrap();
    }
    for _ in 0..1000 {
        let inside = kept.clone();
        pool.run(move || Ok::<_, ()>(drop(inside))).execute().unwrap();
    }
    assert_eq!((Arc::strong_count(&kept), lab.registry.armed()), (1, 0));
    let mut cx = Context::from_waker(Waker::noop());
    let mut held: Vec<_> =
        (0..4).map(|_| Box::pin(command.call(pending::<Result<(), ()>>).into_future())).collect();
    assert!(held.iter_mut().all(|call| call.as_mut().poll(&mut cx).is_pending()));
    for _ in 0..10_000 {
        assert!(block_on(command.call(pending::<Result<(), ()>>).into_future()).is_err());
    }
    assert_eq!(lab.registry.armed(), 4);
}

#[test]
fn bc_045_hc_057_to_12_ht_11_kb_04_slow_fallbacks_do_not_delay_other_timeouts() {
    let lab = Lab::new();
    let slow = lab.on_pool("slow", 20, 0).timeout("50ms").fallback_semaphore(10).build().unwrap();
    let victim = lab.on_pool("victim", 1, 0).timeout("100ms").build().unwrap();
    let (bodies, fallbacks, ended) = (Gate::new(), Gate::new(), zero());
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let fallbacks = fallbacks.clone();
            let fallback = move |_| {
                fallbacks.pass();
                Ok(9)
            };
            slow.run(waits(&bodies, &ended)).fallback(fallback).queue()
        })
        .collect();
    let hangs = victim.run(waits(&bodies, &ended)).queue();
    bodies.until_came(21);
    lab.clock.advance(ms(50));
    fallbacks.until_came(10);
    lab.clock.advance(ms(50));
    assert!(hangs.is_ready(), "on time, while ten fallbacks hang");
    assert_eq!(kind(&hangs.wait()), Some(RejectionKind::TimedOut));
    until("the other ten are refused", || slow.metrics().cumulative.fallback_rejection == 10);
    fallbacks.open();
    let answers: Vec<_> = calls.into_iter().map(|call| call.wait()).collect();
    let answered = answers.iter().filter(|answer| **answer == Ok(9)).count();
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err()?.rejection());
    let refused: Vec<_> = refused.map(|rejection| (rejection.kind(), rejection.fallback())).collect();
    assert_eq!(answered, 10);
    assert_eq!(refused, vec![(RejectionKind::TimedOut, Some(FallbackOutcome::Rejection)); 10]);
    bodies.open();
    assert_at_rest(&slow);
    assert_at_rest(&victim);
}

#[test]
fn a_fallback_without_a_worker_is_refused_with_a_cause_of_its_own() {
    let clock = hystrix_core::ManualClock::new();
    let events = Events::default();
    let registry =
        Registry::builder().clock(clock.clone()).sink(events.clone()).fallback_workers(1).unwrap().build();
    let pool = ThreadPool::named("few").core_size(2);
    let command =
        Command::builder("few").registry(&registry).thread_pool(pool).timeout("50ms").build().unwrap();
    let (bodies, fallbacks, ended) = (Gate::new(), Gate::new(), zero());
    let calls = [(); 2].map(|()| {
        let fallbacks = fallbacks.clone();
        let fallback = move |_| {
            fallbacks.pass();
            Ok(9)
        };
        command.run(waits(&bodies, &ended)).fallback(fallback).queue()
    });
    bodies.until_came(2);
    clock.advance(ms(50));
    until("one is refused", || command.metrics().cumulative.fallback_rejection == 1);
    until("told", || events.calls().len() == 1);
    assert_eq!(events.last_call().fallback_rejection, Some(RejectionKind::PoolFull));
    assert_eq!(registry.fallback_workers().active, 1);
    fallbacks.open();
    let answers = calls.map(|call| call.wait());
    assert_eq!(answers.iter().filter(|answer| **answer == Ok(9)).count(), 1);
    bodies.open();
    assert_at_rest(&command);
}

#[test]
fn bc_046_ens_24_a_clock_that_jumps_an_hour_times_out_once() {
    let lab = Lab::new();
    let command = lab.command("jump").timeout("1s").circuit_breaker(touchy(2)).build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut call = pin!(command.call(pending::<Result<(), ()>>).into_future());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    lab.clock.jump(Duration::from_secs(3600));
    assert!(call.as_mut().poll(&mut cx).is_ready());
    assert_eq!(counts(&command), "timeout=1 fallback_missing=1");
    let _ = command.run(|| Err::<(), _>(())).execute();
    let _ = command.run(|| Err::<(), _>(())).execute();
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_err());
    lab.clock.jump(Duration::from_secs(3600));
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok(), "the next call is the trial");
    lab.clock.jump(Duration::from_secs(3600));
    assert_eq!(command.metrics().rolling, Default::default());
}

#[test]
fn hc_051_hc_052_ht_09_to_11_bc_088_a_timeout_keeps_its_callers_context() {
    struct RequestId(u64);
    fn seen() -> Option<u64> {
        context::get::<RequestId>().map(|id| id.0)
    }
    let lab = Lab::new();
    let pool = lab.on_pool("pool", 20, 0).timeout("20ms").build().unwrap();
    let here = lab.command("here").semaphore(20).timeout("20ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let calls: Vec<_> = (0..20u64)
        .map(|id| {
            let (pool, here) = (pool.clone(), here.clone());
            let (body, gate) = (waits(&gate, &ended), gate.clone());
            aside(move || {
                context::with(RequestId(id), || match id % 3 {
                    0 => pool.run(move || body().map(|_| None)).fallback(|_| Ok(seen())).queue().wait(),
                    1 => pool.run(move || body().map(|_| None)).fallback(|_| Ok(seen())).execute(),
                    _ => here
                        .run(|| {
                            gate.pass();
                            Ok(None)
                        })
                        .fallback_owned(|_| Ok(seen()))
                        .execute(),
                })
            })
        })
        .collect();
    gate.until_came(20);
    lab.clock.advance(ms(20));
    until("answered", || lab.events.calls().len() == 20);
    gate.open();
    for (id, call) in calls.into_iter().enumerate() {
        assert_eq!(joined(call), Ok(Some(id as u64)));
    }
    assert_at_rest(&pool);
}

#[test]
fn hc_060_to_20_latencies_of_timeouts_are_about_their_timeout() {
    let lab = Lab::new();
    let command = lab.command("latency").timeout("500ms").build().unwrap();
    let clock = &lab.clock;
    command.run(|| Ok::<_, ()>(clock.advance(ms(100)))).fallback(|_| Ok(())).execute().unwrap();
    command.run(|| Ok::<_, ()>(clock.advance(ms(900)))).fallback(|_| Ok(())).execute().unwrap();
    let seen = command.metrics();
    assert_eq!((seen.cumulative.success, seen.cumulative.timeout), (1, 1));
    assert_eq!((seen.body.count(), seen.body.max(), seen.body.mean()), (2, ms(500), ms(300)));
    assert_eq!(seen.total.max(), ms(900));
}

#[test]
fn to_01_to_02_to_03_to_05_to_06_to_10_plain_cases() {
    let lab = Lab::new();
    let here = lab.command("here").timeout("2s").build().unwrap();
    let clock = &lab.clock;
    let takes = |millis, result: Result<u8, &'static str>| {
        move || {
            clock.advance(ms(millis));
            result
        }
    };
    assert_eq!(here.run(takes(10, Err("own"))).execute(), Err(CommandError::Inner("own")));
    assert_eq!(here.run(takes(1500, Ok(1))).execute(), Ok(1));
    assert_eq!(kind(&here.run(takes(2500, Ok(1))).execute()), Some(RejectionKind::TimedOut));
    let answered = AtomicUsize::new(0);
    let fallback = |_| {
        answered.fetch_add(1, SeqCst);
        Ok(7)
    };
    assert_eq!(here.run(takes(9000, Ok(1))).fallback(fallback).execute(), Ok(7));
    assert_eq!(answered.load(SeqCst), 1);
}
