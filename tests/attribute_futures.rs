//! The future of an annotated function: its size, where it may go, how it is given up, and other attributes around it.

mod support;

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Display;
use std::future::{Future, pending, ready};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use futures::executor::block_on;
use hystrix_core::{
    CircuitBreaker, Command, CommandConfig, CommandError, Mode, Registry, RejectionKind, command, command_of,
};
use tracing_subscriber::layer::SubscriberExt;

use support::*;

type Answer<T = u32, E = &'static str> = Result<T, CommandError<E>>;

// ===== its size =====

/// What a command's future may take more than that of the body alone.
const ROOM: usize = 1024;
const LARGE: usize = 4096;

macro_rules! assert_small {
    ($command:expr, $bare:expr) => {
        let (command, bare) = (size_of_val(&$command), size_of_val(&$bare));
        assert!(command <= bare + ROOM, "{command} bytes, and {bare} without the attribute");
    };
}

#[test]
fn bc_032_a_large_local_across_an_await_is_there_once() {
    async fn bare() -> Answer<u8> {
        let large = [1u8; LARGE];
        ready(()).await;
        Ok(large[0])
    }
    #[command]
    async fn large() -> Answer<u8> {
        let large = [1u8; LARGE];
        ready(()).await;
        Ok(large[0])
    }
    assert_small!(large(), bare());
}

#[test]
fn bc_032_a_large_argument_is_not_there_more_often_than_without_the_attribute() {
    async fn bare(large: [u8; LARGE]) -> Answer<u8> {
        ready(()).await;
        Ok(large[0])
    }
    #[command]
    async fn large(large: [u8; LARGE]) -> Answer<u8> {
        ready(()).await;
        Ok(large[0])
    }
    assert_small!(large([1; LARGE]), bare([1; LARGE]));
}

#[test]
fn bc_032_borrowed_arguments_cost_their_references() {
    async fn bare(text: &str, rows: &[u32], large: &[u8; LARGE]) -> Answer<usize> {
        ready(()).await;
        Ok(text.len() + rows.len() + large.len())
    }
    #[command]
    async fn borrows(text: &str, rows: &[u32], large: &[u8; LARGE]) -> Answer<usize> {
        ready(()).await;
        Ok(text.len() + rows.len() + large.len())
    }
    assert_small!(borrows("", &[], &[1; LARGE]), bare("", &[], &[1; LARGE]));
}

#[test]
fn bc_032_every_option_together_keeps_to_it() {
    async fn bare(text: &str) -> Answer<usize> {
        let large = [1u8; LARGE];
        ready(()).await;
        Ok(text.len() + large.len())
    }
    #[command(
        group = "g", key = text, semaphore = 3, timeout = "1s", circuit_breaker = CircuitBreaker::new(),
        fallback = async |error| { ready(()).await; Ok(text.len() + error.to_string().len()) },
        fallback_if = |error| error.is_timeout(), fallback_semaphore = 2, ignore = |_| false,
        failure = |value| *value == 0, mode = Mode::Enforce, config = CommandConfig::new().latency_buckets(3),
        rejected = CommandError::Rejected, classify = |_| hystrix_core::Class::SUCCESS,
    )]
    async fn all(text: &str) -> Result<usize, CommandError<&'static str>> {
        let large = [1u8; LARGE];
        ready(()).await;
        Ok(text.len() + large.len())
    }
    assert_small!(all("a"), bare("a"));
}

// ===== where it may go =====

/// Says whether a value is `Send`: the method of its own is found first, if its bound is met.
struct Asked<'a, T>(#[expect(dead_code, reason = "only its type is asked")] &'a T);

impl<T: Send> Asked<'_, T> {
    fn is_send(&self) -> bool {
        true
    }
}

trait NotSend {
    fn is_send(&self) -> bool {
        false
    }
}

impl<T> NotSend for Asked<'_, T> {}

