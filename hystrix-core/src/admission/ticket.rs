//! The two tokens of an admitted call.

use std::time::Duration;

use super::phase::{Phase, Stage};
use super::{Core, CoreRef, Entry, Facts, cut_at};
use crate::circuit_breaker::{Change, Pass, Verdict};
use crate::clock::Timestamp;
use crate::error::{Rejection, RejectionKind};
use crate::outcome::{Mode, Outcome};
use crate::sync::Ordering::Relaxed;
use crate::sync::global::Arc;
use crate::sync::{AtomicU8, Home};
use crate::window::Word;

// ===== impl Held =====

/// The permit of a body. Dropped when the body has really ended.
#[must_use]
pub(crate) struct Held<C: CoreRef> {
    core: C,
    taken: bool,
}

impl<C: CoreRef> Held<C> {
    #[inline]
    pub(crate) fn new(core: C, entry: &Entry) -> Self {
        let taken = entry.taken;
        Self { core, taken }
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
    phase: Phase,
}

impl<C: CoreRef> Ticket<C> {
    #[inline]
    pub(crate) fn new(core: C, entry: &Entry) -> Self {
        Self {
            core,
            arrival: entry.arrival,
            deadline: entry.deadline,
            mode: entry.mode,
            would_have: AtomicU8::new(entry.would_have.map_or(0, |outcome| outcome.index() as u8 + 1)),
            delay: entry.delay,
            pass: entry.pass,
            phase: Phase::new(),
        }
    }

    pub(crate) fn core(&self) -> &C {
        &self.core
    }

    /// The moment from which on a result is dropped; never, unless the mode enforces.
    pub(crate) fn cut_at(&self) -> Timestamp {
        cut_at(self.mode, self.deadline)
    }

    /// The rejection of an attempt cut at its deadline.
    pub(crate) fn timed_out(&self) -> Rejection {
        let timeout = self.deadline.since(self.arrival);
        self.core.rejection(RejectionKind::TimedOut).with_time(timeout)
    }

    /// The body begins; false if the attempt was settled before.
    pub(crate) fn begin(&self, now: Timestamp) -> bool {
        self.phase.begin(now)
    }

    /// Settles the attempt, if nobody has. The winner must [`account`](Self::account).
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Stage> {
        self.phase.settle(outcome)
    }

    /// Settles the attempt for somebody else than its body; says whether the body is left behind.
    ///
    /// Counted before it is decided, for the body's end may be counted the moment after.
    pub(crate) fn settle_without_body(
        &self,
        home: Home,
        outcome: Outcome,
        runs_on: bool,
    ) -> Option<(Stage, bool)> {
        if runs_on {
            self.core.stats.abandoned(home);
        }
        let stage = self.settle(outcome);
        let abandoned = runs_on && stage == Some(Stage::Running);
        if runs_on && !abandoned {
            self.core.stats.abandoned_ended(home);
        }
        Some((stage?, abandoned))
    }

    /// Settles the attempt, by the only one who has the ticket.
    pub(crate) fn settle_alone(&mut self, home: Home, outcome: Outcome, end: Timestamp) -> Facts {
        self.settle(outcome);
        self.account(home, outcome, end, false)
    }

    /// Whether somebody has settled it.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.is_over()
    }

    /// How it was settled.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.phase.outcome()
    }

    /// How long the body has run by `now`.
    pub(crate) fn ran(&self, now: Timestamp) -> Duration {
        now.since(self.phase.start())
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
        let start = self.phase.start();
        let mut change = None;
        let owes = self.mode != Mode::Off && leaves_a_debt(outcome);
        if owes {
            // Before it is settled, so that whoever looks sees the one or the other.
            self.core.stats.owes(home);
        }
        if self.mode != Mode::Off {
            let body = (start > Timestamp::ZERO).then(|| end.nanos_since(start));
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
            would_have: self.would_have_done(),
            abandoned,
            owes,
        };
        (facts, change)
    }

    /// Shadow mode: the deadline has passed and nothing is cut; the circuit is told what enforcing would have told it.
    pub(crate) fn would_have_timed_out(&self, home: Home, at: Timestamp) {
        if self.would_have(home, Outcome::Timeout, at) {
            self.core.record(home, self.pass, Verdict::Failure, at);
        }
    }

    /// Shadow mode: the pool would have refused.
    pub(crate) fn would_have_been_rejected(&self, home: Home, now: Timestamp) {
        if self.would_have(home, Outcome::ThreadPoolRejected, now) {
            self.core.record(home, self.pass, Verdict::Refused, now);
        }
    }

    fn would_have_done(&self) -> Option<Outcome> {
        let noted = usize::from(self.would_have.load(Relaxed));
        Outcome::ALL.get(noted.wrapping_sub(1)).copied()
    }

    /// Notes what would have been; true the first time.
    fn would_have(&self, home: Home, outcome: Outcome, now: Timestamp) -> bool {
        let noted = outcome.index() as u8 + 1;
        let first = self.would_have.compare_exchange(0, noted, Relaxed, Relaxed).is_ok();
        if first {
            self.core.stats.count(home, now, Word::WouldHave(outcome));
        }
        first
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
        let home = Home::current();
        let (stage, abandoned) = self.settle_without_body(home, outcome, runs_on)?;
        // Cut at its deadline, however late the timer noticed.
        let end = now.min(self.deadline);
        let (facts, change) = self.account_silently(home, outcome, verdict, end, abandoned);
        core.runtime.circuit_changed_elsewhere(&core.key, change);
        let rejection = if in_time { core.rejection(RejectionKind::ShutDown) } else { self.timed_out() };
        Some(Cut { stage, facts, rejection })
    }
}

/// Whether a call still needs its answer when its attempt has ended so.
fn leaves_a_debt(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Success | Outcome::BadRequest | Outcome::Cancelled)
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
