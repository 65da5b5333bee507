//! User code that panics, everywhere it can: contained, told, and without a trace.

mod support;

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures::executor::block_on;
use hystrix_core::{CommandError, FallbackOutcome, Outcome, RejectionKind};

use support::*;

type Nothing = Result<(), &'static str>;

fn message<T>(result: Result<T, CommandError<&'static str>>) -> Option<String> {
    let error = result.err()?;
    let rejection = error.rejection()?;
    assert_eq!(rejection.kind(), RejectionKind::Panicked);
    rejection.message().map(str::to_owned)
}

#[test]
fn bc_080_a_panicking_body_loses_no_worker() {
    let lab = Lab::new();
    let command = lab.on_pool("worker", 1, 0).timeout("1s").circuit_breaker(None).build().unwrap();
    for _ in 0..10 {
        let panicked = command.run(|| -> Nothing { panic!("boom") }).execute();
        assert_eq!(message(panicked).as_deref(), Some("boom"), "not a timeout: the clock stands");
        let queued = command.run(|| -> Nothing { panic!("boom") }).fallback(|_| Ok(())).queue();
        assert_eq!(queued.wait(), Ok(()));
        let polled = command.call(|| async { panic!("boom") as Nothing }).into_future();
        assert_eq!(message(block_on(polled)).as_deref(), Some("boom"));
    }
    assert_eq!(command.run(|| Nothing::Ok(())).execute(), Ok(()));
    let report = command.pool();
    assert_eq!((report.size, report.largest, report.completed), (1, 1, 31));
    assert_eq!(counts(&command), "ok=1 failure=30 fallback_ok=10 fallback_missing=20");
}

#[test]
fn bc_081_the_message_reaches_the_caller_with_the_commands_name() {
    let lab = Lab::new();
    let command = lab.command("messages").build().unwrap();
    let text = message(command.run(|| -> Nothing { panic!("static") }).execute());
    let formatted = message(command.run(|| -> Nothing { panic!("number {}", 7) }).execute());
    let other = message(command.run(|| -> Nothing { std::panic::panic_any(7u8) }).execute());
    assert_eq!(text.as_deref(), Some("static"));
    assert_eq!(formatted.as_deref(), Some("number 7"));
    assert_eq!(other.as_deref(), Some("a payload that is not text"));
    let shown = command.run(|| -> Nothing { panic!("static") }).execute().unwrap_err().to_string();
    assert_eq!(shown, "lab/messages panicked: static");
}

#[test]
fn bc_083_a_panicking_fallback_has_failed_and_gives_its_permit_back() {
    let lab = Lab::new();
    let command = lab.command("fallback").fallback_semaphore(1).circuit_breaker(None).build().unwrap();
    for _ in 0..10 {
        let result = command.run(|| Nothing::Err("E1")).fallback(|_| panic!("in the fallback")).execute();
        let Err(CommandError::Rejected(rejection)) = result else { panic!("{result:?}") };
        // BC-083: not one error with both causes, but the fallback's own; the event has the other.
        assert_eq!(rejection.message(), Some("in the fallback"));
        assert_eq!(rejection.fallback(), Some(FallbackOutcome::Failure));
        let asynchronous =
            command.call(|| async { Nothing::Err("E1") }).fallback(|_| async { panic!("later") });
        assert_eq!(message(block_on(asynchronous.into_future())).as_deref(), Some("later"));
        let making = command.call(|| async { Nothing::Err("E1") });
        let making = making.fallback(|_| -> std::future::Ready<Nothing> { panic!("making") });
        assert_eq!(message(block_on(making.into_future())).as_deref(), Some("making"));
    }
    assert_eq!(counts(&command), "failure=30 fallback_failure=30");
    let event = lab.events.last_call();
    assert_eq!((event.outcome, event.rejection), (Outcome::Failure, None));
    assert_eq!(event.fallback_rejection, Some(RejectionKind::Panicked));
    assert_at_rest(&command);
}

