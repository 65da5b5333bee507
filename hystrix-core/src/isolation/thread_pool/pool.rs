//! A live pool: workers, and what is told about them.

use super::{PoolReport, ThreadPool};
use crate::clock::TimeSource;
use crate::event::PoolEventKind;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use crate::sync::global::AtomicBool;
use crate::timer::Timer;
use crate::workers::{Limits, Refused, Room, Work, Workers};

pub(crate) struct Pool {
    workers: Workers<Work>,
    clock: TimeSource,
    /// As the code that made it has it; a resize changes the limits, not this.
    definition: ThreadPool,
    /// Somebody was refused since there was last room.
    exhausted: AtomicBool,
}

impl Pool {
    pub(crate) fn new(
        name: &str,
        definition: ThreadPool,
        limits: Limits,
        clock: TimeSource,
        timer: Timer,
    ) -> Self {
        Self {
            workers: Workers::new(name, limits, clock.clone(), timer),
            clock,
            definition,
            exhausted: AtomicBool::new(false),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.workers.name()
    }

    /// Whether another definition of this pool says something else. One that only names it has no say in its sizes.
    pub(crate) fn differs_from(&self, again: &ThreadPool) -> bool {
        let only_named = ThreadPool { name: again.name.clone(), ..ThreadPool::of_the_group() };
        let sizes = ThreadPool { name: self.definition.name.clone(), ..again.clone() };
        *again != only_named && sizes != self.definition
    }

    /// Takes a job, and says what is worth an event.
    pub(crate) fn submit(&self, work: &Work, room: Room) -> (Result<(), Refused>, Option<PoolEventKind>) {
        let result = self.workers.submit(work, room);
        let event = match &result {
            Ok(()) if room == Room::Place && self.exhausted.load(Relaxed) => {
                self.exhausted.swap(false, Relaxed).then_some(PoolEventKind::Relieved)
            }
            Ok(()) | Err(Refused::ShutDown) => None,
            Err(Refused::Full { places, .. }) => {
                let first = !self.exhausted.load(Relaxed) && !self.exhausted.swap(true, Relaxed);
                first.then_some(PoolEventKind::Exhausted { places: *places })
            }
            Err(Refused::NoThread(error)) => {
                Some(PoolEventKind::ThreadRefused { cause: error.to_string().into() })
            }
        };
        (result, event)
    }

    /// Takes a job that was decided out of the queue.
    pub(crate) fn withdraw(&self, entry: &AtomicU64) {
        self.workers.withdraw(entry);
    }

    /// Notes that nobody waits for a running job any more.
    pub(crate) fn abandon(&self, entry: &AtomicU64) {
        self.workers.abandon(entry);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.workers.limits()
    }

    pub(crate) fn resize(&self, limits: Limits) {
        self.workers.resize(limits);
    }

    pub(crate) fn report(&self) -> PoolReport {
        PoolReport::new(self.name(), self.workers.look(), self.clock.now())
    }

    pub(crate) fn workers(&self) -> &Workers<Work> {
        &self.workers
    }
}
