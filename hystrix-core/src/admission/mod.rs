//! Admission: asks the stages in their order, once, and hands out two tokens.
//!
//! The [`Ticket`] stands for the attempt: it is settled exactly once, by whoever wins its compare-exchange (caller, worker or
//! timer), and a ticket dropped unsettled is a cancelled attempt. [`Held`] stands for the permit: it travels with the
//! body and goes back when the body has really ended, however the attempt was settled meanwhile.

mod live;
mod phase;
mod refusal;
mod ticket;

pub use self::live::Force;
pub(crate) use self::live::{Color, Live, LiveSettings};
pub(crate) use self::phase::Stage;
pub(crate) use self::refusal::{Refusal, Warned};
pub(crate) use self::ticket::{Cut, Held, Ticket};

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::circuit_breaker::{Circuit, Pass, Verdict};
use crate::clock::{TimeSource, Timestamp};
use crate::fallback::FallbackPermits;
use crate::identity::CommandKey;
use crate::isolation::semaphore::Semaphore;
use crate::isolation::thread_pool::Pool;
use crate::outcome::{Mode, Outcome};
use crate::runtime::Runtime;
use crate::sync::Home;
use crate::sync::global::Arc;
use crate::window::{Stats, Word};

/// One command, as its calls see it.
pub struct Core {
    pub(crate) key: CommandKey,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: TimeSource,
    pub(crate) live: Live,
    pub(crate) circuit: Arc<Circuit>,
    pub(crate) semaphore: Semaphore,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) fallback: FallbackPermits,
    pub(crate) stats: Stats,
    pub(crate) warned: Warned,
}

/// Code of the user is contained wherever it runs, so an unwinding never leaves anything half done.
impl std::panic::RefUnwindSafe for Core {}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A reference to a command's core: borrowed by a call in place, counted by one that outlives its caller.
pub(crate) trait CoreRef: Deref<Target = Core> + Clone {}
impl<C: Deref<Target = Core> + Clone> CoreRef for C {}

/// A call at the door, and what admission gave it: the makings of a ticket and of a permit's token. Filled where it stands, for
/// moving it would cost more than filling it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) home: Home,
    pub(crate) arrival: Timestamp,
    pub(crate) deadline: Timestamp,
    pass: Pass,
    /// A permit was taken.
    taken: bool,
    pub(crate) mode: Mode,
    /// What shadow mode would have done instead.
    would_have: Option<Outcome>,
    /// A forced latency.
    pub(crate) delay: Duration,
}

impl Entry {
    /// A call that arrives now, on this thread.
    #[inline]
    pub(crate) fn new(core: &Core, color: Color) -> Self {
        let arrival = core.clock.now();
        Self {
            home: Home::current(),
            arrival,
            deadline: core.live.deadline(color, arrival),
            pass: Pass::UNASKED,
            taken: false,
            mode: Mode::Enforce,
            would_have: None,
            delay: Duration::ZERO,
        }
    }

    /// The moment from which on a result is dropped; never, unless the mode enforces.
    #[inline]
    pub(crate) fn cut_at(&self) -> Timestamp {
        cut_at(self.mode, self.deadline)
    }

    /// Nothing about it is out of the ordinary.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.mode == Mode::Enforce && self.delay.is_zero()
    }
}

#[inline]
fn cut_at(mode: Mode, deadline: Timestamp) -> Timestamp {
    match mode {
        Mode::Enforce => deadline,
        Mode::Shadow | Mode::Off => Timestamp::MAX,
    }
}

/// What is known of an attempt that was settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) arrival: Timestamp,
    /// When the body began; zero if it did not.
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) pass: Pass,
    pub(crate) outcome: Outcome,
    pub(crate) mode: Mode,
    pub(crate) would_have: Option<Outcome>,
    /// The body runs on.
    pub(crate) abandoned: bool,
    /// The call is counted as one that waits for its answer.
    pub(crate) owes: bool,
}