#[test]
fn bc_084_a_fallback_that_panics_after_a_timeout_takes_no_timer_with_it() {
    let lab = Lab::new();
    let command = lab.on_pool("timer", 2, 0).timeout("20ms").build().unwrap();
    let gate = Gate::new();
    let hangs = || {
        let gate = gate.clone();
        move || Nothing::Ok(gate.pass())
    };
    let first = command.run(hangs()).fallback(|_| panic!("after a timeout")).queue();
    gate.until_came(1);
    lab.clock.advance(ms(20));
    assert_eq!(message(first.wait()).as_deref(), Some("after a timeout"));
    let second = command.run(hangs()).queue();
    gate.until_came(2);
    lab.clock.advance(ms(20));
    assert_eq!(kind(&second.wait()), Some(RejectionKind::TimedOut));
    gate.open();
    assert_at_rest(&command);
}

#[test]
fn bc_085_a_panic_after_the_first_await_ends_as_on_a_thread() {
    let lab = Lab::new();
    let command = lab.command("await").semaphore(1).build().unwrap();
    let mut call = pin!(
        command
            .call(|| async {
                let mut first = true;
                std::future::poll_fn(|_| {
                    if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
                })
                .await;
                panic!("after the await") as Nothing
            })
            .into_future()
    );
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    let Poll::Ready(result) = call.as_mut().poll(&mut cx) else { panic!("it has ended") };
    assert_eq!(message(result).as_deref(), Some("after the await"));
    assert_eq!((counts(&command).as_str(), lab.registry.armed()), ("failure=1 fallback_missing=1", 0));
    assert_at_rest(&command);
}

#[test]
fn panicking_predicates_end_the_call_and_nothing_else() {
    let lab = Lab::new();
    let here = lab.command("here").build().unwrap();
    let pool = lab.on_pool("pool", 1, 0).build().unwrap();
    let failing = || Nothing::Err("E1");
    let ignore = here.run(failing).ignore(|_| panic!("ignore")).execute();
    assert_eq!(message(ignore).as_deref(), Some("ignore"));
    let failure = pool.run(|| Nothing::Ok(())).failure(|()| panic!("failure")).execute();
    assert_eq!(message(failure).as_deref(), Some("failure"));
    let classify =
        block_on(here.call(|| async { Nothing::Ok(()) }).classify(|_| panic!("classify")).into_future());
    assert_eq!(message(classify).as_deref(), Some("classify"));
    let wants = here.run(failing).fallback(|_| Ok(())).fallback_if(|_| panic!("wants")).execute();
    assert_eq!(wants, Err(CommandError::Inner("E1")), "the original error");
    assert_eq!(here.metrics().cumulative.fallback_failure, 1);
    assert_at_rest(&here);
    assert_at_rest(&pool);
    assert_eq!(pool.run(|| Nothing::Ok(())).execute(), Ok(()));
}

#[test]
fn what_panics_while_it_is_dropped_is_contained_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("dropped");
            }
        }
    }
    let lab = Lab::new();
    let here = lab.command("here").semaphore(1).timeout("10ms").build().unwrap();
    let late = here.run(|| {
        lab.clock.advance(ms(10));
        Ok::<_, ()>(Bomb)
    });
    assert_eq!(kind(&late.execute()), Some(RejectionKind::TimedOut));
    let mut cut = pin!(
        here.call(|| async {
            let _bomb = Bomb;
            std::future::pending::<Result<(), ()>>().await
        })
        .into_future()
    );
    let mut cx = Context::from_waker(Waker::noop());
    assert!(cut.as_mut().poll(&mut cx).is_pending());
    lab.clock.advance(ms(10));
    assert!(cut.as_mut().poll(&mut cx).is_ready());
    assert_at_rest(&here);
    let pool = lab.on_pool("pool", 1, 0).timeout("10ms").build().unwrap();
    let gate = Gate::new();
    let inside = gate.clone();
    let call = pool
        .run(move || {
            inside.pass();
            Ok::<_, ()>(Bomb)
        })
        .queue();
    gate.until_came(1);
    lab.clock.advance(ms(10));
    assert_eq!(kind(&call.wait().map(std::mem::forget)), Some(RejectionKind::TimedOut));
    gate.open();
    assert_at_rest(&pool);
    until("free", || pool.pool().active == 0);
    assert_eq!(pool.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
}