#[test]
fn whether_it_is_send_follows_from_the_body_and_its_arguments() {
    #[command(fallback = |_| Ok(text.len()), timeout = "1s", ignore = |error| error.is_empty())]
    async fn send(text: &str) -> Answer<usize, String> {
        ready(()).await;
        Err(if text.is_empty() { "empty" } else { "E1" }.to_owned())?
    }
    #[command]
    async fn local() -> Answer<usize> {
        let held = Rc::new(3);
        ready(()).await;
        Ok(*held)
    }
    #[command]
    async fn takes_local(held: Rc<usize>) -> Answer<usize> {
        Ok(*held)
    }
    #[command(thread_pool)]
    async fn made_on_a_worker() -> Answer<usize> {
        let held = Rc::new(3);
        ready(()).await;
        Ok(*held)
    }
    assert!(Asked(&send("")).is_send() && Asked(&made_on_a_worker()).is_send());
    assert!(!Asked(&local()).is_send() && !Asked(&takes_local(Rc::new(1))).is_send());
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let answers = [block_on(local()), block_on(takes_local(Rc::new(1))), block_on(made_on_a_worker())];
    assert_eq!(answers, [Ok(3), Ok(1), Ok(3)]);
}

fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn it_is_send_whatever_lifetimes_its_value_and_its_error_have() {
    #[command(fallback = |_| Ok(Cow::Borrowed("stale")), fallback_if = |error| error.inner().is_some())]
    async fn boxed() -> Result<Cow<'static, str>, Box<dyn Error + Send + Sync>> {
        ready(()).await;
        Err("E1".into())
    }
    #[command(thread_pool, fallback = async |_| { ready(()).await; Ok("stale") })]
    async fn on_a_pool() -> Answer<&'static str> {
        Err("E1")?
    }
    async fn stale<'a>(text: &'a str, _: CommandError<&'static str>) -> Answer<&'a str> {
        Ok(text)
    }
    #[command(fallback = stale, ignore = |error| error.is_empty(), failure = |value| value.is_empty())]
    async fn borrowed(text: &str) -> Answer<&str> {
        Err(if text.is_empty() { "empty" } else { "E1" })?
    }
    #[command(rejected = |_| "refused", fallback_value = "stale", fallback_if = |_| true)]
    async fn rejected() -> Result<&'static str, &'static str> {
        Err("E1")
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (text, smol) = (String::from("text"), smol::block_on(is_send(boxed())));
    assert_eq!((smol.unwrap(), block_on(is_send(on_a_pool()))), ("stale".into(), Ok("stale")));
    assert_eq!(
        (block_on(is_send(borrowed(&text))), block_on(is_send(rejected()))),
        (Ok("text"), Ok("stale"))
    );
}

#[command(timeout = "1m", fallback = async |_| { tokio::task::yield_now().await; Ok(text.len() as u32) })]
async fn anywhere(text: String, fails: bool) -> Answer<u32, String> {
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    drop(text);
    if fails { Err("E1".to_owned())? } else { Ok(0) }
}

#[test]
fn it_runs_on_tokio_smol_and_without_any_runtime() {
    let lab = Lab::new();
    let call = |fails| lab.registry.scope(anywhere("abc".into(), fails));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (on_tokio, on_smol) = (tokio.spawn(call(true)), smol::spawn(call(true)));
    assert_eq!(tokio.block_on(on_tokio).unwrap(), Ok(3));
    assert_eq!((smol::block_on(on_smol), smol::block_on(call(false))), (Ok(3), Ok(0)));
    assert_eq!((block_on(call(true)), tokio.block_on(call(false))), (Ok(3), Ok(0)));
    let command = lab.registry.find("attribute_futures", "anywhere").unwrap();
    assert_eq!(counts(&command), "ok=2 failure=3 fallback_ok=3");
}

