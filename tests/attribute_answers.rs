//! What the attribute says about results and about answers in the body's place: rules, fallbacks in every form, and refusals.

mod support;

use std::rc::Rc;
use std::thread::ThreadId;

use futures::executor::block_on;
use hystrix_core::{Class, CommandError, FallbackOutcome, Force, RejectionKind, command, command_of};

use support::*;

type Answer<T = u32> = Result<T, CommandError<&'static str>>;

fn own<T>(error: &'static str) -> Answer<T> {
    Err(CommandError::Inner(error))
}

// ===== what a result means =====

#[test]
fn hc_311_an_ignored_error_is_returned_as_it_is_without_a_fallback() {
    #[command(ignore = |error| *error == "mine", fallback_value = 9)]
    fn here(error: &'static str) -> Answer {
        Err(error)?
    }
    #[command(thread_pool, ignore = |error| *error == mine, fallback_value = 9)]
    async fn on_a_pool(error: &'static str, mine: &'static str) -> Answer {
        Err(error)?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here("mine"), here("E1")), (own("mine"), Ok(9)));
    let pooled = |error| block_on(on_a_pool(error, "mine"));
    assert_eq!((pooled("mine"), pooled("E1")), (own("mine"), Ok(9)));
    for command in [command_of!(here), command_of!(on_a_pool)] {
        assert_eq!(counts(&command), "failure=1 bad_request=1 fallback_ok=1");
    }
}

#[test]
fn a_value_judged_as_a_failure_counts_as_one_and_the_fallback_is_asked() {
    #[command(failure = |value| *value == 0, fallback = |error| Ok(error.rejection().unwrap().kind() as u32 + 100))]
    fn here(number: u32) -> Answer {
        Ok(number)
    }
    #[command(failure = |value| value.is_empty())]
    async fn without(text: &str) -> Answer<&str> {
        Ok(text)
    }
    #[command(thread_pool, failure = |value| *value > limit)]
    fn on_a_pool(number: u32, limit: u32) -> Answer {
        Ok(number)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here(1), here(0)), (Ok(1), Ok(RejectionKind::FailedValue as u32 + 100)));
    assert_eq!((block_on(without("a")), block_on(without(""))), (Ok("a"), Ok("")));
    assert_eq!((on_a_pool(3, 3), on_a_pool(4, 3)), (Ok(3), Ok(4)));
    assert_eq!(counts(&command_of!(here)), "ok=1 failure=1 fallback_ok=1");
    for command in [command_of!(without), command_of!(on_a_pool)] {
        assert_eq!(counts(&command), "ok=1 failure=1 fallback_missing=1");
    }
}

