//! The library by the name that the dependency has.

use hx::{CommandError, Rejection, command, commands};

/// Has no other option.
///
/// # Errors
///
/// If it is refused.
#[command(crate = hx)]
pub fn plain(number: u32) -> Result<u32, String> {
    Ok(number)
}

/// Waits, and has something in its place.
///
/// # Errors
///
/// If it is refused.
#[command(crate = hx, semaphore = 4, timeout = "10s", fallback = |_| Ok(text.len()), ignore = |error| error == text)]
pub async fn later(text: &str) -> Result<usize, String> {
    std::future::ready(()).await;
    Err("never".into())
}

/// Runs on a worker, with an argument of its own.
///
/// # Errors
///
/// If it is refused.
#[command(thread_pool = "renamed", to_owned(text), crate = hx)]
pub fn on_a_worker(text: &str, number: usize) -> Result<usize, CommandError<String>> {
    let length = text.len();
    Ok(length + number)
}

/// Has a command for each tenant.
///
/// # Errors
///
/// If it is refused.
#[command(crate = hx, key = tenant, rejected = |rejection: Rejection| rejection.to_string().len())]
pub fn per_tenant(tenant: &str) -> Result<usize, usize> {
    Ok(tenant.len())
}

fn stale(number: u32, _error: CommandError<String>) -> Result<u32, String> {
    Ok(number + 100)
}

/// Has a function in its place.
///
/// # Errors
///
/// If it is refused.
#[command(crate = hx, fallback = stale)]
pub fn checked(number: u32) -> Result<u32, String> {
    number.checked_sub(1).ok_or_else(|| "zero".into())
}

/// Has methods.
#[derive(Clone, Debug)]
pub struct Desk(pub u32);

#[commands(crate = hx, group = "desks")]
impl Desk {
    /// Its number.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command]
    pub fn number(&self) -> Result<u32, String> {
        Ok(self.0)
    }

    /// Its number, from a worker.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(thread_pool, to_owned(self))]
    pub fn from_a_worker(&self) -> Result<u32, String> {
        let Self(number) = *self;
        Ok(number)
    }
}
