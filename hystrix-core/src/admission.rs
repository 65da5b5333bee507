//! Admission: asks the stages in their order, once, and hands out two tokens.
//!
//! The [`Ticket`] stands for the attempt: it is settled exactly once, by whoever wins its compare-exchange (caller, worker or
//! timer), and a ticket dropped unsettled is a cancelled attempt. [`Held`] stands for the permit: it travels with the
//! body and goes back when the body has really ended, however the attempt was settled meanwhile.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::circuit_breaker::{Change, Circuit, Pass, Verdict};
use crate::clock::{TimeSource, Timestamp, nanos};
use crate::error::{Rejection, RejectionKind};
use crate::fallback::FallbackPermits;
use crate::identity::CommandKey;
use crate::isolation::semaphore::Semaphore;
use crate::isolation::thread_pool::Pool;
use crate::log::{self, Numbers};
use crate::outcome::{Mode, Outcome};
use crate::runtime::Runtime;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::global::{self, Arc};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Home};
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

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// A reference to a command's core: borrowed by a call in place, counted by one that outlives its caller.
pub(crate) trait CoreRef: Deref<Target = Core> + Clone {}
impl<C: Deref<Target = Core> + Clone> CoreRef for C {}

// ===== impl Live =====

/// The settings every call reads, and a layer may change at any time.
pub(crate) struct Live {
    flags: AtomicU32,
    /// In nanoseconds; `u64::MAX` for none.
    timeout: AtomicU64,
    /// The same for synchronous calls in place, which have none unless one is written.
    timeout_in_place: AtomicU64,
    /// How `FORCED` calls end.
    force: global::Mutex<Option<Force>>,
}

const SHADOW: u32 = 1;
const OFF: u32 = 2;
const FORCED: u32 = 4;
const NO_CIRCUIT: u32 = 8;
const NO_FALLBACK: u32 = 16;
/// The permit limit is nobody's choice: a refusal suggests a better one.
const DEFAULT_LIMIT: u32 = 32;

/// What [`Live`] is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveSettings {
    pub(crate) mode: Mode,
    pub(crate) timeout: Option<Duration>,
    pub(crate) timeout_in_place: Option<Duration>,
    pub(crate) circuit_enabled: bool,
    pub(crate) fallback_enabled: bool,
    pub(crate) limit_is_default: bool,
}

/// An ending that a test forces on every call of a command: see `force`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Force {
    /// Every call times out at once.
    Timeout,
    /// Every call is short-circuited; the circuit itself is not touched.
    ShortCircuited,
    /// Every call is refused by its isolation: the semaphore or the pool.
    Rejected,
    /// Every body panics.
    Panic,
    /// Every body begins this much later.
    Latency(Duration),
}

impl Live {
    pub(crate) fn new(settings: LiveSettings) -> Self {
        let live = Self {
            flags: AtomicU32::new(0),
            timeout: AtomicU64::new(u64::MAX),
            timeout_in_place: AtomicU64::new(u64::MAX),
            force: global::Mutex::new(None),
        };
        live.set(settings);
        live
    }

    pub(crate) fn set(&self, settings: LiveSettings) {
        let mode = match settings.mode {
            Mode::Enforce => 0,
            Mode::Shadow => SHADOW,
            Mode::Off => OFF,
        };
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let fresh = mode
            | flag(!settings.circuit_enabled, NO_CIRCUIT)
            | flag(!settings.fallback_enabled, NO_FALLBACK)
            | flag(settings.limit_is_default, DEFAULT_LIMIT);
        self.timeout
            .store(settings.timeout.map_or(u64::MAX, nanos), Relaxed);
        self.timeout_in_place
            .store(settings.timeout_in_place.map_or(u64::MAX, nanos), Relaxed);
        // `force` is not a setting of a layer, and stays.
        let forced = self.flags.load(Relaxed) & FORCED;
        self.flags.store(fresh | forced, Relaxed);
    }

