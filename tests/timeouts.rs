//! Deadlines: who decides, who is answered when, what goes on, and what is left behind.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{CommandError, FallbackOutcome, Outcome, RejectionKind, cancellation, compat};

use support::*;

// ===== on a pool =====

#[test]
fn hc_040_hc_041_hc_042_hc_047_to_10_fb_07_a_pool_caller_is_answered_at_the_timeout() {
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
    assert_eq!(rejection.fallback(), Some(FallbackOutcome::Missing));
    // HC-042: not one error with both causes, but the fallback's own.
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
    let command = lab.on_pool("late", 6, 0).timeout("50ms").build().unwrap();
    let (gate, ended) = (Gate::new(), zero());
    let run = || command.run(waits(&gate, &ended));
    let queued =
        [run().queue(), run().fallback(|_| Ok(2)).queue(), run().fallback(|_| Err("E2".into())).queue()];
    let mut missing = pin!(run().into_future());
    let mut good = pin!(run().fallback(|_| async { Ok(2) }).into_future());
    let mut bad = pin!(run().fallback(|_| async { Err("E2".into()) }).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    let pending = [missing.as_mut().poll(&mut cx), good.as_mut().poll(&mut cx), bad.as_mut().poll(&mut cx)];
    assert!(pending.iter().all(Poll::is_pending));
    gate.until_came(6);
    lab.clock.advance(ms(50));
    let queued = queued.map(|call| call.wait());
    for [missing, good, bad] in [queued, [block_on(missing), block_on(good), block_on(bad)]] {
        assert_eq!(kind(&missing), Some(RejectionKind::TimedOut));
        assert_eq!((good, bad), (Ok(2), Err(CommandError::Inner("E2".into()))));
    }
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
fn ht_02_ht_03_ht_05_hc_050_to_17_kb_05_a_body_that_does_not_ask_keeps_its_worker() {
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
    let (begun, dropped) = (zero(), zero());
    let (begins, inside) = (begun.clone(), dropped.clone());
    let call = command
        .call(move || async move {
            let _inside = Dropped(inside);
            begins.fetch_add(1, SeqCst);
            pending::<Result<u32, ()>>().await
        })
        .queue();
    until("running", || begun.load(SeqCst) == 1);
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
fn ht_07_hystrixes_release_is_the_same_without_a_fallback() {
    let lab = Lab::new();
    let command = lab.command("as_hystrix").semaphore(1).timeout("100ms");
    let command = command.permit_release(compat::ReleaseAtTimeout).build().unwrap();
    let late = command.run(|| {
        lab.clock.advance(ms(100));
        assert_eq!(command.metrics().permits_in_use, 0);
        Ok::<_, ()>(1)
    });
    assert_eq!(kind(&late.execute()), Some(RejectionKind::TimedOut));
    assert_eq!(counts(&command), "timeout=1 fallback_missing=1");
    assert_at_rest(&command);
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
fn to_01_the_default_timeout_of_a_task_is_a_second_and_arms_at_the_first_wait() {
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
