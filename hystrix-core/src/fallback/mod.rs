//! What answers a call that cannot succeed, and how many of them run at once.
//!
//! By default as many fallbacks run as the command itself may run bodies, so an outage that sends every call to its fallback is not
//! met by a second, smaller limit; Hystrix's ten are a setting. A plain value takes no permit and is never refused.

mod forms;

pub(crate) use self::forms::Form;
pub use self::forms::{
    Answered, AsyncFallback, Fallback, Here, IntoAnswer, Later, Never, NoFallback, Owned, Plain, Value, When,
};

use crate::permits::{Limit, Permits, Take};
use crate::sync::Home;

pub(crate) struct FallbackPermits(Permits);

impl FallbackPermits {
    pub(crate) fn new(limit: Limit) -> Self {
        Self(Permits::new(limit))
    }

    /// Takes a permit: `Some(true)` if it has to be put back, `None` if all are out.
    pub(crate) fn take(&self, home: Home) -> Option<bool> {
        match self.0.take(home) {
            Take::Taken => Some(true),
            Take::Unneeded => Some(false),
            Take::Full => None,
        }
    }

    pub(crate) fn put(&self, home: Home) {
        self.0.put(home);
    }

    pub(crate) fn set_limit(&self, limit: Limit) {
        self.0.set_limit(limit);
    }

    pub(crate) fn in_use(&self) -> usize {
        self.0.in_use()
    }
}
