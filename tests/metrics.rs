//! Counts, latencies, gauges, events: what is told of calls, exactly once.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    Command, CommandError, CommandHandle, EventSink, FallbackOutcome, ManualClock, Mode, Outcome, Registry,
    RejectionKind, Select,
};

use support::*;

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn percentage(command: &CommandHandle) -> f64 {
    command.metrics().error_percentage()
}

#[test]
fn hc_140_hc_142_hc_147_health_is_a_rolling_share_of_errors() {
    let lab = Lab::new();
    let command = lab.command("health").timeout("10ms").circuit_breaker(None).build().unwrap();
    let good =
        |times: usize| (0..times).for_each(|_| assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok()));
    let bad = || assert!(command.run(|| Err::<(), _>(())).execute().is_err());
    let late = || assert!(command.run(|| Ok::<_, ()>(lab.clock.advance(ms(10)))).execute().is_err());
    assert_eq!(percentage(&command), 0.0);
    good(1);
    assert_eq!(percentage(&command), 0.0);
    bad();
    assert_eq!(percentage(&command), 50.0);
    good(2);
    assert_eq!(percentage(&command), 25.0);
    late();
    late();
    assert_eq!(percentage(&command), 50.0);
    good(4);
    assert_eq!(percentage(&command), 30.0);
    let ignored = command.run(|| Err::<(), _>(())).ignore(|()| true).execute();
    assert_eq!(ignored, Err(CommandError::Inner(())));
    assert_eq!(command.metrics().request_count(), 10);
    lab.clock.advance(Duration::from_secs(10));
    assert_eq!((command.metrics().request_count(), percentage(&command)), (0, 0.0));
}

#[test]
fn hc_145_hc_160_refusals_count_for_health_and_not_for_concurrency() {
    let lab = Lab::new();
    let sem = lab.command("sem").semaphore(10).circuit_breaker(None).build().unwrap();
    let pool = lab.on_pool("pool", 10, 0).circuit_breaker(None).build().unwrap();
    let gate = Gate::new();
    let holders: Vec<_> = (0..10)
        .map(|_| {
            let (command, gate) = (sem.clone(), gate.clone());
            aside(move || command.run(|| Ok::<_, ()>(gate.pass())).execute())
        })
        .collect();
    let queued: Vec<_> = (0..10)
        .map(|_| {
            let gate = gate.clone();
            pool.run(move || Ok::<_, ()>(gate.pass())).queue()
        })
        .collect();
    gate.until_came(20);
    for _ in 0..2 {
        assert!(sem.run(|| Ok::<_, ()>(())).execute().is_err());
        assert!(pool.run(|| Ok::<_, ()>(())).execute().is_err());
    }
    for command in [&*sem, &*pool] {
        let seen = command.metrics();
        assert_eq!((seen.in_flight, seen.max_in_flight, seen.error_count()), (10, 10, 2));
    }
    gate.open();
    holders.into_iter().for_each(|holder| assert_eq!(joined(holder), Ok(())));
    queued.into_iter().for_each(|call| assert_eq!(call.wait(), Ok(())));
    for command in [&*sem, &*pool] {
        let seen = command.metrics();
        assert_eq!((seen.request_count(), seen.error_count()), (12, 2));
        assert_eq!((seen.in_flight, seen.max_in_flight), (0, 10));
    }
}

#[test]
fn hc_146_bc_115_what_a_fallback_does_changes_no_health() {
    let lab = Lab::new();
    let command = lab.command("fallbacks").timeout("10ms").circuit_breaker(None).build().unwrap();
    for _ in 0..10 {
        assert_eq!(command.run(|| Err::<u8, _>(())).fallback(|_| Ok(1)).execute(), Ok(1));
    }
    let late = command.run(|| {
        lab.clock.advance(ms(10));
        Ok::<u8, ()>(0)
    });
    assert_eq!(late.fallback(|_| Ok(1)).execute(), Ok(1));
    assert_eq!(counts(&command), "failure=10 timeout=1 fallback_ok=11");
    assert_eq!(percentage(&command), 100.0);
    let _ = command.run(|| Err::<u8, _>(())).fallback(|_| Err(())).execute();
    let _ = command.run(|| Err::<u8, _>(())).execute();
    assert_eq!((command.metrics().request_count(), command.metrics().error_count()), (13, 13));
}

