//! The same commands on every executor and on none, and the same times on every clock.

mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{Thread, current, park_timeout};
use std::time::Duration;

use futures::future::join;
use hystrix_core::{CircuitState, Command, ManualClock, Registry, RejectionKind, TokioClock};

use support::*;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A caller without any executor: it polls by hand, and parks until it is woken.
fn by_hand(mut task: Task) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(current())).into();
    while task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        park_timeout(PATIENCE);
    }
}

type Run = fn(Task);

const EXECUTORS: [(&str, Run); 5] = [
    ("tokio, current thread", |task| {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
    }),
    ("tokio, multi-thread", |task| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async move { tokio::spawn(task).await.unwrap() });
    }),
    ("smol", |task| smol::block_on(smol::spawn(task))),
    ("futures", |task| futures::executor::block_on(task)),
    ("none", by_hand),
];

#[test]
fn every_kind_of_call_works_on_every_executor() {
    for (name, run) in EXECUTORS {
        // Real time, and no timer of the executor's: two of them have none switched on.
        let registry = Registry::builder().build();
        let here = Command::builder("here").timeout("20ms").registry(&registry).build().unwrap();
        let pool = Command::builder("pool").thread_pool("executors").timeout("1m").registry(&registry);
        let pool = pool.build().unwrap();
        run(Box::pin(async move {
            assert_eq!(here.call(|| async { Ok::<_, ()>(1) }).await, Ok(1), "{name}");
            let cut = here.call(pending::<Result<u8, ()>>).await;
            assert_eq!(kind(&cut), Some(RejectionKind::TimedOut), "{name}");
            let answered = here.call(pending::<Result<u8, ()>>).fallback(|_| async { Ok(2) }).await;
            assert_eq!(answered, Ok(2), "{name}");
            assert_eq!(pool.run(|| Ok::<_, ()>(3)).await, Ok(3), "{name}");
            assert_eq!(pool.call(|| async { Ok::<_, ()>(4) }).await, Ok(4), "{name}");
            assert_eq!(pool.run(|| Err::<u8, _>(())).fallback(|_| async { Ok(5) }).await, Ok(5), "{name}");
            assert_eq!(pool.run(|| Ok::<_, ()>(6)).queue().await, Ok(6), "{name}");
            assert_eq!(pool.run(|| Err::<u8, _>(())).fallback(|_| Ok(7)).queue().await, Ok(7), "{name}");
        }));
    }
}

#[test]
fn bc_074_a_blocking_call_may_be_made_in_a_task() {
    for (name, run) in EXECUTORS {
        let registry = Registry::builder().build();
        let pool = Command::builder("pool").thread_pool("blocking").registry(&registry).build().unwrap();
        run(Box::pin(async move {
            assert_eq!(pool.run(|| Ok::<_, ()>(1)).execute(), Ok(1), "{name}");
            assert_eq!(pool.call(|| async { Ok::<_, ()>(2) }).execute(), Ok(2), "{name}");
            assert_eq!(pool.run(|| Ok::<_, ()>(3)).queue().wait(), Ok(3), "{name}");
        }));
    }
}

// ===== one story, two clocks =====

/// A dependency hangs until its circuit opens, is let alone for a sleep window, recovers, and has its latencies read.
async fn story(registry: Registry, pass: impl AsyncFn(Duration)) {
    let command = Command::builder("story").timeout("100ms").circuit_breaker(touchy(2)).registry(&registry);
    let command = command.build().unwrap();
    for _ in 0..2 {
        let hangs = command.call(pending::<Result<(), ()>>).into_future();
        let (cut, ()) = join(hangs, pass(ms(100))).await;
        assert_eq!(kind(&cut), Some(RejectionKind::TimedOut));
    }
    assert_eq!(command.circuit_state(), CircuitState::Open);
    pass(ms(198)).await;
    let refused = command.call(|| async { Ok::<_, ()>(()) }).await;
    assert_eq!(kind(&refused), Some(RejectionKind::ShortCircuited));
    pass(ms(2)).await;
    assert_eq!(command.call(|| async { Ok::<_, ()>(()) }).await, Ok(()));
    assert_eq!(command.circuit_state(), CircuitState::Closed);

    let timed = Command::builder("timed").timeout("1s").registry(&registry).build().unwrap();
    for millis in [10, 20, 20, 20, 80] {
        let body = async || Ok::<_, ()>(pass(ms(millis)).await);
        assert_eq!(timed.call(body).await, Ok(()));
    }
    let latency = timed.metrics().body;
    for (percent, millis) in [(10.0, 10), (50.0, 20), (100.0, 80)] {
        // The histogram's error is 3.2 %; tokio's timers round up to a millisecond.
        let (least, most) = (ms(millis), ms(millis).mul_f64(1.032) + ms(1));
        let seen = latency.percentile(percent);
        assert!(least <= seen && seen <= most, "p{percent}: {seen:?}, not in {least:?}..={most:?}");
    }
}

#[test]
fn timeout_sleep_window_and_percentiles_on_a_manual_clock() {
    let clock = ManualClock::new();
    let registry = Registry::builder().clock(clock.clone()).build();
    futures::executor::block_on(story(registry, async move |by| clock.advance(by)));
}

#[test]
fn the_same_on_a_paused_tokio_runtime() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let registry = Registry::builder().clock(TokioClock::new()).build();
        story(registry, tokio::time::sleep).await;
    });
}