#[test]
fn bc_015_a_recursive_one_has_a_permit_for_each_level_and_does_not_hang_without() {
    #[command(semaphore = 4)]
    async fn walk(depth: u32) -> Result<u32, String> {
        if depth == 0 {
            return Ok(0);
        }
        Ok(1 + Box::pin(walk(depth - 1)).await?)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((block_on(walk(3)), &*counts(&command_of!(walk))), (Ok(3), "ok=4"));
    let refused = block_on(walk(4)).unwrap_err();
    assert!(refused.contains("found no permit (4 of 4 in use)"), "{refused}");
    assert_at_rest(&command_of!(walk));
}

// ===== given up =====

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[command(semaphore = 1, timeout = "20ms", fallback_value = 9, fallback_if = |error| error.is_timeout())]
async fn hangs(dropped: Dropped) -> Answer {
    let _dropped = dropped;
    pending().await
}

#[test]
fn it_does_nothing_until_it_is_polled() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let dropped = zero();
    drop(hangs(Dropped(dropped.clone())));
    assert_eq!((dropped.load(SeqCst), lab.registry.commands().len()), (1, 0));
}

#[test]
fn when_it_is_dropped_the_call_is_cancelled_and_everything_given_back() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let dropped = zero();
    for round in 1..=20 {
        let mut call = Box::pin(hangs(Dropped(dropped.clone())));
        assert!(call.as_mut().poll(&mut noop()).is_pending());
        assert_eq!((command_of!(hangs).metrics().permits_in_use, lab.registry.armed()), (1, 1));
        drop(call);
        assert_eq!((dropped.load(SeqCst), lab.registry.armed()), (round, 0));
    }
    assert_eq!(counts(&command_of!(hangs)), "cancelled=20");
    assert_at_rest(&command_of!(hangs));
}

#[test]
fn at_its_timeout_the_body_is_dropped_and_the_fallback_answers() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let dropped = zero();
    let mut call = pin!(hangs(Dropped(dropped.clone())));
    assert!(call.as_mut().poll(&mut noop()).is_pending());
    lab.clock.advance(ms(20));
    assert_eq!((block_on(call), dropped.load(SeqCst)), (Ok(9), 1));
    assert_eq!(counts(&command_of!(hangs)), "timeout=1 fallback_ok=1");
    assert_at_rest(&command_of!(hangs));
}

// ===== in traits =====

#[async_trait]
trait Service {
    async fn get(&self, number: u32) -> Answer;
    async fn pends(&self) -> Answer;
    async fn text<'a>(&'a self, text: &'a str) -> Result<&'a str, String>;
    async fn show<T: Display + Send + Sync + 'static>(&mut self, value: T) -> Answer<String>;

    #[command]
    async fn default(&self) -> Answer {
        self.get(1).await
    }
}

struct Remote {
    own: u32,
    command: Command,
}

#[async_trait]
impl Service for Remote {
    #[command(timeout = "20ms", fallback = |error| Ok(self.own + number + error.into_inner().map_or(0, |_| 100)))]
    async fn get(&self, number: u32) -> Answer {
        ready(()).await;
        if number == 0 { Err("zero")? } else { Ok(number + self.own) }
    }

    #[command(semaphore = 1, timeout = "20ms")]
    async fn pends(&self) -> Answer {
        pending().await
    }

    #[command(command = self.command)]
    async fn text<'a>(&'a self, text: &'a str) -> Result<&'a str, String> {
        if text.is_empty() {
            return Err("empty".into());
        }
        Ok(text)
    }

    #[command(ignore = |error| error.is_empty())]
    async fn show<T: Display + Send + Sync + 'static>(&mut self, value: T) -> Answer<String> {
        self.own += 1;
        Ok(format!("{value} {}", self.own))
    }
}

fn remote(lab: &Lab) -> Remote {
    Remote { own: 10, command: lab.command("given").build().unwrap() }
}

#[test]
fn bc_030_under_async_trait_a_method_is_an_asynchronous_command() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let mut remote = remote(&lab);
    assert_eq!((block_on(remote.get(1)), block_on(remote.get(0))), (Ok(11), Ok(110)));
    assert_eq!((block_on(remote.text("a")), block_on(remote.text(""))), (Ok("a"), Err("empty".into())));
    assert_eq!((block_on(remote.show(7)), block_on(remote.default())), (Ok("7 11".into()), Ok(12)));
    let counted = |group, key| counts(&lab.registry.find(group, key).unwrap());
    assert_eq!(
        (counted("Remote", "get"), counted("lab", "given")),
        ("ok=2 failure=1 fallback_ok=1".into(), "ok=1 failure=1 fallback_missing=1".into())
    );
    assert_eq!((counted("Remote", "show"), counted("Remote", "default")), ("ok=1".into(), "ok=1".into()));
}

