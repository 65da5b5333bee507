//! The circuit breaker through commands: when it opens, who is let through, what counts, and that it never gets stuck.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    CircuitBreaker, CircuitCause, CircuitEvent, CircuitState, Command, CommandConfig, CommandHandle,
    EventSink, Registry, RejectionKind, Select,
};

use support::*;

const SLEEP: Duration = Duration::from_millis(200);

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn good(command: &Command) -> bool {
    command.run(|| Ok::<_, ()>(())).execute().is_ok()
}

fn bad(command: &Command) {
    let result = command.run(|| Err::<(), _>("failed")).execute();
    assert!(result.is_err());
}

fn is_open(command: &Command) -> bool {
    let result = command.run(|| Ok::<_, ()>(())).execute();
    result.is_err_and(|error| error.is_short_circuited())
}

fn fails(command: &Command, times: usize) {
    (0..times).for_each(|_| bad(command));
}

/// A command of volume 1 whose circuit has just opened.
fn opened(lab: &Lab, key: &'static str) -> Command {
    let command = lab.command(key).circuit_breaker(touchy(1)).build().unwrap();
    bad(&command);
    assert_eq!(command.circuit_state(), CircuitState::Open);
    command
}

// ===== opening =====

#[test]
fn hc_110_hc_111_kb_13_it_opens_on_the_very_result_that_meets_the_threshold() {
    let lab = Lab::new();
    for (good_ones, bad_ones, opens) in [(4, 4, true), (5, 3, false), (0, 1, true)] {
        let settings = touchy(good_ones as u64 + bad_ones as u64);
        let key: &'static str = format!("c{good_ones}{bad_ones}").leak();
        let command = lab.command(key).circuit_breaker(settings).build().unwrap();
        (0..good_ones).for_each(|_| assert!(good(&command)));
        fails(&command, bad_ones);
        assert_eq!(is_open(&command), opens, "{good_ones} good, {bad_ones} bad");
    }
}

#[test]
fn hc_112_bc_071_timeouts_and_refusals_count_as_failures() {
    let lab = Lab::new();
    for (key, good_ones, late_ones) in [("all_late", 0, 4), ("five_of_nine", 4, 5)] {
        let settings = touchy(good_ones + late_ones);
        let command = lab.command(key).timeout("10ms").circuit_breaker(settings).build().unwrap();
        let late = || command.run(|| Ok::<_, ()>(lab.clock.advance(ms(10)))).execute();
        (0..good_ones).for_each(|_| assert!(good(&command)));
        (0..late_ones).for_each(|_| assert!(late().is_err()));
        assert!(is_open(&command), "{key}");
    }
    let command = lab.command("refused").semaphore(1).circuit_breaker(touchy(4)).build().unwrap();
    let inside = || {
        (0..4).for_each(|_| assert!(command.run(|| Ok::<_, ()>(())).execute().is_err()));
        Ok::<_, ()>(())
    };
    assert!(command.run(inside).execute().is_ok());
    assert!(is_open(&command));
}

#[test]
fn hc_113_bc_069_below_the_volume_it_stays_closed() {
    let lab = Lab::new();
    let command = lab.command("volume").timeout("10ms").build().unwrap();
    let clock = &lab.clock;
    assert!(command.run(|| Ok::<_, ()>(clock.advance(ms(10)))).execute().is_err());
    fails(&command, 18);
    assert!(!is_open(&command), "the nineteenth and a good one");
    let cold = lab.command("cold").build().unwrap();
    fails(&cold, 19);
    assert_eq!(cold.circuit_state(), CircuitState::Closed);
    bad(&cold);
    assert!(is_open(&cold), "the twentieth");
}

#[test]
fn bc_065_a_success_can_fill_the_volume() {
    let lab = Lab::new();
    let command = lab.command("fills").circuit_breaker(touchy(3)).build().unwrap();
    fails(&command, 2);
    assert!(good(&command));
    assert!(is_open(&command));
}

