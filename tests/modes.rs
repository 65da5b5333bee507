//! How far the library interferes: enforcing, only watching, not at all; and endings forced by hand.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures::executor::block_on;
use hystrix_core::{
    CircuitState, Command, CommandConfig, CommandError, Force, Mode, Outcome, RejectionKind, Select,
};
use proptest::prelude::*;

use support::*;

type Given = Result<(), &'static str>;

// ===== one sequence, under two modes =====

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call arrives; its body waits until it is told to end.
    Start,
    /// The nth call that still runs ends.
    End(usize, Ending),
    Advance(u64),
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Good,
    Bad,
    Ignored,
    /// Its caller leaves.
    Dropped,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ending = prop_oneof![
        3 => Just(Ending::Good),
        3 => Just(Ending::Bad),
        1 => Just(Ending::Ignored),
        1 => Just(Ending::Dropped),
    ];
    let step = prop_oneof![
        4 => Just(Step::Start),
        4 => (0..4usize, ending).prop_map(|(which, ending)| Step::End(which, ending)),
        2 => prop_oneof![Just(5u64), Just(25), Just(50), Just(200), Just(1000)].prop_map(Step::Advance),
    ];
    proptest::collection::vec(step, 1..120)
}

/// What was decided: the circuit after each step, and how many calls were refused or cut, by cause.
#[derive(Debug, PartialEq)]
struct Decided {
    circuit: Vec<CircuitState>,
    short_circuited: u64,
    semaphore_rejected: u64,
    timed_out: u64,
}

type Running = (Rc<RefCell<Option<Given>>>, Pin<Box<dyn Future<Output = ()>>>);

/// Replays a recording. A step names calls by their number, so that under both modes it means the same call.
fn replay(mode: Mode, steps: &[Step]) -> Decided {
    let lab = Lab::new();
    let command = lab.command("recorded").semaphore(2).timeout("50ms").circuit_breaker(touchy(3));
    let command = command.mode(mode).build().unwrap();
    let mut calls: BTreeMap<usize, Option<Running>> = BTreeMap::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut circuit = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Start => {
                let given = Rc::new(RefCell::new(None::<Given>));
                let body = given.clone();
                let command = command.clone();
                let call = Box::pin(async move {
                    let body =
                        || poll_fn(move |_| body.borrow_mut().take().map_or(Poll::Pending, Poll::Ready));
                    let _ = command.call(body).ignore(|error| *error == "ignored").await;
                });
                calls.insert(number, Some((given, call)));
            }
            Step::End(which, ending) => {
                let Some(number) = calls.keys().nth(which).copied() else { continue };
                let running = calls.remove(&number).flatten();
                if let Some((given, mut call)) = running
                    && !matches!(ending, Ending::Dropped)
                {
                    *given.borrow_mut() = Some(match ending {
                        Ending::Good => Ok(()),
                        Ending::Bad => Err("bad"),
                        Ending::Ignored | Ending::Dropped => Err("ignored"),
                    });
                    assert!(call.as_mut().poll(&mut cx).is_ready());
                }
            }
            Step::Advance(by) => lab.clock.advance(ms(by)),
        }
        // What was refused or cut is answered; its number stays, for the recording speaks of it.
        for running in calls.values_mut() {
            if let Some((_, call)) = running
                && call.as_mut().poll(&mut cx).is_ready()
            {
                *running = None;
            }
        }
        circuit.push(command.circuit_state());
    }
    calls.clear();
    assert_at_rest(&command);
    let counts = command.metrics().cumulative;
    match mode {
        Mode::Shadow => {
            let refused = (counts.short_circuited, counts.semaphore_rejected, counts.timeout);
            assert_eq!(refused, (0, 0, 0), "in shadow mode nobody is refused or cut");
            Decided {
                circuit,
                short_circuited: counts.would_have_short_circuited,
                semaphore_rejected: counts.would_have_semaphore_rejected,
                timed_out: counts.would_have_timed_out,
            }
        }
        _ => Decided {
            circuit,
            short_circuited: counts.short_circuited,
            semaphore_rejected: counts.semaphore_rejected,
            timed_out: counts.timeout,
        },
    }
}

proptest! {
    #[test]
    fn shadow_would_have_refused_what_enforcing_refuses(steps in steps()) {
        prop_assert_eq!(replay(Mode::Shadow, &steps), replay(Mode::Enforce, &steps));
    }
}

#[test]
fn the_recording_refuses_for_every_reason() {
    let start = [Step::Start; 3];
    let bad = Step::End(0, Ending::Bad);
    let recording = [&start[..], &[Step::Advance(50), bad, bad, bad, Step::Start, bad, Step::Start]].concat();
    let decided = replay(Mode::Enforce, &recording);
    let counts = (decided.short_circuited, decided.semaphore_rejected, decided.timed_out);
    assert_eq!(counts, (2, 1, 2));
    assert_eq!(replay(Mode::Shadow, &recording), decided);
}

