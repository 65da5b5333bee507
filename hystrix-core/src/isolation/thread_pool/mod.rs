//! Bodies on worker threads: a pool is named, bounded, and started when it is first needed.

mod pool;
mod report;

pub(crate) use self::pool::Pool;
pub use self::report::{PoolReport, RunningTask};

use std::borrow::Cow;
use std::time::Duration;

use crate::error::ConfigError;
use crate::workers::Limits;

/// The definition of a thread pool. What is not set has Hystrix's default.
///
/// The pool grows to its maximum before it queues, and refuses when workers and queue are taken. Commands that name the same pool share it; the first
/// definition stands, and one that differs is reported.
///
/// ```
/// use hystrix_core::ThreadPool;
///
/// let reports = ThreadPool::named("reports").core_size(2).maximum_size(8).max_queue_size(32);
/// # let _ = reports;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct ThreadPool {
    pub(crate) name: Option<Cow<'static, str>>,
    core_size: Option<usize>,
    maximum_size: Option<usize>,
    max_queue_size: Option<usize>,
    queue_size_rejection_threshold: Option<usize>,
    keep_alive: Option<Duration>,
}

impl ThreadPool {
    /// Starts the definition of a pool; its workers are called `hystrix-<name>-<n>`.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: Some(name.into()), ..Self::of_the_group() }
    }

    /// Starts the definition of the pool that is named after the command's group.
    pub const fn of_the_group() -> Self {
        Self {
            name: None,
            core_size: None,
            maximum_size: None,
            max_queue_size: None,
            queue_size_rejection_threshold: None,
            keep_alive: None,
        }
    }

    /// Sets how many workers stay when there is nothing to do. Default 10, at least 1.
    pub const fn core_size(mut self, workers: usize) -> Self {
        self.core_size = Some(workers);
        self
    }

    /// Sets how many workers there may be. Default: the core size; not less than it.
    pub const fn maximum_size(mut self, workers: usize) -> Self {
        self.maximum_size = Some(workers);
        self
    }

    /// Sets how many calls may wait for a worker. Default 0: none waits.
    pub const fn max_queue_size(mut self, calls: usize) -> Self {
        self.max_queue_size = Some(calls);
        self
    }

    /// Sets a lower, live limit within the queue's size. Default: the queue's size (Hystrix's is 5, to the surprise of
    /// many); 1 up to that size.
    pub const fn queue_size_rejection_threshold(mut self, calls: usize) -> Self {
        self.queue_size_rejection_threshold = Some(calls);
        self
    }

    /// Sets how long a worker above the core size stays idle. Default 1 minute, above zero.
    pub const fn keep_alive(mut self, duration: Duration) -> Self {
        self.keep_alive = Some(duration);
        self
    }

    /// The pool without what it was given, for a definition that cannot be.
    pub(crate) fn with_default_sizes(&self) -> Self {
        let name = self.name.clone().filter(|name| !name.contains('\0'));
        Self { name, ..Self::of_the_group() }
    }

    /// More workers than any machine carries: what lies beyond is a slip of the keyboard.
    const MAX_WORKERS: usize = 65_536;

    /// The name, which without one is the group's.
    pub(crate) fn name_in<'a>(&'a self, group: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(group)
    }

    pub(crate) fn limits(&self) -> Result<Limits, ConfigError> {
        let core = self.core_size.unwrap_or(10);
        let maximum = self.maximum_size.unwrap_or(core);
        let queue = self.max_queue_size.unwrap_or(0);
        let threshold = self.queue_size_rejection_threshold.unwrap_or(queue);
        let keep_alive = self.keep_alive.unwrap_or(Duration::from_secs(60));
        if self.name.as_ref().is_some_and(|name| name.contains('\0')) {
            let name = self.name.clone().unwrap_or_default();
            return Err(ConfigError::new(
                "thread_pool",
                name.escape_default(),
                "a name without NUL, for threads are called by it",
            ));
        }
        if core == 0 || core > Self::MAX_WORKERS {
            return Err(ConfigError::new("core_size", core, format!("1 to {}", Self::MAX_WORKERS)));
        }
        if maximum < core || maximum > Self::MAX_WORKERS {
            let allowed = format!("core_size ({core}) to {}", Self::MAX_WORKERS);
            return Err(ConfigError::new("maximum_size", maximum, allowed));
        }
        if threshold > queue || (queue > 0 && threshold == 0) {
            let allowed = format!("1 to max_queue_size ({queue})");
            return Err(ConfigError::new("queue_size_rejection_threshold", threshold, allowed));
        }
        if keep_alive.is_zero() {
            return Err(ConfigError::new("keep_alive", keep_alive, "above zero"));
        }
        Ok(Limits { core, maximum, queue: threshold, keep_alive })
    }
}