#[test]
fn bc_067_bc_066_old_failures_age_out_while_nobody_calls() {
    let lab = Lab::new();
    let command = lab.command("idle").circuit_breaker(touchy(5)).build().unwrap();
    fails(&command, 4);
    lab.clock.advance(Duration::from_secs(60));
    fails(&command, 2);
    assert!(good(&command));
    let circuit = command.metrics().circuit;
    assert_eq!((circuit.state, circuit.requests, circuit.failures), (CircuitState::Closed, 3, 2));
}

#[test]
fn bc_071_hc_144_kb_61_what_the_circuit_refuses_does_not_feed_it() {
    let lab = Lab::new();
    let command = opened(&lab, "self_sustaining");
    (0..10_000).for_each(|_| assert!(is_open(&command)));
    assert_eq!((command.metrics().request_count(), command.metrics().error_count()), (1, 1));
    lab.clock.advance(SLEEP);
    assert!(good(&command));
    assert_eq!((command.circuit_state(), command.metrics().circuit.requests), (CircuitState::Closed, 0));
}

#[test]
fn hc_167_a_failure_is_judged_before_its_fallback_runs() {
    let lab = Lab::new();
    let command = lab.command("before").circuit_breaker(touchy(1)).build().unwrap();
    let answer = command.run(|| Err::<bool, _>(())).fallback(|_| Ok(is_open(&command)));
    assert_eq!(answer.execute(), Ok(true));
    let pool = lab.on_pool("before_pool", 1, 0).circuit_breaker(touchy(1)).build().unwrap();
    let answer = pool.run(|| Err::<_, ()>(())).fallback(|_| Ok(pool.circuit_state()));
    assert_eq!(answer.execute(), Ok(CircuitState::Open));
}

// ===== half-open =====

#[test]
fn hc_115_hc_116_bc_062_a_good_trial_closes_and_a_bad_one_opens_for_a_whole_window() {
    let lab = Lab::new();
    let command = lab.command("trials").circuit_breaker(touchy(20)).build().unwrap();
    fails(&command, 20);
    // The window is empty by the time of the trial: the trial decides, not the rate.
    lab.clock.advance(Duration::from_secs(60));
    for _ in 0..3 {
        bad(&command);
        assert!(is_open(&command));
        lab.clock.advance(SLEEP - ms(1));
        assert!(is_open(&command));
        lab.clock.advance(ms(1));
    }
    let inside = command.run(|| {
        assert_eq!(command.circuit_state(), CircuitState::HalfOpen);
        Ok::<_, ()>(is_open(&command))
    });
    assert_eq!(inside.execute(), Ok(true), "one trial at a time");
    (0..50).for_each(|_| assert!(good(&command)));
    let path: Vec<_> = lab.events.circuits().iter().map(|event| (event.to, event.cause)).collect();
    let open_again = [
        (CircuitState::HalfOpen, CircuitCause::SleepWindow),
        (CircuitState::Open, CircuitCause::TrialFailed),
    ];
    let mut expected = vec![(CircuitState::Open, CircuitCause::ErrorThreshold)];
    (0..3).for_each(|_| expected.extend(open_again));
    expected.push((CircuitState::HalfOpen, CircuitCause::SleepWindow));
    expected.push((CircuitState::Closed, CircuitCause::TrialSucceeded));
    assert_eq!(path, expected);
    let numbers: Vec<_> = lab.events.circuits().iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
}

#[test]
fn hc_117_ht_14_bc_058_a_trial_that_is_cancelled_is_the_next_callers() {
    let lab = Lab::new();
    let command = opened(&lab, "cancelled");
    lab.clock.advance(SLEEP);
    {
        let mut trial = pin!(command.call(pending::<Result<(), ()>>).into_future());
        assert!(trial.as_mut().poll(&mut noop()).is_pending());
        assert!(is_open(&command));
    }
    assert_eq!(command.circuit_state(), CircuitState::HalfOpen);
    assert!(good(&command));
    assert_eq!(command.circuit_state(), CircuitState::Closed);
}

