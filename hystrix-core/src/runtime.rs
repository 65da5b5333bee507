//! What a registry lends to the calls of its commands: time, context, listeners, and workers for fallbacks.

use std::time::Duration;

use arc_swap::ArcSwap;

use crate::circuit_breaker::Change;
use crate::clock::{TimeSource, Timestamp, real_time};
use crate::context::{Captured, Propagator};
use crate::event::{PoolEvent, PoolEventKind};
use crate::identity::CommandKey;
use crate::log;
use crate::sinks::Sinks;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::global::{Arc, Mutex};
use crate::sync::{AtomicBool, AtomicU64, Thread, current, park_timeout};
use crate::timer::Timer;
use crate::unwind::contained;
use crate::workers::{Limits, Refused, Room, Seat, Task, Work, Workers};

pub(crate) struct Runtime {
    pub(crate) clock: TimeSource,
    pub(crate) timer: Timer,
    pub(crate) sinks: Sinks,
    /// Runs fallbacks that nobody can run in place: started when needed, no queue.
    pub(crate) fallback_workers: Workers<Work>,
    /// Does what the timer's thread must not: one worker, so things are told in their order, whatever fallbacks do.
    pub(crate) errands: Workers<Work>,
    propagators: ArcSwap<Vec<Arc<dyn Propagator>>>,
    /// The registry is shut down, or about to be: new calls are refused.
    closing: AtomicBool,
    /// Whoever waits for the last call to end.
    closer: Mutex<Option<Thread>>,
}

/// As for the core of a command.
impl std::panic::RefUnwindSafe for Runtime {}

/// One worker, when there is something to do.
const ONE_AT_A_TIME: Limits = Limits { core: 0, maximum: 1, queue: 0, keep_alive: Duration::from_secs(60) };

impl Runtime {
    pub(crate) fn new(clock: TimeSource, fallback: Limits, propagators: Vec<Arc<dyn Propagator>>) -> Self {
        let timer = Timer::new(clock.clone());
        Self {
            fallback_workers: Workers::new("fallback", fallback, clock.clone(), timer.clone()),
            errands: Workers::new("errands", ONE_AT_A_TIME, clock.clone(), timer.clone()),
            clock,
            timer,
            sinks: Sinks::default(),
            propagators: ArcSwap::from_pointee(propagators),
            closing: AtomicBool::new(false),
            closer: Mutex::new(None),
        }
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with `close`, so whoever sees it sees what was decided before.
        self.closing.load(Acquire)
    }

    /// Refuses new calls; true for the first who asks.
    pub(crate) fn close(&self) -> bool {
        self.closing.compare_exchange(false, true, Release, Acquire).is_ok()
    }

    /// After [`close`](Self::close): waits until `is_idle`, or until a moment of real time.
    pub(crate) fn drain(&self, until: Timestamp, is_idle: impl Fn() -> bool) {
        /// Calls that end wake this thread. One that did not see the closing yet does not, for looking costs no fence; hence a
        /// look without being woken.
        const LOOK_AGAIN: Duration = Duration::from_millis(5);

        *self.closer.lock() = Some(current());
        while !is_idle() {
            let left = until.since(real_time());
            if left.is_zero() {
                break;
            }
            park_timeout(left.min(LOOK_AGAIN));
        }
        *self.closer.lock() = None;
    }

    /// A call has ended during the closing.
    #[cold]
    pub(crate) fn call_ended(&self) {
        if let Some(closer) = &*self.closer.lock() {
            closer.unpark();
        }
    }

    pub(crate) fn add_propagator(&self, propagator: Arc<dyn Propagator>) {
        self.propagators.rcu(|list| {
            let mut list = Vec::clone(list);
            list.push(propagator.clone());
            list
        });
    }

    /// Captures the caller's context. May panic as its propagators do.
    pub(crate) fn capture(&self) -> Captured {
        let propagators = self.propagators.load();
        if propagators.is_empty() {
            return Captured::default();
        }
        Captured::new(&propagators)
    }

    /// Tells of a circuit's change, if there was one.
    #[inline]
    pub(crate) fn circuit_changed(&self, change: Option<Change>) {
        if let Some(change) = change {
            self.tell_circuit(&change);
        }
    }

    #[cold]
    fn tell_circuit(&self, change: &Change) {
        log::circuit_changed(&change.0);
        self.sinks.tell(|sink| sink.circuit_changed(&change.0));
    }

    /// Tells of something that happened to a pool, if it did.
    pub(crate) fn pool_event(&self, pool: &str, kind: Option<PoolEventKind>) {
        if let Some(kind) = kind {
            let event = PoolEvent { pool: pool.into(), kind };
            self.sinks.tell(|sink| sink.pool(&event));
        }
    }

    /// Runs `errand` on a worker, in order: for the timer's thread, which runs no user code.
    pub(crate) fn elsewhere(&self, command: &CommandKey, errand: impl FnOnce() + Send + 'static) {
        let work = Work(Arc::new(Errand::new(command, errand)));
        if let Err(why) = self.errands.submit(&work, Room::Beyond) {
            // No worker can be had at all; then this thread must do.
            work.0.refuse(why);
        }
    }

    /// Tells of a circuit's change from the timer's thread.
    pub(crate) fn circuit_changed_elsewhere(self: &Arc<Self>, command: &CommandKey, change: Option<Change>) {
        if let Some(change) = change {
            let runtime = self.clone();
            self.elsewhere(command, move || runtime.tell_circuit(&change));
        }
    }
}

struct Errand {
    errand: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    entry: AtomicU64,
    command: CommandKey,
}

impl Errand {
    fn new(command: &CommandKey, errand: impl FnOnce() + Send + 'static) -> Self {
        Self {
            errand: Mutex::new(Some(Box::new(errand))),
            entry: AtomicU64::new(0),
            command: command.clone(),
        }
    }

    fn do_it(&self) {
        let errand = self.errand.lock().take();
        if let Some(errand) = errand {
            // Listeners contain their own panics; what is left is the drop of something of a user's.
            let _ = contained(errand);
        }
    }
}

impl Task for Errand {
    fn run(self: Arc<Self>, seat: Seat<Work>, _now: Timestamp) {
        self.do_it();
        drop(seat);
    }

    fn refuse(&self, _why: Refused) {
        self.do_it();
    }

    fn is_over(&self) -> bool {
        false
    }

    fn entry(&self) -> &AtomicU64 {
        &self.entry
    }

    fn command(&self) -> &CommandKey {
        &self.command
    }
}

/// Runs `errand` on a thread of its own, or here if there is none to be had.
pub(crate) fn run_aside(name: &str, errand: impl FnOnce() + Send + 'static) {
    let clock = TimeSource::System;
    let workers = Workers::new(name, ONE_AT_A_TIME, clock.clone(), Timer::new(clock));
    let aside = workers.clone();
    let errand = move || {
        errand();
        // The thread ends with its errand.
        aside.close();
    };
    let work = Work(Arc::new(Errand::new(&CommandKey::new("hystrix", "shutdown"), errand)));
    if let Err(why) = workers.submit(&work, Room::Place) {
        work.0.refuse(why);
    }
}
