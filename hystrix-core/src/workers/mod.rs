//! Named, bounded threads, started when they are needed, that run jobs; the only place besides the timer that starts threads.
//!
//! Grows to its maximum before it queues, refuses when all places are taken, and treats a thread that the system refuses as
//! an outcome. Who meets whom, and why no wake-up is lost, is in the README beside this file.

mod queue;
mod work;
mod worker;

pub(crate) use self::work::{Task, Work};

use std::io;
use std::time::Duration;

use self::queue::Queue;
use self::worker::Worker;
use crate::clock::{TimeSource, Timestamp, real_time};
use crate::identity::CommandKey;
use crate::sync::Ordering::Relaxed;
use crate::sync::global::{Arc, Weak};
use crate::sync::{AtomicU64, Home, JoinHandle, Mutex, Thread, current, park_timeout};
use crate::timer::{Due, Meeting, Target, Timer};

/// What workers run. Cheap to clone: a reference.
pub(crate) trait Job: Clone + Send + 'static {
    /// Runs on a worker; drops `seat` as soon as the body has ended. `now` is when the worker took it.
    fn run(self, seat: Seat<Self>, now: Timestamp);
    /// The workers have ended, with this job waiting or still running, or no thread can be had for it: whoever waits for it
    /// is told.
    fn refuse(&self, why: Refused);
    /// Says that it was decided without running, so nobody wants it in the queue.
    fn is_over(&self) -> bool;
    /// Where the queue notes which entry it is.
    fn entry(&self) -> &AtomicU64;
    /// The command it belongs to.
    fn command(&self) -> &CommandKey;
}

/// How many workers, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Workers that stay when there is nothing to do.
    pub(crate) core: usize,
    /// Workers at most.
    pub(crate) maximum: usize,
    /// Jobs that may wait.
    pub(crate) queue: usize,
    /// How long a worker above `core` stays idle.
    pub(crate) keep_alive: Duration,
}

impl Limits {
    pub(crate) fn places(&self) -> usize {
        self.maximum.saturating_add(self.queue)
    }
}

/// Whether a job needs one of the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Place,
    /// Beyond all limits: a pool in shadow mode refuses nobody.
    Beyond,
}

/// Why a job was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    Full { places: usize, in_use: usize },
    NoThread(io::Error),
    ShutDown,
}

/// The workers of one name. Clones are the same workers.
pub(crate) struct Workers<J: Job>(Arc<Shared<J>>);

struct Shared<J: Job> {
    name: Box<str>,
    clock: TimeSource,
    /// Rings when somebody may have been idle for too long.
    timer: Timer,
    state: Mutex<State<J>>,
    me: Weak<Shared<J>>,
}

struct State<J> {
    limits: Limits,
    queue: Queue<Queued<J>>,
    /// Places taken: by jobs that wait and jobs that run.
    placed: usize,
    /// By number; a worker that has ended leaves its number to the next.
    workers: Vec<Option<Worker<J>>>,
    /// Workers that are not told to end.
    live: usize,
    /// Most recently idle last.
    idle: Vec<Idle>,
    /// A timer entry is under way for the bottom of `idle`.
    trimming: bool,
    closed: bool,
    /// Whoever waits for the last worker to end.
    closer: Option<Thread>,
    /// The threads, to be joined at the end; those that ended long before are forgotten.
    threads: Vec<JoinHandle<()>>,
    tally: Tally,
}

struct Queued<J> {
    job: J,
    room: Room,
}

struct Idle {
    number: usize,
    thread: Thread,
    since: Timestamp,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) refused: u64,
    /// The most workers there ever were at one time.
    pub(crate) largest: usize,
}

/// A consistent look at the workers.
pub(crate) struct Look {
    pub(crate) limits: Limits,
    pub(crate) live: usize,
    pub(crate) idle: usize,
    pub(crate) queued: usize,
    pub(crate) placed: usize,
    pub(crate) closed: bool,
    pub(crate) tally: Tally,
    pub(crate) running: Vec<Running>,
}

/// One job that a worker runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) command: CommandKey,
    pub(crate) thread: String,
    pub(crate) since: Timestamp,
    pub(crate) abandoned: bool,
}

