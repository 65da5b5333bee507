//! The three ways in which a function's error says the library's "no", what rules and fallbacks see of it, and what a chain of commands gives.

mod support;

use std::error::Error;
use std::io;
use std::sync::Mutex;

use futures::executor::block_on;
use hystrix_core::{
    CommandError, FallbackOutcome, Force, Outcome, Rejection, RejectionKind, command, command_of,
};

use support::*;

type Answer<T = u32, E = &'static str> = Result<T, CommandError<E>>;

fn own<T>(error: &'static str) -> Answer<T> {
    Err(CommandError::Inner(error))
}

/// Every way in which the library refuses, with its kind in place and on a pool.
fn refusals() -> [(Force, RejectionKind, RejectionKind); 4] {
    let alike = |force, kind| (force, kind, kind);
    [
        alike(Force::Timeout, RejectionKind::TimedOut),
        alike(Force::ShortCircuited, RejectionKind::ShortCircuited),
        (Force::Rejected, RejectionKind::PermitsExhausted, RejectionKind::PoolFull),
        alike(Force::Panic, RejectionKind::Panicked),
    ]
}

// ===== CommandError =====

#[test]
fn hc_314_kb_42_without_a_fallback_the_functions_own_error_comes_unwrapped_and_a_refusal_as_such() {
    #[command]
    fn here(error: Option<&'static str>) -> Answer {
        Ok(error.map_or(Ok(1), Err)?)
    }
    #[command(thread_pool)]
    async fn on_a_pool(error: Option<&'static str>) -> Answer {
        Ok(error.map_or(Ok(1), Err)?)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here(Some("E1")), block_on(on_a_pool(Some("E1")))), (own("E1"), own("E1")));
    for (force, in_place, pool) in refusals() {
        command_of!(here).force(force);
        command_of!(on_a_pool).force(force);
        assert_eq!([kind(&here(None)), kind(&block_on(on_a_pool(None)))], [Some(in_place), Some(pool)]);
    }
    let rejection = here(None).unwrap_err().rejection().cloned().unwrap();
    assert_eq!(
        (rejection.command(), rejection.fallback()),
        (command_of!(here).key(), Some(FallbackOutcome::Missing))
    );
}