#[test]
fn a_pool_in_shadow_mode_refuses_nobody_and_says_what_it_would_have_done() {
    let lab = Lab::new();
    let command = lab.on_pool("pool", 1, 0).timeout("20ms").mode(Mode::Shadow).build().unwrap();
    let gate = Gate::new();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let gate = gate.clone();
            command.run(move || Ok::<_, ()>(gate.pass())).fallback(|_| panic!("there is no fallback")).queue()
        })
        .collect();
    gate.until_came(1);
    lab.clock.advance(ms(20));
    gate.open();
    for call in calls {
        assert_eq!(call.wait(), Ok(()));
    }
    assert_at_rest(&command);
    let counts = command.metrics().cumulative;
    assert_eq!((counts.success, counts.attempts()), (3, 3));
    assert_eq!((counts.would_have_thread_pool_rejected, counts.would_have_timed_out), (2, 1));
    let told: Vec<_> = lab.events.calls().iter().map(|event| event.would_have).collect();
    assert_eq!(told.iter().filter(|told| **told == Some(Outcome::ThreadPoolRejected)).count(), 2);
    assert_eq!(told.iter().filter(|told| **told == Some(Outcome::Timeout)).count(), 1);
}

#[test]
fn shadow_gives_the_bodys_own_result_and_runs_no_fallback() {
    let lab = Lab::new();
    let command = lab.command("watched").mode(Mode::Shadow).circuit_breaker(touchy(1)).build().unwrap();
    for _ in 0..3 {
        let failed = command.run(|| Err::<u8, _>("E1")).fallback(|_| Ok(1)).execute();
        assert_eq!(failed, Err(CommandError::Inner("E1")));
        let failed = command.call(|| async { Err::<u8, _>("E1") }).fallback(|_| Ok(1)).into_future();
        assert_eq!(block_on(failed), Err(CommandError::Inner("E1")));
    }
    assert_eq!(command.circuit_state(), CircuitState::Open, "it decides");
    assert_eq!(command.metrics().cumulative.would_have_short_circuited, 5, "and lets everything through");
    assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
}

#[test]
fn off_is_the_body_and_nothing_else() {
    let lab = Lab::new();
    let here = lab.command("off").mode(Mode::Off).semaphore(1).timeout("1ms").build().unwrap();
    let pool = lab.on_pool("off_pool", 1, 0).mode(Mode::Off).timeout("1ms").build().unwrap();
    here.force_open();
    let inside = here.run(|| {
        lab.clock.advance(ms(5));
        here.run(|| Ok::<_, ()>(1)).execute()
    });
    assert_eq!(inside.execute().map_err(|_| "refused"), Ok(1));
    assert_eq!(here.run(|| Err::<u8, _>("E1")).fallback(|_| Ok(1)).execute(), Err("E1".into()));
    let on_worker = pool.run(|| Ok::<_, ()>(std::thread::current().name().map(str::to_owned)));
    assert_eq!(on_worker.execute(), Ok(Some("hystrix-off_pool-1".into())), "isolation is not interference");
    for command in [&*here, &*pool] {
        assert_eq!((counts(command).as_str(), command.metrics().in_flight), ("", 0));
    }
    assert!(lab.events.calls().is_empty());
}

#[test]
fn a_mode_is_changed_live_like_any_setting() {
    let lab = Lab::new();
    let command = lab.command("live").build().unwrap();
    command.force_open();
    let runs = || command.run(|| Ok::<_, ()>(())).execute().is_ok();
    assert!(!runs());
    lab.registry.apply(Select::all(), CommandConfig::new().mode(Mode::Shadow)).unwrap();
    assert!(runs());
    lab.registry.remove(&Select::all());
    assert!(!runs());
    let told: Vec<_> = lab.events.modes().iter().map(|event| (event.from, event.to)).collect();
    assert_eq!(told, [(Mode::Enforce, Mode::Shadow), (Mode::Shadow, Mode::Enforce)]);
}

// ===== forced endings =====

