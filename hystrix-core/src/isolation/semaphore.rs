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

impl Semaphore {
    pub(crate) fn new(limit: Limit, release: PermitRelease) -> Self {
        Self { permits: Permits::new(limit), release }
    }

    /// Takes a permit: true if it has to be put back, an error if all are out.
    pub(crate) fn take(&self, home: Home) -> Result<bool, ()> {
        match self.permits.take(home) {
            Take::Taken => Ok(true),
            Take::Unneeded => Ok(false),
            Take::Full => Err(()),
        }
    }

    /// The same, as far as it costs next to nothing.
    #[inline]
    pub(crate) fn take_at_home(&self, home: Home) -> Option<bool> {
        Some(self.permits.take_at_home(home)? == Take::Taken)
    }

    /// The limit, and how much of it is in use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.permits.limit().get().unwrap_or(0), self.permits.in_use())
    }

    #[inline]
    pub(crate) fn put(&self, home: Home) {
        self.permits.put(home);
    }

    pub(crate) fn set_limit(&self, limit: Limit) {
        self.permits.set_limit(limit);
    }
}
