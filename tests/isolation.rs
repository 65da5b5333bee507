//! Permits and pools: exact limits, who is refused, what comes back, and when.

mod support;

use std::cell::Cell;
use std::future::{Future, IntoFuture, pending};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    Command, CommandConfig, CommandError, FallbackOutcome, PoolCommand, PoolEventKind, Registry,
    RejectionKind, Select, ThreadPool, context,
};

use support::*;

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn at_gate(gate: &Gate) -> impl FnOnce() -> Result<u32, String> + Send + 'static {
    let gate = gate.clone();
    move || {
        gate.pass();
        Ok(1)
    }
}

/// Callers on threads of their own that hold a command's permits at a gate.
fn hold(command: &Command, gate: &Gate, count: usize) -> Vec<std::thread::JoinHandle<bool>> {
    let before = gate.came();
    let holders = (0..count).map(|_| {
        let (command, body) = (command.clone(), at_gate(gate));
        aside(move || command.run(body).execute().is_ok())
    });
    let holders = holders.collect();
    gate.until_came(before + count);
    holders
}

// ===== semaphores =====

#[test]
fn hc_090_hc_091_bh01_bh02_the_next_one_is_refused_at_once_with_the_numbers() {
    let lab = Lab::new();
    let command = lab.command("sem").semaphore(3).build().unwrap();
    let gate = Gate::new();
    let held = hold(&command, &gate, 3);
    let refused = command.run(|| Ok::<u32, String>(2)).execute();
    let Err(CommandError::Rejected(rejection)) = refused else { panic!("{refused:?}") };
    assert_eq!(rejection.kind(), RejectionKind::PermitsExhausted);
    assert_eq!((rejection.limit(), rejection.in_use()), (Some(3), Some(3)));
    assert_eq!((rejection.http_status(), rejection.grpc_code()), (429, 8));
    assert!(rejection.to_string().starts_with("lab/sem found no permit (3 of 3 in use)"), "{rejection}");
    assert_eq!(command.run(|| Ok::<_, String>(2)).fallback(|_| Ok(9)).execute(), Ok(9));
    assert_eq!(
        block_on(command.call(|| async { Ok::<_, String>(2) }).fallback(|_| Ok(8)).into_future()),
        Ok(8)
    );
    gate.open();
    assert!(held.into_iter().all(joined));
    assert_eq!(counts(&command), "ok=3 semaphore_rejected=3 fallback_ok=2 fallback_missing=1");
    assert_eq!(command.run(|| Ok::<_, String>(2)).execute(), Ok(2));
}

#[test]
fn hc_092_bh03_a_semaphore_is_shared_by_the_handles_of_a_command_and_by_no_other() {
    let lab = Lab::new();
    let [shared, again] = [(); 2].map(|()| lab.command("shared").semaphore(3).build().unwrap());
    let isolated = lab.command("isolated").semaphore(1).build().unwrap();
    let gate = Gate::new();
    let held = [hold(&shared, &gate, 2), hold(&again, &gate, 1), hold(&isolated, &gate, 1)];
    assert!(shared.run(|| Ok::<_, ()>(())).execute().is_err());
    assert!(again.run(|| Ok::<_, ()>(())).execute().is_err());
    assert_eq!((shared.metrics().permits_in_use, isolated.metrics().permits_in_use), (3, 1));
    gate.open();
    assert!(held.into_iter().flatten().all(joined));
    assert_at_rest(&shared);
    assert_at_rest(&isolated);
}

#[test]
fn hc_093_bh20_dub_14_ten_come_at_once_for_one_permit_and_one_has_it() {
    let lab = Lab::new();
    let command = lab.command("one").semaphore(1).circuit_breaker(None).build().unwrap();
    let barrier = Arc::new(Barrier::new(10));
    let tried = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..10)
        .map(|_| {
            let (command, barrier, tried) = (command.clone(), barrier.clone(), tried.clone());
            aside(move || {
                let mut had = 0;
                for round in 1..=100 {
                    barrier.wait();
                    let body = || {
                        // Held until all ten have had their try.
                        tried.fetch_add(1, SeqCst);
                        until("all have tried", || tried.load(SeqCst) >= round * 10);
                        Ok::<_, ()>(())
                    };
                    match command.run(body).execute() {
                        Ok(()) => had += 1,
                        Err(_) => drop(tried.fetch_add(1, SeqCst)),
                    }
                    barrier.wait();
                }
                had
            })
        })
        .collect();
    let had: usize = callers.into_iter().map(joined).sum();
    assert_eq!(had, 100, "exactly one in each round");
    assert_at_rest(&command);
}