    pub(crate) fn force(&self, force: Option<Force>) {
        let mut current = self.force.lock();
        *current = force;
        if force.is_some() {
            self.flags.fetch_or(FORCED, Relaxed);
        } else {
            self.flags.fetch_and(!FORCED, Relaxed);
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        mode_of(self.flags.load(Relaxed))
    }

    pub(crate) fn fallback_enabled(&self) -> bool {
        self.flags.load(Relaxed) & NO_FALLBACK == 0
    }

    pub(crate) fn circuit_enabled(&self) -> bool {
        self.flags.load(Relaxed) & NO_CIRCUIT == 0
    }

    /// The deadline of a call that arrives now.
    #[inline]
    pub(crate) fn deadline(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos().saturating_add(self.timeout.load(Relaxed)))
    }

    /// The deadline of a synchronous call in place.
    #[inline]
    pub(crate) fn deadline_in_place(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos().saturating_add(self.timeout_in_place.load(Relaxed)))
    }

    /// Whether synchronous calls in place have a deadline that cuts them.
    #[inline]
    pub(crate) fn cuts_in_place(&self) -> bool {
        self.timeout_in_place.load(Relaxed) < u64::MAX && self.mode() == Mode::Enforce
    }
}

fn mode_of(flags: u32) -> Mode {
    match flags & (SHADOW | OFF) {
        0 => Mode::Enforce,
        SHADOW => Mode::Shadow,
        _ => Mode::Off,
    }
}

// ===== admission =====

/// Admission said no. All is counted; the caller has a fallback, or the error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) facts: Facts,
    pub(crate) rejection: Rejection,
}

/// What is known of an attempt that was settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) arrival: Timestamp,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Timestamp,
    pub(crate) outcome: Outcome,
    pub(crate) pass: Pass,
    pub(crate) mode: Mode,
    pub(crate) would_have: Option<Outcome>,
    /// The body runs on.
    pub(crate) abandoned: bool,
}

/// Asks circuit and semaphore, in that order, for a call that arrives now and is to end by `deadline`.
#[inline]
pub(crate) fn admit<C: CoreRef>(
    core: C,
    home: Home,
    now: Timestamp,
    deadline: Timestamp,
) -> Result<(Ticket<C>, Held<C>), Refusal> {
    let flags = core.live.flags.load(Relaxed);
    if flags & (SHADOW | OFF | FORCED) > 0 || core.runtime.is_closing() {
        return admit_unusual(core, home, now, deadline, flags);
    }
    let pass = if flags & NO_CIRCUIT == 0 {
        let expected_end = if deadline == Timestamp::MAX { now } else { deadline };
        let (pass, change) = core.circuit.admit(now, expected_end);
        core.runtime.circuit_changed(change);
        match pass {
            Ok(pass) => pass,
            Err(refusal) => return Err(core.short_circuited(home, now, refusal.retry_after)),
        }
    } else {
        Pass::UNASKED
    };
    let taken = match core.semaphore.take(home) {
        Ok(taken) => taken,
        Err(full) => {
            // A trial is given back: it was refused by our own limit, not answered by the dependency.
            core.record(home, pass, Verdict::Refused, now);
            return Err(core.exhausted(home, now, pass, full.limit, full.in_use));
        }
    };
    core.stats.started(home);
    let ticket = Ticket::new(core.clone(), now, deadline, pass, Mode::Enforce);
    Ok((ticket, Held { core, taken }))
}

/// Admission in shadow mode, with a forced ending, or during a shutdown.
#[cold]
fn admit_unusual<C: CoreRef>(
    core: C,
    home: Home,
    now: Timestamp,
    deadline: Timestamp,
    flags: u32,
) -> Result<(Ticket<C>, Held<C>), Refusal> {
    let mode = mode_of(flags);
    let free = |ticket: Ticket<C>| {
        let core = ticket.core.clone();
        Ok((ticket, Held { core, taken: false }))
    };
    if mode == Mode::Off {
        return free(Ticket::new(core, now, Timestamp::MAX, Pass::UNASKED, mode));
    }
    if core.runtime.is_closing() {
        return Err(core.shut_down(home, now));
    }
    let mut delay = Duration::ZERO;
    if flags & FORCED > 0 {
        let force = *core.live.force.lock();
        match force {
            Some(Force::Latency(latency)) => delay = latency,
            Some(force) => return Err(core.forced(home, now, deadline, force)),
            None => {}
        }
    }
    let expected_end = if deadline == Timestamp::MAX { now } else { deadline };
    let mut would_have = None;
    let mut pass = Pass::UNASKED;
    if flags & NO_CIRCUIT == 0 {
        let (asked, change) = core.circuit.admit(now, expected_end);
        core.runtime.circuit_changed(change);
        match asked {
            Ok(asked) => pass = asked,
            Err(_) if mode == Mode::Shadow => would_have = Some(Outcome::ShortCircuited),
            Err(refusal) => return Err(core.short_circuited(home, now, refusal.retry_after)),
        }
    }
    let mut taken = false;
    if would_have.is_none() {
        match core.semaphore.take(home) {
            Ok(permit) => taken = permit,
            Err(full) => {
                core.record(home, pass, Verdict::Refused, now);
                if mode == Mode::Enforce {
                    return Err(core.exhausted(home, now, pass, full.limit, full.in_use));
                }
                would_have = Some(Outcome::SemaphoreRejected);
            }
        }
    }
    core.stats.started(home);
    let mut ticket = Ticket::new(core.clone(), now, deadline, pass, mode);
    if let Some(outcome) = would_have {
        ticket.would_have(home, outcome, now);
    }
    ticket.delay = delay;
    Ok((ticket, Held { core, taken }))
}

