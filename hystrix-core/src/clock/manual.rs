//! A clock that a test moves.

use std::fmt;
use std::thread::{ThreadId, current};
use std::time::Duration;

use super::{Alarm, Clock, Timestamp, Waking};
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::global::{Arc, AtomicU64, Mutex, MutexGuard};

/// A clock that stands still until it is moved. Clones are the same clock.
///
/// [`advance`](Self::advance) stops at every deadline on its way, in order, with the time at exactly that deadline:
/// what is claimed there is claimed when the call returns, a parked caller that was woken has looked at the clock, and
/// what it armed meanwhile has its turn too.
///
/// ```
/// use hystrix_core::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now().since(before), Duration::from_secs(1));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Inner>);

struct Inner {
    now: AtomicU64,
    /// The earliest ring each timer has asked for, and every timer that ever asked.
    alarms: Mutex<Vec<(Option<Timestamp>, Alarm)>>,
    /// Held by whoever moves the clock: two movers take turns.
    moving: Mutex<()>,
    /// That thread. What it wakes may run on it, and move the clock as well.
    mover: Mutex<Option<ThreadId>>,
}

impl ManualClock {
    /// One day in, so that a window that reaches back from now has room.
    const BEGINNING: u64 = 24 * 60 * 60 * 1_000_000_000;

    /// Creates a clock that stands.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            now: AtomicU64::new(Self::BEGINNING),
            alarms: Mutex::new(Vec::new()),
            moving: Mutex::new(()),
            mover: Mutex::new(None),
        }))
    }

    /// Moves the clock by `duration`, firing every deadline on the way at its own time.
    ///
    /// Deadlines fire on this thread, those of one moment together; what runs on it then may move the clock further. Returns
    /// when all that was due is claimed. Waits
    /// for each parked caller it wakes to look at the clock, one second of real time at most.
    pub fn advance(&self, duration: Duration) {
        let _turn = self.turn();
        let goal = self.now() + duration;
        while let Some((when, due)) = self.take_due(goal) {
            self.set(when);
            ring(&due);
        }
        self.set(goal);
    }

    /// Moves the clock by `duration` at once, then fires what has become due: a machine that was held up.
    pub fn jump(&self, duration: Duration) {
        let _turn = self.turn();
        let goal = self.now() + duration;
        self.set(goal);
        while let Some((_, due)) = self.take_due(goal) {
            ring(&due);
        }
    }

    /// Waits until nobody else moves the clock.
    fn turn(&self) -> Option<Turn<'_>> {
        let me = current().id();
        if *self.0.mover.lock() == Some(me) {
            return None;
        }
        let moving = self.0.moving.lock();
        *self.0.mover.lock() = Some(me);
        Some(Turn { clock: &self.0, _moving: moving })
    }

    /// Returns the number of pending deadlines: it tells a test that a caller has armed its timeout.
    #[must_use]
    pub fn armed(&self) -> usize {
        let alarms: Vec<Alarm> = self.0.alarms.lock().iter().map(|(_, alarm)| alarm.clone()).collect();
        alarms.iter().map(Alarm::armed).sum()
    }

    fn set(&self, now: Timestamp) {
        self.0.now.fetch_max(now.as_nanos(), Release);
    }

    /// The earliest time asked for, up to `goal`, and the alarms that asked for it.
    fn take_due(&self, goal: Timestamp) -> Option<(Timestamp, Vec<Alarm>)> {
        let mut alarms = self.0.alarms.lock();
        alarms.retain(|(_, alarm)| alarm.0.strong_count() > 0);
        let when = alarms.iter().filter_map(|(when, _)| *when).min()?;
        if when > goal {
            return None;
        }
        let due = alarms.iter_mut().filter(|(at, _)| *at == Some(when));
        let due = due.map(|(at, alarm)| {
            *at = None;
            alarm.clone()
        });
        Some((when, due.collect()))
    }
}

struct Turn<'c> {
    clock: &'c Inner,
    _moving: MutexGuard<'c, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.clock.mover.lock() = None;
    }
}

fn ring(alarms: &[Alarm]) {
    for alarm in alarms {
        alarm.ring();
    }
    for alarm in alarms {
        alarm.meet();
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.now.load(Acquire))
    }

    fn wake_at(&self, when: Timestamp, alarm: &Alarm) -> Waking {
        {
            let mut alarms = self.0.alarms.lock();
            match alarms.iter_mut().find(|(_, known)| known.is(alarm)) {
                Some((asked, _)) => *asked = Some(asked.map_or(when, |asked| asked.min(when))),
                None => alarms.push((Some(when), alarm.clone())),
            }
        }
        // The time is read after the entry stands: a mover either sees the entry or has set the time we see.
        if when <= self.now() {
            alarm.ring();
        }
        Waking::ByClock
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}