#[test]
fn bc_051_the_peak_never_passes_the_limit() {
    let lab = Lab::new();
    let command = lab.command("peak").semaphore(10).circuit_breaker(None).build().unwrap();
    let (inside, peak, ok) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let barrier = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..1000 {
                    let body = || {
                        peak.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        Ok::<_, ()>(())
                    };
                    ok.fetch_add(usize::from(command.run(body).execute().is_ok()), SeqCst);
                }
            });
        }
    });
    let counts = command.metrics().cumulative;
    assert!(peak.load(SeqCst) <= 10);
    assert_eq!(counts.success as usize, ok.load(SeqCst));
    assert_eq!(counts.success + counts.semaphore_rejected, 16_000);
    assert_at_rest(&command);
}

#[test]
fn hc_097_as_many_callers_as_permits_are_never_refused() {
    let lab = Lab::new();
    let command = lab.command("enough").semaphore(4).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    assert_eq!(command.run(|| Ok::<_, ()>(())).execute(), Ok(()));
                }
            });
        }
    });
    assert_eq!(counts(&command), "ok=80000");
}

#[test]
fn hc_094_hc_095_hc_098_bc_055_fb_08_fallbacks_have_a_limit_of_their_own() {
    let lab = Lab::new();
    let command = lab.command("fallbacks").fallback_semaphore(2).circuit_breaker(None).build().unwrap();
    for round in 1..=2 {
        let gate = Gate::new();
        let holders: Vec<_> = (0..2)
            .map(|_| {
                let (command, gate) = (command.clone(), gate.clone());
                aside(move || {
                    let fallback = |_| {
                        gate.pass();
                        Ok::<_, &str>(1)
                    };
                    command.run(|| Err("E1")).fallback(fallback).execute()
                })
            })
            .collect();
        gate.until_came(2);
        assert_eq!(command.metrics().permits_in_use, 0, "the body's permit is not held by its fallback");
        for _ in 0..3 {
            let refused = command.run(|| Err("E1")).fallback(|_| Ok(2)).execute();
            assert_eq!(refused, Err(CommandError::Inner("E1")), "the original error");
        }
        assert_eq!(command.run(|| Err("E1")).fallback_value(3).execute(), Ok(3), "a value is never refused");
        gate.open();
        assert!(holders.into_iter().map(joined).all(|answer| answer == Ok(1)));
        let counts = command.metrics().cumulative;
        assert_eq!((counts.fallback_success, counts.fallback_rejection), (3 * round, 3 * round));
        assert_eq!((counts.failure, counts.fallback_failure), (6 * round, 0));
    }
    assert_at_rest(&command);
    let refused: Vec<_> = lab.events.calls().iter().filter_map(|call| call.fallback_rejection).collect();
    assert_eq!(refused, [RejectionKind::PermitsExhausted; 6]);
}

#[test]
fn fallbacks_may_be_as_many_as_the_command_itself_unless_said_otherwise() {
    let lab = Lab::new();
    let limit = |settings: hystrix_core::Settings| settings.fallback_semaphore().value.get();
    assert_eq!(limit(lab.command("sem").semaphore(7).build().unwrap().settings()), Some(7));
    assert_eq!(limit(lab.command("none").semaphore(None).build().unwrap().settings()), None);
    assert_eq!(limit(lab.on_pool("pool", 3, 4).build().unwrap().settings()), Some(7));
    lab.registry.resize(ThreadPool::named("pool").core_size(5).max_queue_size(4)).unwrap();
    assert_eq!(limit(lab.registry.find("lab", "pool").unwrap().settings()), Some(9));
}