impl Core {
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

    pub(crate) fn rejection(&self, kind: RejectionKind) -> Rejection {
        Rejection::new(self.key.clone(), kind)
    }

    #[cold]
    fn short_circuited(&self, home: Home, now: Timestamp, retry_after: Option<Duration>) -> Refusal {
        let mut rejection = self.rejection(RejectionKind::ShortCircuited);
        if let Some(after) = retry_after {
            rejection = rejection.with_time(after);
        }
        self.refused(home, now, Pass::UNASKED, Outcome::ShortCircuited, rejection)
    }

    #[cold]
    fn exhausted(&self, home: Home, now: Timestamp, pass: Pass, limit: usize, in_use: usize) -> Refusal {
        let rejection = self.rejection(RejectionKind::PermitsExhausted);
        let rejection = rejection.with_limit(limit).with_in_use(in_use);
        self.refused(home, now, pass, Outcome::SemaphoreRejected, rejection)
    }

    #[cold]
    fn shut_down(&self, home: Home, now: Timestamp) -> Refusal {
        let rejection = self.rejection(RejectionKind::ShutDown);
        self.refused(home, now, Pass::UNASKED, self.rejected_by_isolation(), rejection)
    }

    /// A forced ending counts as the real one would.
    fn forced(&self, home: Home, now: Timestamp, deadline: Timestamp, force: Force) -> Refusal {
        let (outcome, kind, verdict) = match force {
            Force::Timeout => (Outcome::Timeout, RejectionKind::TimedOut, Verdict::Failure),
            Force::ShortCircuited => (
                Outcome::ShortCircuited,
                RejectionKind::ShortCircuited,
                Verdict::Neutral,
            ),
            Force::Panic => (Outcome::Failure, RejectionKind::Panicked, Verdict::Failure),
            _ if self.pool.is_some() => (
                Outcome::ThreadPoolRejected,
                RejectionKind::PoolFull,
                Verdict::Refused,
            ),
            _ => (
                Outcome::SemaphoreRejected,
                RejectionKind::PermitsExhausted,
                Verdict::Refused,
            ),
        };
        let mut pass = Pass::UNASKED;
        if self.live.circuit_enabled() && outcome != Outcome::ShortCircuited {
            let (asked, change) = self.circuit.admit(now, now);
            self.runtime.circuit_changed(change);
            match asked {
                Ok(asked) => pass = asked,
                Err(refusal) => return self.short_circuited(home, now, refusal.retry_after),
            }
        }
        self.record(home, pass, verdict, now);
        let mut rejection = self.rejection(kind);
        if kind == RejectionKind::TimedOut && deadline < Timestamp::MAX {
            rejection = rejection.with_time(deadline.since(now));
        }
        if kind == RejectionKind::Panicked {
            rejection = rejection.with_message("forced");
        }
        self.refused(home, now, pass, outcome, rejection)
    }

