//! What the attribute allocates on the way of a good call: nothing that the function itself does not.
//!
//! In the global registry, whose commands a call finds with two loads. The counting allocator is the only unsafe code: it passes every
//! call on to the system's.

#![allow(unsafe_code, reason = "an allocator that counts")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, ready};
use std::pin::pin;
use std::task::Poll;

use async_trait::async_trait;
use hystrix_core::{Command, CommandError, Rejection, command, command_of};

use support::*;

type Answer<T = usize, E = &'static str> = Result<T, CommandError<E>>;

struct Counting;

thread_local! {
    /// The allocations this thread has made.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = MADE.try_with(|made| made.set(made.get() + 1));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread allocates in a hundred calls, after the first ones: those make the command and this thread's counters.
fn allocations(call: impl Fn()) -> usize {
    (0..10).for_each(|_| call());
    let before = MADE.get();
    (0..100).for_each(|_| call());
    MADE.get() - before
}

/// The answer of a future that has it at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut noop()) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it is ready"),
    }
}

#[test]
fn a_good_synchronous_call_allocates_nothing() {
    #[command(group = "memory")]
    fn plain(text: &str) -> Answer {
        Ok(text.len())
    }
    #[command(group = "memory", ignore = |error| error.is_empty(), failure = |value| *value == 0, fallback = |_| Ok(text.len()))]
    fn ruled(text: &str) -> Answer {
        if text.is_empty() { Err("empty")? } else { Ok(text.len()) }
    }
    #[command(group = "memory", timeout = "1m", rejected = |_| "rejected")]
    fn timed(number: usize) -> Result<usize, &'static str> {
        if number == 0 { Err("zero") } else { Ok(number) }
    }
    assert_eq!(allocations(|| assert_eq!(plain("abc"), Ok(3))), 0);
    assert_eq!(allocations(|| assert_eq!(ruled("abc"), Ok(3))), 0);
    assert_eq!(allocations(|| assert_eq!(timed(3), Ok(3))), 0);
}

#[test]
fn a_synchronous_call_with_a_timeout_and_a_fallback_costs_one_allocation() {
    #[command(group = "memory", timeout = "1m", fallback = |_| Ok(number + 1))]
    fn owning(number: usize) -> Answer {
        if number == 0 { Err("zero")? } else { Ok(number) }
    }
    #[command(group = "memory", timeout = "1m", fallback = |_| Ok(number + 1), fallback_here)]
    fn staying(number: usize) -> Answer {
        if number == 0 { Err("zero")? } else { Ok(number) }
    }
    // As in the library layer: the timer has to be handed the call.
    assert_eq!(allocations(|| assert_eq!(owning(3), Ok(3))), 100);
    assert_eq!(allocations(|| assert_eq!(staying(3), Ok(3))), 100);
}

#[test]
fn a_good_asynchronous_call_allocates_nothing() {
    #[command(group = "memory")]
    async fn plain(text: &str) -> Answer {
        ready(()).await;
        Ok(text.len())
    }
    #[command(
        group = "memory", timeout = "1m", semaphore = 3, ignore = |error| error.is_empty(),
        fallback = async |_| Ok(text.len()), fallback_if = |error| error.is_timeout(),
    )]
    async fn ruled(text: &str) -> Answer {
        if text.is_empty() { Err("empty")? } else { Ok(text.len()) }
    }
    assert_eq!(allocations(|| assert_eq!(now(plain("abc")), Ok(3))), 0);
    assert_eq!(allocations(|| assert_eq!(now(ruled("abc")), Ok(3))), 0);
}

#[test]
fn a_key_that_is_known_costs_no_allocation() {
    #[command(group = "memory", key = tenant)]
    fn by_text(tenant: &str) -> Answer {
        Ok(tenant.len())
    }
    #[command(group = "memory", key = format_args!("{a}/{b}"))]
    async fn by_two(a: usize, b: usize) -> Answer {
        Ok(a + b)
    }
    assert_eq!(allocations(|| assert_eq!((by_text("a"), by_text("b")), (Ok(1), Ok(1)))), 0);
    assert_eq!(allocations(|| assert_eq!(now(by_two(1, 2)), Ok(3))), 0);
}

#[test]
fn a_refusal_without_a_fallback_allocates_nothing() {
    #[command(group = "memory")]
    fn here() -> Result<usize, Rejection> {
        Ok(1)
    }
    #[command(group = "memory", fallback_value = 3)]
    async fn later() -> Answer {
        Ok(1)
    }
    command_of!(here).force_open();
    command_of!(later).force_open();
    assert_eq!(allocations(|| assert!(here().is_err())), 0);
    assert_eq!(allocations(|| assert_eq!(now(later()), Ok(3))), 0);
}

struct Client(Command);

impl Client {
    #[command(command = self.0, fallback = |_| Ok(text.len()))]
    async fn get(&self, text: &str) -> Answer {
        if text.is_empty() { Err("empty")? } else { Ok(text.len()) }
    }
}

#[async_trait]
trait Service {
    async fn get(&self, text: &str) -> Answer;
    async fn bare(&self, text: &str) -> Answer;
}

#[async_trait]
impl Service for Client {
    #[command(group = "memory", timeout = "1m")]
    async fn get(&self, text: &str) -> Answer {
        ready(()).await;
        Ok(text.len())
    }

    async fn bare(&self, text: &str) -> Answer {
        ready(()).await;
        Ok(text.len())
    }
}

trait Default {
    #[command(group = "memory")]
    fn of_a_type(&self, text: &str) -> Answer {
        Ok(text.len())
    }
}

impl Default for Client {}
impl Default for Command {}

#[test]
fn methods_allocate_no_more_than_without_the_attribute() {
    let command = Command::builder("given").group("memory").build().unwrap();
    let client = Client(command.clone());
    assert_eq!(allocations(|| assert_eq!(now(client.get("abc")), Ok(3))), 0);
    let boxed = allocations(|| assert_eq!(now(Service::bare(&client, "abc")), Ok(3)));
    assert_eq!(allocations(|| assert_eq!(now(Service::get(&client, "abc")), Ok(3))), boxed);
    let types = || assert_eq!((client.of_a_type("abc"), command.of_a_type("ab")), (Ok(3), Ok(2)));
    assert_eq!(allocations(types), 0);
}