#[test]
fn hc_099_hc_180_hc_181_bc_048_a_dropped_call_gives_its_permits_back() {
    let lab = Lab::new();
    let command = lab.command("dropped").semaphore(2).build().unwrap();
    let mut calls: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::new();
    for _ in 0..2 {
        calls.push(Box::pin(command.call(pending::<Result<(), ()>>).into_future()));
    }
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut noop()).is_pending()));
    assert!(block_on(command.call(|| async { Ok::<_, ()>(()) }).into_future()).is_err());
    drop(calls);
    assert_eq!(counts(&command), "semaphore_rejected=1 cancelled=2 fallback_missing=1");
    for _ in 0..2 {
        let mut call =
            pin!(command.call(|| async { Err::<(), _>(()) }).fallback(|_| pending()).into_future());
        assert!(call.as_mut().poll(&mut noop()).is_pending());
        assert_eq!(command.metrics().fallback_permits_in_use, 1);
    }
    assert_eq!(command.metrics().cumulative.fallback_cancelled, 2);
    assert_at_rest(&command);
    assert_eq!(command.metrics().error_count(), 3, "the cancelled ones are no errors");
}

#[test]
fn hc_100_bh22_bc_053_a_panic_gives_the_permit_back() {
    let lab = Lab::new();
    let command = lab.command("panics").semaphore(1).circuit_breaker(None).build().unwrap();
    for _ in 0..20 {
        let result = command.run(|| -> Result<(), ()> { panic!("body") }).execute();
        assert_eq!(kind(&result), Some(RejectionKind::Panicked));
        let result = command.run(|| Err::<(), _>(())).ignore(|()| panic!("predicate")).execute();
        assert_eq!(kind(&result), Some(RejectionKind::Panicked));
        let made = block_on(
            command.call(|| -> std::future::Ready<Result<(), ()>> { panic!("making") }).into_future(),
        );
        assert_eq!(kind(&made), Some(RejectionKind::Panicked));
    }
    assert_at_rest(&command);
    assert_eq!(counts(&command), "failure=60 fallback_missing=60");
}

#[test]
fn bc_053_a_panicking_capture_is_a_panic_of_the_call() {
    let panics =
        context::propagator(|| -> Option<u8> { panic!("capture") }, |_: &u8, body: &mut dyn FnMut()| body());
    let registry = Registry::builder().propagator(panics).build();
    let pool = ThreadPool::named("capture").core_size(1);
    let command = Command::builder("capture").registry(&registry).thread_pool(pool).build().unwrap();
    let here = Command::builder("here").registry(&registry).timeout("10s").build().unwrap();
    for _ in 0..5 {
        assert_eq!(command.run(|| Ok::<_, ()>(1)).fallback(|_| Ok(2)).execute(), Ok(2));
        assert_eq!(kind(&command.run(|| Ok::<_, ()>(1)).queue().wait()), Some(RejectionKind::Panicked));
        assert_eq!(here.run(|| Ok::<_, ()>(1)).fallback_owned(|_| Ok(3)).execute(), Ok(3));
        assert_eq!(here.run(|| Ok::<_, ()>(1)).execute(), Ok(1), "what stays in place captures nothing");
    }
    assert_at_rest(&here);
    assert_eq!(command.pool().in_use, 0);
}

#[test]
fn bc_052_bh23_a_refusal_inside_gives_everything_back() {
    let lab = Lab::new();
    let command = lab.command("inner_refusal").semaphore(5).circuit_breaker(touchy(5)).build().unwrap();
    for _ in 0..5 {
        let _ = command.run(|| Err::<(), _>(())).execute();
    }
    for _ in 0..1000 {
        let _ = command.run(|| Ok::<_, ()>(())).execute();
    }
    lab.clock.advance(ms(200));
    assert_eq!(command.run(|| Ok::<_, ()>(())).execute(), Ok(()));
    let gate = Gate::new();
    let held = hold(&command, &gate, 5);
    gate.open();
    assert!(held.into_iter().all(joined));
    assert_eq!(counts(&command), "ok=6 failure=5 short_circuited=1000 fallback_missing=1005");
}

