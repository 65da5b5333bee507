//! The end: of a registry, of a runtime under a call, and of the handles to either.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use hystrix_core::{Command, FallbackOutcome, PoolCommand, Registry, RejectionKind};

use support::*;

/// A registry in real time.
fn living() -> Registry {
    Registry::builder().build()
}

fn on_pool(registry: &Registry, key: &'static str) -> PoolCommand {
    Command::builder(key).group("end").thread_pool(key).registry(registry).build().unwrap()
}

/// How long a shutdown may take that has nothing to wait for; the right time is none, the bound is for slow machines.
const AT_ONCE: Duration = Duration::from_secs(5);

fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

// ===== the registry ends =====

#[test]
fn bc_123_a_stuck_body_is_reported_and_its_caller_answered() {
    let registry = living();
    let command = on_pool(&registry, "stuck");
    let gate = Gate::new();
    let caller = {
        let (command, gate) = (command.clone(), gate.clone());
        aside(move || kind(&command.run(move || Ok::<_, ()>(gate.pass())).execute()))
    };
    gate.until_came(1);
    let (report, took) = timed(|| registry.shutdown(ms(20)));
    assert!(took >= ms(20) && took < AT_ONCE, "{took:?}");
    let answer = joined(caller);
    assert!(matches!(answer, Some(RejectionKind::ShutDown | RejectionKind::TimedOut)), "{answer:?}");
    assert!(!report.is_clean());
    let [left] = &report.left[..] else { panic!("{report:?}") };
    assert_eq!(left.command.to_string(), "end/stuck");
    assert_eq!((left.thread.as_deref(), left.abandoned), (Some("hystrix-stuck-1"), false));
    assert!(left.age.is_some());
    gate.open();
    assert_at_rest(&command);
    until("the worker ends with its body", || command.pool().size == 0);
}

#[test]
fn what_was_abandoned_before_is_reported_as_that() {
    let lab = Lab::new();
    let command = lab.on_pool("abandoned", 1, 0).timeout("10ms").build().unwrap();
    let gate = Gate::new();
    let body = gate.clone();
    let call = command.run(move || Ok::<_, ()>(body.pass())).queue();
    gate.until_came(1);
    lab.clock.advance(ms(10));
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    lab.clock.advance(ms(5));
    let report = lab.registry.shutdown(ms(1));
    let left: Vec<_> = report.left.iter().map(|left| (left.abandoned, left.age)).collect();
    assert_eq!(left, [(true, Some(ms(15)))]);
    gate.open();
}

#[test]
fn calls_in_place_are_waited_for_and_reported_too() {
    let registry = living();
    let command = Command::builder("here").registry(&registry).build().unwrap();
    let gate = Gate::new();
    let caller = {
        let (command, gate) = (command.clone(), gate.clone());
        aside(move || command.run(|| Ok::<_, ()>(gate.pass())).execute())
    };
    gate.until_came(1);
    let report = registry.shutdown(ms(1));
    assert_eq!(report.left.len(), 1);
    assert_eq!((&*report.left[0].command.to_string(), &report.left[0].thread), ("default/here", &None));
    gate.open();
    assert_eq!(joined(caller), Ok(()), "what runs in its caller's thread ends as it ends");

    let registry = living();
    let command = Command::builder("here").registry(&registry).build().unwrap();
    let caller = {
        let (command, gate) = (command.clone(), gate.clone());
        gate.close();
        aside(move || command.run(|| Ok::<_, ()>(gate.pass())).execute())
    };
    gate.until_came(2);
    let ending = aside(move || registry.shutdown(PATIENCE));
    until("refuses", || command.run(|| Ok::<_, ()>(())).execute().is_err());
    gate.open();
    assert!(joined(ending).is_clean(), "it waited");
    assert_eq!(joined(caller), Ok(()));
}

