//! The state machine of a circuit: decides from (state, event, now), and knows no clock and no thread.
//!
//! ```text
//!            threshold met                sleep window over, a call asks
//! Closed ───────────────────► Open ─────────────────────────────────────► HalfOpen
//!    ▲                          ▲                                             │
//!    │      trial succeeded     └──────────── trial failed ───────────────────┤
//!    └────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Every change of state begins a new *generation*. What was admitted in another generation decides nothing. A trial is
//! a *lease*: given back, the next call takes it; lost beyond its end, the next call takes a new one, and the lost
//! one's result is a stranger's.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::event::CircuitCause;
use crate::outcome::CircuitState;

/// Trials are numbered 1 up to this, and around.
pub(super) const MAX_TRIAL: u64 = (1 << 23) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Open { until: Timestamp },
    HalfOpen { lease: Option<Lease> },
}

/// The right of one call to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) trial: u64,
    pub(super) until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forced {
    Open,
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) state: State,
    pub(super) forced: Option<Forced>,
    pub(super) generation: u64,
    /// Trials handed out so far: the next one's number less one.
    pub(super) trials: u64,
    /// Changes that could be seen, forcing included.
    pub(super) changes: u64,
    pub(super) since: Timestamp,
    pub(super) cause: Option<CircuitCause>,
}

/// What a call that asks is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Pass, as one of many.
    Pass,
    /// Pass, and decide: the trial's number.
    Trial(u64),
    /// Not before this time; or no time is known.
    Refused(Option<Timestamp>),
}

/// A change that could be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) from: CircuitState,
    pub(super) to: CircuitState,
    pub(super) cause: CircuitCause,
    pub(super) change: u64,
}

impl Machine {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            state: State::Closed,
            forced: None,
            generation: 0,
            trials: 0,
            changes: 0,
            since: now,
            cause: None,
        }
    }

    pub(super) fn visible(&self) -> CircuitState {
        match (self.forced, self.state) {
            (Some(Forced::Open), _) => CircuitState::ForcedOpen,
            (Some(Forced::Closed), _) => CircuitState::ForcedClosed,
            (None, State::Closed) => CircuitState::Closed,
            (None, State::Open { .. }) => CircuitState::Open,
            (None, State::HalfOpen { .. }) => CircuitState::HalfOpen,
        }
    }

    /// A call asks; a trial taken now is lost at `lease_end`.
    pub(super) fn ask(&mut self, now: Timestamp, lease_end: Timestamp) -> (Answer, Option<Step>) {
        match self.forced {
            Some(Forced::Open) => return (Answer::Refused(None), None),
            Some(Forced::Closed) => return (Answer::Pass, None),
            None => {}
        }
        let step = match self.state {
            State::Closed => return (Answer::Pass, None),
            State::Open { until } if now < until => return (Answer::Refused(Some(until)), None),
            State::HalfOpen { lease: Some(lease) } if now < lease.until => {
                return (Answer::Refused(None), None);
            }
            // Open => HalfOpen
            State::Open { .. } => self.go(State::HalfOpen { lease: None }, now, CircuitCause::SleepWindow),
            // Given back, or lost.
            State::HalfOpen { .. } => None,
        };
        self.trials = self.trials % MAX_TRIAL + 1;
        let trial = self.trials;
        let until = lease_end;
        self.state = State::HalfOpen { lease: Some(Lease { trial, until }) };
        (Answer::Trial(trial), step)
    }

    /// The window of `generation` has met the threshold.
    pub(super) fn trip(&mut self, generation: u64, now: Timestamp, sleep: Duration) -> Option<Step> {
        let current = generation == self.generation && self.state == State::Closed;
        // Closed => Open
        current.then(|| self.go(State::Open { until: now + sleep }, now, CircuitCause::ErrorThreshold))?
    }

    /// The trial has a result: a good one or a bad one.
    pub(super) fn trial_decides(
        &mut self,
        trial: u64,
        good: bool,
        now: Timestamp,
        sleep: Duration,
    ) -> Option<Step> {
        if !self.holds(trial) {
            return None;
        }
        if good {
            // HalfOpen => Closed
            self.go(State::Closed, now, CircuitCause::TrialSucceeded)
        } else {
            // HalfOpen => Open
            self.go(State::Open { until: now + sleep }, now, CircuitCause::TrialFailed)
        }
    }

    /// The trial decides nothing and comes back: the next call may have it.
    pub(super) fn give_back(&mut self, trial: u64) {
        if self.holds(trial) {
            self.state = State::HalfOpen { lease: None };
        }
    }

    fn holds(&self, trial: u64) -> bool {
        matches!(self.state, State::HalfOpen { lease: Some(lease) } if lease.trial == trial)
    }

    /// By hand: held in a state, or let go.
    pub(super) fn force(&mut self, forced: Option<Forced>, now: Timestamp) -> Option<Step> {
        let from = self.visible();
        self.forced = forced;
        self.note(from, now, CircuitCause::Manual)
    }

    /// By hand: closed, with everything forgotten.
    pub(super) fn reset(&mut self, now: Timestamp) -> Option<Step> {
        let from = self.visible();
        self.forced = None;
        self.state = State::Closed;
        self.generation += 1;
        self.note(from, now, CircuitCause::Manual)
    }

    fn go(&mut self, state: State, now: Timestamp, cause: CircuitCause) -> Option<Step> {
        let from = self.visible();
        self.state = state;
        self.generation += 1;
        self.note(from, now, cause)
    }

    fn note(&mut self, from: CircuitState, now: Timestamp, cause: CircuitCause) -> Option<Step> {
        let to = self.visible();
        if from == to {
            return None;
        }
        self.since = now;
        self.cause = Some(cause);
        self.changes += 1;
        let change = self.changes;
        Some(Step { from, to, cause, change })
    }
}
