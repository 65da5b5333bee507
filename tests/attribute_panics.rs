//! Code in and around an annotated function that panics: contained where the call has begun, handed on where it has not, nothing kept.

mod support;

use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use futures::executor::block_on;
use hystrix_core::{CommandError, CommandHandle, Registry, RejectionKind, ThreadPool, command, command_of};

use support::*;

type Answer<T = u32> = Result<T, CommandError<&'static str>>;

/// The message of a panic that was contained.
fn contained<T>(result: Answer<T>) -> String {
    let Err(CommandError::Rejected(rejection)) = result else { panic!("it was refused") };
    assert_eq!(rejection.kind(), RejectionKind::Panicked);
    rejection.message().unwrap_or_default().to_owned()
}

/// The message of a panic that reaches the caller.
fn unwinds<T>(call: impl FnOnce() -> T) -> String {
    let panicked = catch_unwind(AssertUnwindSafe(call)).err().expect("it panics");
    let text = panicked.downcast_ref::<String>().cloned();
    text.or_else(|| panicked.downcast_ref::<&str>().map(|text| text.to_string())).expect("with a message")
}

/// The only command there is.
fn only(registry: &Registry) -> CommandHandle {
    let commands = registry.commands();
    assert_eq!(commands.len(), 1);
    commands[0].clone()
}

#[test]
fn bc_053_a_body_that_panics_gives_its_permit_back_in_every_colour_and_isolation() {
    #[command(semaphore = 2, circuit_breaker = None)]
    fn here() -> Answer {
        panic!("here")
    }
    #[command(semaphore = 2, circuit_breaker = None)]
    async fn before_the_first_await() -> Answer {
        panic!("before")
    }
    #[command(semaphore = 2, circuit_breaker = None)]
    async fn behind_an_await() -> Answer {
        futures::future::poll_immediate(std::future::pending::<()>()).await;
        panic!("behind")
    }
    #[command(thread_pool = ThreadPool::named("two").core_size(2).max_queue_size(20), circuit_breaker = None)]
    async fn on_a_pool() -> Answer {
        panic!("on a pool")
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..20 {
        let later = [block_on(before_the_first_await()), block_on(behind_an_await()), block_on(on_a_pool())];
        assert_eq!(later.map(contained), ["before", "behind", "on a pool"]);
        assert_eq!(contained(here()), "here");
    }
    for command in lab.registry.commands() {
        assert_at_rest(&command);
        assert_eq!(counts(&command), "failure=20 fallback_missing=20");
    }
}

#[test]
fn bc_053_a_panic_in_a_rule_is_one_of_the_call() {
    #[command(semaphore = 2, circuit_breaker = None, ignore = |_| panic!("ignore"))]
    fn ignoring() -> Answer {
        Err("E1")?
    }
    #[command(semaphore = 2, circuit_breaker = None, failure = |_| panic!("failure"))]
    async fn failing() -> Answer {
        Ok(1)
    }
    #[command(thread_pool, circuit_breaker = None, classify = |_| panic!("classify"))]
    fn classifying() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..20 {
        let answers = [ignoring(), block_on(failing()), classifying()].map(contained);
        assert_eq!(answers, ["ignore", "failure", "classify"]);
    }
    for command in lab.registry.commands() {
        assert_at_rest(&command);
        assert_eq!(counts(&command), "failure=20 fallback_missing=20");
    }
}

#[test]
fn bc_053_a_panic_in_a_fallback_or_its_condition_is_contained_and_its_permit_comes_back() {
    #[command(fallback_semaphore = 2, circuit_breaker = None, fallback = |_| panic!("fallback"))]
    fn falling() -> Answer {
        Err("E1")?
    }
    #[command(fallback_semaphore = 2, circuit_breaker = None, fallback = async |_| panic!("later"))]
    async fn falling_later() -> Answer {
        Err("E1")?
    }
    #[command(semaphore = 2, circuit_breaker = None, fallback_value = 1, fallback_if = |_| panic!("condition"))]
    fn asking() -> Answer {
        Err("E1")?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..20 {
        assert_eq!(
            (contained(falling()), contained(block_on(falling_later()))),
            ("fallback".into(), "later".into())
        );
        assert!(asking().is_err());
    }
    for command in [command_of!(falling), command_of!(falling_later), command_of!(asking)] {
        assert_at_rest(&command);
        assert_eq!(counts(&command), "failure=20 fallback_failure=20");
    }
}

/// Displays itself only when it is told to.
struct Key(bool);

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0, "no display");
        f.write_str("key")
    }
}

