//! One call, start to answer: values, errors, fallbacks, ignored results, and where things run.

mod support;

use std::cell::Cell;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use futures::executor::block_on;
use hystrix_core::{
    CircuitBreaker, Class, Command, CommandError, FallbackOutcome, Outcome, RejectionKind, cancellation,
    context, current_command,
};

use support::*;

/// A kind of error with a parent, as in the field's hierarchy tables.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Generic,
    E0,
    E0S,
    E1,
    E1S,
    E2,
    E2S,
}

impl Kind {
    fn parent(self) -> Option<Kind> {
        match self {
            Kind::Generic => None,
            Kind::E0 => Some(Kind::Generic),
            Kind::E0S | Kind::E1 => Some(Kind::E0),
            Kind::E1S | Kind::E2 => Some(Kind::E1),
            Kind::E2S => Some(Kind::E2),
        }
    }

    fn is_one_of(self, kinds: &[Kind]) -> bool {
        kinds.contains(&self) || self.parent().is_some_and(|parent| parent.is_one_of(kinds))
    }
}

#[test]
fn hc_001_a_pool_command_gives_its_value() {
    let lab = Lab::new();
    let command = lab.on_pool("value", 1, 0).build().unwrap();
    assert_eq!(command.run(|| Ok::<_, String>(7)).execute(), Ok(7));
    assert_eq!((counts(&command).as_str(), command.metrics().body.count()), ("ok=1", 1));
    assert_at_rest(&command);
}

#[test]
fn hc_003_a_queued_call_is_not_ready_before_and_ready_after() {
    let lab = Lab::new();
    let command = lab.on_pool("ready", 1, 0).build().unwrap();
    let gate = Gate::new();
    let inside = gate.clone();
    let call = command
        .run(move || {
            inside.pass();
            Ok::<_, String>(thread::current().name().map(str::to_owned))
        })
        .queue();
    assert!(!call.is_ready());
    gate.open();
    until("ready", || call.is_ready());
    assert_eq!(call.wait(), Ok(Some("hystrix-ready-1".to_owned())));
}

#[test]
fn hc_005_a_body_that_fails_with_a_rejection_has_failed_itself() {
    let lab = Lab::new();
    let inner = lab.command("inner").build().unwrap();
    let outer = lab.command("outer").build().unwrap();
    inner.force_open();
    let result = outer.run(|| inner.run(|| Ok::<_, String>(1)).execute()).execute();
    let flat = result.map_err(CommandError::flatten);
    assert!(flat.is_err_and(|error| error.is_short_circuited()));
    assert_eq!(counts(&outer), "failure=1 fallback_missing=1");
    assert_eq!(counts(&inner), "short_circuited=1 fallback_missing=1");
}

#[test]
fn hc_006_hc_007_hc_010_fb_04_fallbacks_answer_or_fail_with_their_own_error() {
    let lab = Lab::new();
    let command = lab.command("fails").build().unwrap();
    let failing = || Err::<u32, _>("E1".to_owned());
    assert_eq!(command.run(failing).fallback(|_| Ok(2)).execute(), Ok(2));
    // HC-007: not one error with both causes, but the fallback's own; it was told the other.
    let failed = command.run(failing).fallback(|error| {
        assert_eq!(error, CommandError::Inner("E1".to_owned()));
        Err("E2".to_owned())
    });
    assert_eq!(failed.execute(), Err(CommandError::Inner("E2".to_owned())));
    assert_eq!(command.run(failing).execute(), Err(CommandError::Inner("E1".to_owned())));
    assert_eq!(counts(&command), "failure=3 fallback_ok=1 fallback_failure=1 fallback_missing=1");
    let fallbacks: Vec<_> = lab.events.calls().iter().map(|call| (call.outcome, call.fallback)).collect();
    let expected = [FallbackOutcome::Success, FallbackOutcome::Failure, FallbackOutcome::Missing];
    assert_eq!(fallbacks, expected.map(|fallback| (Outcome::Failure, Some(fallback))));
    assert_at_rest(&command);
}

