//! A live circuit: the machine behind a lock, its word for everybody, and the health it judges by.
//!
//! **The word** holds what admission must know: state, whether a trial is out, forcing, and the generation. Closed is all
//! zero below the generation, so the common case is one load and one branch. Every change is made by the lock's holder,
//! who stores `until` first and the word last; whoever reads the word and then `until` has a time at least as new.
//!
//! **Tripping on the very result.** A failure counts in its own shard, fences, and adds up all shards: of two failures
//! that meet, at least one sees both. A failure that finds the rate met and only the volume short raises the watch; while it
//! is up, successes decide too, since one of them may fill the volume. (A success that falls into the same instant as the
//! raising may miss it, and the next result decides: fencing every success would cost a fifth of the call.)

use std::time::Duration;

use super::state::{Answer, Forced, MAX_TRIAL, Machine, State, Step};
use crate::clock::{Timestamp, nanos};
use crate::event::{CircuitCause, CircuitEvent};
use crate::outcome::CircuitState;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, CachePadded, Home, Mutex, MutexGuard, fence};
use crate::window::{Rolling, Shape, Shards};

/// What decides, resolved from all layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rules {
    pub(crate) request_volume_threshold: u64,
    pub(crate) error_threshold_percentage: f64,
    pub(crate) sleep_window: Duration,
}

/// Under which circumstances a call was let through: the generation, and above it the number of the trial, if it is one. What
/// its result is worth depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass(u64);

const TRIAL_SHIFT: u32 = 40;
const GENERATION: u64 = (1 << TRIAL_SHIFT) - 1;
impl Pass {
    /// No circuit was asked, and none is told.
    pub(crate) const UNASKED: Pass = Pass(u64::MAX);

    fn trial(generation: u64, trial: u64) -> Self {
        Pass(trial << TRIAL_SHIFT | generation & GENERATION)
    }

    fn trial_number(self) -> u64 {
        self.0 >> TRIAL_SHIFT & MAX_TRIAL
    }

    #[inline]
    pub(crate) fn is_trial(self) -> bool {
        self.0 > GENERATION && self != Pass::UNASKED
    }

    /// The generation, counted from one; zero if no circuit was asked.
    pub(crate) fn generation(self) -> u64 {
        if self == Pass::UNASKED { 0 } else { (self.0 & GENERATION) + 1 }
    }
}

/// What a result says about the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// Refused by a permit or a pool: a failure, but no answer to a trial.
    Refused,
    Neutral,
}

/// A change of state, to be announced by whoever caused it, without a lock.
#[derive(Debug)]
pub(crate) struct Change(pub(crate) Box<CircuitEvent>);

/// A look at a circuit.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) name: Box<str>,
    pub(crate) state: CircuitState,
    pub(crate) since: Timestamp,
    pub(crate) cause: Option<CircuitCause>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) requests: u64,
    pub(crate) failures: u64,
}

/// Counted per result: all of them, and the failures among them.
const REQUESTS: usize = 0;
const FAILURES: usize = 1;

const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;
/// A trial is out, until `until`.
const LEASED: u64 = 4;
const FORCED_OPEN: u64 = 8;
const FORCED_CLOSED: u64 = 16;
const GENERATION_SHIFT: u32 = 8;
const STATE: u64 = (1 << GENERATION_SHIFT) - 1;

pub(crate) struct Circuit {
    name: Box<str>,
    word: CachePadded<AtomicU64>,
    /// Open: when the sleep window ends. Half-open with a trial out: when its lease ends.
    until: AtomicU64,
    /// Raised while the rate is met and only the volume is short. Counts the raisings, so that lowering it cannot
    /// undo one that it did not see.
    watch: AtomicU32,
    volume: AtomicU64,
    /// The bits of an `f64`.
    threshold: AtomicU64,
    sleep: AtomicU64,
    shape: Shape,
    health: Shards<Rolling<2>>,
    machine: Mutex<Machine>,
}