impl<J: Job> Clone for Workers<J> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J: Job> Workers<J> {
    pub(crate) fn new(name: impl Into<Box<str>>, limits: Limits, clock: TimeSource, timer: Timer) -> Self {
        let name = name.into();
        Self(Arc::new_cyclic(|me| Shared {
            name,
            clock,
            timer,
            state: Mutex::new(State {
                limits,
                queue: Queue::new(),
                placed: 0,
                workers: Vec::new(),
                live: 0,
                idle: Vec::new(),
                trimming: false,
                closed: false,
                closer: None,
                threads: Vec::new(),
                tally: Tally::default(),
            }),
            me: me.clone(),
        }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Takes a job, with a worker for it.
    ///
    /// # Errors
    ///
    /// No place, no thread, or shut down; the job was not taken then, and will not run.
    pub(crate) fn submit(&self, job: &J, room: Room) -> Result<(), Refused> {
        let (idle, fresh);
        let mut state = self.0.state.lock();
        if state.closed {
            return Err(Refused::ShutDown);
        }
        if job.is_over() {
            return Ok(());
        }
        let places = state.limits.places();
        if room == Room::Place {
            if state.placed >= places {
                state.tally.refused += 1;
                let in_use = state.placed;
                return Err(Refused::Full { places, in_use });
            }
            state.placed += 1;
        }
        state.tally.submitted += 1;
        let entry = state.queue.push(Queued { job: job.clone(), room });
        job.entry().store(entry, Relaxed);
        idle = state.wake_one();
        fresh = (idle.is_none()).then(|| state.hire()).flatten();
        drop(state);
        if let Some(thread) = idle {
            thread.unpark();
        }
        if let Some(number) = fresh
            && let Err(error) = self.0.start(number)
        {
            return self.0.without_thread(number, entry, error);
        }
        Ok(())
    }

    /// Takes a job out of the queue that nobody wants any more: its place is free at once.
    ///
    /// The caller has decided the job before: if it is not queued yet, it never will be.
    pub(crate) fn withdraw(&self, entry: &AtomicU64) {
        let mut state = self.0.state.lock();
        let removed = state.take(entry.load(Relaxed));
        drop(state);
        // The reference is dropped here, without the lock.
        drop(removed);
    }

    /// Notes that nobody waits for a running job any more.
    pub(crate) fn abandon(&self, entry: &AtomicU64) {
        let mut state = self.0.state.lock();
        let entry = entry.load(Relaxed);
        let running = state.workers.iter_mut().flatten().filter_map(|worker| worker.current.as_mut());
        for current in running {
            if current.job.entry().load(Relaxed) == entry {
                current.abandoned = true;
            }
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.state.lock().limits
    }

    /// Changes the limits. Nobody is stopped: workers above a lower maximum end when they next look.
    pub(crate) fn resize(&self, limits: Limits) {
        let mut state = self.0.state.lock();
        state.limits = limits;
        // What is under way may be for a longer keep-alive, or for ever.
        state.trimming = false;
        let mut sent_home = Vec::new();
        while state.live > limits.maximum && !state.idle.is_empty() {
            sent_home.extend(state.retire_longest_idle());
        }
        let wanted = state.queue.len().saturating_sub(state.idle.len());
        let fresh: Vec<usize> = (0..wanted).map_while(|_| state.hire()).collect();
        drop(state);
        for thread in sent_home {
            thread.unpark();
        }
        for number in fresh {
            if self.0.start(number).is_err() {
                self.0.state.lock().fire(number);
            }
        }
        self.0.trim_later();
    }

    /// Nothing runs and nothing waits.
    pub(crate) fn is_free(&self) -> bool {
        let state = self.0.state.lock();
        let mut workers = state.workers.iter().flatten();
        state.placed == 0 && state.queue.len() == 0 && workers.all(|worker| worker.current.is_none())
    }

    pub(crate) fn look(&self) -> Look {
        let state = self.0.state.lock();
        let workers = state.workers.iter().enumerate();
        let running = workers.filter_map(|(number, worker)| {
            let current = worker.as_ref()?.current.as_ref()?;
            Some(Running {
                command: current.job.command().clone(),
                thread: self.0.thread_name(number),
                since: current.since,
                abandoned: current.abandoned,
            })
        });
        Look {
            limits: state.limits,
            live: state.live,
            idle: state.idle.len(),
            queued: state.queue.len(),
            placed: state.placed,
            closed: state.closed,
            tally: state.tally,
            running: running.collect(),
        }
    }

    /// Takes no more jobs, tells everybody who still waits for one, and sends idle workers home.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        let mut waiting = Vec::new();
        while let Some(queued) = state.queue.pop() {
            if queued.room == Room::Place {
                state.placed -= 1;
            }
            waiting.push(queued.job);
        }
        let running = state.workers.iter().flatten().filter_map(|worker| worker.current.as_ref());
        waiting.extend(running.map(|current| current.job.clone()));
        let mut idle = Vec::new();
        while !state.idle.is_empty() {
            idle.extend(state.retire_longest_idle());
        }
        drop(state);
        for thread in idle {
            thread.unpark();
        }
        for job in waiting {
            job.refuse(Refused::ShutDown);
        }
    }

    /// After [`close`](Self::close): waits until all threads have ended, or until a moment of real time.
    pub(crate) fn join(&self, until: Timestamp) {
        loop {
            let mut state = self.0.state.lock();
            state.closer = Some(current());
            if state.workers.iter().all(Option::is_none) {
                let threads = std::mem::take(&mut state.threads);
                drop(state);
                // Each has left its loop: the join is short. A worker's own job may be what shuts down.
                for thread in threads {
                    if thread.thread().id() != current().id() {
                        let _ = thread.join();
                    }
                }
                return;
            }
            drop(state);
            let patience = until.since(real_time());
            if patience.is_zero() {
                return;
            }
            park_timeout(patience);
        }
    }
}

impl<J: Job> Shared<J> {
    fn thread_name(&self, number: usize) -> String {
        format!("hystrix-{}-{}", self.name, number + 1)
    }

    /// The system refused the thread that was to run the job. If another worker can, it may wait for it.
    #[cold]
    fn without_thread(&self, number: usize, entry: u64, error: io::Error) -> Result<(), Refused> {
        let mut state = self.state.lock();
        state.fire(number);
        let may_wait = state.live > 0 && state.queue.len() <= state.limits.queue;
        if may_wait {
            return Ok(());
        }
        let own = state.take(entry);
        // Others may have come to wait for this very worker.
        let mut stranded = Vec::new();
        while state.live == 0
            && let Some(queued) = state.queue.pop()
        {
            state.placed -= usize::from(queued.room == Room::Place);
            stranded.push(queued.job);
        }
        state.tally.refused += stranded.len() as u64 + u64::from(own.is_some());
        drop(state);
        for job in stranded {
            job.refuse(Refused::NoThread(io::Error::new(error.kind(), error.to_string())));
        }
        // Without an entry another worker has it already, or its caller has left.
        match own {
            None => Ok(()),
            Some(_) => Err(Refused::NoThread(error)),
        }
    }

    /// Sees to it that somebody looks for workers idle too long, if there can be any.
    fn trim_later(&self) {
        let mut state = self.state.lock();
        // A timer that has ended fires at once, and would be armed again for ever.
        let surplus = state.live > state.limits.core && !self.timer.has_ended();
        let Some(longest) = state.idle.first().filter(|_| surplus && !state.trimming) else {
            return;
        };
        let when = longest.since + state.limits.keep_alive;
        state.trimming = true;
        drop(state);
        let Some(me) = self.me.upgrade() else {
            return;
        };
        // Without the lock: a clock may ring at once.
        if self.timer.arm(Home::current(), when, Target::Upkeep(me)).is_err() {
            // The timer has no thread now; the next worker that goes idle asks again.
            self.state.lock().trimming = false;
        }
    }
}

impl<J: Job> Due for Shared<J> {
    fn due(self: Arc<Self>, now: Timestamp, _woken: &Meeting) {
        let mut state = self.state.lock();
        state.trimming = false;
        let keep_alive = state.limits.keep_alive;
        let mut sent_home = Vec::new();
        while state.live > state.limits.core
            && state.idle.first().is_some_and(|idle| idle.since + keep_alive <= now)
        {
            sent_home.extend(state.retire_longest_idle());
        }
        drop(state);
        for thread in sent_home {
            thread.unpark();
        }
        self.trim_later();
    }
}

impl<J> State<J> {
    /// Takes an entry out of the queue, and its place.
    fn take(&mut self, entry: u64) -> Option<Queued<J>> {
        let removed = self.queue.remove(entry)?;
        self.placed -= usize::from(removed.room == Room::Place);
        Some(removed)
    }

    /// Takes the most recently idle worker off the stack; the caller wakes it.
    fn wake_one(&mut self) -> Option<Thread> {
        let idle = self.idle.pop()?;
        self.worker(idle.number).idle = false;
        Some(idle.thread)
    }

    /// Takes the longest idle worker off the stack and tells it to end; the caller wakes it.
    fn retire_longest_idle(&mut self) -> Option<Thread> {
        if self.idle.is_empty() {
            return None;
        }
        let idle = self.idle.remove(0);
        self.live -= 1;
        let worker = self.worker(idle.number);
        worker.idle = false;
        worker.retired = true;
        Some(idle.thread)
    }

    /// Makes room for one worker more, if there may be one; the caller starts its thread.
    fn hire(&mut self) -> Option<usize> {
        if self.closed || self.live >= self.limits.maximum {
            return None;
        }
        self.live += 1;
        self.tally.largest = self.tally.largest.max(self.live);
        let free = self.workers.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.workers.push(None);
            self.workers.len() - 1
        });
        self.workers[number] = Some(Worker::new());
        Some(number)
    }

    /// Takes back a worker whose thread could not be started.
    fn fire(&mut self, number: usize) {
        self.workers[number] = None;
        self.live -= 1;
    }

    fn worker(&mut self, number: usize) -> &mut Worker<J> {
        self.workers[number].as_mut().expect("a worker's record stands until its thread ends")
    }
}

/// The place of a job that runs. Dropped when the body has ended, before anything else is given back.
pub(crate) struct Seat<J: Job> {
    shared: Arc<Shared<J>>,
    number: usize,
}

impl<J: Job> Drop for Seat<J> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let current = state.worker(self.number).current.take();
        if let Some(current) = &current {
            if current.room == Room::Place {
                state.placed -= 1;
            }
            state.tally.completed += 1;
        }
        drop(state);
        // The reference is dropped here, without the lock.
        drop(current);
    }
}

#[cfg(test)]
mod tests;
