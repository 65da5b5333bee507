//! In this edition the body of an unsafe function is unsafe, without a block.

#![allow(unsafe_op_in_unsafe_fn, reason = "that is what is shown")]

use hystrix_core::command;

/// Reads a byte.
///
/// # Safety
///
/// The pointer is valid for reads.
#[command]
pub unsafe fn peek(byte: *const u8) -> Result<u8, String> {
    Ok(*byte)
}

/// Reads a byte, later.
///
/// # Safety
///
/// The pointer is valid for reads until the future is dropped.
#[command]
pub async unsafe fn peek_later(byte: *const u8) -> Result<u8, String> {
    std::future::ready(()).await;
    Ok(*byte)
}

/// Reads a byte, and where that is refused another one.
///
/// # Safety
///
/// Both pointers are valid for reads.
#[command(fallback = |_| Ok(*other))]
pub unsafe fn peek_or(byte: *const u8, other: *const u8) -> Result<u8, String> {
    let read = *byte;
    if read == 0 {
        return Err("zero".into());
    }
    Ok(read)
}
