//! The library by a path: beside modules of the same names, and through another crate's hands.

/// Is not the library.
mod hx {}

/// Is not the library either.
mod hystrix_core {}

/// Names the library from the root of all crates.
///
/// # Errors
///
/// If it is refused.
#[::hx::command(crate = ::hx, timeout = "10s", fallback_value = 0)]
pub fn absolute() -> Result<u32, String> {
    Ok(1)
}

/// Names the library where a framework hands it on.
///
/// # Errors
///
/// If it is refused.
#[crate::framework::hystrix_core::command(crate = crate::framework::hystrix_core, thread_pool = "renamed")]
pub async fn handed_on(number: u32) -> Result<u32, String> {
    Ok(number)
}

/// Names it from here.
///
/// # Errors
///
/// If it is refused.
#[super::framework::hystrix_core::command(crate = super::framework::hystrix_core)]
pub fn relative(number: u32) -> Result<u32, String> {
    Ok(number)
}
