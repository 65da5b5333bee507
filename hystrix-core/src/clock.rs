//! Time, and who waits for it.
//!
//! A [`Clock`] tells the time and may ring alarms. The system clock does not ring: the timer thread sleeps for it.
//! [`ManualClock`] moves when a test says so and rings on the thread that moves it; a clock that follows a
//! runtime's time rings from a task there. Everything else in the crate takes a [`Timestamp`] and never asks.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use crate::sync::global::{Arc, AtomicU64, OnceLock, Relaxed, Weak};
use crate::unwind::contained;

mod manual;
#[cfg(feature = "tokio-clock")]
mod tokio;

pub use self::manual::ManualClock;
#[cfg(feature = "tokio-clock")]
pub use self::tokio::TokioClock;

// ===== impl Timestamp =====

/// A moment on a registry's clock: nanoseconds since that clock's own beginning.
///
/// Monotonic and of no meaning outside its clock. Arithmetic saturates: the far future is [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The beginning of the clock.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The moment that never comes, 584 years after the beginning.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// Makes a timestamp from nanoseconds since the clock's beginning.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's beginning.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to here, or zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    pub(crate) fn nanos_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(nanos(duration)))
    }
}

/// The nanoseconds of a duration; what does not fit is for ever.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

// ===== Clock =====

/// Where a registry has its time from.
///
/// The defaults describe a clock that runs by itself at the speed of real time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the time. Never goes back on one thread. Where it panics, the last time that was told stands.
    fn now(&self) -> Timestamp;

    /// Asks for one ring of `alarm` at `when` or later.
    ///
    /// Asking again does not cancel what was asked before; ringing more often than asked is harmless. A time that
    /// has passed rings at once. A clock that leaves this to the timer's thread returns [`Waking::ByTimer`].
    fn wake_at(&self, when: Timestamp, alarm: &Alarm) -> Waking {
        let _ = (when, alarm);
        Waking::ByTimer
    }
}

/// Who wakes the timer at a moment of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// The timer's own thread sleeps, in real time.
    ByTimer,
    /// The clock rings.
    ByClock,
}

/// A registry's timer, as a clock sees it: something to ring.
#[derive(Clone)]
pub struct Alarm(Weak<dyn Ring>);

/// What is behind an alarm.
pub(crate) trait Ring: Send + Sync {
    /// Fires what is due.
    fn ring(&self);
    /// How many deadlines are pending.
    fn armed(&self) -> usize;
    /// Waits, a while at most, until the parked callers just woken have looked at the clock.
    fn meet(&self);
}

impl Alarm {
    pub(crate) fn new(timer: Weak<dyn Ring>) -> Self {
        Self(timer)
    }

    /// Fires the deadlines that are due, on this thread.
    pub fn ring(&self) {
        if let Some(timer) = self.0.upgrade() {
            timer.ring();
        }
    }

    /// Returns the number of pending deadlines.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.0.upgrade().map_or(0, |timer| timer.armed())
    }

    fn meet(&self) {
        if let Some(timer) = self.0.upgrade() {
            timer.meet();
        }
    }

    fn is(&self, other: &Alarm) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("armed", &self.armed()).finish()
    }
}

// ===== impl SystemClock =====

/// The machine's monotonic clock, read from the processor's counter where it can be trusted.
///
/// Time spent in system suspend does not count. All registries on it share one beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The processor's counter and what its ticks are worth.
struct Calibrated {
    clock: quanta::Clock,
    beginning: u64,
    /// Nanoseconds in 2^40 ticks: one multiplication and a constant shift make time of a reading.
    scale: u64,
}

static CALIBRATED: OnceLock<Calibrated> = OnceLock::new();

impl SystemClock {
    /// The beginning lies one day back, so that a window that reaches back from now has room.
    const HEAD_START: u64 = 24 * 60 * 60 * 1_000_000_000;
    const SCALE_BITS: u32 = 40;

    #[inline]
    fn read() -> Timestamp {
        let calibrated = match CALIBRATED.get() {
            Some(calibrated) => calibrated,
            None => calibrate(),
        };
        // A counter that is behind on another core reads as the beginning.
        let ticks = calibrated.clock.raw().saturating_sub(calibrated.beginning);
        let passed = (u128::from(ticks) * u128::from(calibrated.scale)) >> Self::SCALE_BITS;
        Timestamp(passed as u64 + Self::HEAD_START)
    }
}

#[cold]
fn calibrate() -> &'static Calibrated {
    CALIBRATED.get_or_init(|| {
        let clock = quanta::Clock::new();
        let scale = clock.delta_as_nanos(0, 1 << SystemClock::SCALE_BITS);
        let beginning = clock.raw();
        Calibrated { clock, beginning, scale }
    })
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        SystemClock::read()
    }
}

// ===== impl TimeSource =====

/// A registry's clock as the hot path holds it: the system clock costs no indirection and no reference count.
#[derive(Clone, Debug)]
pub(crate) enum TimeSource {
    System,
    Given(Arc<GivenClock>),
}

/// A clock of the user's, and the last time it told: a clock that panics stands still.
#[derive(Debug)]
pub(crate) struct GivenClock {
    clock: Box<dyn Clock>,
    last: AtomicU64,
}

impl TimeSource {
    pub(crate) fn given(clock: impl Clock) -> Self {
        TimeSource::Given(Arc::new(GivenClock { clock: Box::new(clock), last: AtomicU64::new(0) }))
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            TimeSource::System => SystemClock::read(),
            TimeSource::Given(given) => match contained(|| given.clock.now()) {
                Ok(now) => {
                    given.last.store(now.as_nanos(), Relaxed);
                    now
                }
                Err(_) => Timestamp::from_nanos(given.last.load(Relaxed)),
            },
        }
    }

    pub(crate) fn wake_at(&self, when: Timestamp, alarm: &Alarm) -> Waking {
        match self {
            TimeSource::System => Waking::ByTimer,
            TimeSource::Given(given) => given.clock.wake_at(when, alarm),
        }
    }

    pub(crate) fn is_system(&self) -> bool {
        matches!(self, TimeSource::System)
    }
}

/// Real time for the few waits that are about threads of the system, whatever clock the registry has.
pub(crate) fn real_time() -> Timestamp {
    SystemClock::read()
}