#[test]
fn hc_146_fallbacks_that_run_or_are_refused_change_no_health() {
    let lab = Lab::new();
    let command = lab.command("running").fallback_semaphore(5).circuit_breaker(None).build().unwrap();
    let gate = Gate::new();
    let fails = || {
        let (command, gate) = (command.clone(), gate.clone());
        move || command.run(|| Err::<(), _>(())).fallback(|_| Ok(gate.pass())).execute()
    };
    let running: Vec<_> = (0..5).map(|_| aside(fails())).collect();
    gate.until_came(5);
    (0..2).for_each(|_| assert_eq!(fails()(), Err(CommandError::Inner(()))));
    let health = || (command.metrics().request_count(), command.metrics().error_count());
    assert_eq!((health(), command.metrics().fallbacks_in_flight), ((7, 7), 5));
    gate.open();
    assert!(running.into_iter().all(|call| joined(call) == Ok(())));
    assert_eq!(health(), (7, 7));
    assert_eq!(counts(&command), "failure=7 fallback_ok=5 fallback_rejected=2");
}

#[test]
fn hc_149_hc_160_in_flight_and_its_rolling_maximum() {
    let lab = Lab::new();
    let command = lab.command("flight").timeout(None).semaphore(20).build().unwrap();
    let mut calls: Vec<_> =
        (0..8).map(|_| Box::pin(command.call(pending::<Result<(), ()>>).into_future())).collect();
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut noop()).is_pending()));
    assert_eq!((command.metrics().in_flight, command.metrics().max_in_flight), (8, 8));
    calls.truncate(2);
    lab.clock.advance(Duration::from_secs(9));
    assert_eq!((command.metrics().in_flight, command.metrics().max_in_flight), (2, 8));
    lab.clock.advance(Duration::from_secs(1));
    assert_eq!(command.metrics().max_in_flight, 2, "what still runs is part of every bucket");
    calls.clear();
    lab.clock.advance(Duration::from_secs(20));
    assert_eq!((command.metrics().in_flight, command.metrics().max_in_flight), (0, 0));
}

#[test]
fn bc_111_kb_50_the_gauge_comes_back_whatever_happens() {
    let lab = Lab::new();
    let command = lab.command("gauge").semaphore(2000).timeout("1s").circuit_breaker(None).build().unwrap();
    let mut dropped = Vec::new();
    for number in 0..1000 {
        match number % 10 {
            0 => drop(command.call(pending::<Result<(), ()>>).into_future()),
            1..=5 => {
                let mut call = Box::pin(command.call(pending::<Result<(), ()>>).into_future());
                assert!(call.as_mut().poll(&mut noop()).is_pending());
                dropped.push(call);
            }
            6 => drop(block_on(command.call(|| async { Ok::<_, ()>(()) }).into_future())),
            7 => drop(block_on(command.call(|| async { Err::<(), _>(()) }).into_future())),
            8 => drop(block_on(command.call(|| async { panic!("boom") as Result<(), ()> }).into_future())),
            _ => {
                let mut call = Box::pin(command.call(pending::<Result<(), ()>>).into_future());
                assert!(call.as_mut().poll(&mut noop()).is_pending());
                dropped.push(call);
            }
        }
        assert_eq!(command.metrics().in_flight as usize, dropped.len());
    }
    lab.clock.advance(Duration::from_secs(1));
    let (timed_out, left) = dropped.split_at_mut(300);
    assert!(timed_out.iter_mut().all(|call| call.as_mut().poll(&mut noop()).is_ready()));
    assert_eq!(left.len(), 300);
    drop(dropped);
    assert_at_rest(&command);
    let counts = command.metrics().cumulative;
    // The deadline of those that were dropped afterwards had been called before they left.
    assert_eq!((counts.success, counts.failure, counts.timeout, counts.cancelled), (100, 200, 600, 0));
}

#[test]
fn hc_153_a_cancelled_call_is_counted_as_that_and_nothing_else() {
    let lab = Lab::new();
    let command = lab.command("cancelled").build().unwrap();
    {
        let mut call = pin!(command.call(pending::<Result<(), ()>>).into_future());
        assert!(call.as_mut().poll(&mut noop()).is_pending());
    }
    assert_eq!(counts(&command), "cancelled=1");
    assert_eq!(command.metrics().request_count(), 0);
}

