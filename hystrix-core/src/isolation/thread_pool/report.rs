//! What an operator wants to know of a pool.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::identity::CommandKey;
use crate::workers::{Look, Running};

/// A pool at one moment; the numbers belong together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolReport {
    /// The pool.
    pub name: Box<str>,
    /// Workers that stay.
    pub core_size: usize,
    /// Workers at most.
    pub maximum_size: usize,
    /// Calls that may wait.
    pub max_queue_size: usize,
    /// Workers alive.
    pub size: usize,
    /// Workers that run a body, abandoned ones included.
    pub active: usize,
    /// Workers that wait for a body.
    pub idle: usize,
    /// Calls that wait for a worker.
    pub queued: usize,
    /// Workers whose body runs on although its caller has been answered.
    pub abandoned: usize,
    /// Places in use, running and waiting.
    pub in_use: usize,
    /// Calls taken since the beginning.
    pub submitted: u64,
    /// Bodies ended since the beginning.
    pub completed: u64,
    /// Calls refused since the beginning.
    pub rejected: u64,
    /// The most workers there were at one time.
    pub largest: usize,
    /// Whether the pool was shut down.
    pub is_shut_down: bool,
    /// What runs, the oldest first.
    pub running: Vec<RunningTask>,
}

/// One body that a worker runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningTask {
    /// The command.
    pub command: CommandKey,
    /// The worker's name.
    pub thread: Box<str>,
    /// For how long.
    pub age: Duration,
    /// Whether its caller has been answered already.
    pub abandoned: bool,
}

impl RunningTask {
    pub(crate) fn new(running: Running, now: Timestamp) -> Self {
        Self {
            command: running.command,
            thread: running.thread.into(),
            age: now.since(running.since),
            abandoned: running.abandoned,
        }
    }
}

impl PoolReport {
    pub(crate) fn new(name: &str, look: Look, now: Timestamp) -> Self {
        let running = look.running.into_iter().map(|running| RunningTask::new(running, now));
        let mut running: Vec<RunningTask> = running.collect();
        running.sort_by_key(|task| std::cmp::Reverse(task.age));
        Self {
            name: name.into(),
            core_size: look.limits.core,
            maximum_size: look.limits.maximum,
            max_queue_size: look.limits.queue,
            size: look.live,
            active: running.len(),
            idle: look.idle,
            queued: look.queued,
            abandoned: running.iter().filter(|task| task.abandoned).count(),
            in_use: look.placed,
            submitted: look.tally.submitted,
            completed: look.tally.completed,
            rejected: look.tally.refused,
            largest: look.tally.largest,
            is_shut_down: look.closed,
            running,
        }
    }

    /// Returns the body that has run longest.
    #[must_use]
    pub fn oldest(&self) -> Option<&RunningTask> {
        self.running.first()
    }
}

impl fmt::Display for PoolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pool {}: {} of {} workers active ({} abandoned), {} queued of {}, largest {}, completed {}, rejected {}",
            self.name,
            self.active,
            self.maximum_size,
            self.abandoned,
            self.queued,
            self.max_queue_size,
            self.largest,
            self.completed,
            self.rejected,
        )
    }
}