#[test]
fn hc_126_bc_059_a_trial_that_never_ends_is_replaced_after_its_lease() {
    let lab = Lab::new();
    let command = lab.command("hung").timeout(None).circuit_breaker(touchy(1)).build().unwrap();
    bad(&command);
    lab.clock.advance(SLEEP);
    let mut hung =
        Box::pin(command.call(|| async { std::future::ready(pending_once().await).await }).into_future());
    assert!(hung.as_mut().poll(&mut noop()).is_pending());
    lab.clock.advance(SLEEP - ms(1));
    assert!(is_open(&command));
    lab.clock.advance(ms(1));
    assert!(good(&command), "the lease was one window, for it has no deadline");
    assert_eq!(command.circuit_state(), CircuitState::Closed);
    // The lost one fails at last: nobody is impressed.
    assert_eq!(hung.as_mut().poll(&mut noop()), Poll::Ready(Err(hystrix_core::CommandError::Inner("late"))));
    assert_eq!(command.circuit_state(), CircuitState::Closed);
    assert_eq!(command.metrics().circuit.failures, 0);
}

async fn pending_once() -> Result<(), &'static str> {
    let mut first = true;
    std::future::poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
    Err("late")
}

#[test]
fn hc_127_bc_060_kb_09_an_ignored_trial_is_given_back() {
    let lab = Lab::new();
    let command = opened(&lab, "ignored");
    lab.clock.advance(SLEEP);
    for _ in 0..5 {
        let trial = command.run(|| Err::<(), _>("bad request")).ignore(|_| true).execute();
        assert_eq!(trial, Err(hystrix_core::CommandError::Inner("bad request")));
        assert_eq!(command.circuit_state(), CircuitState::HalfOpen);
    }
    assert!(good(&command), "at once, without another window");
    assert_eq!(command.circuit_state(), CircuitState::Closed);
}

#[test]
fn hc_128_ht_12_a_trial_refused_by_our_own_limits_is_given_back() {
    let lab = Lab::new();
    let sem = lab.command("sem").semaphore(1).circuit_breaker(touchy(2)).build().unwrap();
    let gate = Gate::new();
    let held = aside({
        let (command, gate) = (sem.clone(), gate.clone());
        move || command.run(|| Ok::<_, ()>(gate.pass())).execute()
    });
    gate.until_came(1);
    (0..2).for_each(|_| assert!(sem.run(|| Ok::<_, ()>(())).execute().is_err()));
    lab.clock.advance(SLEEP);
    for _ in 0..3 {
        let trial = sem.run(|| Ok::<_, ()>(())).execute();
        assert_eq!(kind(&trial), Some(RejectionKind::PermitsExhausted));
        assert_eq!(sem.circuit_state(), CircuitState::HalfOpen);
    }
    gate.open();
    assert_eq!(joined(held), Ok(()));
    assert!(good(&sem));
    assert_eq!(sem.circuit_state(), CircuitState::Closed);

    let pool = lab.on_pool("pool", 1, 0).circuit_breaker(touchy(2)).build().unwrap();
    let gate = Gate::new();
    let inside = gate.clone();
    let held = pool.run(move || Ok::<_, ()>(inside.pass())).queue();
    gate.until_came(1);
    (0..2).for_each(|_| assert!(pool.run(|| Ok::<_, ()>(())).execute().is_err()));
    lab.clock.advance(SLEEP);
    assert_eq!(kind(&pool.run(|| Ok::<_, ()>(())).execute()), Some(RejectionKind::PoolFull));
    assert_eq!(pool.circuit_state(), CircuitState::HalfOpen);
    gate.open();
    assert_eq!(held.wait(), Ok(()));
    assert_eq!(pool.run(|| Ok::<_, ()>(())).execute(), Ok(()));
    assert_eq!(pool.circuit_state(), CircuitState::Closed);
}

#[test]
fn ht_13_a_trial_that_times_out_opens_from_that_moment() {
    let lab = Lab::new();
    let command = lab.command("late").timeout("50ms").circuit_breaker(touchy(1)).build().unwrap();
    bad(&command);
    lab.clock.advance(SLEEP);
    let clock = &lab.clock;
    assert!(command.run(|| Ok::<_, ()>(clock.advance(ms(50)))).fallback(|_| Ok(())).execute().is_ok());
    assert_eq!(command.circuit_state(), CircuitState::Open);
    lab.clock.advance(SLEEP - ms(1));
    assert!(is_open(&command));
    lab.clock.advance(ms(1));
    assert!(good(&command));
}