#[test]
fn hc_008_hc_009_queued_and_async_calls_answer_alike() {
    let lab = Lab::new();
    let pool = lab.on_pool("queued", 1, 1).build().unwrap();
    let here = lab.command("here").build().unwrap();
    let failing = || Err::<u32, _>("E1".to_owned());
    let inner = |text: &str| Err(CommandError::Inner(text.to_owned()));
    assert_eq!(pool.run(|| Ok::<_, String>(1)).queue().wait(), Ok(1));
    assert_eq!(pool.run(failing).queue().wait(), inner("E1"));
    assert_eq!(pool.run(failing).fallback(|_| Ok(2)).queue().wait(), Ok(2));
    assert_eq!(pool.run(failing).fallback(|_| Err("E2".to_owned())).queue().wait(), inner("E2"));
    block_on(async {
        let failing = || async { Err::<u32, _>("E1".to_owned()) };
        assert_eq!(here.call(|| async { Ok::<_, String>(1) }).await, Ok(1));
        assert_eq!(here.call(failing).await, inner("E1"));
        assert_eq!(here.call(failing).fallback(|_| Ok(2)).await, Ok(2));
        assert_eq!(here.call(failing).fallback(|_| async { Ok(3) }).await, Ok(3));
        assert_eq!(here.call(failing).fallback(|_| async { Err("E2".to_owned()) }).await, inner("E2"));
        assert_eq!(pool.call(|| async { Ok::<_, String>(4) }).await, Ok(4));
        assert_eq!(pool.run(|| Err::<u32, _>(())).fallback(|_| async { Ok(5) }).await, Ok(5));
    });
    assert_eq!(counts(&here), "ok=1 failure=4 fallback_ok=2 fallback_failure=1 fallback_missing=1");
}

#[test]
fn hc_011_hc_012_an_error_comes_back_as_it_is() {
    #[derive(Debug, PartialEq)]
    struct NotClone(u8);
    let lab = Lab::new();
    let command = lab.command("unwrapped").build().unwrap();
    assert_eq!(command.run(|| Err::<(), _>(NotClone(9))).execute(), Err(CommandError::Inner(NotClone(9))));
    assert_eq!(command.run(|| Err::<u8, _>(NotClone(9))).fallback_value(1).execute(), Ok(1));
}

#[test]
fn hc_014_one_circuit_for_each_key() {
    let lab = Lab::new();
    let [first, second, again] = ["first", "second", "first"].map(|key| lab.command(key).build().unwrap());
    first.force_open();
    assert!(again.run(|| Ok::<_, ()>(())).execute().is_err());
    assert!(second.run(|| Ok::<_, ()>(())).execute().is_ok());
}

#[test]
fn hc_015_hc_016_no_circuit_and_no_context_are_fine() {
    let lab = Lab::new();
    let here = lab.command("bare").circuit_breaker(None::<CircuitBreaker>).build().unwrap();
    let pool = lab.on_pool("bare_pool", 1, 0).circuit_breaker(None::<CircuitBreaker>).build().unwrap();
    for _ in 0..50 {
        let _ = here.run(|| Err::<(), _>("always")).execute();
    }
    assert_eq!(here.run(|| Ok::<_, ()>(context::get::<u8>())).execute(), Ok(None));
    assert_eq!(pool.run(|| Ok::<_, ()>(context::get::<u8>())).execute(), Ok(None));
    assert_eq!(pool.run(|| Ok::<_, ()>(context::get::<u8>())).queue().wait(), Ok(None));
}

#[test]
fn hc_017_a_fallback_may_be_another_command() {
    let lab = Lab::new();
    let [outer, inner] = ["outer", "inner"].map(|key| lab.command(key).build().unwrap());
    let answer = outer.run(|| Err::<u32, String>("no".into())).fallback(|_| {
        let answer = inner.run(|| Ok::<_, String>(2)).execute();
        answer.map_err(|error| error.to_string())
    });
    assert_eq!(answer.execute(), Ok(2));
    assert_eq!((counts(&outer).as_str(), counts(&inner).as_str()), ("failure=1 fallback_ok=1", "ok=1"));
}

