//! Timeouts: races between deadline and end, the edges of time, and what abandoned work leaves behind.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    CircuitState, Command, CommandError, FallbackOutcome, Outcome, Registry, RejectionKind, ThreadPool,
    cancellation, context,
};

use support::*;

// ===== races, edges, and what is left =====

#[test]
fn bc_043_ht_15_to_15_every_call_has_exactly_one_outcome() {
    const CALLS: usize = 10_000;
    let events = Events::default();
    let registry = Registry::builder().sink(events.clone()).build();
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
    until("one event for each call", || events.calls().len() >= CALLS);
    assert_eq!((events.calls().len(), command.pool().in_use), (CALLS, 0));
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
    // Of a hundred calls twenty run, and eighty time out in the queue.
    let slow = lab.on_pool("slow", 20, 80).timeout("50ms").fallback_semaphore(10).build().unwrap();
    let victim = lab.on_pool("victim", 1, 0).timeout("100ms").build().unwrap();
    let (bodies, fallbacks, ended) = (Gate::new(), Gate::new(), zero());
    let calls: Vec<_> = (0..100)
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
    until("the others are refused", || slow.metrics().cumulative.fallback_rejection == 90);
    fallbacks.open();
    let answers: Vec<_> = calls.into_iter().map(|call| call.wait()).collect();
    let answered = answers.iter().filter(|answer| **answer == Ok(9)).count();
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err()?.rejection());
    let refused: Vec<_> = refused.map(|rejection| (rejection.kind(), rejection.fallback())).collect();
    assert_eq!(answered, 10);
    assert_eq!(refused, vec![(RejectionKind::TimedOut, Some(FallbackOutcome::Rejection)); 90]);
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
    fallbacks.until_came(1);
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
                let body = move || body().map(|_| None);
                let in_place = || {
                    gate.pass();
                    Ok(None)
                };
                context::with(RequestId(id), || match id % 6 {
                    0 => pool.run(body).fallback(|_| Ok(seen())).queue().wait(),
                    1 => pool.run(body).fallback(|_| Ok(seen())).execute(),
                    2 => block_on(pool.run(body).fallback(|_| async { Ok(seen()) }).into_future()),
                    3 => here.run(in_place).fallback_owned(|_| Ok(seen())).execute(),
                    4 => block_on(here.call(pending).fallback(|_| async { Ok(seen()) }).into_future()),
                    // Without a fallback the error comes back to where the context is.
                    _ => pool.run(body).execute().or_else(|_| Ok(seen())),
                })
            })
        })
        .collect();
    // Three of them wait in a task, and at no gate.
    gate.until_came(17);
    until("armed", || lab.registry.armed() == 20);
    lab.clock.advance(ms(20));
    until("answered", || lab.events.calls().len() == 20);
    gate.open();
    for (id, call) in calls.into_iter().enumerate() {
        assert_eq!(joined(call), Ok(Some(id as u64)));
    }
    assert_at_rest(&pool);
}

#[test]
fn hc_059_a_late_error_and_a_late_panic_are_delivered_and_counted_nowhere() {
    let lab = Lab::new();
    // A third failure would open it.
    let command = lab.on_pool("late", 2, 0).timeout("50ms").circuit_breaker(touchy(3)).build().unwrap();
    let gate = Gate::new();
    let [errs, panics] = [gate.clone(), gate.clone()];
    let error = command.run(move || Err::<u8, _>(errs.pass())).fallback(|_| Ok(1)).queue();
    let panic = command.run(move || -> Result<u8, ()> { panic!("late: {:?}", panics.pass()) }).queue();
    gate.until_came(2);
    lab.clock.advance(ms(50));
    assert_eq!((error.wait(), kind(&panic.wait())), (Ok(1), Some(RejectionKind::TimedOut)));
    gate.open();
    until("told", || lab.events.abandoned().len() == 2);
    let mut told: Vec<_> = lab.events.abandoned().iter().map(|end| (end.panicked, end.outcome)).collect();
    told.sort_by_key(|(panicked, _)| *panicked);
    assert_eq!(told, [(false, Outcome::Timeout), (true, Outcome::Timeout)]);
    assert_at_rest(&command);
    assert_eq!(counts(&command), "timeout=2 fallback_ok=1 fallback_missing=1");
    assert_eq!((lab.events.calls().len(), command.circuit_state()), (2, CircuitState::Closed));
    // In place it is the caller itself that brings the error, too late.
    let here = lab.command("here").timeout("50ms").build().unwrap();
    let late = here.run(|| Err::<u8, _>(lab.clock.advance(ms(50)))).execute();
    assert_eq!(
        (kind(&late), counts(&here)),
        (Some(RejectionKind::TimedOut), "timeout=1 fallback_missing=1".into())
    );
}

#[test]
fn to_05_to_15_a_cancellation_that_comes_late_does_not_reach_the_threads_next_body() {
    let lab = Lab::new();
    let cancelled = || Ok::<_, ()>(cancellation().is_cancelled());
    let pool = lab.on_pool("next", 1, 1).timeout("50ms").build().unwrap();
    let gate = Gate::new();
    let inside = gate.clone();
    let late = pool.run(move || Err::<bool, _>(inside.pass())).queue();
    gate.until_came(1);
    lab.clock.advance(ms(50));
    assert_eq!(kind(&late.wait()), Some(RejectionKind::TimedOut));
    let next = pool.run(cancelled).queue();
    gate.open();
    assert_eq!(next.wait(), Ok(false));
    let here = lab.command("here").timeout("50ms").build().unwrap();
    let late = here.run(|| {
        lab.clock.advance(ms(50));
        cancelled()
    });
    assert_eq!(late.fallback(|_| cancelled()).execute(), Ok(false), "nor the fallback");
    assert_eq!(here.run(cancelled).execute(), Ok(false));
    assert!(!cancellation().is_cancelled(), "and the caller is none");
}

#[test]
fn hc_049_queued_and_awaited_bodies_that_ask_stop_at_the_timeout_too() {
    let lab = Lab::new();
    let command = lab.on_pool("asks", 2, 0).timeout("100ms").build().unwrap();
    let (begun, stopped) = (Gate::new(), zero());
    begun.open();
    let body = || {
        let (begun, stopped) = (begun.clone(), stopped.clone());
        move || {
            begun.pass();
            until("cancelled", || cancellation().is_cancelled());
            Err::<usize, _>(stopped.fetch_add(1, SeqCst))
        }
    };
    let queued = command.run(body()).queue();
    let mut awaited = pin!(command.run(body()).into_future());
    assert!(awaited.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    begun.until_came(2);
    lab.clock.advance(ms(100));
    assert_eq!([kind(&queued.wait()), kind(&block_on(awaited))], [Some(RejectionKind::TimedOut); 2]);
    assert_at_rest(&command);
    assert_eq!(stopped.load(SeqCst), 2);
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
fn to_02_to_03_to_05_to_10_plain_cases() {
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