    fn refused(
        &self,
        home: Home,
        now: Timestamp,
        pass: Pass,
        outcome: Outcome,
        rejection: Rejection,
    ) -> Refusal {
        self.stats.count(home, now, Word::Ended(outcome));
        self.warn_of(now, outcome, &rejection);
        let facts = Facts {
            arrival: now,
            start: None,
            end: now,
            outcome,
            pass,
            mode: Mode::Enforce,
            would_have: None,
            abandoned: false,
        };
        Refusal { facts, rejection }
    }

    /// Says once a minute and cause that calls are refused.
    #[inline]
    pub(crate) fn warn_of(&self, now: Timestamp, outcome: Outcome, rejection: &Rejection) {
        if self.warned.is_due(outcome, now) {
            self.warn(now, outcome, rejection);
        }
    }

    #[cold]
    fn warn(&self, now: Timestamp, outcome: Outcome, rejection: &Rejection) {
        let default_limit = self.live.flags.load(Relaxed) & DEFAULT_LIMIT > 0;
        let by_permits = rejection.kind() == RejectionKind::PermitsExhausted;
        log::refused(
            rejection,
            Numbers {
                refused: self.stats.rolling(now, Word::Ended(outcome)),
                window: self.stats.window().as_secs_f64(),
                suggested: (default_limit && by_permits).then(|| self.suggested_limit(now)),
            },
        );
    }

    /// The limit that the traffic implies: attempts per second times the time a body takes at the 99th percentile, with as much
    /// again for bursts (Little's law and Hystrix's "breathing room").
    fn suggested_limit(&self, now: Timestamp) -> usize {
        let seen = self.stats.snapshot(now);
        let attempts: u64 = Outcome::ALL
            .iter()
            .map(|&outcome| seen.rolling(Word::Ended(outcome)))
            .sum();
        let rate = attempts as f64 / self.stats.window().as_secs_f64();
        let busy = rate * seen.body.percentile(99.0).as_secs_f64();
        // The casts saturate.
        (busy * 2.0).ceil().max(seen.max_in_flight as f64 + 1.0) as usize
    }
}

// ===== impl Warned =====

/// When the next warning of each cause is due.
pub(crate) struct Warned([AtomicU64; Outcome::ALL.len()]);

impl Warned {
    const EVERY: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline]
    fn is_due(&self, outcome: Outcome, now: Timestamp) -> bool {
        let next = &self.0[outcome.index()];
        let due = next.load(Relaxed);
        let until = (now + Self::EVERY).as_nanos();
        now.as_nanos() >= due && next.compare_exchange(due, until, Relaxed, Relaxed).is_ok()
    }
}

// ===== impl Held =====

/// The permit of a body. Dropped when the body has really ended.
#[must_use]
pub(crate) struct Held<C: CoreRef> {
    core: C,
    taken: bool,
}

impl Held<&Core> {
    /// Makes the permit one that may outlive this borrow.
    pub(crate) fn share(mut self, core: &Arc<Core>) -> Held<Arc<Core>> {
        let taken = std::mem::take(&mut self.taken);
        let core = core.clone();
        Held { core, taken }
    }
}

impl<C: CoreRef> Drop for Held<C> {
    #[inline]
    fn drop(&mut self) {
        if self.taken {
            self.core.semaphore.put(Home::current());
        }
    }
}

// ===== impl Ticket =====

/// Admitted, and the body has not begun.
const WAITING: u8 = 0;
/// The body runs.
const RUNNING: u8 = 1;
/// Settled: this plus the outcome.
const OVER: u8 = 2;

/// Where an attempt stood when it was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Running,
}

/// An admitted attempt. Settled once, by the winner of its compare-exchange; dropped unsettled, it was cancelled.
#[must_use]
pub(crate) struct Ticket<C: CoreRef> {
    core: C,
    pub(crate) arrival: Timestamp,
    pub(crate) deadline: Timestamp,
    pub(crate) mode: Mode,
    /// What shadow mode would have done, as the outcome's index plus one; zero for nothing. Once it is set, the circuit has
    /// been told what enforcing would have told it, and hears no more of this attempt.
    would_have: AtomicU8,
    /// A forced latency: the body begins so much later.
    pub(crate) delay: Duration,
    pass: Pass,
    /// When the body began; zero before.
    start: AtomicU64,
    phase: AtomicU8,
}