#[test]
fn bc_054_a_timed_out_task_gives_its_permit_back() {
    let lab = Lab::new();
    let command = lab.command("timed").semaphore(10).timeout("20ms").circuit_breaker(None).build().unwrap();
    let dropped = AtomicUsize::new(0);
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let mut calls: Vec<_> = (0..10)
        .map(|_| {
            let body = || async {
                let _counts = Counts(&dropped);
                pending::<Result<(), ()>>().await
            };
            Box::pin(command.call(body).into_future())
        })
        .collect();
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut noop()).is_pending()));
    lab.clock.advance(ms(20));
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut noop()).is_ready()));
    assert_eq!(dropped.load(SeqCst), 10);
    for _ in 0..10 {
        assert_eq!(block_on(command.call(|| async { Ok::<_, ()>(()) }).into_future()), Ok(()));
    }
    assert_at_rest(&command);
}

#[test]
fn bh19_a_live_limit_destroys_no_permit_and_stops_nobody() {
    let lab = Lab::new();
    let command = lab.command("live").semaphore(3).circuit_breaker(None).build().unwrap();
    let limit = |permits: usize| {
        let select = Select::command("lab", "live");
        lab.registry.apply(select, CommandConfig::new().semaphore(permits)).unwrap();
    };
    let fits = || command.run(|| Ok::<_, ()>(())).execute().is_ok();
    let (first, second) = (Gate::new(), Gate::new());
    let three = hold(&command, &first, 3);
    assert!(!fits());
    limit(5);
    let two = hold(&command, &second, 2);
    assert!(!fits());
    limit(2);
    first.open();
    assert!(three.into_iter().all(joined));
    assert!(!fits(), "two still run under a limit of two");
    let refused = command.run(|| Ok::<_, ()>(())).execute().unwrap_err();
    assert_eq!(refused.rejection().and_then(|rejection| rejection.in_use()), Some(2));
    second.open();
    assert!(two.into_iter().all(joined));
    assert!(fits());
    assert_at_rest(&command);
}

// ===== pools =====

#[test]
fn hc_070_hc_071_hc_072_bh04_dub_10_a_full_pool_refuses() {
    let lab = Lab::new();
    let command = lab.on_pool("full", 1, 1).build().unwrap();
    let gate = Gate::new();
    let taken = [(); 2].map(|()| command.run(at_gate(&gate)).queue());
    gate.until_came(1);
    let missing = command.run(|| Ok::<u32, String>(0)).execute();
    let Err(CommandError::Rejected(rejection)) = &missing else { panic!("{missing:?}") };
    assert_eq!(
        (rejection.kind(), rejection.limit(), rejection.in_use()),
        (RejectionKind::PoolFull, Some(2), Some(2))
    );
    assert_eq!(command.run(|| Ok::<u32, String>(0)).fallback(|_| Ok(7)).execute(), Ok(7));
    let bad = command.run(|| Ok::<u32, String>(0)).fallback(|_| Err("E2".into())).execute();
    assert_eq!(bad, Err(CommandError::Inner("E2".into())));
    assert_eq!(command.metrics().in_flight, 2);
    gate.open();
    assert!(taken.into_iter().all(|call| call.wait() == Ok(1)));
    let counted = "ok=2 pool_rejected=3 fallback_ok=1 fallback_failure=1 fallback_missing=1";
    assert_eq!(counts(&command), counted);
    let kinds: Vec<_> = lab.events.pools().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [PoolEventKind::Exhausted { places: 2 }]);
    assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    assert_eq!(lab.events.pools().len(), 2, "and relieved, once");
}

#[test]
fn hc_073_ht_20_kb_15_the_rejection_threshold_is_a_live_limit_within_the_queue() {
    let lab = Lab::new();
    let pool = ThreadPool::named("threshold").core_size(1).max_queue_size(10);
    let command = lab.command("threshold").thread_pool(pool.clone().queue_size_rejection_threshold(5));
    let command = command.build().unwrap();
    let gate = Gate::new();
    let mut taken = vec![command.run(at_gate(&gate)).queue()];
    gate.until_came(1);
    let fill = |taken: &mut Vec<_>| {
        while command.pool().rejected == 0 {
            taken.push(command.run(at_gate(&gate)).queue());
        }
    };
    fill(&mut taken);
    assert_eq!(command.pool().queued, 5);
    lab.registry.resize(pool.clone().queue_size_rejection_threshold(7)).unwrap();
    for _ in 0..2 {
        taken.push(command.run(at_gate(&gate)).queue());
    }
    assert_eq!((command.pool().queued, command.pool().rejected), (7, 1));
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_err());
    gate.open();
    assert_eq!(taken.into_iter().filter(|_| true).map(|call| call.wait()).filter(Result::is_ok).count(), 8);
    // KB-15: without a threshold the queue's size is what counts.
    let plain = lab.on_pool("plain", 1, 100).build().unwrap();
    let gate = Gate::new();
    let taken: Vec<_> = (0..20).map(|_| plain.run(at_gate(&gate)).queue()).collect();
    assert_eq!(plain.pool().rejected, 0);
    gate.open();
    assert!(taken.into_iter().all(|call| call.wait() == Ok(1)));
}

