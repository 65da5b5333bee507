//! What becomes of panics in code of the user: one policy, in one place.
//!
//! A panic is contained where it happens and becomes an outcome. What it carries is the user's as well, and may panic when it is
//! dropped: that is contained too, and what *that* carries is leaked, for there is no end to it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a contained panic carries. Dropping it does not panic.
pub(crate) struct Panic(Option<Box<dyn Any + Send>>);

impl Panic {
    /// Stands for a body that did not run.
    pub(crate) const NONE: Panic = Panic(None);

    /// What the panic said.
    pub(crate) fn message(&self) -> &str {
        let Some(payload) = &self.0 else {
            return "nothing";
        };
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("a payload that is not text")
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        if let Some(payload) = self.0.take()
            && let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
        {
            std::mem::forget(another);
        }
    }
}

/// Runs code of the user.
#[inline]
pub(crate) fn contained<R>(run: impl FnOnce() -> R) -> Result<R, Panic> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Ok(result),
        Err(payload) => Err(Panic(Some(payload))),
    }
}

/// Drops something of the user's; its panic is nobody's outcome.
#[inline]
pub(crate) fn drop_quietly<V>(value: V) {
    if std::mem::needs_drop::<V>() {
        let _ = contained(|| drop(value));
    }
}