#[test]
fn bc_030_under_async_trait_nothing_is_counted_before_the_future_has_ended() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let remote = remote(&lab);
    let made = remote.pends();
    assert!(lab.registry.find("Remote", "pends").is_none());
    let mut cut = made;
    assert!(cut.as_mut().poll(&mut noop()).is_pending());
    let command = lab.registry.find("Remote", "pends").unwrap();
    assert_eq!((counts(&command), command.metrics().permits_in_use), (String::new(), 1));
    lab.clock.advance(ms(20));
    assert_eq!(kind(&block_on(cut)), Some(RejectionKind::TimedOut));
    let mut left = remote.pends();
    assert!(left.as_mut().poll(&mut noop()).is_pending());
    drop(left);
    assert_eq!(counts(&command), "timeout=1 cancelled=1 fallback_missing=1");
    assert_at_rest(&command);
}

#[async_trait]
trait Wide {
    async fn on_a_pool(self: Arc<Self>, number: u32) -> Answer<String>;
    async fn by_key(&self, tenant: &str) -> Answer<usize>;
    async fn by_method(&self, number: u32) -> Answer;
    async fn refused(&self, tenant: &str) -> Result<usize, String>;
}

#[async_trait]
impl Wide for Remote {
    #[command(thread_pool)]
    async fn on_a_pool(self: Arc<Self>, number: u32) -> Answer<String> {
        ready(()).await;
        Ok(format!("{number} {} {}", self.own, std::thread::current().name().unwrap_or_default()))
    }

    #[command(key = tenant)]
    async fn by_key(&self, tenant: &str) -> Answer<usize> {
        Ok(tenant.len())
    }

    #[command(fallback = Self::stale)]
    async fn by_method(&self, number: u32) -> Answer {
        if number == 0 { Err("zero")? } else { Ok(number) }
    }

    #[command(rejected = |rejection| format!("{tenant} {:?}", rejection.kind()))]
    async fn refused(&self, tenant: &str) -> Result<usize, String> {
        Ok(tenant.len())
    }
}

impl Remote {
    async fn stale(&self, number: u32, error: CommandError<&'static str>) -> Answer {
        Ok(self.own + number + error.into_inner().map_or(0, |error| error.len() as u32))
    }
}

#[test]
fn bc_030_under_async_trait_options_are_those_of_any_asynchronous_command() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let remote = Arc::new(remote(&lab));
    assert_eq!(block_on(remote.clone().on_a_pool(3)), Ok("3 10 hystrix-Remote-1".into()));
    assert_eq!((block_on(remote.by_key("abc")), block_on(remote.by_method(0))), (Ok(3), Ok(14)));
    assert_eq!(counts(&lab.registry.find("Remote", "by_key:abc").unwrap()), "ok=1");
    assert_eq!(block_on(remote.refused("abc")), Ok(3));
    lab.registry.find("Remote", "refused").unwrap().force_open();
    assert_eq!(block_on(remote.refused("abc")), Err("abc ShortCircuited".into()));
}

trait Native {
    async fn get(&self, text: &str) -> Answer<usize>;

    #[command(fallback = async |error| { ready(()).await; Ok(error.to_string().len()) })]
    async fn default(&self) -> Answer<usize> {
        Ok(self.get("").await? + 1)
    }

    fn later(&self, number: u32) -> impl Future<Output = Answer> + Send;
}

struct Local;

impl Native for Local {
    #[command(ignore = |error| *error == "mine")]
    async fn get(&self, text: &str) -> Answer<usize> {
        ready(()).await;
        if text.is_empty() { Err("empty")? } else { Ok(text.len() + 10) }
    }