#[test]
fn hc_155_rolling_counts_age_out_and_cumulative_ones_never() {
    let lab = Lab::new();
    let command = lab.command("ages").build().unwrap();
    (0..3).for_each(|_| assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok()));
    lab.clock.advance(Duration::from_secs(5));
    assert!(command.run(|| Err::<(), _>(())).execute().is_err());
    assert_eq!((command.metrics().rolling.success, command.metrics().rolling.failure), (3, 1));
    lab.clock.advance(Duration::from_secs(5));
    assert_eq!((command.metrics().rolling.success, command.metrics().rolling.failure), (0, 1));
    lab.clock.advance(Duration::from_secs(100));
    assert_eq!(command.metrics().rolling, Default::default());
    assert_eq!((command.metrics().cumulative.success, command.metrics().cumulative.failure), (3, 1));
}

#[test]
fn hc_156_hc_161_a_pool_counts_what_it_ran_and_what_it_refused() {
    let lab = Lab::new();
    let [one, other] = ["one", "other"].map(|key| lab.on_pool(key, 1, 0).timeout("1s").build().unwrap());
    let sem = lab.command("sem").build().unwrap();
    let _ = one.run(|| Ok::<_, ()>(())).execute();
    let _ = one.run(|| Err::<(), _>(())).execute();
    let _ = one.run(|| Err::<(), _>(())).ignore(|()| true).execute();
    let clock = lab.clock.clone();
    let late = one.run(move || Ok::<_, ()>(clock.advance(ms(1000)))).execute();
    assert_eq!(kind(&late), Some(RejectionKind::TimedOut));
    until("free", || one.pool().active == 0);
    let _ = sem.run(|| Ok::<_, ()>(())).execute();
    one.force_open();
    let _ = one.run(|| Ok::<_, ()>(())).execute();
    one.clear_forced();
    assert_eq!((one.pool().completed, one.pool().rejected), (4, 0));
    let gate = Gate::new();
    let held = one.run(at_gate(&gate)).queue();
    gate.until_came(1);
    let seen = sem.run(|| Ok::<_, ()>((one.pool().active, other.pool().active))).execute();
    assert_eq!(seen, Ok((1, 0)), "what runs in place is on no pool, and each pool has its own");
    assert!(one.run(|| Ok::<_, ()>(())).execute().is_err());
    assert_eq!((one.pool().submitted, one.pool().rejected), (5, 1));
    gate.open();
    assert_eq!(held.wait(), Ok(1));
    assert_eq!((other.pool().completed, other.pool().submitted), (0, 0));
    assert_eq!(lab.registry.pools().len(), 2, "none for the semaphore");
}

#[test]
fn hc_158_hc_163_latencies_are_of_every_body_that_began() {
    let lab = Lab::new();
    let command = lab.command("latency").timeout("1s").circuit_breaker(None).build().unwrap();
    let takes = |millis: u64, result: Result<(), &'static str>| {
        let clock = lab.clock.clone();
        move || {
            clock.advance(ms(millis));
            result
        }
    };
    for (millis, result) in [(10, Ok(())), (20, Err("e")), (30, Err("bad")), (40, Ok(())), (5000, Ok(()))] {
        let _ = command.run(takes(millis, result)).ignore(|e| *e == "bad").fallback(|_| Ok(())).execute();
    }
    command.force_open();
    let _ = command.run(|| Ok::<_, ()>(())).execute();
    let body = command.metrics().body;
    assert_eq!((body.count(), body.max(), body.mean()), (5, ms(1000), ms(220)));
    // By nearest rank, within the histogram's error of 3.2 %.
    for (percent, exact) in
        [(-5.0, 10), (20.0, 10), (40.0, 20), (50.0, 30), (80.0, 40), (100.0, 1000), (150.0, 1000)]
    {
        let reported = body.percentile(percent);
        assert!(reported.abs_diff(ms(exact)) <= ms(exact) / 31, "p{percent}: {reported:?} for {exact} ms");
    }
    assert_eq!(command.metrics().total.count(), 5, "the refused one had no latency");
    lab.clock.advance(Duration::from_secs(61));
    assert_eq!(
        (command.metrics().body.count(), command.metrics().body.percentile(99.0)),
        (0, Duration::ZERO)
    );
}

