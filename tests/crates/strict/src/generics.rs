//! Parameters of every kind, results that borrow, and results whose type has no name.

use core::fmt::Debug;
use core::iter;

use hystrix_core::command;

use crate::ShopError;

/// The even numbers below a limit.
///
/// # Errors
///
/// If it is refused.
#[command]
pub fn evens(limit: u32) -> Result<impl Iterator<Item = u32>, ShopError> {
    return Ok((0..limit).filter(|number| return number.is_multiple_of(2)));
}

/// An array of one value.
///
/// # Errors
///
/// If it is refused.
#[command(fallback = |_error| return Ok([value; N]))]
pub fn filled<T, const N: usize>(value: T) -> Result<[T; N], ShopError>
where
    T: Copy + Debug,
{
    return Ok([value; N]);
}

/// The first word of a text.
///
/// # Errors
///
/// If there is none.
#[command(key = kind, ignore = |error| return error.is_missing())]
pub fn first<'text>(text: &'text str, kind: &str) -> Result<&'text str, ShopError> {
    return text.split(' ').next().ok_or_else(|| return ShopError::Missing(kind.to_owned()));
}

/// The longest of some words, in a box that borrows.
///
/// # Errors
///
/// If it is refused.
#[command]
pub async fn longest<'text, W>(words: W) -> Result<Box<dyn Iterator<Item = &'text str> + 'text>, ShopError>
where
    W: IntoIterator<Item = &'text str> + Send,
{
    let longest = words.into_iter().max_by_key(|word| return word.len());
    return Ok(Box::new(iter::once(longest.unwrap_or_default())));
}

/// Keeps what it is given, and gives it back.
///
/// # Errors
///
/// If it is refused.
#[command(timeout = "1s", fallback_value = value)]
pub async fn keep<V: Clone + Send>(value: V) -> Result<V, ShopError> {
    return Ok(value);
}
