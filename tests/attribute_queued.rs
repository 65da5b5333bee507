//! A function declared `-> Queued<T, E>` returns at once: its call is waited for, awaited, left to run, or given up.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures::executor::block_on;
use hystrix_core::{
    CommandError, FallbackOutcome, Outcome, PoolCommand, Queued, RejectionKind, ThreadPool, command,
    command_of,
};

use support::*;

/// The name of the thread that asks, without a worker's number.
fn thread() -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}

/// The body is written as for a result: `return`, `?`, and the value at its end.
#[command(thread_pool = "queued", timeout = "20ms")]
fn passes(gate: Gate, ended: Arc<AtomicUsize>, number: u32) -> Queued<u32, String> {
    gate.pass();
    ended.fetch_add(1, SeqCst);
    if number == 0 {
        return Err("zero".into());
    }
    let parsed: u32 = number.to_string().parse().map_err(|_| "no number".to_string())?;
    Ok(parsed + 1)
}

#[test]
fn a_queued_function_returns_before_its_body_has_ended() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (gate, ended) = (Gate::new(), zero());
    let calls = [1, 0].map(|number| passes(gate.clone(), ended.clone(), number));
    gate.until_came(2);
    assert_eq!(ended.load(SeqCst), 0);
    gate.open();
    let answers = calls.map(Queued::wait);
    assert_eq!(answers, [Ok(2), Err(CommandError::Inner("zero".into()))]);
    assert_eq!(counts(&command_of!(passes)), "ok=1 failure=1 fallback_missing=1");
}

#[test]
fn hc_331_a_queued_function_is_a_future_for_any_executor() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (gate, ended) = (Gate::new(), zero());
    gate.open();
    let call = || passes(gate.clone(), ended.clone(), 1);
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = [block_on(call()), tokio.block_on(call()), smol::block_on(call())];
    assert_eq!(answers, [const { Ok(2) }; 3]);
}

#[test]
fn a_queued_call_that_is_dropped_is_cancelled_and_one_that_is_detached_runs_on() {
    #[command(thread_pool = ThreadPool::named("one").core_size(1).max_queue_size(4))]
    fn waits(gate: Gate, ended: Arc<AtomicUsize>) -> Queued<(), String> {
        gate.pass();
        ended.fetch_add(1, SeqCst);
        Ok(())
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (gate, ended) = (Gate::new(), zero());
    waits(gate.clone(), ended.clone()).detach();
    gate.until_came(1);
    drop(waits(gate.clone(), ended.clone()));
    gate.open();
    let command = command_of!(waits);
    until("the detached one has ended", || counts(&command) == "ok=1 cancelled=1");
    assert_eq!(ended.load(SeqCst), 1, "the dropped one never began");
    assert_at_rest(&command);
}

#[test]
fn a_queued_call_is_cut_at_its_timeout() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (gate, ended) = (Gate::new(), zero());
    let call = passes(gate.clone(), ended, 1);
    gate.until_came(1);
    lab.advance_when_armed(1, ms(20));
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    gate.open();
    assert_at_rest(&command_of!(passes));
}

#[command(thread_pool = "fails", fallback = |error| Ok(format!("{error} {number} {}", thread())))]
fn fails(number: u32) -> Queued<String, &'static str> {
    Err(if number == 0 { "zero" } else { "E1" })
}

#[test]
fn the_fallback_of_a_queued_function_runs_on_a_fallback_worker() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(fails(7).wait(), Ok("E1 7 hystrix-fallback-".into()));
    command_of!(fails).force_open();
    let refused = block_on(fails(8)).unwrap();
    assert!(refused.ends_with("8 hystrix-fallback-"), "{refused}");
    let event = lab.events.last_call();
    assert_eq!((event.outcome, event.fallback), (Outcome::ShortCircuited, Some(FallbackOutcome::Success)));
}

fn stale(number: u32, text: String, error: CommandError<&'static str>) -> Result<String, &'static str> {
    Ok(format!("{number} {text} {error} {}", thread()))
}

#[test]
fn a_queued_function_has_the_rules_and_fallbacks_of_others() {
    #[command(thread_pool, ignore = |error| *error == "mine", fallback_value = number)]
    fn ruled(number: u32) -> Queued<u32, &'static str> {
        Err(if number == 0 { "mine" } else { "E1" })
    }
    #[command(thread_pool, fallback = stale, fallback_if = |error| error.inner().is_some())]
    fn by_function(number: u32, text: String) -> Queued<String, &'static str> {
        Err(if text.len() == number as usize { "same" } else { "E1" })
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((ruled(0).wait(), ruled(3).wait()), (Err(CommandError::Inner("mine")), Ok(3)));
    assert_eq!(by_function(3, "tea".into()).wait(), Ok("3 tea same hystrix-fallback-".into()));
    command_of!(by_function).force_open();
    assert_eq!(kind(&by_function(3, "tea".into()).wait()), Some(RejectionKind::ShortCircuited));
}

#[derive(Clone)]
struct Mailer {
    from: String,
    pool: PoolCommand,
}

impl Mailer {
    #[command(thread_pool, to_owned(self, to))]
    fn send(&self, to: &str) -> Queued<String, String> {
        Ok(format!("{} {to} {}", self.from, thread()))
    }

    #[command(command = self.pool)]
    fn given(&self, number: u32) -> hystrix_core::Queued<u32, String> {
        Ok(number)
    }

    #[command(thread_pool = "by key", key = to)]
    fn by_key(self: Arc<Self>, to: String) -> Queued<String, String> {
        Ok(format!("{} {to}", self.from))
    }
}

#[test]
fn a_queued_method_is_lent_its_object_has_a_key_or_a_given_command() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let pool = lab.on_pool("given", 1, 1).build().unwrap();
    let mailer = Arc::new(Mailer { from: "me".into(), pool });
    let (sent, given) = (mailer.send("you"), mailer.given(3));
    let by_key = mailer.clone().by_key("you".into());
    drop(mailer);
    assert_eq!((sent.wait(), given.wait()), (Ok("me you hystrix-Mailer-".into()), Ok(3)));
    assert_eq!(by_key.wait(), Ok("me you".into()));
    let keys: Vec<_> = lab.registry.commands().iter().map(|command| command.key().to_string()).collect();
    assert_eq!(keys, ["Mailer/by_key:you", "Mailer/send", "lab/given"]);
}

#[test]
fn a_queued_body_that_panics_answers_with_a_rejection() {
    #[command(thread_pool)]
    fn panics(number: u32) -> Queued<u32, String> {
        panic!("number {number}")
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let error = panics(7).wait().unwrap_err();
    assert_eq!(error.rejection().and_then(|panicked| panicked.message()), Some("number 7"));
}
