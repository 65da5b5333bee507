//! Where an attempt stands, and who settled it: one word, one compare-exchange.

use crate::clock::Timestamp;
use crate::outcome::Outcome;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU8, AtomicU64};

/// Admitted, and the body has not begun.
const WAITING: u8 = 0;
/// The body runs.
const RUNNING: u8 = 1;
/// Settled: this plus the outcome.
const OVER: u8 = 2;

/// The life of one attempt: waiting, running, over. It is settled once, by whoever wins.
pub(super) struct Phase {
    word: AtomicU8,
    /// When the body began; zero before.
    start: AtomicU64,
}

/// Where an attempt stood when it was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Running,
}

impl Phase {
    pub(super) fn new() -> Self {
        Self { word: AtomicU8::new(WAITING), start: AtomicU64::new(0) }
    }

    /// The body begins; false if the attempt was settled before.
    pub(super) fn begin(&self, now: Timestamp) -> bool {
        self.start.store(now.as_nanos(), Relaxed);
        // Release: whoever finds it running finds its start.
        let began = self.word.compare_exchange(WAITING, RUNNING, AcqRel, Acquire).is_ok();
        if !began {
            self.start.store(0, Relaxed);
        }
        began
    }

    /// Settles the attempt, if nobody has.
    pub(super) fn settle(&self, outcome: Outcome) -> Option<Stage> {
        let over = OVER + outcome.index() as u8;
        let mut word = self.word.load(Acquire);
        while word < OVER {
            // Acquire: the winner sees what the body's beginning wrote. Release: a loser sees what the winner wrote before.
            match self.word.compare_exchange(word, over, AcqRel, Acquire) {
                Ok(WAITING) => return Some(Stage::Waiting),
                Ok(_) => return Some(Stage::Running),
                Err(now) => word = now,
            }
        }
        None
    }

    pub(super) fn is_over(&self) -> bool {
        self.word.load(Acquire) >= OVER
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        let over = self.word.load(Acquire).checked_sub(OVER)?;
        Outcome::ALL.get(usize::from(over)).copied()
    }

    /// When the body began; zero if it has not.
    pub(super) fn start(&self) -> Timestamp {
        Timestamp::from_nanos(self.start.load(Relaxed))
    }
}

#[cfg(all(test, hystrix_loom))]
mod loom_phase {
    use super::*;
    use crate::permits::{Limit, Permits, Take};
    use crate::sync::global::Arc;
    use crate::sync::{Home, Mutex};
    use loom::thread;

    /// The body's end, its deadline and its caller's leaving race: one of them settles.
    #[test]
    fn completion_against_timeout_against_cancel() {
        loom::model(|| {
            let phase = Arc::new(Phase::new());
            let others = [Outcome::Timeout, Outcome::Cancelled].map(|outcome| {
                let phase = phase.clone();
                thread::spawn(move || phase.settle(outcome).is_some())
            });
            let completed = phase.begin(Timestamp::from_nanos(7)) && phase.settle(Outcome::Success).is_some();
            let won = others.map(|other| other.join().expect("settling does not panic"));
            let winners = [completed, won[0], won[1]].iter().filter(|won| **won).count();
            assert_eq!(winners, 1);
            assert_eq!(phase.outcome() == Some(Outcome::Success), completed);
        });
    }

    /// Whoever settles a running attempt knows when it began.
    #[test]
    fn a_running_attempt_has_its_start() {
        loom::model(|| {
            let phase = Arc::new(Phase::new());
            let worker = {
                let phase = phase.clone();
                thread::spawn(move || phase.begin(Timestamp::from_nanos(7)))
            };
            let stage = phase.settle(Outcome::Timeout).expect("nobody else settles");
            let start = phase.start();
            let began = worker.join().expect("beginning does not panic");
            assert_eq!(began, stage == Stage::Running);
            assert!(!began || start == Timestamp::from_nanos(7));
        });
    }

    /// The permit of an attempt that is given up goes back once: with the body if it runs, at once if it does not.
    #[test]
    fn permit_against_cancel() {
        loom::model(|| {
            let permits = Arc::new(Permits::new(Limit::from(1)));
            assert_eq!(permits.take(Home::of(0)), Take::Taken);
            let attempt = Arc::new((Phase::new(), Mutex::new(Some(()))));
            let give_back = |permits: &Permits, attempt: &(Phase, Mutex<Option<()>>), home: u32| {
                if attempt.1.lock().take().is_some() {
                    permits.put(Home::of(home));
                }
            };
            let worker = {
                let (permits, attempt) = (permits.clone(), attempt.clone());
                thread::spawn(move || {
                    if attempt.0.begin(Timestamp::from_nanos(7)) {
                        assert_eq!(permits.in_use(), 1, "held while the body runs");
                        give_back(&permits, &attempt, 1);
                        attempt.0.settle(Outcome::Success);
                    }
                })
            };
            if attempt.0.settle(Outcome::Cancelled) == Some(Stage::Waiting) {
                give_back(&permits, &attempt, 0);
            }
            worker.join().expect("the worker does not panic");
            assert_eq!(permits.in_use(), 0);
            assert_eq!(permits.take(Home::of(0)), Take::Taken);
        });
    }
}