#[test]
fn hc_124_bc_063_kb_07_kb_08_late_results_from_before_the_trip_decide_nothing() {
    let lab = Lab::new();
    for late in [Ok(()), Err("late")] {
        let key = if late.is_ok() { "late_good" } else { "late_bad" };
        let command = lab.command(key).timeout(None).circuit_breaker(touchy(1)).build().unwrap();
        let gate = Gate::new();
        let old = aside({
            let (command, gate) = (command.clone(), gate.clone());
            move || {
                let body = || {
                    gate.pass();
                    late
                };
                command.run(body).execute()
            }
        });
        gate.until_came(1);
        let before = command.call(pending::<Result<(), &str>>).into_future();
        let mut before = Box::pin(before);
        assert!(before.as_mut().poll(&mut noop()).is_pending());
        bad(&command);
        lab.clock.advance(SLEEP);
        let trial = command.run(|| {
            // Another call from before the trip is cancelled, and one ends: the trial goes on.
            drop(before);
            gate.open();
            assert_eq!(joined(old).map_err(drop), late.map_err(drop));
            assert_eq!(command.circuit_state(), CircuitState::HalfOpen);
            Ok::<_, ()>(is_open(&command))
        });
        assert_eq!(trial.execute(), Ok(true));
        assert_eq!(command.circuit_state(), CircuitState::Closed);
        assert_eq!(command.metrics().circuit.failures, 0);
    }
}