#[test]
fn bc_124_a_call_after_the_shutdown_is_refused_at_once_and_keeps_nothing() {
    let lab = Lab::new();
    let here = lab.command("here").build().unwrap();
    let pool = lab.on_pool("pool", 1, 5).build().unwrap();
    assert!(lab.registry.shutdown(PATIENCE).is_clean());
    let watched = Arc::new(());
    let body = || {
        let watched = watched.clone();
        move || -> Result<(), ()> { panic!("the body must not run: {watched:?}") }
    };
    let later = || {
        let body = body();
        || async move { body() }
    };
    let shut_down = Some(RejectionKind::ShutDown);
    assert_eq!(kind(&here.run(body()).execute()), shut_down);
    assert_eq!(kind(&block_on(here.call(later()).into_future())), shut_down);
    assert_eq!(kind(&pool.run(body()).execute()), shut_down);
    assert_eq!(kind(&pool.run(body()).queue().wait()), shut_down);
    assert_eq!(kind(&pool.call(later()).execute()), shut_down);
    assert_eq!(kind(&block_on(pool.call(later()).into_future())), shut_down);
    pool.run(body()).queue().detach();
    assert_eq!(here.run(body()).fallback(|_| Ok(())).execute(), Ok(()));
    assert_eq!(pool.run(body()).fallback(|_| Ok(())).execute(), Ok(()));
    assert_eq!(block_on(pool.run(body()).fallback(|_| Ok(())).into_future()), Ok(()));
    // A queued call's fallback has no worker any more; the original refusal says so.
    let queued = pool.run(body()).fallback(|_| Ok(())).queue().wait();
    let rejection = queued.as_ref().err().and_then(|error| error.rejection()).unwrap();
    assert_eq!((kind(&queued), rejection.fallback()), (shut_down, Some(FallbackOutcome::Rejection)));
    assert_eq!(Arc::strong_count(&watched), 1);
    assert_eq!((pool.pool().size, pool.pool().is_shut_down), (0, true));
    assert_eq!(here.metrics().request_count(), 3, "refused by the isolation");
    assert_eq!(here.metrics().circuit.failures, 0, "and neutral for health");
}

#[test]
fn bc_125_unused_pools_end_at_once_and_twice_is_a_no_op() {
    let registry = living();
    let unused: Vec<_> = (0..20).map(|n| format!("unused{n}")).collect();
    for name in &unused {
        let pool = Command::builder(name.clone()).thread_pool(name.clone()).registry(&registry);
        pool.build().unwrap();
    }
    let other = registry.clone();
    let beside = aside(move || timed(|| other.shutdown(PATIENCE)));
    let (report, took) = timed(|| registry.shutdown(PATIENCE));
    let (beside, took_beside) = joined(beside);
    assert!(report.is_clean() && beside.is_clean());
    assert!(took < AT_ONCE && took_beside < AT_ONCE, "{took:?} {took_beside:?}");
    let (again, took) = timed(|| registry.shutdown(PATIENCE));
    assert!(again.is_clean() && took < AT_ONCE);
    assert!(block_on(registry.shutdown_async(PATIENCE)).is_clean());
}

#[test]
fn bc_126_nothing_is_kept_after_a_shutdown() {
    let registry = living();
    let pool = on_pool(&registry, "kept");
    let here = Command::builder("kept").registry(&registry).timeout("1m").build().unwrap();
    let watched = Arc::new(());
    let holding = || {
        let watched = watched.clone();
        move || {
            let _ = &watched;
            Err::<(), ()>(())
        }
    };
    for _ in 0..10 {
        let _ = pool.run(holding()).execute();
        pool.run(holding()).fallback(|_| Ok(())).queue().detach();
        let watched = watched.clone();
        let _ = here.run(holding()).fallback_owned(move |_| Ok(drop(watched))).execute();
    }
    assert!(registry.shutdown(PATIENCE).is_clean());
    assert_eq!(Arc::strong_count(&watched), 1);
    assert_eq!(pool.pool().size, 0);
}