#[test]
fn hc_018_the_timeout_does_not_apply_to_the_fallback() {
    let lab = Lab::new();
    let command = lab.on_pool("slow_fallback", 1, 0).timeout("100ms").build().unwrap();
    let clock = lab.clock.clone();
    let call = command.run(|| Err::<u32, _>(())).fallback(|_| {
        clock.advance(ms(1500));
        Ok(4)
    });
    assert_eq!(call.execute(), Ok(4));
    assert_eq!(counts(&command), "failure=1 fallback_ok=1");
    assert_eq!(lab.events.last_call().total_time(), ms(1500));
    let here = lab.command("slow_task").timeout("100ms").build().unwrap();
    let ready = Cell::new(false);
    let waits = || poll_fn(|_| if ready.get() { Poll::Ready(Ok(5)) } else { Poll::Pending });
    let mut call = pin!(here.call(|| async { Err::<u32, _>(()) }).fallback(|_| waits()).into_future());
    assert!(call.as_mut().poll(&mut noop()).is_pending());
    lab.clock.advance(ms(1500));
    assert!(call.as_mut().poll(&mut noop()).is_pending());
    ready.set(true);
    assert_eq!(call.as_mut().poll(&mut noop()), Poll::Ready(Ok(5)));
}

#[test]
fn hc_019_hc_020_fb_10_a_fallback_that_is_switched_off_is_skipped() {
    let lab = Lab::new();
    let command = lab.command("off").fallback_enabled(false).build().unwrap();
    let call = command.run(|| Err::<u32, _>("E1")).fallback(|_| unreachable!("switched off"));
    assert_eq!(call.execute(), Err(CommandError::Inner("E1")));
    assert_eq!(counts(&command), "failure=1 fallback_skipped=1");
    // HC-020: both words are in the event; Hystrix knows that it was disabled, and we that it was skipped.
    let event = lab.events.last_call();
    assert_eq!((event.outcome, event.fallback), (Outcome::Failure, Some(FallbackOutcome::Skipped)));
}

#[test]
fn hc_021_a_panic_is_contained_and_its_message_told() {
    let lab = Lab::new();
    let command = lab.command("panics").build().unwrap();
    let result = command.run(|| -> Result<(), ()> { panic!("boom") }).execute();
    let Err(CommandError::Rejected(rejection)) = result else { panic!("{result:?}") };
    assert_eq!((rejection.kind(), rejection.message()), (RejectionKind::Panicked, Some("boom")));
    assert_eq!(rejection.fallback(), Some(FallbackOutcome::Missing));
    assert_eq!(counts(&command), "failure=1 fallback_missing=1");
}

#[test]
fn hc_024_a_future_that_is_never_polled_is_no_call() {
    let lab = Lab::new();
    let command = lab.command("unpolled").semaphore(1).build().unwrap();
    let pool = lab.on_pool("unpolled_pool", 1, 0).build().unwrap();
    drop(command.call(|| async { Ok::<_, ()>(()) }).into_future());
    drop(pool.call(|| async { Ok::<_, ()>(()) }).into_future());
    assert_eq!((counts(&command), counts(&pool)), (String::new(), String::new()));
    assert_at_rest(&command);
    assert!(lab.events.calls().is_empty());
}

#[test]
fn hc_027_a_fallback_that_says_it_cannot_has_failed() {
    let lab = Lab::new();
    let command = lab.command("unsupported").build().unwrap();
    let call = command.run(|| Err::<(), _>("no")).fallback(|_| Err("unsupported"));
    assert_eq!(call.execute(), Err(CommandError::Inner("unsupported")));
    assert_eq!(counts(&command), "failure=1 fallback_failure=1");
}

// ===== threads =====