#[test]
fn bc_061_of_a_hundred_callers_one_is_the_trial() {
    let lab = Lab::new();
    let command = lab.command("stampede").semaphore(200).circuit_breaker(touchy(1)).build().unwrap();
    bad(&command);
    lab.clock.advance(SLEEP);
    let barrier = Arc::new(Barrier::new(100));
    let (ran, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let (command, barrier) = (command.clone(), barrier.clone());
            let (ran, refused) = (ran.clone(), refused.clone());
            aside(move || {
                barrier.wait();
                let body = || {
                    ran.fetch_add(1, SeqCst);
                    until("all others are refused", || refused.load(SeqCst) == 99);
                    Ok::<_, ()>(())
                };
                if command.run(body).execute().is_err() {
                    refused.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(joined);
    assert_eq!((ran.load(SeqCst), refused.load(SeqCst)), (1, 99));
    assert_eq!(command.circuit_state(), CircuitState::Closed);
}

#[test]
fn hc_121_bc_068_hc_125_kb_06_closing_forgets_and_it_opens_again_on_new_failures() {
    let lab = Lab::new();
    let command = lab.command("again").circuit_breaker(touchy(2)).build().unwrap();
    for _ in 0..40 {
        fails(&command, 2);
        assert!(is_open(&command));
        lab.clock.advance(SLEEP);
        assert!(good(&command));
        assert_eq!(command.metrics().circuit.requests, 0);
        bad(&command);
        let circuit = command.metrics().circuit;
        assert_eq!((circuit.state, circuit.requests), (CircuitState::Closed, 1), "one is below the volume");
        bad(&command);
        assert!(is_open(&command));
        lab.clock.advance(SLEEP);
        assert!(good(&command));
    }
}

#[test]
fn bc_064_looking_does_not_prolong_the_open_state() {
    let lab = Lab::new();
    let command = opened(&lab, "looked_at");
    for _ in 0..39 {
        lab.clock.advance(ms(5));
        assert!(is_open(&command));
        let _ = (command.metrics(), command.settings(), command.circuit_state(), lab.registry.commands());
    }
    let left = command.metrics().circuit.retry_after;
    assert_eq!(left, Some(ms(5)));
    lab.clock.advance(ms(5));
    assert!(good(&command));
}

#[test]
fn hc_129_under_mixed_load_a_healed_dependency_is_found_out() {
    let lab = Lab::new();
    let command = lab.command("healing").circuit_breaker(touchy(5)).build().unwrap();
    let healthy = Arc::new(AtomicBool::new(false));
    let call = || {
        let healthy = healthy.load(SeqCst);
        command.run(move || healthy.then_some(()).ok_or(())).execute()
    };
    for _ in 0..100 {
        let _ = call();
        lab.clock.advance(ms(10));
    }
    healthy.store(true, SeqCst);
    lab.clock.advance(SLEEP);
    for _ in 0..100 {
        assert_eq!(call(), Ok(()));
    }
}

// ===== what callers see =====

#[test]
fn hc_119_hc_120_hc_152_kb_57_a_short_circuited_call_says_how_long() {
    let lab = Lab::new();
    let command = lab.command("short").circuit_breaker(touchy(3)).build().unwrap();
    (0..3).for_each(|_| drop(command.run(|| Err::<u8, _>(())).fallback(|_| Ok(0)).execute()));
    lab.clock.advance(ms(50));
    let refused = command.run(|| Ok::<u8, ()>(1)).execute().unwrap_err();
    let rejection = refused.rejection().unwrap();
    assert_eq!((rejection.kind(), rejection.retry_after()), (RejectionKind::ShortCircuited, Some(ms(150))));
    assert_eq!((rejection.http_status(), rejection.grpc_code(), rejection.timeout()), (503, 14, None));
    assert!(rejection.to_string().contains("retry after 150ms"), "{rejection}");
    assert_eq!(command.run(|| Ok::<u8, ()>(1)).fallback(|_| Ok(2)).execute(), Ok(2));
    let asynchronous = command.call(|| async { Ok::<u8, ()>(1) }).fallback(|_| Ok(3));
    assert_eq!(block_on(asynchronous.into_future()), Ok(3));
    assert_eq!(counts(&command), "failure=3 short_circuited=3 fallback_ok=5 fallback_missing=1");
    let event = lab.events.last_call();
    assert_eq!((event.start, event.body_time()), (None, None));
    assert_eq!(command.metrics().body.count(), 3);
    let view = command.metrics().circuit;
    assert_eq!((view.state, view.cause), (CircuitState::Open, Some(CircuitCause::ErrorThreshold)));
}

#[test]
fn hc_118_hc_122_forced_states() {
    let lab = Lab::new();
    let command = lab.command("forced").circuit_breaker(touchy(1)).build().unwrap();
    command.force_open();
    assert!(is_open(&command));
    assert_eq!(command.circuit_state(), CircuitState::ForcedOpen);
    assert_eq!(command.metrics().circuit.retry_after, None);
    command.force_closed();
    fails(&command, 20);
    assert!(good(&command), "let through, whatever comes back");
    assert_eq!(command.circuit_state(), CircuitState::ForcedClosed);
    command.force_open();
    // HC-122: both cannot be set; what was said last counts.
    assert!(is_open(&command));
    command.clear_forced();
    assert_eq!(command.circuit_state(), CircuitState::Open, "it had tripped underneath");
    command.reset_circuit();
    assert!(good(&command));
    assert_eq!(command.metrics().circuit.cause, Some(CircuitCause::Manual));
}

#[test]
fn hc_130_kb_60_half_open_can_be_seen() {
    let lab = Lab::new();
    let command = opened(&lab, "visible");
    lab.clock.advance(SLEEP);
    let seen = command.run(|| Ok::<_, ()>(command.metrics().circuit.state)).execute();
    assert_eq!(seen, Ok(CircuitState::HalfOpen));
}

#[test]
fn ht_22_an_open_circuit_comes_before_a_full_pool() {
    let lab = Lab::new();
    let pool = lab.on_pool("order", 1, 0).build().unwrap();
    let gate = Gate::new();
    let inside = gate.clone();
    let held = pool.run(move || Ok::<_, ()>(inside.pass())).queue();
    gate.until_came(1);
    pool.force_open();
    assert_eq!(kind(&pool.run(|| Ok::<_, ()>(())).execute()), Some(RejectionKind::ShortCircuited));
    gate.open();
    assert_eq!(held.wait(), Ok(()));
}

#[test]
fn bc_070_no_call_made_after_the_listener_returned_runs() {
    struct Listener(Arc<AtomicBool>);
    impl EventSink for Listener {
        fn circuit_changed(&self, event: &CircuitEvent) {
            self.0.store(event.to == CircuitState::Open, SeqCst);
        }
    }
    for _ in 0..50 {
        let told = Arc::new(AtomicBool::new(false));
        let registry = Registry::builder().sink(Listener(told.clone())).build();
        let settings =
            CircuitBreaker::new().request_volume_threshold(20).sleep_window(Duration::from_secs(3600));
        let command =
            Command::builder("visible").registry(&registry).semaphore(None).circuit_breaker(settings);
        let command = command.build().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let before = told.load(SeqCst);
                        let mut ran = false;
                        let _ = command
                            .run(|| {
                                ran = true;
                                Err::<(), _>(())
                            })
                            .execute();
                        assert!(!(before && ran), "a body ran after the circuit was known to be open");
                    }
                });
            }
        });
        assert!(told.load(SeqCst));
    }
}