#[test]
fn hc_074_bc_056_bh09_a_cancelled_call_leaves_the_queue() {
    let lab = Lab::new();
    let command = lab.on_pool("cancel", 1, 1).build().unwrap();
    let gate = Gate::new();
    let first = command.run(at_gate(&gate)).queue();
    gate.until_came(1);
    let kept = Arc::new(());
    let inside = kept.clone();
    let never = command.run(move || Ok::<(), ()>(unreachable_with(&inside))).queue();
    assert_eq!(command.pool().queued, 1);
    drop(never);
    assert_eq!((command.pool().queued, Arc::strong_count(&kept)), (0, 1));
    {
        let mut awaited = pin!(command.run(|| Ok::<(), ()>(unreachable_with(&()))).into_future());
        assert!(awaited.as_mut().poll(&mut noop()).is_pending());
        assert_eq!(command.pool().queued, 1);
    }
    assert_eq!(command.pool().queued, 0);
    let second = command.run(|| Ok::<u32, String>(5)).queue();
    gate.open();
    assert_eq!((first.wait(), second.wait()), (Ok(1), Ok(5)));
    assert_eq!(counts(&command), "ok=2 cancelled=2");
    assert_eq!(command.metrics().error_count(), 0);
}

fn unreachable_with<T>(_: &T) {
    panic!("a cancelled body ran");
}

#[test]
fn hc_180_hc_182_bh08_a_caller_that_leaves_a_running_body_abandons_it() {
    let lab = Lab::new();
    let command = lab.on_pool("leave", 1, 1).build().unwrap();
    let gate = Gate::new();
    let call = command.run(at_gate(&gate)).queue();
    gate.until_came(1);
    drop(call);
    assert_eq!((counts(&command).as_str(), command.metrics().abandoned), ("cancelled=1", 1));
    let next = command.run(|| Ok::<_, ()>(2)).queue();
    assert!(!next.is_ready(), "it starts only when the first has really left");
    gate.open();
    assert_eq!(next.wait(), Ok(2));
    until("told", || lab.events.abandoned().len() == 1);
    assert!(command.metrics().body.count() >= 2, "a cancelled body has a latency");
    assert_at_rest(&command);
}

#[test]
fn hc_075_ht_19_sizes_and_growth() {
    let lab = Lab::new();
    for (key, core, maximum, run) in [("two", 2, 4, 4), ("same", 2, 2, 2)] {
        let pool = ThreadPool::named(key).core_size(core).maximum_size(maximum);
        let command = lab.command(key).thread_pool(pool).build().unwrap();
        let gate = Gate::new();
        let calls: Vec<_> = (0..5).map(|_| command.run(at_gate(&gate)).queue()).collect();
        gate.until_came(run);
        assert_eq!((command.pool().active, command.pool().rejected as usize), (run, 5 - run));
        gate.open();
        assert_eq!(calls.into_iter().map(|call| call.wait()).filter(Result::is_ok).count(), run);
    }
}

