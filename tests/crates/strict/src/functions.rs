//! Functions of no type: unit results, endless bodies, both colours, both isolations, and every option there is.

use core::convert::Infallible;
use core::fmt;
use core::future::{pending, ready};
use core::num::ParseIntError;
use std::thread;

use hystrix_core::{
    CircuitBreaker, Class, Command, CommandConfig, CommandError, Mode, Queued, Rejection, ThreadPool, command,
};

use crate::ShopError;

/// Opens the shop.
///
/// # Errors
///
/// If it is refused.
#[command]
pub fn open() -> Result<(), ShopError> {
    return Ok(());
}

/// Closes the shop.
///
/// # Errors
///
/// If it is refused.
#[command(
    key = "close",
    group = "doors",
    semaphore = 4,
    timeout = "1s",
    circuit_breaker = CircuitBreaker::new().request_volume_threshold(8),
    mode = Mode::Enforce,
    failure = |&()| return false,
    fallback_value = ()
)]
pub fn close() -> Result<(), ShopError> {
    return open();
}

/// Says it to everybody.
///
/// # Errors
///
/// If there is nothing to say.
#[command(
    config = CommandConfig::new().timeout("2s"),
    classify = |result| return if result.is_ok() { Class::SUCCESS } else { Class::FAILURE },
    fallback = |error| return if error.rejection().is_some() { Ok(()) } else { Err(ShopError::Missing(text.to_owned())) },
    fallback_semaphore = 2
)]
pub async fn announce(text: &str) -> Result<(), ShopError> {
    ready(()).await;
    if text.is_empty() {
        return Err(ShopError::Missing(String::new()));
    }
    return Ok(());
}

/// Never ends.
///
/// # Errors
///
/// If it is refused.
#[command(timeout = "10ms")]
pub async fn never() -> Result<(), ShopError> {
    pending::<()>().await;
    return Err(ShopError::Refused);
}

/// Never ends, and never waits.
///
/// # Errors
///
/// It never gives an answer of its own.
#[command]
pub fn never_at_once() -> Result<Infallible, ShopError> {
    loop {
        thread::park();
    }
}

/// The price of a thing that is not there: what it was the last time.
async fn last_price(thing: String, _error: CommandError<ShopError>) -> Result<usize, ShopError> {
    ready(()).await;
    return Ok(thing.len());
}

/// The price of a thing.
///
/// # Errors
///
/// If it is refused.
#[command(semaphore = 8, timeout = "1s", ignore = ShopError::is_missing, fallback = last_price)]
pub async fn price(thing: String) -> Result<usize, ShopError> {
    ready(()).await;
    return Err(ShopError::Missing(thing)).or(Err(ShopError::Refused));
}

/// Buys some of a thing, on a worker.
///
/// # Errors
///
/// If there is none of it.
#[command(
    thread_pool = ThreadPool::named("shop").core_size(2),
    timeout = "10s",
    to_owned(thing),
    ignore = |error| return error.is_missing() && pieces > 0,
    fallback = |_error| return Ok(note.len()),
    fallback_if = |error| return error.rejection().is_some()
)]
pub fn buy(thing: &str, pieces: usize, note: String) -> Result<usize, ShopError> {
    let all = thing.len().saturating_mul(pieces);
    drop(note);
    return if all == 0 { Err(ShopError::Missing(thing.to_owned())) } else { Ok(all) };
}

/// Adds numbers, on a worker, and changes its argument.
///
/// # Errors
///
/// If it is refused.
#[command(thread_pool = "shop")]
pub fn sum(mut numbers: Vec<u64>) -> Result<u64, ShopError> {
    numbers.push(1);
    return Ok(numbers.iter().sum());
}

/// Fetches, on a worker that waits for its body's future.
///
/// # Errors
///
/// If it is refused.
#[command(thread_pool = "shop", fallback = |_error| return Ok(String::new()))]
pub async fn fetch(thing: String) -> Result<String, ShopError> {
    ready(()).await;
    return Ok(thing);
}

/// Counts, and returns before it has.
#[command(thread_pool = "shop")]
pub fn counted(text: String) -> Queued<usize, ShopError> {
    return Ok(text.len());
}

/// Reads a number: the error is the library's, around the body's.
///
/// # Errors
///
/// If it is none.
#[command(
    fallback = |error| return error.into_inner().map_or(Ok(0), |inner| return Err(inner.into()))
)]
pub fn parse(text: &str) -> Result<u32, CommandError<ParseIntError>> {
    return text.parse().map_err(CommandError::Inner);
}

/// Quotes for a customer, each of whom has a command.
///
/// # Errors
///
/// If it is refused.
#[command(key = customer, rejected = |_rejection: Rejection| return fmt::Error, timeout = None)]
pub async fn quote(customer: &str) -> Result<usize, fmt::Error> {
    ready(()).await;
    return Ok(customer.len());
}

/// Forgets a thing, by a command that is given.
///
/// # Errors
///
/// If it is refused.
#[command(command = given)]
pub fn forget(given: &Command, thing: String) -> Result<(), ShopError> {
    drop(thing);
    return Ok(());
}
