//! A nightly import whose layers were written by different hands: each has the error type that its author likes. A refusal fits in all of
//! them unchanged, and comes out again by its type, also from under a context.

mod support;

use std::error::Error;
use std::io;

use anyhow::Context as _;
use hystrix_core::{CommandError, Force, Rejection, RejectionKind, command, command_of};

use support::counts;

type BoxError = Box<dyn Error + Send + Sync>;

// ===== the service =====

#[command(timeout = "20s")]
fn read_rates(text: &str) -> anyhow::Result<Vec<f64>> {
    let read = |line: &str| line.trim().parse().with_context(|| format!("the rate {line:?}"));
    text.lines().map(read).collect()
}

#[command(thread_pool = "conversion", to_owned(rates))]
fn convert(cents: u32, rates: &[f64]) -> eyre::Result<Vec<u32>> {
    eyre::ensure!(!rates.is_empty(), "no rates");
    Ok(rates.iter().map(|rate| (f64::from(cents) * rate) as u32).collect())
}

#[command(semaphore = 4)]
async fn publish(line: &str) -> Result<usize, BoxError> {
    if line.is_empty() {
        return Err("nothing to publish".into());
    }
    Ok(line.len())
}

#[command(fallback = |error| Ok(format!("somewhere ({error})")))]
fn country(code: &str) -> Result<String, String> {
    match code {
        "NZ" => Ok("New Zealand".into()),
        other => Err(format!("no country {other}")),
    }
}

#[command(ignore = |error| error.kind() == io::ErrorKind::NotFound)]
fn open(path: &str) -> io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// Stacks them: every `?` changes the type, and none loses the refusal.
fn import(text: &str) -> anyhow::Result<u32> {
    let rates = read_rates(text).context("cannot read rates")?;
    let converted = convert(100, &rates).map_err(|report| anyhow::anyhow!("{report:#}"))?;
    Ok(converted.iter().sum())
}

// ===== the tests =====

fn kind_of(rejection: Option<&Rejection>) -> Option<RejectionKind> {
    rejection.map(Rejection::kind)
}

#[test]
fn anyhow_keeps_the_refusal_under_a_context() {
    let read = command_of!(read_rates);
    assert_eq!(import("1.5\n 2").unwrap(), 350);
    let error = import("1.5\nmuch").unwrap_err();
    assert_eq!(format!("{error:#}"), "cannot read rates: the rate \"much\": invalid float literal");

    read.force_open();
    let error = import("1.5").unwrap_err();
    assert_eq!(error.to_string(), "cannot read rates");
    assert_eq!(kind_of(error.downcast_ref()), Some(RejectionKind::ShortCircuited));
    assert_eq!(counts(&read), "ok=1 failure=1 short_circuited=1 fallback_missing=2");
}

#[test]
fn eyre_keeps_the_refusal_under_a_context() {
    let convert_command = command_of!(convert);
    let error = convert(100, &[]).unwrap_err();
    assert_eq!(error.to_string(), "no rates");

    convert_command.force(Force::Rejected);
    let error = convert(100, &[2.0]).unwrap_err().wrap_err("cannot convert");
    assert_eq!(error.to_string(), "cannot convert");
    assert_eq!(kind_of(error.downcast_ref()), Some(RejectionKind::PoolFull));
    convert_command.force(None);
    assert!(counts(&convert_command).contains("failure=1 pool_rejected=1"));
}

#[tokio::test]
async fn a_boxed_error_is_the_refusal_itself() {
    let publish_command = command_of!(publish);
    assert_eq!(publish("rates").await.unwrap(), 5);
    assert_eq!(publish("").await.unwrap_err().to_string(), "nothing to publish");

    publish_command.force(Force::Timeout);
    let error = publish("rates").await.unwrap_err();
    assert_eq!(kind_of(error.downcast_ref()), Some(RejectionKind::TimedOut));
    assert_eq!(counts(&publish_command), "ok=1 failure=1 timeout=1 fallback_missing=2");
}

#[test]
fn a_text_says_what_the_refusal_says() {
    let country_command = command_of!(country);
    assert_eq!(country("NZ").unwrap(), "New Zealand");
    assert_eq!(country("XX").unwrap(), "somewhere (no country XX)");

    country_command.force(Force::Rejected);
    assert_eq!(country("NZ").unwrap(), "somewhere (errors/country found no permit)");
    assert_eq!(counts(&country_command), "ok=1 failure=1 semaphore_rejected=1 fallback_ok=2");
}

#[test]
fn an_io_error_has_the_kind_of_the_refusal_and_holds_it() {
    let open_command = command_of!(open);
    assert_eq!(open("/nowhere/at/all").unwrap_err().kind(), io::ErrorKind::NotFound);

    open_command.force(Force::Rejected);
    let error = open("/").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    let inside = error.get_ref().and_then(|inside| inside.downcast_ref());
    assert_eq!(kind_of(inside), Some(RejectionKind::PermitsExhausted));
    assert_eq!(counts(&open_command), "bad_request=1 semaphore_rejected=1 fallback_missing=1");
}

#[test]
fn a_nested_refusal_is_the_outer_commands_failure() {
    #[command]
    fn outer() -> Result<u32, CommandError<BoxError>> {
        let inner: Result<u32, Rejection> = inner();
        Ok(inner.map_err(BoxError::from)?)
    }

    #[command(group = "errors", key = "inner")]
    fn inner() -> Result<u32, Rejection> {
        Ok(1)
    }

    command_of!(inner).force_open();
    assert!(outer().unwrap_err().rejection().is_none());
    assert_eq!(counts(&command_of!(outer)), "failure=1 fallback_missing=1");
}