#[test]
fn one_circuit_can_serve_several_commands() {
    let lab = Lab::new();
    let shared = || CircuitBreaker::shared("billing-host").request_volume_threshold(4).sleep_window(SLEEP);
    let [bills, quotes] =
        ["bills", "quotes"].map(|key| lab.command(key).circuit_breaker(shared()).build().unwrap());
    fails(&bills, 2);
    fails(&quotes, 2);
    assert!(is_open(&bills) && is_open(&quotes), "one set of evidence");
    assert_eq!(&*bills.metrics().circuit.name, "billing-host");
    lab.clock.advance(SLEEP);
    let trial = bills.run(|| Ok::<_, ()>(is_open(&quotes)));
    assert_eq!(trial.execute(), Ok(true), "one trial for both");
    assert!(good(&quotes));
    assert!(lab.registry.audit().is_empty());
    let other = CircuitBreaker::shared("billing-host").request_volume_threshold(7);
    lab.command("refunds").circuit_breaker(other).build().unwrap();
    let [finding] = &lab.registry.audit()[..] else { panic!("a finding") };
    assert_eq!(&*finding.about, "circuit billing-host");
    assert_eq!(bills.metrics().rolling.failure, 2, "counts of its own");
}

#[test]
fn u45_rules_change_while_it_runs_and_keep_what_was_counted() {
    let lab = Lab::new();
    let command = lab.command("rules").circuit_breaker(touchy(100)).build().unwrap();
    fails(&command, 4);
    let rules = CommandConfig::new().circuit_breaker(CircuitBreaker::new().request_volume_threshold(5));
    lab.registry.apply(Select::command("lab", "rules"), rules).unwrap();
    assert_eq!(command.circuit_state(), CircuitState::Closed);
    bad(&command);
    assert!(is_open(&command), "the fifth of the old and new ones");
    lab.registry.remove(&Select::command("lab", "rules"));
    assert_eq!(command.settings().request_volume_threshold().value, 100);
}

#[test]
fn bc_117_thresholds_that_cannot_be_are_refused_by_name() {
    let lab = Lab::new();
    for percent in [-1.0, 0.0, 100.5, f64::NAN, f64::INFINITY] {
        let settings = CircuitBreaker::new().error_threshold_percentage(percent);
        let error = lab.command("percent").circuit_breaker(settings).build().unwrap_err();
        assert_eq!(error.field(), "error_threshold_percentage", "{error}");
    }
    let all = touchy(2).error_threshold_percentage(100);
    let command = lab.command("all").circuit_breaker(all).build().unwrap();
    assert!(good(&command));
    fails(&command, 5);
    assert!(!is_open(&command));
    lab.clock.advance(Duration::from_secs(20));
    fails(&command, 2);
    assert!(is_open(&command), "all of two");
    for settings in [
        CircuitBreaker::new().request_volume_threshold(0),
        CircuitBreaker::new().sleep_window(Duration::ZERO),
    ] {
        assert!(lab.command("zero").circuit_breaker(settings).build().is_err());
    }
}

#[test]
fn a_handle_shows_and_forces_whatever_the_isolation() {
    let lab = Lab::new();
    lab.on_pool("pool", 1, 0).build().unwrap();
    let handle: CommandHandle = lab.registry.find("lab", "pool").unwrap();
    handle.force_open();
    assert_eq!(handle.metrics().circuit.state, CircuitState::ForcedOpen);
    assert_eq!(handle.key().to_string(), "lab/pool");
}