impl Core {
    /// Asks circuit and semaphore, in that order, for the call.
    ///
    /// Here is the way of nearly every call; it decides nothing that [`admit_slowly`](Self::admit_slowly) would not.
    #[inline]
    pub(crate) fn admit(&self, entry: &mut Entry) -> Result<(), Refusal> {
        let rules = self.live.rules();
        if rules.are_usual()
            && !self.runtime.is_closing()
            && let Some(pass) = self.circuit.closed()
            && let Some(taken) = self.semaphore.take_at_home(entry.home)
        {
            (entry.pass, entry.taken) = (pass, taken);
            self.started(entry);
            return Ok(());
        }
        self.admit_slowly(entry)
    }

    #[cold]
    #[inline(never)]
    fn admit_slowly(&self, entry: &mut Entry) -> Result<(), Refusal> {
        let rules = self.live.rules();
        let (home, now) = (entry.home, entry.arrival);
        entry.mode = rules.mode();
        if entry.mode == Mode::Off {
            entry.deadline = Timestamp::MAX;
            return Ok(());
        }
        if self.runtime.is_closing() {
            return Err(self.shut_down(home, now));
        }
        match self.live.forced() {
            Some(Force::Latency(latency)) => entry.delay = latency,
            Some(force) => return Err(self.force(entry, force)),
            None => {}
        }
        let shadow = entry.mode == Mode::Shadow;
        if !rules.has_circuit() {
            // No circuit judges this command, but one held open by hand refuses all the same.
            if self.circuit.is_forced_open() && !shadow {
                return Err(self.short_circuited(home, now, None));
            }
        } else {
            match self.ask_circuit(now, entry.deadline) {
                Ok(pass) => entry.pass = pass,
                Err(_) if shadow => entry.would_have = Some(Outcome::ShortCircuited),
                Err(retry_after) => return Err(self.short_circuited(home, now, retry_after)),
            }
        }
        if entry.would_have.is_none() {
            match self.semaphore.take(home) {
                Ok(taken) => entry.taken = taken,
                Err(()) if shadow => {
                    self.record(home, entry.pass, Verdict::Refused, now);
                    entry.would_have = Some(Outcome::SemaphoreRejected);
                }
                Err(()) => return Err(self.exhausted(home, now, entry.pass)),
            }
        }
        if let Some(outcome) = entry.would_have {
            self.stats.count(home, now, Word::WouldHave(outcome));
        }
        self.started(entry);
        Ok(())
    }

    #[inline]
    fn started(&self, entry: &Entry) {
        match self.pool {
            None => self.stats.started(entry.home, entry.arrival),
            Some(_) => self.stats.started_without_look(entry.home),
        }
    }

    /// Asks the circuit; an error says how long it still refuses, if that is known.
    #[inline]
    fn ask_circuit(&self, now: Timestamp, deadline: Timestamp) -> Result<Pass, Option<Duration>> {
        let expected_end = if deadline == Timestamp::MAX { now } else { deadline };
        let (pass, change) = self.circuit.admit(now, expected_end);
        self.runtime.circuit_changed(change);
        pass
    }

    /// Counts an attempt that succeeded, and with it its call, in enforcing mode: its latency is the call's too.
    pub(crate) fn succeeded(&self, entry: &Entry, end: Timestamp) {
        let total = end.nanos_since(entry.arrival);
        self.stats.finished(entry.home, end, Outcome::Success, total);
        self.record(entry.home, entry.pass, Verdict::Success, end);
    }

    /// Tells the circuit, and whoever listens to it.
    #[inline]
    pub(crate) fn record(&self, home: Home, pass: Pass, verdict: Verdict, now: Timestamp) {
        let change = self.circuit.record(home, pass, verdict, now);
        self.runtime.circuit_changed(change);
    }

    pub(crate) fn rejected_by_isolation(&self) -> Outcome {
        match self.pool {
            Some(_) => Outcome::ThreadPoolRejected,
            None => Outcome::SemaphoreRejected,
        }
    }
}
