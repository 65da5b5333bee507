//! Keeps traits that users name but must not implement to the crate.

/// Implemented by the types of this crate only.
pub trait Sealed {}
