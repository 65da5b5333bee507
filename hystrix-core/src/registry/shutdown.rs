//! The end of a registry: refuses, waits, answers who still waits, and stops its threads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Inner, Registry};
use crate::admission::Core;
use crate::clock::{Timestamp, real_time};
use crate::execution::promise::Promise;
use crate::identity::CommandKey;
use crate::isolation::thread_pool::{Pool, RunningTask};
use crate::runtime::run_aside;
use crate::sync::global::Arc;

/// How long a registry whose last handle goes waits for its calls.
const ON_DROP: Duration = Duration::from_secs(1);

/// What a shutdown left behind.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The work that had not ended in time.
    pub left: Vec<LeftOver>,
}

impl ShutdownReport {
    /// Returns whether nothing was left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

/// Work that had not ended when its registry did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftOver {
    /// The command.
    pub command: CommandKey,
    /// How long it has run; unknown for work in its caller's own thread or task.
    pub age: Option<Duration>,
    /// The worker; none for work in its caller's own thread or task.
    pub thread: Option<Box<str>>,
    /// Whether its caller had been answered before.
    pub abandoned: bool,
}

impl From<RunningTask> for LeftOver {
    fn from(task: RunningTask) -> Self {
        Self {
            command: task.command,
            age: Some(task.age),
            thread: Some(task.thread),
            abandoned: task.abandoned,
        }
    }
}

impl Registry {
    /// Ends the registry: refuses new calls (their fallbacks apply), waits for calls under way and their fallbacks, then answers
    /// whoever still waits for a pool with a rejection, and stops pools, fallback workers and timer.
    ///
    /// Waits `patience` at most, in real time whatever the registry's clock. A body cannot be stopped from outside: what is left
    /// is reported, and its thread ends when it does. A second call is a no-op. Called from a body it waits for that body, in vain: do that
    /// with a short patience, or elsewhere.
    ///
    /// ```
    /// use hystrix_core::Registry;
    /// use std::time::Duration;
    ///
    /// let registry = Registry::builder().build();
    /// assert!(registry.shutdown(Duration::from_millis(200)).is_clean());
    /// ```
    pub fn shutdown(&self, patience: Duration) -> ShutdownReport {
        self.0.shutdown(patience)
    }

    /// The same, for async code: the waiting is done on a thread of its own.
    pub fn shutdown_async(&self, patience: Duration) -> Shutdown {
        let promise = Arc::new(Promise::new());
        let (registry, answer) = (self.clone(), promise.clone());
        run_aside("shutdown", move || drop(answer.keep(registry.0.shutdown(patience))));
        Shutdown { promise }
    }
}

/// A shutdown under way: see [`Registry::shutdown_async`]. It goes on when this is dropped.
#[must_use = "futures do nothing unless polled"]
pub struct Shutdown {
    promise: Arc<Promise<ShutdownReport>>,
}

impl Future for Shutdown {
    type Output = ShutdownReport;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ShutdownReport> {
        self.promise.poll(cx)
    }
}

impl std::fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shutdown").finish_non_exhaustive()
    }
}

impl Inner {
    fn shutdown(&self, patience: Duration) -> ShutdownReport {
        if !self.runtime.close() {
            return ShutdownReport::default();
        }
        let until = real_time() + patience;
        let (commands, pools) = {
            let state = self.state.lock();
            let commands: Vec<Arc<Core>> = state.handles().into_iter().map(|handle| handle.core).collect();
            let pools: Vec<Arc<Pool>> = state.pools.values().cloned().collect();
            (commands, pools)
        };
        // A worker is free a little after its call has ended; what is left is looked for among the workers.
        self.runtime.drain(until, || {
            commands.iter().all(|command| command.stats.is_at_rest())
                && pools.iter().all(|pool| pool.workers().is_free())
                && self.runtime.fallback_workers.is_free()
        });
        let report = self.left(&commands, &pools);
        self.stop(&pools, until);
        report
    }

    fn stop(&self, pools: &[Arc<Pool>], until: Timestamp) {
        /// What a thread that has nothing to do needs to end.
        const TO_END: Duration = Duration::from_millis(20);

        let (fallbacks, errands) = (&self.runtime.fallback_workers, &self.runtime.errands);
        for pool in pools {
            pool.workers().close();
        }
        fallbacks.close();
        self.runtime.timer.shutdown();
        errands.close();
        let until = until.max(real_time() + TO_END);
        for pool in pools {
            pool.workers().join(until);
        }
        fallbacks.join(until);
        errands.join(until);
    }

    fn left(&self, commands: &[Arc<Core>], pools: &[Arc<Pool>]) -> ShutdownReport {
        let mut left: Vec<LeftOver> = Vec::new();
        for pool in pools {
            left.extend(pool.report().running.into_iter().map(LeftOver::from));
        }
        let fallbacks = self.runtime.fallback_workers.look();
        let now = self.runtime.clock.now();
        left.extend(fallbacks.running.into_iter().map(|running| RunningTask::new(running, now).into()));
        for command in commands.iter().filter(|command| command.pool.is_none()) {
            let stats = &command.stats;
            let in_place = |count: u64, abandoned| {
                (0..count).map(move |_| LeftOver {
                    command: command.key.clone(),
                    age: None,
                    thread: None,
                    abandoned,
                })
            };
            left.extend(in_place(stats.in_flight(), false));
            left.extend(in_place(stats.abandoned_now(), true));
        }
        ShutdownReport { left }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown(ON_DROP);
    }
}