#[test]
fn hc_030_hc_082_a_pool_body_runs_on_a_named_worker() {
    let lab = Lab::new();
    let command = lab.on_pool("naming", 1, 0).build().unwrap();
    let name = command.run(|| Ok::<_, ()>(thread::current().name().unwrap().to_owned())).execute().unwrap();
    assert_eq!(name, "hystrix-naming-1");
    let name = command.call(|| async { Ok::<_, ()>(thread::current().name().unwrap().to_owned()) });
    assert_eq!(block_on(name.into_future()).unwrap(), "hystrix-naming-1");
}

#[test]
fn hc_031_a_body_in_place_runs_on_its_callers_thread_and_may_borrow() {
    let lab = Lab::new();
    let command = lab.command("here").build().unwrap();
    let rows = [1, 2, 3];
    let not_send = Cell::new(0);
    let result = command.run(|| {
        not_send.set(rows.len());
        Ok::<_, ()>(thread::current().id())
    });
    assert_eq!(result.execute(), Ok(thread::current().id()));
    assert_eq!(not_send.get(), 3);
}

#[test]
fn hc_032_hc_034_a_body_knows_its_command_and_nobody_else_does() {
    let lab = Lab::new();
    let here = lab.command("here").build().unwrap();
    let pool = lab.on_pool("pool", 1, 0).build().unwrap();
    let name = || current_command().map(|key| key.name().to_owned());
    let seen = here.run(|| {
        let before = name();
        let inside = pool.run(move || Ok::<_, ()>(name())).execute().unwrap();
        Ok::<_, ()>([before, inside, name()])
    });
    let [before, inside, after] = seen.execute().unwrap();
    assert_eq!(
        (before.as_deref(), inside.as_deref(), after.as_deref()),
        (Some("here"), Some("pool"), Some("here"))
    );
    assert_eq!(name(), None);
    assert_eq!(pool.run(move || Ok::<_, ()>(name())).queue().wait().unwrap().as_deref(), Some("pool"));
    let seen = block_on(here.call(|| async move { Ok::<_, ()>(name()) }).into_future());
    assert_eq!((seen.unwrap().as_deref(), name()), (Some("here"), None));
}

#[test]
fn hc_035_async_commands_under_way_leave_the_thread_without_a_command() {
    let lab = Lab::new();
    let lab = &lab;
    let under_way = |key: &'static str| async move {
        let command = lab.command(key).build().unwrap();
        let body = move || {
            poll_fn(move |_| -> Poll<Result<(), ()>> {
                assert_eq!(current_command().unwrap().name(), key, "each sees its own at every poll");
                Poll::Pending
            })
        };
        command.call(body).await
    };
    let (mut one, mut two) = (pin!(under_way("one")), pin!(under_way("two")));
    for _ in 0..2 {
        assert!(one.as_mut().poll(&mut noop()).is_pending());
        assert_eq!(current_command(), None);
        assert!(two.as_mut().poll(&mut noop()).is_pending());
        assert_eq!(current_command(), None);
    }
    assert!(!cancellation().is_cancelled());
}

#[test]
fn hc_036_a_fallback_runs_on_the_waiting_caller() {
    let lab = Lab::new();
    let pool = lab.on_pool("fallback_thread", 1, 0).timeout("50ms").build().unwrap();
    let me = thread::current().id();
    // HC-036: Hystrix stays on the thread that failed.
    let failed = pool.run(|| Err(())).fallback(|_| Ok(thread::current().id())).execute();
    let panicked =
        pool.run(|| panic!("boom")).fallback(|_: CommandError<()>| Ok(thread::current().id())).execute();
    let gate = Gate::new();
    let inside = gate.clone();
    let (command, clock) = (pool.clone(), lab.clock.clone());
    let timed_out = aside(move || {
        let me = thread::current().id();
        let body = move || {
            inside.pass();
            Err(())
        };
        command.run(body).fallback(|_| Ok(thread::current().id())).execute() == Ok(me)
    });
    gate.until_came(1);
    let rejected = pool.run(|| Err(())).fallback(|_| Ok(thread::current().id())).execute();
    clock.advance(ms(50));
    assert!(joined(timed_out));
    assert_eq!((failed, panicked, rejected), (Ok(me), Ok(me), Ok(me)));
    pool.force_open();
    let short_circuited = pool.run(|| Err(())).fallback(|_| Ok(thread::current().id())).execute();
    assert_eq!(short_circuited, Ok(me));
    gate.open();
    assert_at_rest(&pool);
}

