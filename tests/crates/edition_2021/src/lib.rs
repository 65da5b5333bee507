//! Annotated functions in a crate of edition 2021: their bodies mean what they mean there.
//!
//! The lints that prepare for the next edition are denied, for what the attribute prints must be clean under them too. They
//! are allowed where a function shows one of the differences.

#![deny(warnings, rust_2018_idioms, rust_2024_compatibility, missing_docs, unreachable_pub)]

mod drops;
mod meanings;
mod unsafety;

pub use self::drops::{if_let, if_let_later, on_a_worker, tail, tail_later, Drops};
pub use self::meanings::{described, elements, generation, names, not_captured, total};
pub use self::unsafety::{peek, peek_later, peek_or};
