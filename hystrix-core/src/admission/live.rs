//! The settings that every call reads: a few words, set by the layers.

use std::time::Duration;

use crate::clock::{Timestamp, nanos};
use crate::outcome::Mode;
use crate::sync::Ordering::Relaxed;
use crate::sync::global::Mutex;
use crate::sync::{AtomicU32, AtomicU64};

/// The settings every call reads, and a layer may change at any time.
pub(crate) struct Live {
    flags: AtomicU32,
    /// In nanoseconds; `u64::MAX` for none.
    timeout: AtomicU64,
    /// The same for synchronous calls in place, which have none unless one is written.
    timeout_in_place: AtomicU64,
    /// How `FORCED` calls end.
    force: Mutex<Option<Force>>,
}

const SHADOW: u32 = 1;
const OFF: u32 = 2;
const FORCED: u32 = 4;
const NO_CIRCUIT: u32 = 8;
const NO_FALLBACK: u32 = 16;
/// The permit limit is nobody's choice: a refusal suggests a better one.
const DEFAULT_LIMIT: u32 = 32;

/// What a timeout that nobody wrote means to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    /// Nothing: its caller cannot return before its body does.
    SyncInPlace,
    /// The default.
    Other,
}

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
            force: Mutex::new(None),
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
        self.timeout.store(settings.timeout.map_or(u64::MAX, nanos), Relaxed);
        self.timeout_in_place.store(settings.timeout_in_place.map_or(u64::MAX, nanos), Relaxed);
        // `force` is not a setting of a layer, and stays.
        let _force = self.force.lock();
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

    /// The ending that is forced on calls, if one is.
    pub(super) fn forced(&self) -> Option<Force> {
        if self.rules().0 & FORCED == 0 {
            return None;
        }
        *self.force.lock()
    }

    #[inline]
    pub(crate) fn rules(&self) -> Rules {
        Rules(self.flags.load(Relaxed))
    }

    /// The deadline of a call that arrives now.
    #[inline]
    pub(super) fn deadline(&self, color: Color, now: Timestamp) -> Timestamp {
        let timeout = match color {
            Color::SyncInPlace => &self.timeout_in_place,
            Color::Other => &self.timeout,
        };
        Timestamp::from_nanos(now.as_nanos().saturating_add(timeout.load(Relaxed)))
    }

    /// Whether synchronous calls in place have a deadline that cuts them.
    #[inline]
    pub(crate) fn cuts_in_place(&self) -> bool {
        self.timeout_in_place.load(Relaxed) < u64::MAX && self.rules().mode() == Mode::Enforce
    }
}

/// What the flags say, at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Rules(u32);

impl Rules {
    /// Enforcing, with a circuit, and nothing forced.
    #[inline]
    pub(super) fn are_usual(self) -> bool {
        self.0 & (SHADOW | OFF | FORCED | NO_CIRCUIT) == 0
    }

    pub(crate) fn mode(self) -> Mode {
        match self.0 & (SHADOW | OFF) {
            0 => Mode::Enforce,
            SHADOW => Mode::Shadow,
            _ => Mode::Off,
        }
    }

    #[inline]
    pub(crate) fn has_circuit(self) -> bool {
        self.0 & NO_CIRCUIT == 0
    }

    pub(crate) fn has_fallback(self) -> bool {
        self.0 & NO_FALLBACK == 0
    }

    pub(crate) fn limit_is_default(self) -> bool {
        self.0 & DEFAULT_LIMIT > 0
    }
}