#[test]
fn bc_053_a_panic_in_a_keys_display_reaches_the_caller_before_anything_was_taken() {
    #[command(semaphore = 2, key = key)]
    fn here(key: Key) -> Answer {
        Ok(1)
    }
    #[command(semaphore = 2, key = key)]
    async fn later(key: Key) -> Answer {
        Ok(1)
    }
    for call in [|shown| here(Key(shown)), |shown| block_on(later(Key(shown)))] {
        let lab = Lab::new();
        let _here = lab.registry.enter();
        for _ in 0..20 {
            assert_eq!(unwinds(|| call(false)), "no display");
        }
        assert_eq!(lab.registry.commands().len(), 0);
        assert_eq!((call(true), &*counts(&only(&lab.registry))), (Ok(1), "ok=1"));
        assert_at_rest(&only(&lab.registry));
    }
}

/// Cannot be cloned.
#[derive(Debug)]
struct Single;

impl Clone for Single {
    fn clone(&self) -> Self {
        panic!("no clone")
    }
}

impl Single {
    #[command(thread_pool, to_owned(self))]
    fn method(&self) -> Answer<String> {
        Ok(format!("{self:?}"))
    }
}

#[test]
fn bc_053_a_panic_in_an_arguments_clone_reaches_the_caller_before_anything_was_taken() {
    #[command(semaphore = 2, fallback = |_| Ok(format!("{single:?}").len() as u32))]
    fn kept(single: Single) -> Answer {
        let _taken = single;
        Ok(1)
    }
    #[command(semaphore = 2, fallback = |_| Ok(format!("{single:?}").len() as u32))]
    async fn kept_later(single: Single) -> Answer {
        let _taken = single;
        Ok(1)
    }
    #[command(thread_pool, to_owned(single))]
    fn lent(single: &Single) -> Answer {
        let _ = single;
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..20 {
        assert_eq!(unwinds(|| kept(Single)), "no clone");
        assert_eq!(unwinds(|| block_on(kept_later(Single))), "no clone");
        assert_eq!(unwinds(|| lent(&Single)), "no clone");
        assert_eq!(unwinds(|| Single.method()), "no clone");
    }
    for command in lab.registry.commands() {
        assert_eq!(counts(&command), "");
        assert_at_rest(&command);
    }
}

#[test]
fn bc_053_a_panic_in_a_value_that_stands_in_reaches_the_caller_before_anything_was_taken() {
    #[command(semaphore = 2, fallback_value = number.checked_sub(1).expect("no value"))]
    fn valued(number: u32) -> Answer {
        Ok(number)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..20 {
        assert_eq!(unwinds(|| valued(0)), "no value");
    }
    assert_eq!((valued(1), &*counts(&command_of!(valued))), (Ok(1), "ok=1"));
    assert_at_rest(&command_of!(valued));
}

#[test]
fn bc_053_a_panic_in_what_makes_an_error_of_a_refusal_reaches_the_caller_after_everything_was_given_back() {
    #[command(semaphore = 2, rejected = |rejection| panic!("{}", rejection.command()))]
    fn refused() -> Result<u32, u8> {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    command_of!(refused).force_open();
    for _ in 0..20 {
        assert_eq!(unwinds(refused), "attribute_panics/refused");
    }
    command_of!(refused).clear_forced();
    assert_eq!(refused(), Ok(1));
    assert_eq!(counts(&command_of!(refused)), "ok=1 short_circuited=20 fallback_missing=20");
    assert_at_rest(&command_of!(refused));
}

#[test]
fn bc_053_a_setting_that_panics_reaches_the_first_caller_and_the_next_one_evaluates_it_again() {
    static BAD: AtomicBool = AtomicBool::new(true);
    static EVALUATED: AtomicUsize = AtomicUsize::new(0);
    fn permits() -> usize {
        assert!(!BAD.load(SeqCst), "no permits");
        EVALUATED.fetch_add(1, SeqCst) + 7
    }
    #[command(semaphore = permits())]
    fn limited() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!([unwinds(limited), unwinds(limited)], ["no permits"; 2]);
    BAD.store(false, SeqCst);
    assert_eq!((limited(), limited(), EVALUATED.load(SeqCst)), (Ok(1), Ok(1), 1));
    assert_eq!(command_of!(limited).settings().semaphore().value.get(), Some(7));
}