// ===== ignored and other results =====

#[test]
fn hc_171_ht_17_fb_09_an_ignored_error_is_returned_without_a_fallback_and_judges_nobody() {
    let lab = Lab::new();
    let here = lab.command("picky").circuit_breaker(touchy(1)).build().unwrap();
    let pool = lab.on_pool("picky_pool", 1, 0).circuit_breaker(touchy(1)).build().unwrap();
    let bad = || Err::<u8, _>("bad request");
    let inner = Err(CommandError::Inner("bad request"));
    assert_eq!(here.run(bad).ignore(|e| e.starts_with("bad")).fallback(|_| Ok(0)).execute(), inner);
    assert_eq!(pool.run(bad).ignore(|e| e.starts_with("bad")).fallback(|_| Ok(0)).execute(), inner);
    let queued = pool.run(bad).ignore(|e| e.starts_with("bad")).fallback(|_| Ok(0)).queue();
    assert_eq!(queued.wait(), inner);
    assert_eq!(counts(&here), "bad_request=1");
    assert_eq!(counts(&pool), "bad_request=2");
    assert_eq!(here.metrics().request_count(), 0);
    assert_eq!(lab.events.last_call().fallback, None);
}

#[test]
fn hc_174_a_rule_may_turn_a_failure_into_an_ignored_result() {
    let lab = Lab::new();
    let command = lab.command("rules").circuit_breaker(touchy(1)).build().unwrap();
    let classify = |result: &Result<u8, &str>| match result {
        Err("mine") => Class::IGNORE,
        Err("fine") => Class::SUCCESS,
        Ok(0) => Class::FAILURE,
        Ok(_) => Class::SUCCESS,
        Err(_) => Class::FAILURE,
    };
    assert_eq!(command.run(|| Err("mine")).classify(classify).execute(), Err(CommandError::Inner("mine")));
    assert_eq!(command.run(|| Err("fine")).classify(classify).execute(), Err(CommandError::Inner("fine")));
    assert_eq!(counts(&command), "ok=1 bad_request=1");
    assert_eq!(command.run(|| Ok(0)).classify(classify).fallback(|_| Ok(9)).execute(), Ok(9));
    assert_eq!(counts(&command), "ok=1 failure=1 bad_request=1 fallback_ok=1");
}

#[test]
fn a_value_judged_as_a_failure_counts_as_one_and_is_the_answer_without_a_fallback() {
    let lab = Lab::new();
    let command = lab.command("values").build().unwrap();
    let status = || Ok::<u16, ()>(503);
    assert_eq!(command.run(status).failure(|status| *status >= 500).execute(), Ok(503));
    let answer = command.run(status).failure(|status| *status >= 500).fallback(|error| {
        assert_eq!(error.rejection().map(|rejection| rejection.kind()), Some(RejectionKind::FailedValue));
        Ok(200)
    });
    assert_eq!(answer.execute(), Ok(200));
    let skipped = command.run(status).failure(|_| true).fallback(|_| Ok(200)).fallback_if(|_| false);
    assert_eq!(skipped.execute(), Ok(503));
    assert_eq!(counts(&command), "failure=3 fallback_ok=1 fallback_missing=1 fallback_skipped=1");
}

#[test]
fn ignore_wins_over_every_other_rule() {
    let lab = Lab::new();
    let command = lab.command("order").build().unwrap();
    let call = command.run(|| Err::<(), _>("x")).classify(|_| Class::FAILURE).ignore(|_| true);
    assert!(call.execute().is_err());
    assert_eq!(counts(&command), "bad_request=1");
}

