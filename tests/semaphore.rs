//! Isolation by semaphore: permits, those of fallbacks, and limits that change.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use futures::executor::block_on;
use hystrix_core::{
    Command, CommandConfig, CommandError, Outcome, Registry, RejectionKind, Select, ThreadPool, context,
};

use support::*;

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
fn hc_090_hc_091_bh01_the_next_one_is_refused_at_once_with_the_numbers() {
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
fn bh02_whichever_call_ends_one_more_has_room() {
    let lab = Lab::new();
    let command = lab.command("sem").semaphore(3).circuit_breaker(None).build().unwrap();
    let running = || {
        let mut call = Box::pin(command.call(pending::<Result<(), ()>>).into_future());
        call.as_mut().poll(&mut noop()).is_pending().then_some(call)
    };
    let mut calls: Vec<_> = (0..3).map(|_| running().unwrap()).collect();
    for any in [1, 0, 2, 2, 1] {
        assert!(running().is_none());
        drop(calls.swap_remove(any));
        calls.push(running().expect("one has left"));
    }
    assert!(running().is_none());
}

#[test]
fn bh14_what_was_refused_is_told_before_what_it_was_refused_for() {
    let lab = Lab::new();
    let command = lab.command("told").semaphore(2).build().unwrap();
    let gate = Gate::new();
    let held = hold(&command, &gate, 2);
    assert!(command.run(|| Ok::<_, ()>(())).execute().is_err());
    gate.open();
    assert!(held.into_iter().all(joined));
    // A permit by itself is no event: a call is told once, when it is over.
    let told: Vec<_> = lab.events.calls().iter().map(|call| call.outcome).collect();
    assert_eq!(told, [Outcome::SemaphoreRejected, Outcome::Success, Outcome::Success]);
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
fn hc_093_dub_14_ten_come_at_once_for_one_permit_and_one_has_it() {
    assert_eq!(had(10, 1), 100, "exactly one in each round");
}

#[test]
fn bh20_twenty_come_at_once_for_ten_permits_and_ten_have_them() {
    assert_eq!(had(20, 10), 1000, "exactly ten in each round");
}

/// How many permits so many callers had in a hundred rounds, in each of which they come at once.
fn had(callers: usize, permits: usize) -> usize {
    let lab = Lab::new();
    let command = lab.command("contended").semaphore(permits).circuit_breaker(None).build().unwrap();
    let barrier = Arc::new(Barrier::new(callers));
    let tried = Arc::new(AtomicUsize::new(0));
    let calling: Vec<_> = (0..callers)
        .map(|_| {
            let (command, barrier, tried) = (command.clone(), barrier.clone(), tried.clone());
            aside(move || {
                let mut had = 0;
                for round in 1..=100 {
                    barrier.wait();
                    let body = || {
                        // Held until all have had their try.
                        tried.fetch_add(1, SeqCst);
                        until("all have tried", || tried.load(SeqCst) >= round * callers);
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
    let had = calling.into_iter().map(joined).sum();
    assert_at_rest(&command);
    had
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
fn hc_100_ht_18_bh22_bc_053_a_panic_gives_the_permit_back() {
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