#[test]
fn a_shutdown_waits_for_what_was_queued_and_for_fallbacks() {
    let registry = living();
    let command = Command::builder("queued")
        .registry(&registry)
        .thread_pool(hystrix_core::ThreadPool::named("queued").core_size(1).max_queue_size(5))
        .timeout("1m")
        .build()
        .unwrap();
    let (gate, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let (gate, ran, answered) = (gate.clone(), ran.clone(), ran.clone());
            let body = move || {
                gate.pass();
                ran.fetch_add(1, SeqCst);
                Err::<usize, ()>(())
            };
            command.run(body).fallback(move |_| Ok(answered.fetch_add(100, SeqCst))).queue()
        })
        .collect();
    gate.until_came(1);
    let probe = Command::builder("probe").registry(&registry).build().unwrap();
    let ending = aside(move || registry.shutdown(PATIENCE));
    until("refuses", || probe.run(|| Ok::<_, ()>(())).execute().is_err());
    gate.open();
    assert!(joined(ending).is_clean());
    assert!(calls.into_iter().all(|call| call.wait().is_ok()));
    assert_eq!(ran.load(SeqCst), 505);
}

#[test]
fn a_scoped_registry_ends_with_its_last_handle() {
    let registry = living();
    let (command, twin) = (on_pool(&registry, "scoped"), registry.clone());
    assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    drop(registry);
    assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1), "a handle is left");
    let ((), took) = timed(|| drop(twin));
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(kind(&command.run(|| Ok::<_, ()>(1)).execute()), Some(RejectionKind::ShutDown));
    assert_eq!(command.pool().size, 0);
}

#[test]
fn bc_130_a_call_whose_owners_are_gone_is_answered() {
    let registry = living();
    let command = on_pool(&registry, "owner");
    let gate = Gate::new();
    let body = gate.clone();
    let call = command.run(move || Ok::<_, ()>(body.pass())).queue();
    gate.until_came(1);
    let stuck = on_pool(&registry, "owner_stuck");
    let never = Gate::new();
    let body = never.clone();
    let left = stuck.run(move || Ok::<_, ()>(body.pass())).queue();
    never.until_came(1);
    drop((command, stuck));
    let ending = aside(move || drop(registry));
    gate.open();
    assert_eq!(call.wait(), Ok(()));
    assert!(matches!(kind(&left.wait()), Some(RejectionKind::ShutDown | RejectionKind::TimedOut)));
    joined(ending);
    never.open();
}

// ===== handles and runtimes =====

fn runtimes() -> [tokio::runtime::Runtime; 2] {
    let flavours =
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()];
    flavours.map(|mut flavour| flavour.worker_threads(2).enable_all().build().unwrap())
}

#[test]
fn bc_127_every_handle_is_made_and_dropped_inside_a_task() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let everything = || async {
                let lab = Lab::new();
                let here = lab.command("here").build().unwrap();
                let pool = lab.on_pool("pool", 1, 1).build().unwrap();
                let family = lab.command("family").build_keyed().unwrap();
                assert_eq!(here.call(|| async { Ok::<_, ()>(1) }).await, Ok(1));
                assert_eq!(pool.run(|| Ok::<_, ()>(1)).await, Ok(1));
                assert_eq!(family.get("a").call(|| async { Ok::<_, ()>(1) }).await, Ok(1));
                let _queued = pool.run(|| Ok::<_, ()>(1)).queue();
                let _unpolled = pool.run(|| Ok::<_, ()>(1)).into_future();
                let _entered = lab.registry.enter();
                let _subscription = lab.registry.subscribe(Events::default());
                drop(lab.registry.shutdown_async(ms(1)));
            };
            tokio::task::LocalSet::new().run_until(everything()).await;
            everything().await;
            let registry = living();
            let command = on_pool(&registry, "async_end");
            assert_eq!(command.run(|| Ok::<_, ()>(1)).await, Ok(1));
            assert!(registry.shutdown_async(PATIENCE).await.is_clean());
            assert_eq!(kind(&command.run(|| Ok::<_, ()>(1)).await), Some(RejectionKind::ShutDown));
        });
    }
}