#[test]
fn fb_01_fb_02_fb_03_a_fallback_can_be_for_some_errors_only() {
    let lab = Lab::new();
    let command = lab.command("some").build().unwrap();
    let applies = |kind: Kind| {
        let call = command.run(|| Err::<(), _>(kind)).fallback(|_| Ok(()));
        let wanted = |error: &CommandError<Kind>| {
            let kind = error.inner().expect("the body's error");
            kind.is_one_of(&[Kind::E0, Kind::E2]) && !kind.is_one_of(&[Kind::E1])
        };
        call.fallback_if(wanted).execute().is_ok()
    };
    // EH-A: include E0 and E2, exclude E1; exclusion wins.
    let kinds = [Kind::Generic, Kind::E0, Kind::E0S, Kind::E1, Kind::E1S, Kind::E2, Kind::E2S];
    assert_eq!(kinds.map(applies), [false, true, true, false, false, false, false]);
}

#[test]
fn fb_06_fb_07_a_fallback_is_told_the_cause_and_the_body_was_not_entered() {
    let lab = Lab::new();
    let command = lab.command("causes").semaphore(1).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let cause = || {
        let body = || {
            ran.fetch_add(1, SeqCst);
            Err::<Option<RejectionKind>, ()>(())
        };
        let fallback = |error: CommandError<()>| Ok(error.rejection().map(|rejection| rejection.kind()));
        command.run(body).fallback(fallback).execute().unwrap()
    };
    command.force_open();
    assert_eq!(cause(), Some(RejectionKind::ShortCircuited));
    command.clear_forced();
    let refused = command.run(|| Ok::<_, ()>(cause())).execute().unwrap();
    assert_eq!(refused, Some(RejectionKind::PermitsExhausted));
    assert_eq!(ran.load(SeqCst), 0);
    assert_eq!(cause(), None);
}

#[test]
fn fb_11_no_fallback_is_missing_and_not_failed() {
    let lab = Lab::new();
    let command = lab.command("missing").build().unwrap();
    let _ = command.run(|| Err::<(), _>("E")).execute();
    let counts = command.metrics().cumulative;
    assert_eq!((counts.fallback_missing, counts.fallback_failure, counts.exceptions_thrown()), (1, 0, 1));
}

#[test]
fn kb_24_kb_56_the_original_refusal_says_what_became_of_its_fallback() {
    let lab = Lab::new();
    let command = lab.command("fate").build().unwrap();
    command.force_open();
    let fate = |result: Result<(), CommandError<&str>>| {
        result.unwrap_err().rejection().and_then(|rejection| rejection.fallback())
    };
    assert_eq!(fate(command.run(|| Ok(())).execute()), Some(FallbackOutcome::Missing));
    let skipped = command.run(|| Ok(())).fallback(|_| Ok(())).fallback_if(|_| false).execute();
    assert_eq!(fate(skipped), Some(FallbackOutcome::Skipped));
    let panicked = command.run(|| Ok(())).fallback(|_| panic!("boom")).execute();
    assert_eq!(fate(panicked), Some(FallbackOutcome::Failure));
    let event = lab.events.last_call();
    assert_eq!(event.rejection, Some(RejectionKind::ShortCircuited));
    assert_eq!(event.fallback_rejection, Some(RejectionKind::Panicked));
}

#[test]
fn kb_31_a_command_calls_itself() {
    fn walk(command: &Command, depth: u32) -> Result<u32, CommandError<()>> {
        let result = command.run(|| match depth {
            0 => Ok(0),
            depth => walk(command, depth - 1).map(|below| below + 1),
        });
        result.execute().map_err(CommandError::flatten)
    }
    let lab = Lab::new();
    let command = lab.command("recursive").semaphore(4).build().unwrap();
    assert_eq!(walk(&command, 3), Ok(3));
    assert_eq!(counts(&command), "ok=4");
    assert!(walk(&command, 4).is_err(), "the fifth level finds no permit");
    assert_at_rest(&command);
}