#[test]
fn classify_says_what_a_result_means_and_ignore_wins_over_it() {
    fn class(result: &Answer) -> Class {
        match result {
            Ok(0) | Err(CommandError::Inner("neutral")) => Class::IGNORE,
            Ok(_) => Class::SUCCESS,
            Err(CommandError::Inner("fine")) => Class::SUCCESS,
            Err(_) => Class::FAILURE,
        }
    }
    #[command(classify = class, ignore = |error| *error == "ignored", fallback_value = 9)]
    fn here(result: Result<u32, &'static str>) -> Answer {
        Ok(result?)
    }
    #[command(thread_pool, classify = |end| if *end == Ok(2) { Class::FAILURE } else { class(end) }, ignore = |error| *error == "ignored", fallback_value = 9)]
    async fn on_a_pool(result: Result<u32, &'static str>) -> Answer {
        Ok(result?)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for result in [Ok(1), Ok(0), Err("neutral"), Err("fine"), Err("ignored"), Err("E1")] {
        let expected = if result == Err("E1") { Ok(9) } else { result.map_err(CommandError::Inner) };
        assert_eq!((here(result), block_on(on_a_pool(result))), (expected.clone(), expected));
    }
    for command in [command_of!(here), command_of!(on_a_pool)] {
        assert_eq!(counts(&command), "ok=2 failure=1 bad_request=3 fallback_ok=1");
    }
}

// ===== closures =====

struct Shop {
    name: &'static str,
}

impl Shop {
    #[command(fallback = |_| Ok(format!("{} stale {item}", self.name)))]
    fn names_self(&self, item: &str) -> Answer<String> {
        Err(if item.is_empty() { "empty" } else { "E1" })?
    }

    #[command(fallback = async |_| Ok(self.name.len() + item.len()))]
    async fn names_self_later(&self, item: &str) -> Answer<usize> {
        std::future::ready(()).await;
        Err(if item.is_empty() { "empty" } else { "E1" })?
    }

    #[command(fallback = |_| Ok(self.stale()), timeout = "1m")]
    fn borrows_exclusively(&self) -> Answer {
        Err("E1")?
    }

    fn stale(&self) -> u32 {
        4
    }
}

#[test]
fn a_closure_may_name_nothing_arguments_or_self() {
    #[command(fallback = |_| Ok(7))]
    fn names_nothing() -> Answer {
        Err("E1")?
    }
    #[command(thread_pool, fallback = |error| Ok(list.len() as u32 + number + error.into_inner().unwrap().len() as u32))]
    fn names_arguments(list: Vec<u8>, number: u32) -> Answer {
        drop(list);
        Err(if number == 0 { "zero" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((names_nothing(), names_arguments(vec![1, 2], 10)), (Ok(7), Ok(14)));
    let shop = Shop { name: "shop" };
    assert_eq!(shop.names_self("tea"), Ok("shop stale tea".into()));
    assert_eq!(block_on(shop.names_self_later("tea")), Ok(7));
    assert_eq!(shop.borrows_exclusively(), Ok(4));
}

#[test]
fn an_argument_may_be_named_in_a_format_string_alone() {
    #[command(fallback = |error| Ok(format!("{item:>4}|{error}|{{item}}|{:width$}", 1)))]
    fn here(item: String, width: usize) -> Answer<String> {
        drop((item, width));
        Err("E1")?
    }
    #[command(thread_pool, fallback = |_| Ok(format!("{item}!")))]
    async fn on_a_pool(item: String) -> Answer<String> {
        drop(item);
        Err("E1")?
    }
    struct Named(&'static str);
    impl std::fmt::Display for Named {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }
    impl Named {
        #[command(fallback = |_| Ok(format!("{self}!")))]
        fn get(&self) -> Answer<String> {
            Err("E1")?
        }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(here("tea".into(), 3), Ok(" tea|E1|{item}|  1".into()));
    assert_eq!(block_on(on_a_pool("tea".into())), Ok("tea!".into()));
    assert_eq!(Named("name").get(), Ok("name!".into()));
}

#[test]
fn hc_305_hc_306_the_fallback_of_an_async_command_is_a_result_or_a_future_of_one() {
    #[command(fallback = |_| Ok(1))]
    async fn a_result() -> Answer {
        Err("E1")?
    }
    #[command(fallback = |_| async move { Ok(number + 1) })]
    async fn a_block(number: u32) -> Answer {
        Err("E1")?
    }
    #[command(fallback = async |error| { std::future::ready(()).await; Err(error) })]
    async fn an_async_closure() -> Answer {
        Err("E1")?
    }
    #[command(fallback = |_| another(3))]
    async fn another_command() -> Answer {
        Err("E1")?
    }
    #[command]
    async fn another(number: u32) -> Answer {
        Ok(number)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let answers = [block_on(a_result()), block_on(a_block(1)), block_on(another_command())];
    assert_eq!(answers, [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(block_on(an_async_closure()), own("E1"));
    assert_eq!((&*counts(&command_of!(another)), lab.registry.audit().len()), ("ok=1", 0));
}

// ===== functions =====

fn stale(number: u32, text: &str, error: CommandError<&'static str>) -> Answer {
    Ok(number + text.len() as u32 + error.into_inner().map_or(0, |error| error.len() as u32))
}

fn of_any<T: Default>(_number: u32, _error: CommandError<&'static str>) -> Answer<T> {
    Ok(T::default())
}

async fn later(list: Vec<u8>, _error: CommandError<&'static str>) -> Answer<usize> {
    std::future::ready(()).await;
    Ok(list.len())
}

#[test]
fn a_function_gets_the_arguments_and_then_the_error() {
    #[command(fallback = stale)]
    fn here(number: u32, text: &str) -> Answer {
        Err(if text.len() > number as usize { "long" } else { "E1" })?
    }
    #[command(thread_pool, fallback = of_any::<u32>)]
    fn on_a_pool(number: u32) -> Answer {
        Err(if number == 0 { "zero" } else { "E1" })?
    }
    #[command(fallback = self::later)]
    async fn of_a_future(list: Vec<u8>) -> Answer<usize> {
        drop(list);
        Err("E1")?
    }
    #[command(thread_pool, fallback = stale, to_owned(text))]
    async fn of_a_result(number: u32, text: &str) -> Answer {
        Err(if text.len() > number as usize { "long" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here(1, "text"), on_a_pool(1)), (Ok(9), Ok(0)));
    assert_eq!((block_on(of_a_future(vec![1, 2])), block_on(of_a_result(9, "text"))), (Ok(2), Ok(15)));
}

impl Shop {
    #[command(fallback = Self::no_receiver)]
    fn make(number: u32) -> Answer<Self> {
        Err(if number == 0 { "zero" } else { "E1" })?
    }

    fn no_receiver(number: u32, _: CommandError<&'static str>) -> Answer<Self> {
        Ok(Self { name: if number == 7 { "seven" } else { "other" } })
    }

    #[command(fallback = Self::method)]
    fn by_method(&self, number: u32) -> Answer {
        Err(if number == 0 { "zero" } else { self.name })?
    }

    #[command(fallback = Shop::method, timeout = "1m")]
    async fn by_method_later(&self, number: u32) -> Answer {
        Err(if number == 0 { "zero" } else { self.name })?
    }

    fn method(&self, number: u32, error: CommandError<&'static str>) -> Answer {
        Ok(number + self.name.len() as u32 + error.into_inner().unwrap().len() as u32)
    }
}

#[test]
fn hc_302_a_fallback_may_be_associated_generic_or_a_method() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let shop = Shop { name: "shop" };
    assert_eq!(Shop::make(7).map(|shop| shop.name), Ok("seven"));
    assert_eq!((shop.by_method(1), block_on(shop.by_method_later(2))), (Ok(9), Ok(10)));
}

#[test]
fn hc_307_kb_30_a_function_that_takes_the_error_by_a_wider_type_is_a_fallback_too() {
    fn of_any_error<E: std::fmt::Display>(item: &str, error: E) -> Answer<String> {
        Ok(format!("{item}: {error}"))
    }
    #[command(fallback = of_any_error)]
    fn here(item: &str) -> Answer<String> {
        Err(if item.is_empty() { "empty" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(here("tea"), Ok("tea: E1".into()));
}

#[test]
fn a_function_given_in_parentheses_or_by_a_constant_gets_the_arguments_as_well() {
    const STALE: fn(u32, &str, CommandError<&'static str>) -> Answer = stale;
    #[command(fallback = (stale))]
    fn in_parentheses(number: u32, text: &str) -> Answer {
        Err(if text.len() > number as usize { "long" } else { "E1" })?
    }
    #[command(fallback = STALE)]
    fn by_a_constant(number: u32, text: &str) -> Answer {
        Err(if text.len() > number as usize { "long" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((in_parentheses(1, ""), by_a_constant(2, "")), (Ok(3), Ok(4)));
}

// ===== around the fallback =====

#[test]
fn a_fallback_value_takes_no_permit_and_may_name_arguments() {
    #[command(fallback_value = number * 2, semaphore = 1)]
    fn here(number: u32) -> Answer {
        if number == 0 { Err("E1")? } else { here(number - 1) }
    }
    #[command(fallback_value = list.len())]
    async fn later(list: Vec<u32>) -> Answer<usize> {
        drop(list);
        Err("E1")?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here(0), here(3), block_on(later(vec![1]))), (Ok(0), Ok(4), Ok(1)));
    assert_eq!(counts(&command_of!(here)), "ok=1 failure=1 semaphore_rejected=1 fallback_ok=2");
}

#[test]
fn fallback_if_says_which_errors_are_answered() {
    #[command(fallback_value = 9, fallback_if = |error| error.is_timeout() || error.inner() == Some(&"E1"))]
    fn here(error: &'static str) -> Answer {
        Err(error)?
    }
    #[command(fallback = async |_| Ok(9), fallback_if = |error| error.inner() == Some(&wanted))]
    async fn later(error: &'static str, wanted: &'static str) -> Answer {
        Err(error)?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here("E1"), here("E2")), (Ok(9), own("E2")));
    command_of!(here).force(Force::Timeout);
    assert_eq!(here("E2"), Ok(9));
    command_of!(here).force(None);
    assert_eq!((block_on(later("a", "a")), block_on(later("a", "b"))), (Ok(9), own("a")));
    command_of!(later).force_open();
    let rejection = block_on(later("a", "a")).unwrap_err().rejection().cloned().unwrap();
    assert_eq!(rejection.fallback(), Some(FallbackOutcome::Skipped));
}

#[test]
fn a_timed_fallback_that_owns_all_runs_on_a_worker_unless_it_is_to_stay_here() {
    fn thread() -> ThreadId {
        std::thread::current().id()
    }
    #[command(timeout = "20ms", fallback = |_| Ok(thread()))]
    fn elsewhere(clock: hystrix_core::ManualClock) -> Answer<ThreadId> {
        clock.advance(ms(20));
        Ok(thread())
    }
    // By its letters a type parameter it is not.
    #[derive(Clone, Copy)]
    struct Id(u8);
    #[command(timeout = "20ms", fallback = |_| { let Id(_) = id; Ok(thread()) })]
    fn of_a_short_type(clock: hystrix_core::ManualClock, id: Id) -> Answer<ThreadId> {
        clock.advance(ms(u64::from(id.0)));
        Ok(thread())
    }
    #[command(timeout = "20ms", fallback = |_| Ok(thread()), fallback_here)]
    fn here(clock: hystrix_core::ManualClock) -> Answer<ThreadId> {
        clock.advance(ms(20));
        Err("E1")?
    }
    #[command(timeout = "20ms", fallback = |_| { let _ = clock.armed(); Ok(thread()) })]
    fn borrows(clock: &hystrix_core::ManualClock) -> Answer<ThreadId> {
        clock.advance(ms(20));
        Err("E1")?
    }
    #[command(timeout = "20ms", fallback = |_| { drop(held); Ok(thread()) })]
    fn cannot_go(clock: hystrix_core::ManualClock, held: Rc<u32>) -> Answer<ThreadId> {
        clock.advance(ms(20));
        Err(if *held == 0 { "zero" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_ne!(elsewhere(lab.clock.clone()).unwrap(), thread());
    assert_ne!(of_a_short_type(lab.clock.clone(), Id(20)).unwrap(), thread());
    assert_eq!([here(lab.clock.clone()).unwrap(), borrows(&lab.clock).unwrap()], [thread(); 2]);
    assert_eq!(cannot_go(lab.clock.clone(), Rc::new(1)), Ok(thread()), "it is not `Send`");
    for command in lab.registry.commands() {
        assert_eq!(counts(&command), "timeout=1 fallback_ok=1");
    }
}

#[test]
fn a_fallback_semaphore_bounds_the_fallbacks() {
    #[command(fallback_semaphore = 1, fallback = |_| nested(depth - 1))]
    fn nested(depth: u32) -> Answer {
        Err(if depth == 0 { "zero" } else { "E1" })?
    }
    #[command(fallback_semaphore = None, semaphore = 1, fallback = async |_| if depth == 0 { Ok(0) } else { Box::pin(unlimited(depth - 1)).await })]
    async fn unlimited(depth: u32) -> Answer {
        Err("E1")?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((nested(2), block_on(unlimited(30))), (own("E1"), Ok(0)));
    assert_eq!(counts(&command_of!(nested)), "failure=2 fallback_failure=1 fallback_rejected=1");
    assert_eq!(command_of!(unlimited).settings().fallback_semaphore().value.get(), None);
}

#[test]
fn rejected_says_what_the_functions_error_is_when_the_library_refuses() {
    #[derive(Debug, PartialEq)]
    enum Status {
        Unavailable(String, RejectionKind),
        Own,
    }
    #[command(rejected = |rejection| Status::Unavailable(tenant.to_uppercase(), rejection.kind()))]
    fn here(tenant: String) -> Result<u32, Status> {
        drop(tenant);
        Err(Status::Own)
    }
    #[command(thread_pool, rejected = |rejection| Status::Unavailable(tenant.into(), rejection.kind()), to_owned(tenant))]
    async fn on_a_pool(tenant: &str) -> Result<u32, Status> {
        if tenant.is_empty() { Ok(0) } else { Err(Status::Own) }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here("a".into()), block_on(on_a_pool("a"))), (Err(Status::Own), Err(Status::Own)));
    command_of!(here).force_open();
    command_of!(on_a_pool).force(Force::Timeout);
    assert_eq!(here("a".into()), Err(Status::Unavailable("A".into(), RejectionKind::ShortCircuited)));
    assert_eq!(block_on(on_a_pool("a")), Err(Status::Unavailable("a".into(), RejectionKind::TimedOut)));
}