impl Circuit {
    pub(crate) fn new(name: impl Into<Box<str>>, rules: Rules, shape: Shape, now: Timestamp) -> Self {
        let circuit = Self {
            name: name.into(),
            word: CachePadded::new(AtomicU64::new(0)),
            until: AtomicU64::new(0),
            watch: AtomicU32::new(0),
            volume: AtomicU64::new(0),
            threshold: AtomicU64::new(0),
            sleep: AtomicU64::new(0),
            shape,
            health: Shards::new(),
            machine: Mutex::new(Machine::new(now)),
        };
        circuit.set_rules(rules);
        circuit
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            request_volume_threshold: self.volume.load(Relaxed),
            error_threshold_percentage: f64::from_bits(self.threshold.load(Relaxed)),
            sleep_window: self.sleep_window(),
        }
    }

    /// Changes the rules; counts and state stay.
    pub(crate) fn set_rules(&self, rules: Rules) {
        self.volume.store(rules.request_volume_threshold, Relaxed);
        self.threshold.store(rules.error_threshold_percentage.to_bits(), Relaxed);
        self.sleep.store(nanos(rules.sleep_window), Relaxed);
    }

    fn sleep_window(&self) -> Duration {
        Duration::from_nanos(self.sleep.load(Relaxed))
    }

    // ===== admission =====

    /// The pass of a closed circuit, if it is: one load.
    #[inline]
    pub(crate) fn closed(&self) -> Option<Pass> {
        // Acquire: pairs with the publisher's store.
        let word = self.word.load(Acquire);
        (word & STATE == 0).then_some(Pass(word >> GENERATION_SHIFT))
    }

    /// A call asks to pass; an error says how long the circuit still refuses, if that is known. A trial's lease runs one sleep window
    /// beyond `expected_end`: the call's deadline, or its start where it has none.
    pub(crate) fn admit(
        &self,
        now: Timestamp,
        expected_end: Timestamp,
    ) -> (Result<Pass, Option<Duration>>, Option<Change>) {
        // Acquire: pairs with the publisher's store, so `until` is at least as new.
        let word = self.word.load(Acquire);
        if word & STATE == 0 {
            return (Ok(Pass(word >> GENERATION_SHIFT)), None);
        }
        let until = Timestamp::from_nanos(self.until.load(Acquire));
        if word & (OPEN | FORCED_CLOSED) == OPEN && now < until {
            let retry_after = (word & FORCED_OPEN == 0).then(|| until.since(now));
            return (Err(retry_after), None);
        }
        self.admit_unless_closed(word, until, now, expected_end)
    }

    #[cold]
    fn admit_unless_closed(
        &self,
        word: u64,
        until: Timestamp,
        now: Timestamp,
        expected_end: Timestamp,
    ) -> (Result<Pass, Option<Duration>>, Option<Change>) {
        let leased = word & (LEASED | FORCED_CLOSED) == LEASED && now < until;
        if word & FORCED_OPEN > 0 || leased {
            return (Err(None), None);
        }
        let ((answer, generation), change) = self.change(now, |machine| {
            let lease_end = expected_end.max(now) + self.sleep_window();
            let (answer, step) = machine.ask(now, lease_end);
            ((answer, machine.generation), step)
        });
        let pass = match answer {
            Answer::Pass => Ok(Pass(generation)),
            Answer::Trial(trial) => Ok(Pass::trial(generation, trial)),
            Answer::Refused(until) => Err(until.map(|until| until.since(now))),
        };
        (pass, change)
    }

    // ===== results =====

    /// An admitted call has ended.
    #[inline]
    pub(crate) fn record(&self, home: Home, pass: Pass, verdict: Verdict, now: Timestamp) -> Option<Change> {
        if pass.is_trial() {
            return self.record_trial(pass.trial_number(), verdict, now);
        }
        // Acquire: a result of this generation is counted in this generation.
        let word = self.word.load(Acquire);
        let closed = word & (OPEN | HALF_OPEN) == 0;
        if !closed || word >> GENERATION_SHIFT != pass.0 {
            // Admitted in another generation: its caller has its answer, the circuit has moved on.
            return None;
        }
        let failed = match verdict {
            Verdict::Neutral => return None,
            Verdict::Success => false,
            Verdict::Failure | Verdict::Refused => true,
        };
        let generation = pass.0;
        self.health.with(
            home,
            || Rolling::new(self.shape),
            |health| {
                health.bump(self.shape, generation, now, REQUESTS);
                if failed {
                    health.bump(self.shape, generation, now, FAILURES);
                }
            },
        );
        if failed || self.watch.load(Relaxed) > 0 {
            return self.decide(generation, now);
        }
        None
    }

    #[cold]
    fn record_trial(&self, trial: u64, verdict: Verdict, now: Timestamp) -> Option<Change> {
        let sleep = self.sleep_window();
        let ((), change) = self.change(now, |machine| {
            let step = match verdict {
                Verdict::Success => machine.trial_decides(trial, true, now, sleep),
                Verdict::Failure => machine.trial_decides(trial, false, now, sleep),
                Verdict::Refused | Verdict::Neutral => {
                    machine.give_back(trial);
                    None
                }
            };
            ((), step)
        });
        change
    }

    /// Opens the circuit if this result has met the threshold.
    #[cold]
    fn decide(&self, generation: u64, now: Timestamp) -> Option<Change> {
        let seen = self.watch.load(Acquire);
        let mut counts = self.sum(generation, now);
        if self.rate_is_met(counts) && counts[REQUESTS] < self.volume.load(Relaxed) {
            self.watch.fetch_add(1, AcqRel);
            counts = self.sum(generation, now);
        }
        if !self.rate_is_met(counts) {
            if seen > 0 {
                let _ = self.watch.compare_exchange(seen, 0, AcqRel, Relaxed);
            }
            return None;
        }
        if counts[REQUESTS] < self.volume.load(Relaxed) {
            return None;
        }
        let sleep = self.sleep_window();
        let ((), change) = self.change(now, |machine| ((), machine.trip(generation, now, sleep)));
        change.map(|Change(mut event)| {
            (event.requests, event.failures) = (counts[REQUESTS], counts[FAILURES]);
            Change(event)
        })
    }

    fn rate_is_met(&self, counts: [u64; 2]) -> bool {
        let [requests, failures] = counts.map(|count| count as f64);
        let threshold = f64::from_bits(self.threshold.load(Relaxed));
        failures > 0.0 && failures * 100.0 >= threshold * requests
    }

    fn sum(&self, generation: u64, now: Timestamp) -> [u64; 2] {
        // Orders our own count before the reading of all others': of two that meet, one sees both.
        fence(SeqCst);
        let (mut sum, mut peak) = ([0; 2], 0);
        for shard in self.health.each() {
            shard.add_to(self.shape, generation, now, &mut sum, &mut peak);
        }
        sum
    }

    // ===== by hand, and to look at =====

    pub(crate) fn force_open(&self, now: Timestamp) -> Option<Change> {
        self.change(now, |machine| ((), machine.force(Some(Forced::Open), now))).1
    }

    pub(crate) fn force_closed(&self, now: Timestamp) -> Option<Change> {
        self.change(now, |machine| ((), machine.force(Some(Forced::Closed), now))).1
    }

    pub(crate) fn clear_forced(&self, now: Timestamp) -> Option<Change> {
        self.change(now, |machine| ((), machine.force(None, now))).1
    }

    pub(crate) fn reset(&self, now: Timestamp) -> Option<Change> {
        self.change(now, |machine| ((), machine.reset(now))).1
    }

    pub(crate) fn is_forced_open(&self) -> bool {
        self.word.load(Acquire) & FORCED_OPEN > 0
    }

    pub(crate) fn state(&self) -> CircuitState {
        self.machine.lock().visible()
    }

    pub(crate) fn view(&self, now: Timestamp) -> View {
        let machine = self.machine.lock().clone();
        let [requests, failures] = self.sum(machine.generation, now);
        let retry_after = match (machine.forced, machine.state) {
            (None, State::Open { until }) => Some(until.since(now)),
            _ => None,
        };
        View {
            name: self.name.clone(),
            state: machine.visible(),
            since: machine.since,
            cause: machine.cause,
            retry_after,
            requests,
            failures,
        }
    }

    /// Applies `step` to the machine under the lock and publishes what came of it.
    fn change<R>(
        &self,
        now: Timestamp,
        step: impl FnOnce(&mut Machine) -> (R, Option<Step>),
    ) -> (R, Option<Change>) {
        let mut machine = self.machine.lock();
        let generation = machine.generation;
        let (result, step) = step(&mut machine);
        if machine.generation != generation {
            self.watch.store(0, Relaxed);
        }
        self.publish(&machine);
        let change = step.map(|step| self.event(step, now));
        (result, change)
    }

    fn publish(&self, machine: &MutexGuard<'_, Machine>) {
        let (state, until) = match machine.state {
            State::Closed => (0, Timestamp::ZERO),
            State::Open { until } => (OPEN, until),
            State::HalfOpen { lease: None } => (HALF_OPEN, Timestamp::ZERO),
            State::HalfOpen { lease: Some(lease) } => (HALF_OPEN | LEASED, lease.until),
        };
        let forced = match machine.forced {
            None => 0,
            Some(Forced::Open) => FORCED_OPEN,
            Some(Forced::Closed) => FORCED_CLOSED,
        };
        self.until.store(until.as_nanos(), Release);
        // Release: whoever reads this word reads an `until` at least as new.
        let word = machine.generation << GENERATION_SHIFT | state | forced;
        self.word.store(word, Release);
    }

    fn event(&self, step: Step, now: Timestamp) -> Change {
        Change(Box::new(CircuitEvent {
            circuit: self.name.clone(),
            from: step.from,
            to: step.to,
            cause: step.cause,
            requests: 0,
            failures: 0,
            sequence: step.change,
            at: now,
        }))
    }
}
