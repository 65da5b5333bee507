//! Isolation on a pool: places, queue, growth and its report; and commands called inside commands.

mod support;

use std::cell::Cell;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    CommandError, FallbackOutcome, Outcome, PoolCommand, PoolEventKind, RejectionKind, ThreadPool,
    cancellation, context,
};

use support::*;

// ===== pools =====

#[test]
fn hc_070_hc_071_hc_072_bh04_fb_07_dub_10_a_full_pool_refuses() {
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
    assert_eq!(rejection.fallback(), Some(FallbackOutcome::Missing));
    let good = command.run(|| Ok::<u32, String>(0)).fallback(|error| {
        assert_eq!(kind(&Err::<(), _>(error)), Some(RejectionKind::PoolFull));
        Ok(7)
    });
    assert_eq!(good.execute(), Ok(7));
    // HC-072: not one error with both causes, but the fallback's own.
    let bad = command.run(|| Ok::<u32, String>(0)).fallback(|_| Err("E2".into())).execute();
    assert_eq!(bad, Err(CommandError::Inner("E2".into())));
    assert_eq!(
        (command.metrics().in_flight, lab.events.calls().len()),
        (2, 3),
        "two are under way, and untold"
    );
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
fn hc_070_hc_120_a_refused_call_is_answered_as_soon_as_it_is_queued() {
    let lab = Lab::new();
    let command = lab.on_pool("at_once", 1, 0).build().unwrap();
    let gate = Gate::new();
    let held = command.run(at_gate(&gate)).queue();
    gate.until_came(1);
    let full = command.run(|| Ok::<_, ()>(1)).queue();
    command.force_open();
    let open = command.run(|| Ok::<_, ()>(1)).queue();
    assert!(full.is_ready() && open.is_ready(), "nothing has to happen first");
    let kinds = [kind(&full.wait()), kind(&open.wait())];
    assert_eq!(kinds, [Some(RejectionKind::PoolFull), Some(RejectionKind::ShortCircuited)]);
    assert_eq!(counts(&command), "short_circuited=1 pool_rejected=1 fallback_missing=2");
    gate.open();
    assert_eq!(held.wait(), Ok(1));
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
fn hc_074_bc_056_bh09_bh25_a_cancelled_call_leaves_the_queue() {
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
fn bh05_bh06_when_one_ends_one_from_the_queue_begins_and_one_more_may_wait() {
    let lab = Lab::new();
    for (key, workers, queue) in [("three", 3, 10), ("five", 5, 5)] {
        let command = lab.on_pool(key, workers, queue).build().unwrap();
        let (first, others) = (Gate::new(), Gate::new());
        let mut calls = vec![command.run(at_gate(&first)).queue()];
        first.until_came(1);
        calls.extend((1..workers + queue).map(|_| command.run(at_gate(&others)).queue()));
        others.until_came(workers - 1);
        assert!(command.run(|| Ok::<_, ()>(1)).execute().is_err());
        first.open();
        others.until_came(workers);
        calls.push(command.run(at_gate(&others)).queue());
        assert!(command.run(|| Ok::<_, ()>(1)).execute().is_err());
        assert_eq!((others.came(), command.pool().queued), (workers, queue), "exactly one has begun");
        others.open();
        assert!(calls.into_iter().all(|call| call.wait() == Ok(1)));
    }
}

#[test]
fn bh07_an_async_body_has_its_worker_until_its_future_ends() {
    let lab = Lab::new();
    let command = lab.on_pool("futures", 2, 2).timeout(None).build().unwrap();
    let made = zero();
    let body = || {
        let made = made.clone();
        move || {
            made.fetch_add(1, SeqCst);
            std::future::pending::<Result<(), ()>>()
        }
    };
    let calls: Vec<_> = (0..4).map(|_| command.call(body()).queue()).collect();
    until("made", || made.load(SeqCst) == 2);
    assert_eq!(kind(&command.call(body()).execute()), Some(RejectionKind::PoolFull));
    assert_eq!((command.pool().active, command.pool().queued, made.load(SeqCst)), (2, 2, 2));
    drop(calls);
    until("free", || command.pool().in_use == 0);
}

#[test]
fn hc_080_hc_183_a_body_that_asks_stops_when_its_caller_leaves() {
    let lab = Lab::new();
    let command = lab.on_pool("asks", 1, 0).timeout(None).build().unwrap();
    let begun = Gate::new();
    begun.open();
    let body = || {
        let begun = begun.clone();
        move || {
            begun.pass();
            Err::<(), _>(until("cancelled", || cancellation().is_cancelled()))
        }
    };
    let queued = command.run(body()).queue();
    begun.until_came(1);
    drop(queued);
    until("free", || command.pool().active == 0);
    {
        let mut awaited = pin!(command.run(body()).into_future());
        assert!(awaited.as_mut().poll(&mut noop()).is_pending());
        begun.until_came(2);
    }
    until("told", || lab.events.abandoned().len() == 2);
    assert!(lab.events.abandoned().iter().all(|end| end.outcome == Outcome::Cancelled && !end.panicked));
    assert_at_rest(&command);
    assert_eq!(counts(&command), "cancelled=2");
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
fn hc_079_hc_081_hc_086_dub_01_the_report_is_one_consistent_look() {
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
    assert_eq!((first.pool().completed, first.pool().in_use), (4, 0), "refusals have taken nothing away");
}

#[test]
fn hc_088_a_pool_that_only_refuses_is_seen() {
    let lab = Lab::new();
    let [held, refused] =
        ["held", "refused"].map(|key| lab.command(key).thread_pool("full").timeout(None).build().unwrap());
    let gate = Gate::new();
    let calls: Vec<_> = (0..10).map(|_| held.run(at_gate(&gate)).queue()).collect();
    gate.until_came(10);
    // A whole window in which nothing begins and nothing ends.
    lab.clock.advance(Duration::from_secs(11));
    (0..3).for_each(|_| assert!(refused.run(|| Ok::<_, ()>(())).execute().is_err()));
    let report = lab.registry.pool("full").unwrap();
    assert_eq!((report.rejected, report.submitted, report.completed), (3, 10, 0));
    let rolling = refused.metrics().rolling;
    assert_eq!((rolling.thread_pool_rejected, rolling.attempts()), (3, 3));
    gate.open();
    assert!(calls.into_iter().all(|call| call.wait() == Ok(1)));
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
    let patient = lab.command("patient").thread_pool("gave_up").timeout(None).build().unwrap();
    for _ in 0..100 {
        let gate = Gate::new();
        let holders: Vec<_> = (0..4).map(|_| patient.run(at_gate(&gate)).queue()).collect();
        gate.until_came(4);
        let mut waiters: Vec<_> = (0..4).map(|_| command.run(|| Ok::<u32, String>(2)).queue()).collect();
        waiters.truncate(2);
        lab.clock.advance(ms(1000));
        assert!(waiters.into_iter().all(|call| kind(&call.wait()) == Some(RejectionKind::TimedOut)));
        assert_eq!(command.pool().queued, 0);
        gate.open();
        assert!(holders.into_iter().all(|call| call.wait() == Ok(1)));
        let calls: Vec<_> = (0..4).map(|_| command.run(|| Ok::<u32, String>(3)).queue()).collect();
        assert!(calls.into_iter().all(|call| call.wait() == Ok(3)));
    }
    assert_eq!(counts(&command), "ok=400 timeout=200 cancelled=200 fallback_missing=200");
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
fn bc_077_of_two_commands_on_a_pool_one_that_hangs_keeps_to_its_share() {
    let lab = Lab::new();
    let pool = lab.on_pool("shared", 10, 0).timeout(None).build().unwrap();
    // The limit stands in front of the pool, as a command of its own.
    let hung = lab.command("hung").semaphore(6).timeout(None).build().unwrap();
    let gate = Gate::new();
    let ask = || hung.call(|| async { pool.run(at_gate(&gate)).await });
    let mut calls: Vec<_> = (0..6).map(|_| Box::pin(ask().into_future())).collect();
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut noop()).is_pending()));
    let seventh = block_on(ask().into_future());
    assert_eq!(kind(&seventh), Some(RejectionKind::PermitsExhausted), "its own limit, and not the pool");
    assert_eq!(pool.pool().in_use, 6);
    let others: Vec<_> = (0..4).map(|_| pool.run(at_gate(&gate)).queue()).collect();
    gate.until_came(10);
    assert_eq!((pool.pool().active, pool.pool().rejected), (10, 0));
    gate.open();
    assert!(others.into_iter().all(|call| call.wait() == Ok(1)));
    assert!(calls.into_iter().all(|call| block_on(call) == Ok(1)));
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
fn to_06_an_async_caller_is_answered_at_the_timeout_while_the_body_still_runs() {
    let lab = Lab::new();
    let command = lab.on_pool("task", 1, 0).timeout("100ms").build().unwrap();
    let gate = Gate::new();
    let mut call = pin!(command.run(at_gate(&gate)).fallback(|_| async { Ok(4) }).into_future());
    assert!(call.as_mut().poll(&mut noop()).is_pending());
    gate.until_came(1);
    lab.clock.advance(ms(100));
    assert_eq!(call.as_mut().poll(&mut noop()), Poll::Ready(Ok(4)));
    assert_eq!((command.pool().active, command.metrics().abandoned), (1, 1));
    gate.open();
    assert_at_rest(&command);
}

#[test]
fn a_shorter_keep_alive_is_not_held_up_by_the_longer_one_before() {
    let lab = Lab::new();
    let sizes = || ThreadPool::named("shrinks").core_size(1).maximum_size(2);
    let command = lab.command("shrinks").thread_pool(sizes().keep_alive(Duration::MAX)).build().unwrap();
    let gate = Gate::new();
    let calls = [(); 2].map(|()| command.run(at_gate(&gate)).queue());
    gate.until_came(2);
    gate.open();
    assert!(calls.into_iter().all(|call| call.wait().is_ok()));
    until("idle", || command.pool().idle == 2);
    lab.registry.resize(sizes().keep_alive(ms(1000))).unwrap();
    lab.clock.advance(ms(1000));
    until("the surplus worker goes", || command.pool().size == 1);
}