#[test]
fn bc_110_bc_122_a_command_nobody_called_has_finite_numbers() {
    let lab = Lab::new();
    let command = lab.command("silent").build().unwrap();
    let seen = command.metrics();
    assert_eq!((seen.error_percentage(), seen.request_count()), (0.0, 0));
    for latency in [&seen.queue, &seen.body, &seen.total] {
        assert_eq!((latency.mean(), latency.max(), latency.percentile(f64::NAN)), Default::default());
    }
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok());
    assert_eq!((command.metrics().body.count(), command.metrics().body.mean()), (1, Duration::ZERO));
}

#[test]
fn hc_162_every_call_has_exactly_one_event_with_all_there_is_to_know() {
    let lab = Lab::new();
    let command = lab.on_pool("events", 1, 1).timeout("100ms").circuit_breaker(touchy(3)).build().unwrap();
    let arrival = hystrix_core::Clock::now(&lab.clock);
    let gate = Gate::new();
    let inside = gate.clone();
    let first = command.run(move || Ok::<_, ()>(inside.pass())).queue();
    gate.until_came(1);
    let clock = lab.clock.clone();
    let second = command.run(move || Err::<(), _>(clock.advance(ms(5)))).fallback(|_| Ok(())).queue();
    lab.clock.advance(ms(30));
    gate.open();
    assert_eq!((first.wait(), second.wait()), (Ok(()), Ok(())));
    let calls = lab.events.calls();
    let [first, second] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((first.outcome, first.fallback, first.rejection), (Outcome::Success, None, None));
    assert_eq!((first.arrival, first.start, first.end), (arrival, Some(arrival), arrival + ms(30)));
    assert_eq!((second.outcome, second.fallback), (Outcome::Failure, Some(FallbackOutcome::Success)));
    assert_eq!((second.queue_time(), second.body_time()), (ms(30), Some(ms(5))));
    assert_eq!(
        (second.attempts, second.trial, second.abandoned, second.mode),
        (1, false, false, Mode::Enforce)
    );
    assert_eq!((second.generation, second.would_have), (1, None));
    assert_eq!(second.command.to_string(), "lab/events");
    drop(command.run(|| -> Result<(), ()> { panic!("boom") }).execute());
    let panicked = lab.events.last_call();
    assert_eq!(
        (panicked.rejection, panicked.cause.as_deref()),
        (Some(RejectionKind::Panicked), Some("boom"))
    );
    lab.clock.advance(ms(200));
    assert_eq!(command.run(|| Ok::<_, ()>(())).execute(), Ok(()));
    let trial = lab.events.last_call();
    assert!(trial.trial && trial.generation > second.generation);
    assert_eq!(lab.events.calls().len(), 4);
}

#[test]
fn hc_162_hc_180_every_ending_in_place_is_one_event_with_a_start_if_the_body_began() {
    let lab = Lab::new();
    let command = lab.command("here").semaphore(1).timeout("10ms").circuit_breaker(None).build().unwrap();
    let told = |outcome, began| {
        let calls = lab.events.calls();
        let [call] = &calls[..] else { panic!("{calls:?}") };
        assert_eq!((call.outcome, call.start.is_some()), (outcome, began));
        lab.events.forget();
    };
    let bad = || Err::<(), ()>(());
    drop(command.run(bad).execute());
    told(Outcome::Failure, true);
    drop(command.run(|| -> Result<(), ()> { panic!("boom") }).execute());
    told(Outcome::Failure, true);
    drop(command.run(bad).ignore(|()| true).execute());
    told(Outcome::BadRequest, true);
    drop(command.run(|| Ok::<_, ()>(lab.clock.advance(ms(10)))).fallback(|_| Ok(())).execute());
    until("told", || !lab.events.calls().is_empty());
    told(Outcome::Timeout, true);
    let full = command.run(|| {
        assert!(command.run(bad).fallback(|_| Err(())).execute().is_err());
        Ok::<_, ()>(told(Outcome::SemaphoreRejected, false))
    });
    assert_eq!(full.execute(), Ok(()));
    told(Outcome::Success, true);
    assert!(pin!(command.call(pending::<Result<(), ()>>).into_future()).poll(&mut noop()).is_pending());
    told(Outcome::Cancelled, true);
    command.force_open();
    drop(command.run(bad).execute());
    told(Outcome::ShortCircuited, false);
}