#[test]
fn the_error_inside_may_be_generic_foreign_or_behind_an_alias() {
    type Aliased<T> = Result<T, CommandError<io::Error>>;
    #[command(ignore = |error| *error == other)]
    fn generic<E: PartialEq + Clone>(sent: E, other: E) -> Answer<u32, E> {
        Err(sent)?
    }
    #[command(ignore = |error| error.kind() == io::ErrorKind::NotFound, fallback = |error| Ok(error.to_string()))]
    async fn aliased(kind: io::ErrorKind) -> Aliased<String> {
        Err(io::Error::from(kind))?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(generic(3u8, 4), Err(CommandError::Inner(3)));
    assert_eq!(generic("a", "a"), Err(CommandError::Inner("a")));
    assert_eq!(counts(&command_of!(generic)), "failure=1 bad_request=1 fallback_missing=1");
    let ignored = block_on(aliased(io::ErrorKind::NotFound)).unwrap_err().into_inner();
    assert_eq!(ignored.map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    assert_eq!(block_on(aliased(io::ErrorKind::Other)).unwrap(), "other error");
}

#[test]
fn hc_308_kb_44_a_fallback_gets_the_error_of_every_refusal_and_it_is_flat() {
    fn shown(error: &CommandError<&'static str>) -> String {
        error.rejection().map_or(format!("{error}"), |rejection| format!("{:?}", rejection.kind()))
    }
    fn stale(_number: u32, error: CommandError<&'static str>) -> Answer<String> {
        assert_eq!(error.rejection().and_then(Rejection::fallback), None, "nothing has become of it yet");
        Ok(shown(&error))
    }
    #[command(fallback = stale)]
    fn by_function(number: u32) -> Answer<String> {
        Err(if number == 0 { "zero" } else { "E1" })?
    }
    #[command(thread_pool, fallback = async |error| Ok(shown(&error)))]
    async fn by_closure(number: u32) -> Answer<String> {
        Err(if number == 0 { "zero" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((by_function(1), block_on(by_closure(0))), (Ok("E1".into()), Ok("zero".into())));
    for (force, in_place, pool) in refusals() {
        command_of!(by_function).force(force);
        command_of!(by_closure).force(force);
        let answers = (by_function(1).unwrap(), block_on(by_closure(0)).unwrap());
        assert_eq!(answers, (format!("{in_place:?}"), format!("{pool:?}")));
    }
}

#[test]
fn hc_308_kb_44_a_fallback_gets_the_error_of_a_timeout_that_happens() {
    #[command(thread_pool, timeout = "20ms", fallback = |error| Ok(error.rejection().unwrap().timeout().unwrap()))]
    fn waits(gate: Gate) -> Answer<std::time::Duration> {
        gate.pass();
        Err("late")?
    }
    let lab = Lab::new();
    let (gate, registry) = (Gate::new(), lab.registry.clone());
    let body = gate.clone();
    let caller = aside(move || {
        let _here = registry.enter();
        waits(body)
    });
    lab.advance_when_armed(1, ms(20));
    assert_eq!(joined(caller), Ok(ms(20)));
    gate.open();
    assert_at_rest(&lab.registry.find("attribute_errors", "waits").unwrap());
}

// ===== From<Rejection> =====

#[derive(Clone, Debug, PartialEq)]
enum Api {
    Refused(RejectionKind),
    Missing,
    Broken,
}

impl From<Rejection> for Api {
    fn from(rejection: Rejection) -> Self {
        Api::Refused(rejection.kind())
    }
}

impl From<std::num::ParseIntError> for Api {
    fn from(_: std::num::ParseIntError) -> Self {
        Api::Broken
    }
}

#[test]
fn a_functions_own_error_is_made_of_a_refusal_and_rules_and_fallbacks_see_it() {
    #[command(ignore = |error| *error == Api::Missing, fallback = |error| match error {
        CommandError::Inner(Api::Broken) => Ok(100),
        CommandError::Rejected(rejection) => Err(rejection.into()),
        _ => Ok(0),
    })]
    fn here(text: &str) -> Result<u32, Api> {
        if text.is_empty() { Err(Api::Missing) } else { Ok(text.parse()?) }
    }
    #[command(thread_pool, fallback_if = |error| error.inner() == Some(&Api::Broken), fallback_value = 100)]
    async fn on_a_pool(text: String) -> Result<u32, Api> {
        if text.is_empty() { Err(Api::Missing) } else { Ok(text.parse()?) }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(["7", "", "x"].map(here), [Ok(7), Err(Api::Missing), Ok(100)]);
    let pooled = ["7", "", "x"].map(|text| block_on(on_a_pool(text.into())));
    assert_eq!(pooled, [Ok(7), Err(Api::Missing), Ok(100)]);
    for (force, in_place, pool) in refusals() {
        command_of!(here).force(force);
        command_of!(on_a_pool).force(force);
        let answers = [here("7"), block_on(on_a_pool("7".into()))];
        assert_eq!(answers, [in_place, pool].map(|kind| Err(Api::Refused(kind))));
    }
}

#[test]
fn text_says_the_refusal_in_words() {
    #[command(group = "stock")]
    fn count() -> Result<u32, String> {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    command_of!(count).force_open();
    assert_eq!(count(), Err("stock/count was short-circuited".into()));
}

#[test]
fn an_io_error_has_the_kind_of_the_refusal_and_its_source() {
    #[command]
    async fn read() -> Result<u32, io::Error> {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let expected =
        [io::ErrorKind::TimedOut, io::ErrorKind::Other, io::ErrorKind::WouldBlock, io::ErrorKind::Other];
    for ((force, kind, _), expected) in refusals().into_iter().zip(expected) {
        command_of!(read).force(force);
        let error = block_on(read()).unwrap_err();
        let rejection = error.get_ref().and_then(|inner| inner.downcast_ref::<Rejection>());
        assert_eq!((error.kind(), rejection.map(Rejection::kind)), (expected, Some(kind)));
    }
}

#[test]
fn a_boxed_error_holds_the_rejection() {
    #[command(fallback = |error| Err(error.into_inner().unwrap_or_else(|| "refused".into())), fallback_if = |error| error.inner().is_some())]
    fn boxed(number: u32) -> Result<u32, Box<dyn Error + Send + Sync>> {
        Err(format!("number {number}").parse::<u32>().unwrap_err())?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(boxed(3).unwrap_err().to_string(), "invalid digit found in string");
    command_of!(boxed).force(Force::Timeout);
    let error = boxed(3).unwrap_err();
    let rejection = error.downcast_ref::<Rejection>().unwrap();
    assert_eq!(
        (rejection.kind(), rejection.fallback()),
        (RejectionKind::TimedOut, Some(FallbackOutcome::Skipped))
    );
}

// ===== rejected =====

#[test]
fn with_rejected_any_error_will_do_and_rules_and_fallbacks_see_it_as_it_is() {
    #[derive(Debug, PartialEq)]
    struct Status(u16, String);
    #[command(
        rejected = |rejection| Status(rejection.http_status(), format!("{path} {}", rejection.command().name())),
        ignore = |sent| sent.0 == 404,
        fallback_if = |error| error.inner().is_some_and(|sent| sent.0 != 402),
        fallback = |error| Ok(u32::from(error.into_inner().unwrap().0)),
    )]
    fn get(path: String, status: u16) -> Result<u32, Status> {
        Err(Status(status, path))
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let get = |status| get("/a".into(), status);
    assert_eq!([get(404), get(402)], [404, 402].map(|status| Err(Status(status, "/a".into()))));
    assert_eq!(get(500), Ok(500));
    let command = lab.registry.find("attribute_errors", "get").unwrap();
    command.force(Force::Rejected);
    assert_eq!(get(500), Err(Status(429, "/a get".into())));
    command.force(Force::Timeout);
    assert_eq!(get(500), Err(Status(504, "/a get".into())));
}

#[test]
fn with_rejected_an_error_may_even_be_a_command_error_of_anything() {
    #[command(rejected = |rejection| CommandError::Inner(rejection.kind()), fallback_value = 1, fallback_if = |error| error.inner().is_some())]
    fn nested() -> Answer<u32, RejectionKind> {
        Err(RejectionKind::FailedValue)?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(nested(), Ok(1));
    command_of!(nested).force_open();
    assert_eq!(nested(), Err(CommandError::Inner(RejectionKind::ShortCircuited)));
}

// ===== commands within commands =====

#[command(group = "nested")]
fn inner() -> Answer {
    Ok(1)
}

/// What the rules of `outer` were asked about.
static ASKED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

#[command(group = "nested", ignore = |error| { ASKED.lock().unwrap().push(error); false })]
fn outer(own: bool) -> Answer {
    if own { Err("E1")? } else { Ok(inner()? + 1) }
}

#[test]
fn a_refusal_of_a_command_inside_is_a_failure_of_the_outer_one_and_names_the_inner_one() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((outer(false), outer(true)), (Ok(2), own("E1")));
    command_of!(inner).force_open();
    let rejection = outer(false).unwrap_err().rejection().cloned().unwrap();
    assert_eq!((rejection.kind(), rejection.command().name()), (RejectionKind::ShortCircuited, "inner"));
    assert_eq!(counts(&command_of!(outer)), "ok=1 failure=2 fallback_missing=2");
    assert_eq!(counts(&command_of!(inner)), "ok=1 short_circuited=1 fallback_missing=1");
    assert_eq!(*ASKED.lock().unwrap(), ["E1"], "rules on errors are not asked about a refusal");
}

#[test]
fn a_fallback_and_its_condition_see_the_refusal_of_a_command_inside() {
    #[command(group = "nested", fallback_if = |error| error.is_short_circuited(), fallback = |error| Ok(error.rejection().unwrap().command().name().len() as u32))]
    async fn outer_with_fallback() -> Answer {
        Ok(inner()? + 1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    command_of!(inner).force_open();
    assert_eq!(block_on(outer_with_fallback()), Ok(5));
    command_of!(inner).clear_forced();
    command_of!(inner).force(Force::Timeout);
    assert_eq!(kind(&block_on(outer_with_fallback())), Some(RejectionKind::TimedOut));
    assert_eq!(counts(&command_of!(outer_with_fallback)), "failure=2 fallback_ok=1 fallback_skipped=1");
}

mod chain {
    use super::{Answer, CommandError};

    type Given = CommandError<&'static str>;

    #[hystrix_core::command(fallback = second)]
    pub(super) fn first(text: String) -> Answer<String> {
        Err(if text.is_empty() { "empty" } else { "E1" })?
    }

    #[hystrix_core::command(fallback = third)]
    fn second(_text: String, error: Given) -> Answer<String> {
        Err(if error == Given::Inner("E1") { "E2" } else { "?" })?
    }

    #[hystrix_core::command(fallback = |error| if text == "fails" { Err("E4".into()) } else { Ok(format!("{text} {first} {second} {error}")) })]
    fn third(text: String, first: Given, second: Given) -> Answer<String> {
        drop((text, first, second));
        Err("E3")?
    }

    #[hystrix_core::command(fallback = second_later)]
    pub(super) async fn first_later(text: String) -> Answer<String> {
        Err(if text.is_empty() { "empty" } else { "E1" })?
    }

    #[hystrix_core::command(fallback = async |error| Ok(format!("{text} {first} {error}")))]
    async fn second_later(text: String, first: Given) -> Answer<String> {
        drop((text, first));
        Err("E2")?
    }
}

#[test]
fn hc_304_a_chain_of_fallback_commands_answers_with_the_last_and_each_counts_its_own() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(chain::first("a".into()), Ok("a E1 E2 E3".into()));
    let calls = lab.events.calls();
    let names: Vec<_> = calls.iter().map(|call| call.command.name()).collect();
    assert_eq!(names, ["third", "second", "first"], "the innermost has its answer first");
    assert!(
        calls
            .iter()
            .all(|call| call.outcome == Outcome::Failure && call.fallback == Some(FallbackOutcome::Success))
    );
}

#[test]
fn hc_305_an_async_command_may_have_an_async_command_as_its_fallback() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(block_on(chain::first_later("a".into())), Ok("a E1 E2".into()));
    let calls: Vec<_> = lab.events.calls().iter().map(|call| call.command.name().to_owned()).collect();
    assert_eq!(calls, ["second_later", "first_later"]);
}

#[test]
fn hc_315_of_a_chain_that_fails_the_caller_gets_the_last_ones_error() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(chain::first("fails".into()), own("E4"));
    let failed: Vec<_> = lab.events.calls().iter().map(|call| (call.outcome, call.fallback)).collect();
    assert_eq!(failed, [(Outcome::Failure, Some(FallbackOutcome::Failure)); 3]);
}

#[test]
fn hc_315_kb_56_a_fallback_that_fails_gives_its_own_error_and_the_event_has_both() {
    // KB-56: not one error with both causes, but the fallback's own.
    #[command(fallback = |_| Err("E2".into()))]
    fn fails() -> Answer {
        Err("E1")?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(fails(), own("E2"));
    command_of!(fails).force(Force::Timeout);
    assert_eq!(fails(), own("E2"));
    let event = lab.events.last_call();
    assert_eq!((event.outcome, event.rejection), (Outcome::Timeout, Some(RejectionKind::TimedOut)));
    assert_eq!(event.fallback, Some(FallbackOutcome::Failure));
}

#[test]
fn hc_313_an_error_that_the_fallback_command_ignores_reaches_the_caller() {
    #[command(ignore = |error| *error == "ignorable")]
    fn second(_error: CommandError<&'static str>) -> Answer {
        Err("ignorable")?
    }
    #[command(fallback = second)]
    fn first() -> Answer {
        Err("E1")?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(first(), own("ignorable"));
    assert_eq!(counts(&command_of!(first)), "failure=1 fallback_failure=1");
    assert_eq!(counts(&command_of!(second)), "bad_request=1");
}

#[test]
fn hc_316_a_fallback_command_that_times_out_gives_its_timeout() {
    #[command(fallback = |_| second())]
    fn first() -> Answer {
        Err("E1")?
    }
    #[command]
    fn second() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    command_of!(second).force(Force::Timeout);
    let rejection = first().unwrap_err().rejection().cloned().unwrap();
    assert_eq!((rejection.kind(), rejection.command().name()), (RejectionKind::TimedOut, "second"));
}

#[test]
fn hc_309_hc_310_hc_317_what_is_counted_of_a_call_that_has_no_fallback_or_needs_none() {
    #[command(ignore = |error| *error == "mine")]
    fn without(error: &'static str) -> Answer {
        Err(error)?
    }
    #[command(ignore = |error| *error == "mine", fallback_value = 9)]
    fn with(error: &'static str) -> Answer {
        Err(error)?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(
        [without("E1"), without("mine"), with("E1"), with("mine")],
        [own("E1"), own("mine"), Ok(9), own("mine")]
    );
    assert_eq!(counts(&command_of!(without)), "failure=1 bad_request=1 fallback_missing=1");
    assert_eq!(counts(&command_of!(with)), "failure=1 bad_request=1 fallback_ok=1");
}