#[test]
fn every_ending_can_be_forced_without_a_body_that_misbehaves() {
    let lab = Lab::new();
    let here = lab.command("forced").circuit_breaker(None).build().unwrap();
    let pool = lab.on_pool("forced_pool", 1, 0).circuit_breaker(None).build().unwrap();
    let cases = [
        (Force::Timeout, RejectionKind::TimedOut, RejectionKind::TimedOut),
        (Force::ShortCircuited, RejectionKind::ShortCircuited, RejectionKind::ShortCircuited),
        (Force::Rejected, RejectionKind::PermitsExhausted, RejectionKind::PoolFull),
        (Force::Panic, RejectionKind::Panicked, RejectionKind::Panicked),
    ];
    for (force, in_place, on_pool) in cases {
        here.force(force);
        pool.force(force);
        let body = || -> Result<(), ()> { panic!("the body must not run") };
        assert_eq!(kind(&here.run(body).execute()), Some(in_place));
        assert_eq!(kind(&block_on(here.call(|| async move { body() }).into_future())), Some(in_place));
        assert_eq!(kind(&pool.run(body).execute()), Some(on_pool));
        assert_eq!(kind(&pool.run(body).queue().wait()), Some(on_pool));
        assert_eq!(pool.run(body).fallback(|_| Ok(())).execute(), Ok(()));
    }
    here.force(None);
    pool.force(None);
    assert_eq!(here.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    assert_eq!(pool.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    assert_eq!(
        counts(&here),
        "ok=1 failure=2 timeout=2 short_circuited=2 semaphore_rejected=2 fallback_missing=8"
    );
    assert_at_rest(&here);
    assert_at_rest(&pool);
}

#[test]
fn a_forced_latency_comes_before_the_body_and_counts_against_the_timeout() {
    let lab = Lab::new();
    let pool = lab.on_pool("slow", 1, 0).timeout("100ms").build().unwrap();
    let latency = |by| {
        pool.force(Force::Latency(by));
        pool.force_closed();
        pool.run(|| Ok::<_, ()>(1)).queue()
    };
    let call = latency(ms(40));
    until("delayed", || lab.registry.armed() >= 2);
    lab.clock.advance(ms(40));
    assert_eq!(call.wait(), Ok(1));
    let call = latency(ms(400));
    until("delayed", || lab.registry.armed() >= 2);
    lab.clock.advance(ms(100));
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    let here = lab.command("slow_here").timeout("100ms").build().unwrap();
    here.force(Force::Latency(ms(40)));
    let mut call = Box::pin(here.call(|| async { Ok::<_, ()>(1) }).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    lab.clock.advance(ms(40));
    assert!(matches!(call.as_mut().poll(&mut cx), Poll::Ready(Ok(1))));
}

#[test]
fn a_forced_ending_is_judged_by_the_circuit() {
    let lab = Lab::new();
    let command: Command = lab.command("judged").circuit_breaker(touchy(2)).build().unwrap();
    command.force(Force::Timeout);
    for _ in 0..2 {
        let _ = command.run(|| Ok::<_, ()>(())).execute();
    }
    assert_eq!(command.circuit_state(), CircuitState::Open);
}

#[test]
fn an_attempt_has_no_longer_than_its_timeout_whatever_latency_is_forced() {
    let lab = Lab::new();
    let here = lab.command("here").timeout("1s").build().unwrap();
    let pool = lab.on_pool("pool", 1, 0).timeout("1s").build().unwrap();
    here.force(Force::Latency(ms(60_000)));
    pool.force(Force::Latency(ms(60_000)));
    let body = || -> Result<(), ()> { panic!("the body must not run") };
    let mut call = Box::pin(here.call(|| async move { body() }).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    let queued = pool.run(body).queue();
    until("delayed", || lab.registry.armed() == 3);
    lab.clock.advance(ms(1000));
    assert!(matches!(call.as_mut().poll(&mut cx), Poll::Ready(Err(error)) if error.is_timeout()));
    assert_eq!(kind(&queued.wait()), Some(RejectionKind::TimedOut));
    lab.clock.advance(ms(60_000));
    until("free", || pool.pool().active == 0);
    assert_eq!(
        (counts(&here).as_str(), counts(&pool).as_str()),
        ("timeout=1 fallback_missing=1", "timeout=1 fallback_missing=1",)
    );
}

#[test]
fn shadow_tells_no_body_to_stop() {
    let lab = Lab::new();
    let here = lab.command("here").timeout("1s").mode(Mode::Shadow).build().unwrap();
    let pool = lab.on_pool("pool", 1, 0).timeout("1s").mode(Mode::Shadow).build().unwrap();
    let clock = lab.clock.clone();
    let told = move || {
        clock.advance(ms(2000));
        Ok::<_, ()>(hystrix_core::cancellation().is_cancelled())
    };
    let later = told.clone();
    assert_eq!(here.run(told.clone()).execute(), Ok(false));
    assert_eq!(block_on(here.call(|| async move { later() }).into_future()), Ok(false));
    assert_eq!(pool.run(told).execute(), Ok(false));
}

#[test]
fn a_timer_that_ends_calls_no_shadows_deadline() {
    let lab = Lab::new();
    let command = lab.command("watched").timeout("1h").mode(Mode::Shadow).build().unwrap();
    let mut call = Box::pin(command.call(std::future::pending::<Result<(), ()>>).into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    lab.registry.shutdown(ms(1));
    assert!(call.as_mut().poll(&mut cx).is_pending());
    drop(call);
    let counted = command.metrics().cumulative;
    assert_eq!((counted.would_have_timed_out, counted.cancelled), (0, 1));
}

#[test]
fn a_forced_ending_outlasts_layers_that_come_and_go() {
    let lab = Lab::new();
    let command = lab.command("held").circuit_breaker(None).build().unwrap();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::SeqCst) {
                lab.registry.apply(Select::all(), CommandConfig::new().fallback_enabled(true)).unwrap();
            }
        });
        for _ in 0..20_000 {
            command.force(Force::Rejected);
            assert!(command.run(|| Ok::<_, ()>(1)).execute().is_err());
            command.force(None);
        }
        ended.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}