#[test]
fn hc_162_what_ends_in_a_queue_or_before_it_has_no_start() {
    let lab = Lab::new();
    let command = lab.on_pool("queue", 1, 1).timeout("10ms").build().unwrap();
    let gate = Gate::new();
    let run = || command.run(at_gate(&gate));
    let begun = run().queue();
    gate.until_came(1);
    drop(run().queue());
    let waits = run().queue();
    assert!(run().execute().is_err());
    lab.clock.advance(ms(10));
    assert!(begun.wait().is_err() && waits.wait().is_err());
    until("told", || lab.events.calls().len() >= 4);
    gate.open();
    assert_at_rest(&command);
    let mut told: Vec<_> =
        lab.events.calls().iter().map(|call| (call.outcome.as_str(), call.start.is_some())).collect();
    told[2..].sort_by_key(|(_, began)| *began);
    let [timeout, cancelled] = [Outcome::Timeout.as_str(), Outcome::Cancelled.as_str()];
    let refused = (Outcome::ThreadPoolRejected.as_str(), false);
    assert_eq!(told, [(cancelled, false), refused, (timeout, false), (timeout, true)]);
    until("free", || command.pool().active == 0);
    assert_eq!(
        (command.pool().completed, command.pool().rejected),
        (1, 1),
        "what the queue gave up is no run"
    );
}

#[test]
fn bc_082_a_panicking_listener_is_switched_off_and_the_others_hear_on() {
    struct Panics(Arc<AtomicUsize>);
    impl EventSink for Panics {
        fn call(&self, _event: &hystrix_core::CallEvent) {
            panic!("a listener panics for the {}th time", self.0.fetch_add(1, SeqCst));
        }

        fn circuit_changed(&self, _event: &hystrix_core::CircuitEvent) {
            panic!("a listener panics for the {}th time", self.0.fetch_add(1, SeqCst));
        }
    }
    let panics = Arc::new(AtomicUsize::new(0));
    let clock = ManualClock::new();
    let events = Events::default();
    let registry =
        Registry::builder().clock(clock.clone()).sink(Panics(panics.clone())).sink(events.clone()).build();
    let command =
        Command::builder("listened").registry(&registry).circuit_breaker(touchy(1)).build().unwrap();
    let bad = || command.run(|| Err::<(), _>(())).execute();
    assert!(bad().is_err());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| assert!(bad().is_err())));
        }
    });
    clock.advance(ms(200));
    assert_eq!(command.run(|| Ok::<_, ()>(())).execute(), Ok(()));
    assert_eq!((events.calls().len(), events.circuits().len(), panics.load(SeqCst)), (102, 3, 1));
    assert_eq!(command.metrics().cumulative.attempts(), 102);
}

#[test]
fn a_subscription_ends_when_it_is_dropped() {
    let lab = Lab::new();
    let command = lab.command("subscribed").build().unwrap();
    let events = Events::default();
    let subscription = lab.registry.subscribe(events.clone());
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok());
    drop(subscription);
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok());
    assert_eq!((events.calls().len(), lab.events.calls().len()), (1, 2));
    for _ in 0..1000 {
        drop(lab.registry.subscribe(events.clone()));
    }
    lab.registry.subscribe(events.clone()).forever();
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_ok());
    assert_eq!(events.calls().len(), 2, "one for each listener that is left");
}

#[test]
fn me_09_counts_of_timeouts_and_others() {
    let lab = Lab::new();
    let command = lab.command("over_under").timeout("10ms").build().unwrap();
    assert!(command.run(|| Ok::<_, ()>(lab.clock.advance(ms(5)))).execute().is_ok());
    assert!(command.run(|| Ok::<_, ()>(lab.clock.advance(ms(15)))).execute().is_err());
    assert_eq!((command.metrics().cumulative.timeout, command.metrics().cumulative.success), (1, 1));
    assert_eq!(command.metrics().cumulative.exceptions_thrown(), 1);
}

#[test]
fn changes_of_mode_are_told() {
    let lab = Lab::new();
    lab.command("moded").build().unwrap();
    let shadow = hystrix_core::CommandConfig::new().mode(Mode::Shadow);
    lab.registry.apply(Select::group("lab"), shadow).unwrap();
    lab.registry.remove(&Select::group("lab"));
    let modes: Vec<_> = lab.events.modes().iter().map(|event| (event.from, event.to)).collect();
    assert_eq!(modes, [(Mode::Enforce, Mode::Shadow), (Mode::Shadow, Mode::Enforce)]);
}