#[test]
fn hc_076_hc_077_bc_119_sizes_that_cannot_be_are_refused_by_name() {
    let lab = Lab::new();
    let cases = [
        (ThreadPool::named("p").core_size(0), "core_size"),
        (ThreadPool::named("p").maximum_size(3), "maximum_size"),
        (ThreadPool::named("p").core_size(12).maximum_size(8), "maximum_size"),
        (ThreadPool::named("p").queue_size_rejection_threshold(5), "queue_size_rejection_threshold"),
        (
            ThreadPool::named("p").max_queue_size(4).queue_size_rejection_threshold(5),
            "queue_size_rejection_threshold",
        ),
        (
            ThreadPool::named("p").max_queue_size(4).queue_size_rejection_threshold(0),
            "queue_size_rejection_threshold",
        ),
        (ThreadPool::named("p").keep_alive(Duration::ZERO), "keep_alive"),
    ];
    for (pool, field) in cases {
        let error = lab.command("p").thread_pool(pool).build().unwrap_err();
        assert_eq!(error.field(), field, "{error}");
    }
    assert!(lab.registry.pool("p").is_none(), "nothing was made");
    // HC-076, HC-077 as far as they are allowed: what is written is what there is.
    for (key, core, maximum) in [("a", 14, 14), ("b", 2, 8), ("c", 7, 7), ("d", 10, 21)] {
        let pool = ThreadPool::named(key).core_size(core).maximum_size(maximum);
        let report = lab.command(key).thread_pool(pool).build().unwrap().pool();
        assert_eq!((report.core_size, report.maximum_size), (core, maximum));
    }
    let default = lab.command("default").thread_pool("default").build().unwrap().pool();
    assert_eq!((default.core_size, default.maximum_size, default.max_queue_size), (10, 10, 0));
}

#[test]
fn hc_079_hc_081_hc_086_hc_088_dub_01_the_report_is_one_consistent_look() {
    let lab = Lab::new();
    let first = lab.on_pool("report", 4, 0).build().unwrap();
    let second = lab.command("second").thread_pool("report").build().unwrap();
    assert_eq!((first.pool().submitted, first.pool().size), (0, 0));
    let gate = Gate::new();
    let calls: Vec<_> =
        (0..4).map(|n| if n < 2 { &first } else { &second }.run(at_gate(&gate)).queue()).collect();
    gate.until_came(4);
    lab.clock.advance(ms(500));
    for _ in 0..14 {
        assert!(first.run(|| Ok::<_, ()>(())).execute().is_err());
    }
    let report = second.pool();
    assert_eq!((report.active, report.idle, report.queued, report.in_use), (4, 0, 0, 4));
    assert_eq!((report.largest, report.submitted, report.completed, report.rejected), (4, 4, 0, 14));
    assert!(!report.is_shut_down);
    let commands: Vec<_> = report.running.iter().map(|task| task.command.name().to_owned()).collect();
    assert_eq!(commands.iter().filter(|name| *name == "report").count(), 2);
    assert_eq!(report.oldest().map(|task| task.age), Some(ms(500)));
    assert!(report.to_string().contains("4 of 4 workers active"), "{report}");
    gate.open();
    assert!(calls.into_iter().all(|call| call.wait() == Ok(1)));
    until("idle", || lab.registry.pool("report").is_some_and(|report| report.idle == 4));
    assert_eq!(first.pool().completed, 4);
    // A pool that only refuses is there as well.
    assert_eq!(lab.registry.pools().len(), 1);
}

#[test]
fn hc_084_kb_20_a_pool_is_resized_while_it_runs() {
    let lab = Lab::new();
    let command = lab.on_pool("resize", 2, 0).circuit_breaker(None).build().unwrap();
    let at_once = |count: usize| {
        let gate = Gate::new();
        let calls: Vec<_> = (0..8).map(|_| command.run(at_gate(&gate)).queue()).collect();
        gate.until_came(count);
        gate.open();
        let ran = calls.into_iter().map(|call| call.wait()).filter(Result::is_ok).count();
        assert_eq!(ran, count);
    };
    at_once(2);
    for size in [5, 1, 3] {
        lab.registry.resize(ThreadPool::named("resize").core_size(size)).unwrap();
        at_once(size);
    }
    let error = lab.registry.resize(ThreadPool::named("nobody")).unwrap_err();
    assert_eq!(error.field(), "name");
}

#[test]
fn hc_085_kb_17_a_pool_with_a_long_queue_grows_first() {
    let lab = Lab::new();
    let pool = ThreadPool::named("grow").core_size(1).maximum_size(10).max_queue_size(100);
    let command = lab.command("grow").thread_pool(pool.queue_size_rejection_threshold(5)).build().unwrap();
    let gate = Gate::new();
    let calls: Vec<_> = (0..20).map(|_| command.run(at_gate(&gate)).queue()).collect();
    gate.until_came(10);
    assert_eq!((command.pool().active, command.pool().queued, command.pool().rejected), (10, 5, 5));
    gate.open();
    drop(calls);
}