impl<C: CoreRef> Ticket<C> {
    fn new(core: C, now: Timestamp, deadline: Timestamp, pass: Pass, mode: Mode) -> Self {
        Self {
            core,
            arrival: now,
            deadline,
            mode,
            would_have: AtomicU8::new(0),
            delay: Duration::ZERO,
            pass,
            start: AtomicU64::new(0),
            phase: AtomicU8::new(WAITING),
        }
    }

    pub(crate) fn core(&self) -> &C {
        &self.core
    }

    /// The moment from which on a result is dropped; never, unless the mode enforces.
    #[inline]
    pub(crate) fn cut_at(&self) -> Timestamp {
        match self.mode {
            Mode::Enforce => self.deadline,
            Mode::Shadow | Mode::Off => Timestamp::MAX,
        }
    }

    /// The rejection of an attempt cut at its deadline.
    pub(crate) fn timed_out(&self) -> Rejection {
        let timeout = self.deadline.since(self.arrival);
        self.core.rejection(RejectionKind::TimedOut).with_time(timeout)
    }

    /// The body begins, by the only one who has the ticket.
    #[inline]
    pub(crate) fn begin_alone(&mut self, now: Timestamp) {
        self.start = AtomicU64::new(now.as_nanos());
        self.phase = AtomicU8::new(RUNNING);
    }

    /// The body begins; false if the attempt was settled before.
    pub(crate) fn begin(&self, now: Timestamp) -> bool {
        self.start.store(now.as_nanos(), Relaxed);
        // Release: whoever finds it running finds its start.
        let began = self
            .phase
            .compare_exchange(WAITING, RUNNING, AcqRel, Acquire)
            .is_ok();
        if !began {
            self.start.store(0, Relaxed);
        }
        began
    }

    /// Settles the attempt, if nobody has. The winner must [`account`](Self::account).
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Stage> {
        let over = OVER + outcome.index() as u8;
        let mut phase = self.phase.load(Acquire);
        while phase < OVER {
            match self.phase.compare_exchange(phase, over, AcqRel, Acquire) {
                Ok(WAITING) => return Some(Stage::Waiting),
                Ok(_) => return Some(Stage::Running),
                Err(now) => phase = now,
            }
        }
        None
    }

    /// Settles the attempt, by the only one who has the ticket.
    #[inline]
    pub(crate) fn settle_alone(&mut self, home: Home, outcome: Outcome, end: Timestamp) -> Facts {
        self.phase = AtomicU8::new(OVER + outcome.index() as u8);
        self.account(home, outcome, end, false)
    }

    /// Whether somebody has settled it.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.load(Acquire) >= OVER
    }

    /// How it was settled.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let over = self.phase.load(Acquire).checked_sub(OVER)?;
        Outcome::ALL.get(usize::from(over)).copied()
    }

    /// How long the body has run by `now`.
    pub(crate) fn ran(&self, now: Timestamp) -> Duration {
        now.since(Timestamp::from_nanos(self.start.load(Relaxed)))
    }

    /// Counts a settled attempt, and tells the circuit and who listens to it.
    #[inline]
    pub(crate) fn account(&self, home: Home, outcome: Outcome, end: Timestamp, abandoned: bool) -> Facts {
        let (facts, change) = self.account_silently(home, outcome, verdict_of(outcome), end, abandoned);
        self.core.runtime.circuit_changed(change);
        facts
    }

    /// Counts a settled attempt, and tells the circuit. Telling the listeners of a change is left to the caller.
    #[inline]
    pub(crate) fn account_silently(
        &self,
        home: Home,
        outcome: Outcome,
        verdict: Verdict,
        end: Timestamp,
        abandoned: bool,
    ) -> (Facts, Option<Change>) {
        let start = self.start.load(Relaxed);
        let start = (start > 0).then(|| Timestamp::from_nanos(start));
        let mut change = None;
        if self.mode != Mode::Off {
            let body = start.map(|start| end.nanos_since(start));
            self.core.stats.settled(home, end, outcome, body);
            if self.mode == Mode::Shadow {
                if end >= self.deadline {
                    self.would_have_timed_out(home, end);
                } else if self.would_have.load(Relaxed) == 0 {
                    change = self.core.circuit.record(home, self.pass, verdict, end);
                }
            } else {
                change = self.core.circuit.record(home, self.pass, verdict, end);
            }
        }
        let facts = Facts {
            arrival: self.arrival,
            start,
            end,
            outcome,
            pass: self.pass,
            mode: self.mode,
            would_have: Outcome::ALL
                .get(usize::from(self.would_have.load(Relaxed)).wrapping_sub(1))
                .copied(),
            abandoned,
        };
        (facts, change)
    }

    /// Shadow mode: the deadline has passed and nothing is cut; the circuit is told what enforcing would have told it.
    pub(crate) fn would_have_timed_out(&self, home: Home, now: Timestamp) {
        if self.would_have(home, Outcome::Timeout, now) {
            self.core.record(home, self.pass, Verdict::Failure, now);
        }
    }

    /// Shadow mode: the pool would have refused.
    pub(crate) fn would_have_been_rejected(&self, home: Home, now: Timestamp) {
        if self.would_have(home, Outcome::ThreadPoolRejected, now) {
            self.core.record(home, self.pass, Verdict::Refused, now);
        }
    }

    /// Notes what would have been; true the first time.
    fn would_have(&self, home: Home, outcome: Outcome, now: Timestamp) -> bool {
        let noted = outcome.index() as u8 + 1;
        let first = self
            .would_have
            .compare_exchange(0, noted, Relaxed, Relaxed)
            .is_ok();
        if first {
            self.core.stats.count(home, now, Word::WouldHave(outcome));
        }
        first
    }
}