#[test]
fn bc_128_a_runtime_that_goes_under_a_call_takes_nothing_with_it() {
    for runtime in runtimes() {
        let lab = Lab::new();
        let command = lab.on_pool("survivor", 1, 0).timeout("1m").build().unwrap();
        let here = lab.command("here").timeout("1m").build().unwrap();
        let (gate, outcome) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let (body, ended) = (gate.clone(), outcome.clone());
        let call = {
            let (command, here) = (command.clone(), here.clone());
            async move {
                let hangs = here.call(pending::<Result<(), ()>>);
                let on_worker = command.run(move || {
                    body.pass();
                    // The handle of a runtime that is gone: spawning is refused there, in its own way.
                    let spawned = tokio::runtime::Handle::current().spawn(async {});
                    ended.store(1 + usize::from(spawned.is_finished()), SeqCst);
                    Ok::<_, ()>(())
                });
                let _ = futures::future::join(hangs.into_future(), on_worker.into_future()).await;
            }
        };
        runtime.spawn(call);
        // A single-threaded runtime runs what was spawned only while somebody drives it.
        runtime.block_on(async {
            while gate.came() < 1 {
                tokio::task::yield_now().await;
            }
        });
        runtime.shutdown_background();
        until("the task is dropped", || counts(&command) == "cancelled=1");
        gate.open();
        assert_at_rest(&command);
        assert_at_rest(&here);
        assert_eq!((counts(&here), counts(&command)), ("cancelled=1".into(), "cancelled=1".into()));
        assert!(outcome.load(SeqCst) > 0, "the body ran to its end");
        until("a free worker", || command.pool().active == 0);
        assert_eq!(command.run(|| Ok::<_, ()>(2)).execute(), Ok(2));
        assert_eq!(lab.registry.armed(), 0);
        let [other, _] = runtimes();
        assert_eq!(other.block_on(command.run(|| Ok::<_, ()>(3)).into_future()), Ok(3));
    }
}

#[test]
fn a_pending_call_in_a_task_ends_with_its_registry() {
    let registry = living();
    let command = Command::builder("pending").registry(&registry).timeout("1m").build().unwrap();
    let mut call = pin!(command.call(pending::<Result<(), ()>>).into_future());
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(registry.shutdown(ms(1)).left.len(), 1);
    assert_eq!(kind(&block_on(call)), Some(RejectionKind::ShutDown));
    assert_at_rest(&command);
}

// ===== the process =====

#[cfg(target_os = "linux")]
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let mut names: Vec<String> = tasks.filter_map(|task| name(task.unwrap())).collect();
    names.sort();
    names.iter().map(|name| name.trim().to_owned()).filter(|name| name.starts_with("hystrix")).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn bc_131_threads_are_few_named_and_gone_in_the_end() {
    if !in_a_child("bc_131_threads_are_few_named_and_gone_in_the_end") {
        return;
    }
    assert!(threads().is_empty());
    let registry = living();
    let pool = hystrix_core::ThreadPool::named("p").core_size(3).max_queue_size(100);
    let pooled = Command::builder("pooled").thread_pool(pool).registry(&registry).circuit_breaker(None);
    let pooled = pooled.build().unwrap();
    let here = Command::builder("here").registry(&registry).timeout("1m").circuit_breaker(None);
    let here = here.build().unwrap();
    assert!(threads().is_empty(), "nothing is started before it is needed");
    for number in 0..1000 {
        match number % 4 {
            0 => assert_eq!(pooled.run(|| Ok::<_, ()>(1)).execute(), Ok(1)),
            1 => assert_eq!(here.run(|| Err(())).fallback_owned(|_| Ok(1)).execute(), Ok(1)),
            2 => assert_eq!(pooled.run(|| Err(())).fallback(|_| Ok(1)).queue().wait(), Ok(1)),
            _ => assert_eq!(block_on(here.call(|| async { Ok::<_, ()>(1) }).into_future()), Ok(1)),
        }
    }
    let names = threads();
    let workers = names.iter().filter(|name| name.starts_with("hystrix-p-")).count();
    let fallback = names.iter().filter(|name| name.starts_with("hystrix-fallbac")).count();
    let timer = names.iter().filter(|name| name.starts_with("hystrix-timer")).count();
    // A worker is free a little after its call was answered, so that the next call may start another, up to the bound.
    let bound = registry.fallback_workers().maximum_size;
    assert!((1..=3).contains(&workers) && (1..=bound).contains(&fallback) && timer == 1, "{names:?}");
    assert_eq!(names.len(), workers + fallback + timer, "{names:?}");
    assert!(registry.shutdown(PATIENCE).is_clean());
    until("no thread of ours", || threads().is_empty());
}
