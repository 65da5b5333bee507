//! A limit on how many bodies run at once in their callers' own threads and tasks.

use crate::permits::{Limit, Permits, Take};
use crate::sync::Home;

/// When a permit comes back after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PermitRelease {
    /// When the body has really ended.
    #[default]
    WithTheBody,
    /// At the timeout, as Hystrix has it.
    AtTimeout,
}

pub(crate) struct Semaphore {
    permits: Permits,
    pub(crate) release: PermitRelease,
}

/// All permits are out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    pub(crate) limit: usize,
    pub(crate) in_use: usize,
}

impl Semaphore {
    pub(crate) fn new(limit: Limit, release: PermitRelease) -> Self {
        Self {
            permits: Permits::new(limit),
            release,
        }
    }

    /// Takes a permit: true if it has to be put back.
    #[inline]
    pub(crate) fn take(&self, home: Home) -> Result<bool, Full> {
        match self.permits.take(home) {
            Take::Taken => Ok(true),
            Take::Unneeded => Ok(false),
            Take::Full => {
                let limit = self.permits.limit().get().unwrap_or(0);
                // A refusal proves that every permit was out; only a lowered limit leaves more out than it allows.
                let in_use = self.permits.in_use().max(limit);
                Err(Full { limit, in_use })
            }
        }
    }

    #[inline]
    pub(crate) fn put(&self, home: Home) {
        self.permits.put(home);
    }

    pub(crate) fn set_limit(&self, limit: Limit) {
        self.permits.set_limit(limit);
    }

    pub(crate) fn in_use(&self) -> usize {
        self.permits.in_use()
    }
}
