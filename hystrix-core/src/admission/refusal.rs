//! What is said, and counted, when admission says no.

use std::time::Duration;

use super::{Core, Entry, Facts, Force};
use crate::circuit_breaker::{Pass, Verdict};
use crate::clock::Timestamp;
use crate::error::{Rejection, RejectionKind};
use crate::log::{self, Numbers};
use crate::outcome::{Mode, Outcome};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, Home};
use crate::window::Word;

/// Admission said no. All is counted; the caller has a fallback, or the error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) facts: Facts,
    pub(crate) rejection: Rejection,
}

impl Core {
    pub(crate) fn rejection(&self, kind: RejectionKind) -> Rejection {
        Rejection::new(self.key.clone(), kind)
    }

    #[cold]
    pub(super) fn short_circuited(
        &self,
        home: Home,
        now: Timestamp,
        retry_after: Option<Duration>,
    ) -> Refusal {
        let mut rejection = self.rejection(RejectionKind::ShortCircuited);
        if let Some(after) = retry_after {
            rejection = rejection.with_time(after);
        }
        self.refused(home, now, Pass::UNASKED, Outcome::ShortCircuited, rejection)
    }

    #[cold]
    pub(super) fn exhausted(&self, home: Home, now: Timestamp, pass: Pass) -> Refusal {
        // A trial is given back: it was refused by our own limit, not answered by the dependency.
        self.record(home, pass, Verdict::Refused, now);
        let (limit, in_use) = self.semaphore.usage();
        let rejection = self.rejection(RejectionKind::PermitsExhausted).with_limit(limit);
        // A refusal proves that every permit was out; only a lowered limit leaves more out than it allows.
        let rejection = rejection.with_in_use(in_use.max(limit));
        self.refused(home, now, pass, Outcome::SemaphoreRejected, rejection)
    }

    #[cold]
    pub(super) fn shut_down(&self, home: Home, now: Timestamp) -> Refusal {
        let rejection = self.rejection(RejectionKind::ShutDown);
        self.refused(home, now, Pass::UNASKED, self.rejected_by_isolation(), rejection)
    }

    /// A forced ending counts as the real one would.
    pub(super) fn force(&self, entry: &Entry, force: Force) -> Refusal {
        let (home, now, deadline) = (entry.home, entry.arrival, entry.deadline);
        let (outcome, kind, verdict) = match force {
            Force::Timeout => (Outcome::Timeout, RejectionKind::TimedOut, Verdict::Failure),
            Force::ShortCircuited => {
                (Outcome::ShortCircuited, RejectionKind::ShortCircuited, Verdict::Neutral)
            }
            Force::Panic => (Outcome::Failure, RejectionKind::Panicked, Verdict::Failure),
            _ if self.pool.is_some() => {
                (Outcome::ThreadPoolRejected, RejectionKind::PoolFull, Verdict::Refused)
            }
            _ => (Outcome::SemaphoreRejected, RejectionKind::PermitsExhausted, Verdict::Refused),
        };
        let mut pass = Pass::UNASKED;
        if self.live.rules().has_circuit() && outcome != Outcome::ShortCircuited {
            match self.ask_circuit(now, now) {
                Ok(asked) => pass = asked,
                Err(retry_after) => return self.short_circuited(home, now, retry_after),
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
            start: Timestamp::ZERO,
            end: now,
            outcome,
            pass,
            mode: Mode::Enforce,
            would_have: None,
            owes: false,
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
        let default_limit = self.live.rules().limit_is_default();
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
        let attempts: u64 = Outcome::ALL.iter().map(|&outcome| seen.rolling(Word::Ended(outcome))).sum();
        let rate = attempts as f64 / self.stats.window().as_secs_f64();
        let busy = rate * seen.body.percentile(99.0).as_secs_f64();
        // The casts saturate.
        (busy * 2.0).ceil().max(seen.max_in_flight as f64 + 1.0) as usize
    }
}

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