#[test]
fn hc_089_a_bodys_own_refusal_is_its_failure() {
    let lab = Lab::new();
    let inner = lab.on_pool("inner", 1, 0).build().unwrap();
    let outer = lab.on_pool("outer", 1, 0).build().unwrap();
    let gate = Gate::new();
    let held = inner.run(at_gate(&gate)).queue();
    gate.until_came(1);
    let inside = inner.clone();
    let result = outer.run(move || inside.run(|| Ok::<_, ()>(())).execute()).execute();
    assert!(matches!(result, Err(CommandError::Inner(CommandError::Rejected(_)))));
    assert_eq!(counts(&outer), "failure=1 fallback_missing=1");
    gate.open();
    assert_eq!(held.wait(), Ok(1));
}

#[test]
fn kb_25_queueing_never_runs_user_code_on_the_caller() {
    let lab = Lab::new();
    let command = lab.on_pool("queueing", 1, 0).build().unwrap();
    let (bodies, fallbacks) = (Gate::new(), Gate::new());
    let first = command.run(at_gate(&bodies)).queue();
    bodies.until_came(1);
    let gate = fallbacks.clone();
    let refused = command
        .run(|| Ok::<_, String>(String::new()))
        .fallback(move |_| {
            gate.pass();
            Ok(std::thread::current().name().unwrap_or_default().to_owned())
        })
        .queue();
    assert!(!refused.is_ready(), "back at once, while the fallback waits");
    fallbacks.open();
    assert_eq!(refused.wait().as_deref(), Ok("hystrix-fallback-1"));
    command.force_open();
    let open = command.run(|| Ok::<u32, String>(0)).fallback(|_| Ok(6)).queue();
    assert_eq!(open.wait(), Ok(6));
    bodies.open();
    assert_eq!(first.wait(), Ok(1));
}

#[test]
fn a_dropped_handle_cancels_its_fallback_too() {
    let lab = Lab::new();
    let command = lab.on_pool("fallback_dropped", 1, 0).build().unwrap();
    let gate = Gate::new();
    let inside = gate.clone();
    let fallback = move |_| {
        inside.pass();
        Ok(1)
    };
    let call = command.run(|| Err::<u32, _>(())).fallback(fallback).queue();
    gate.until_came(1);
    drop(call);
    gate.open();
    assert_at_rest(&command);
    until("told", || lab.events.calls().len() == 1);
    assert_eq!(counts(&command), "failure=1 fallback_cancelled=1");
    assert_eq!(lab.events.last_call().fallback, Some(FallbackOutcome::Cancelled));
}

#[test]
fn bc_049_bc_050_places_of_those_who_gave_up_are_free_again() {
    let lab = Lab::new();
    let command = lab.on_pool("gave_up", 4, 4).timeout("1s").circuit_breaker(None).build().unwrap();
    for _ in 0..100 {
        let gate = Gate::new();
        let holders: Vec<_> = (0..4).map(|_| command.run(at_gate(&gate)).queue()).collect();
        gate.until_came(4);
        let waiters: Vec<_> = (0..4).map(|_| command.run(|| Ok::<u32, String>(2)).queue()).collect();
        drop(waiters);
        gate.open();
        assert!(holders.into_iter().all(|call| call.wait() == Ok(1)));
        let calls: Vec<_> = (0..4).map(|_| command.run(|| Ok::<u32, String>(3)).queue()).collect();
        assert!(calls.into_iter().all(|call| call.wait() == Ok(3)));
    }
    assert_eq!(counts(&command), "ok=800 cancelled=400");
    let one = lab.on_pool("drain", 1, 10).build().unwrap();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (inside, most) = (inside.clone(), most.clone());
            one.run(move || {
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                inside.fetch_sub(1, SeqCst);
                Ok::<_, ()>(())
            })
            .queue()
        })
        .collect();
    assert!(calls.into_iter().all(|call| call.wait() == Ok(())));
    assert_eq!((most.load(SeqCst), one.pool().queued), (1, 0));
}

