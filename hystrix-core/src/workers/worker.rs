//! One worker: its record, and the life of its thread.

use std::io;

use super::{Idle, Job, Room, Seat, Shared, State};
use crate::clock::Timestamp;
use crate::sync::{Builder, MutexGuard, current, is_finished, park};
use crate::unwind::contained;

/// What is known of a worker; all of it under the workers' lock.
pub(super) struct Worker<J> {
    /// What it runs.
    pub(super) current: Option<Current<J>>,
    /// It is on the idle stack.
    pub(super) idle: bool,
    /// It is to end, and no longer counted.
    pub(super) retired: bool,
}

pub(super) struct Current<J> {
    pub(super) job: J,
    pub(super) room: Room,
    pub(super) since: Timestamp,
    /// Nobody waits for it any more.
    pub(super) abandoned: bool,
}

impl<J> Worker<J> {
    pub(super) fn new() -> Self {
        Self { current: None, idle: false, retired: false }
    }
}

impl<J: Job> Shared<J> {
    /// Starts the thread of a worker that was hired.
    pub(super) fn start(&self, number: usize) -> io::Result<()> {
        let me = self.me.clone();
        #[expect(clippy::disallowed_methods, reason = "where every other thread is started")]
        let thread = Builder::new().name(self.thread_name(number)).spawn(move || {
            if let Some(shared) = me.upgrade() {
                while let Some((job, now)) = shared.next(number) {
                    let seat = Seat { shared: shared.clone(), number };
                    // A job contains its own panics; a worker outlives them in any case.
                    let _ = contained(|| job.run(seat, now));
                }
            }
        })?;
        let mut state = self.state.lock();
        state.threads.retain(|thread| !is_finished(thread));
        state.threads.push(thread);
        Ok(())
    }

    /// The next job for a worker; `None` ends it.
    fn next(&self, number: usize) -> Option<(J, Timestamp)> {
        loop {
            let now = self.clock.now();
            let mut state = self.state.lock();
            if state.is_one_too_many(number) {
                state.workers[number] = None;
                let closer = state.closer.clone();
                drop(state);
                if let Some(thread) = closer {
                    thread.unpark();
                }
                return None;
            }
            if let Some(queued) = state.queue.pop() {
                let job = queued.job.clone();
                state.worker(number).current =
                    Some(Current { job: queued.job, room: queued.room, since: now, abandoned: false });
                return Some((job, now));
            }
            self.wait_for_work(number, now, state);
        }
    }

    /// Sleeps on the idle stack until somebody takes this worker off it.
    fn wait_for_work(&self, number: usize, now: Timestamp, mut state: MutexGuard<'_, State<J>>) {
        state.idle.push(Idle { number, thread: current(), since: now });
        state.worker(number).idle = true;
        let surplus = state.live > state.limits.core && !state.trimming;
        drop(state);
        if surplus {
            self.trim_later();
        }
        while self.state.lock().worker(number).idle {
            park();
        }
    }
}

impl<J> State<J> {
    /// Whether a worker is to end; it is no longer counted then.
    fn is_one_too_many(&mut self, number: usize) -> bool {
        if self.worker(number).retired {
            return true;
        }
        let too_many = self.closed || self.live > self.limits.maximum;
        if too_many {
            self.live -= 1;
        }
        too_many
    }
}
