//! What the library tells whoever listens: one event per call, and what happens between calls.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::RejectionKind;
use crate::identity::CommandKey;
use crate::outcome::{CircuitState, FallbackOutcome, Mode, Outcome};

/// Listens to a registry's events: one method per kind, each of which does nothing unless overridden.
///
/// Methods run on the thread where the event happened, with no lock of the library held, before the caller has its
/// answer: they should be quick. What the timer decides is told by one worker of the library, in order, which also drops what such calls
/// leave behind: a method that blocks holds all of that up. A sink that panics is
/// switched off; the call goes on.
///
/// Without any sink a call pays one relaxed load for this.
pub trait EventSink: Send + Sync + 'static {
    /// A call has ended. Exactly one per call.
    fn call(&self, event: &CallEvent) {
        let _ = event;
    }

    /// A circuit has changed its state. Two changes close together may arrive in either order: `sequence` tells.
    fn circuit_changed(&self, event: &CircuitEvent) {
        let _ = event;
    }

    /// A command's mode has changed.
    fn mode_changed(&self, event: &ModeEvent) {
        let _ = event;
    }

    /// A command made for a dynamic key was dropped because it was idle or because room was needed.
    fn evicted(&self, command: &CommandKey) {
        let _ = command;
    }

    /// Something happened to a thread pool.
    fn pool(&self, event: &PoolEvent) {
        let _ = event;
    }

    /// Work that its caller had given up has really ended.
    fn abandoned_ended(&self, event: &AbandonedEvent) {
        let _ = event;
    }
}

/// One call, from its arrival to its answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallEvent {
    /// The command.
    pub command: CommandKey,
    /// When the call reached the command.
    pub arrival: Timestamp,
    /// When the body began, if it did.
    pub start: Option<Timestamp>,
    /// When the last attempt was settled.
    pub end: Timestamp,
    /// When the caller had its answer.
    pub answered: Timestamp,
    /// How the last attempt ended.
    pub outcome: Outcome,
    /// Why the library refused, if it did.
    pub rejection: Option<RejectionKind>,
    /// How the fallback ended; `None` when none was needed.
    pub fallback: Option<FallbackOutcome>,
    /// Why the fallback itself was refused or contained, if it was.
    pub fallback_rejection: Option<RejectionKind>,
    /// A refused thread, or a panic's message.
    pub cause: Option<Box<str>>,
    /// The attempts made. One, without retry.
    pub attempts: u32,
    /// Whether the body still runs although the call is answered.
    pub abandoned: bool,
    /// The circuit's generation at admission; zero where no circuit was asked.
    pub generation: u64,
    /// Whether this call was a half-open circuit's trial.
    pub trial: bool,
    /// The mode the call ran under.
    pub mode: Mode,
    /// What the library would have done; only in [`Mode::Shadow`].
    pub would_have: Option<Outcome>,
}

impl CallEvent {
    /// Returns the time from arrival until the body began, or until the attempt ended without it.
    #[must_use]
    pub fn queue_time(&self) -> Duration {
        self.start.unwrap_or(self.end).since(self.arrival)
    }

    /// Returns how long the body ran until the attempt was settled, if it began.
    #[must_use]
    pub fn body_time(&self) -> Option<Duration> {
        Some(self.end.since(self.start?))
    }

    /// Returns the time from arrival to answer, the fallback included.
    #[must_use]
    pub fn total_time(&self) -> Duration {
        self.answered.since(self.arrival)
    }
}

/// A circuit's change of state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CircuitEvent {
    /// The circuit: a command's `group/key`, or the name it is shared under.
    pub circuit: Box<str>,
    /// The state before.
    pub from: CircuitState,
    /// The state now.
    pub to: CircuitState,
    /// Why.
    pub cause: CircuitCause,
    /// The results in the rolling window at that moment.
    pub requests: u64,
    /// How many of them were failures.
    pub failures: u64,
    /// Rises by one with every change of this circuit.
    pub sequence: u64,
    /// When.
    pub at: Timestamp,
}

/// Why a circuit changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CircuitCause {
    /// The share of failures reached the threshold.
    ErrorThreshold,
    /// The sleep window had passed, and a call asked.
    SleepWindow,
    /// The trial succeeded.
    TrialSucceeded,
    /// The trial failed.
    TrialFailed,
    /// By hand.
    Manual,
}

impl CircuitCause {
    /// Returns the word used in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CircuitCause::ErrorThreshold => "error_threshold",
            CircuitCause::SleepWindow => "sleep_window",
            CircuitCause::TrialSucceeded => "trial_succeeded",
            CircuitCause::TrialFailed => "trial_failed",
            CircuitCause::Manual => "manual",
        }
    }
}

impl fmt::Display for CircuitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A command's change of mode.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModeEvent {
    /// The command.
    pub command: CommandKey,
    /// The mode before.
    pub from: Mode,
    /// The mode now.
    pub to: Mode,
}

/// Something that happened to a thread pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolEvent {
    /// The pool.
    pub pool: Box<str>,
    /// What happened.
    pub kind: PoolEventKind,
}

/// What happened to a thread pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolEventKind {
    /// The first refusal since the pool last had room.
    Exhausted {
        /// The places, all of them in use.
        places: usize,
    },
    /// A place is free again after a refusal.
    Relieved,
    /// The system refused a thread.
    ThreadRefused {
        /// The system's words.
        cause: Box<str>,
    },
    /// The sizes were changed while the pool runs.
    Resized,
}

/// The real end of work whose caller had been answered before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AbandonedEvent {
    /// The command.
    pub command: CommandKey,
    /// How the attempt had been settled: timed out or cancelled.
    pub outcome: Outcome,
    /// How long the body really ran.
    pub ran: Duration,
    /// Whether it ended by a panic.
    pub panicked: bool,
}