#[test]
fn bh26_a_pool_of_one_never_refuses_a_caller_that_calls_again_and_again() {
    let lab = Lab::new();
    let command = lab.on_pool("again", 1, 0).build().unwrap();
    for _ in 0..20_000 {
        assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    }
    for _ in 0..2000 {
        assert_eq!(command.run(|| Ok::<_, ()>(1)).queue().wait(), Ok(1));
        assert_eq!(block_on(command.call(|| async { Ok::<_, ()>(1) }).into_future()), Ok(1));
    }
}

// ===== commands inside commands =====

#[test]
fn bc_072_a_call_into_its_own_full_pool_ends_and_leaves_nothing() {
    let lab = Lab::new();
    let outer = lab.on_pool("nest", 1, 5).timeout("200ms").build().unwrap();
    let inner: PoolCommand = lab.command("inner").thread_pool("nest").timeout("100ms").build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let call = aside({
        let (outer, inner, ran) = (outer.clone(), inner.clone(), ran.clone());
        move || {
            let body = move || {
                let ran = ran.clone();
                let inside = inner.run(move || Ok::<_, ()>(ran.fetch_add(1, SeqCst)));
                inside.execute().map(drop).map_err(|error| error.is_timeout())
            };
            outer.run(body).execute()
        }
    });
    lab.advance_when_armed(2, ms(100));
    assert_eq!(joined(call), Err(CommandError::Inner(true)));
    assert_eq!((ran.load(SeqCst), outer.pool().queued), (0, 0));
    assert_eq!(outer.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    assert_eq!(ran.load(SeqCst), 0);
}

#[test]
fn bc_073_a_worker_that_waits_picks_up_no_other_work() {
    thread_local! { static MARKED: Cell<bool> = const { Cell::new(false) }; }
    let lab = Lab::new();
    let outer = lab.on_pool("outer", 1, 5).timeout(None).build().unwrap();
    let inner = lab.on_pool("inner", 1, 0).timeout(None).build().unwrap();
    let (lock, gate) = (Arc::new(Mutex::new(())), Gate::new());
    let first = {
        let (inner, lock, gate) = (inner.clone(), lock.clone(), gate.clone());
        outer.run(move || {
            let _held = lock.lock().unwrap();
            MARKED.set(true);
            let result = inner.run(at_gate(&gate)).execute();
            MARKED.set(false);
            result
        })
    };
    let first = first.queue();
    gate.until_came(1);
    let second = outer.run(move || {
        assert!(!MARKED.get(), "started on a thread that waits");
        let _held = lock.lock().unwrap();
        Ok::<_, ()>(2)
    });
    let second = second.queue();
    gate.open();
    assert_eq!((first.wait(), second.wait()), (Ok(1), Ok(2)));
}

#[test]
fn bc_079_every_kind_of_command_can_be_called_on_a_worker() {
    struct Id(u32);
    let lab = Lab::new();
    let outer = lab.on_pool("outer", 1, 0).build().unwrap();
    let other = lab.on_pool("other", 1, 0).build().unwrap();
    let here = lab.command("here").build().unwrap();
    let seen = context::with(Id(7), || {
        let body = move || {
            let id = || Ok::<_, ()>(context::get::<Id>().map(|id| id.0));
            let on_pool = other.run(id).execute().unwrap();
            let awaited = block_on(other.call(move || async move { id() }).into_future()).unwrap();
            let in_place = here.run(id).execute().unwrap();
            let task = block_on(here.call(|| async { id() }).into_future()).unwrap();
            Ok::<_, ()>([on_pool, awaited, in_place, task])
        };
        outer.run(body).execute()
    });
    assert_eq!(seen, Ok([Some(7); 4]));
}

#[test]
fn bc_077_an_async_caller_of_a_pool_is_answered_in_its_task() {
    let lab = Lab::new();
    let command = lab.on_pool("task", 1, 0).timeout("100ms").build().unwrap();
    let gate = Gate::new();
    let mut call = pin!(command.run(at_gate(&gate)).fallback(|_| async { Ok(4) }).into_future());
    assert!(call.as_mut().poll(&mut noop()).is_pending());
    gate.until_came(1);
    lab.clock.advance(ms(100));
    assert_eq!(call.as_mut().poll(&mut noop()), Poll::Ready(Ok(4)));
    gate.open();
    assert_at_rest(&command);
}