    #[command]
    async fn later(&self, number: u32) -> Answer {
        ready(()).await;
        Ok(number + 10)
    }
}

#[test]
fn an_async_function_in_a_trait_is_an_asynchronous_command() {
    async fn of_any(service: &impl Native) -> [Answer<usize>; 2] {
        [service.get("abc").await, service.default().await]
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(block_on(of_any(&Local)), [Ok(13), Ok(5)]);
    assert_eq!(block_on(Local.later(1)), Ok(11));
    let counted = |key| counts(&lab.registry.find("Local", key).unwrap());
    assert_eq!(counted("get"), "ok=1 failure=1 fallback_missing=1");
    assert_eq!((counted("default"), counted("later")), ("failure=1 fallback_ok=1".into(), "ok=1".into()));
}

// ===== beside other attributes =====

/// Counts spans.
struct Spans(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Spans {
    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// How many spans there are in `work`.
fn spans<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let count = zero();
    let subscriber = tracing_subscriber::registry().with(Spans(count.clone()));
    let result = tracing::subscriber::with_default(subscriber, work);
    (result, count.load(SeqCst))
}

fn span() -> Answer<&'static str> {
    Ok(tracing::Span::current().metadata().map_or("none", |metadata| metadata.name()))
}

#[tracing::instrument]
#[command]
fn below(number: u32) -> Answer<&'static str> {
    if number == 0 { Err("zero")? } else { span() }
}

#[command]
#[tracing::instrument]
fn above(number: u32) -> Answer<&'static str> {
    if number == 0 { Err("zero")? } else { span() }
}

#[tracing::instrument]
#[command(thread_pool)]
async fn below_later(number: u32) -> Answer<&'static str> {
    ready(()).await;
    if number == 0 { Err("zero")? } else { span() }
}

#[command(thread_pool)]
#[tracing::instrument]
async fn above_later(number: u32) -> Answer<&'static str> {
    ready(()).await;
    if number == 0 { Err("zero")? } else { span() }
}

#[test]
fn bc_029_instrument_above_and_below_gives_one_span_around_the_body() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((spans(|| below(1)), spans(|| above(1))), ((Ok("below"), 1), (Ok("above"), 1)));
    assert_eq!(spans(|| block_on(below_later(1))), (Ok("below_later"), 1));
    assert_eq!(spans(|| block_on(above_later(1))), (Ok("above_later"), 1));
    assert_eq!(lab.registry.commands().len(), 4);
}

#[test]
fn bc_029_other_attributes_keep_their_effect_in_both_orders() {
    #[must_use = "it says something"]
    #[inline]
    #[command]
    #[cfg(test)]
    fn above() -> Answer {
        Ok(1)
    }
    #[command]
    #[inline(never)]
    #[must_use = "it says something"]
    #[allow(dead_code, clippy::allow_attributes, reason = "stands below")]
    #[cfg(test)]
    async fn below() -> Answer {
        Ok(2)
    }
    #[command]
    #[cfg(any())]
    fn absent() -> NoSuchType {}
    #[cfg_attr(all(), command(fallback_value = 9))]
    fn under_a_condition(fails: bool) -> Answer {
        if fails { Err("E1")? } else { Ok(3) }
    }
    #[deprecated]
    #[command]
    fn old() -> Answer {
        Ok(4)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((above(), block_on(below())), (Ok(1), Ok(2)));
    assert_eq!((under_a_condition(false), under_a_condition(true)), (Ok(3), Ok(9)));
    #[expect(deprecated, reason = "the call is told, and nothing else")]
    let answer = old();
    assert_eq!(answer, Ok(4));
}

#[test]
fn without_a_scope_it_uses_the_global_registry() {
    #[command(group = "without a scope")]
    async fn global() -> Answer {
        Ok(1)
    }
    assert_eq!(block_on(global()), Ok(1));
    assert_eq!(counts(&Registry::global().find("without a scope", "global").unwrap()), "ok=1");
}