impl Ticket<&Core> {
    /// Makes the ticket one that may outlive this borrow. Only for a ticket nobody else can settle.
    pub(crate) fn share(mut self, core: &Arc<Core>) -> Ticket<Arc<Core>> {
        let shared = Ticket {
            core: core.clone(),
            arrival: self.arrival,
            deadline: self.deadline,
            mode: self.mode,
            would_have: AtomicU8::new(self.would_have.load(Relaxed)),
            delay: self.delay,
            pass: self.pass,
            start: AtomicU64::new(self.start.load(Relaxed)),
            phase: AtomicU8::new(self.phase.load(Relaxed)),
        };
        // Settled as far as this half is concerned: dropping it counts nothing.
        self.phase = AtomicU8::new(OVER);
        shared
    }
}

/// An attempt that the timer has cut.
pub(crate) struct Cut {
    pub(crate) stage: Stage,
    pub(crate) facts: Facts,
    pub(crate) rejection: Rejection,
}

impl Ticket<Arc<Core>> {
    /// The timer says that time is up, or that it ends before it can be: settles the attempt, unless somebody has.
    ///
    /// Runs no user code: listeners of a change hear of it from a worker. `runs_on` says whether a body that runs cannot be
    /// stopped; it is counted as abandoned then.
    pub(crate) fn cut_by_timer(&self, now: Timestamp, runs_on: bool) -> Option<Cut> {
        let core = &self.core;
        let in_time = now < self.deadline;
        let (outcome, verdict) = if in_time {
            (core.rejected_by_isolation(), Verdict::Neutral)
        } else {
            (Outcome::Timeout, Verdict::Failure)
        };
        let stage = self.settle(outcome)?;
        let home = Home::current();
        let abandoned = runs_on && stage == Stage::Running;
        if abandoned {
            core.stats.abandoned(home);
        }
        // Cut at its deadline, however late the timer noticed.
        let end = now.min(self.deadline);
        let (facts, change) = self.account_silently(home, outcome, verdict, end, abandoned);
        core.runtime.circuit_changed_elsewhere(&core.key, change);
        let rejection = if in_time {
            core.rejection(RejectionKind::ShutDown)
        } else {
            self.timed_out()
        };
        Some(Cut {
            stage,
            facts,
            rejection,
        })
    }
}

fn verdict_of(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Success => Verdict::Success,
        Outcome::Failure | Outcome::Timeout => Verdict::Failure,
        Outcome::ThreadPoolRejected | Outcome::SemaphoreRejected => Verdict::Refused,
        Outcome::BadRequest | Outcome::ShortCircuited | Outcome::Cancelled => Verdict::Neutral,
    }
}

impl<C: CoreRef> Drop for Ticket<C> {
    fn drop(&mut self) {
        if self.settle(Outcome::Cancelled).is_some() {
            self.account(Home::current(), Outcome::Cancelled, self.core.clock.now(), false);
        }
    }
}
