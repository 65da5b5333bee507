//! The words for how things end: outcomes of attempts and fallbacks, and what a result means.

use std::fmt;

/// How an attempt ended, in Hystrix's event words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The body gave a good value.
    Success,
    /// The body gave an error, panicked, or gave a value judged as a failure.
    Failure,
    /// The deadline passed first.
    Timeout,
    /// The result was ignored: the caller's own mistake, neutral for the circuit (Hystrix's bad request).
    BadRequest,
    /// The circuit was open.
    ShortCircuited,
    /// The thread pool had no place, could not start a thread, or was shut down.
    ThreadPoolRejected,
    /// All permits were in use, or the registry was shut down.
    SemaphoreRejected,
    /// The caller left: neutral for the circuit.
    Cancelled,
}

impl Outcome {
    pub(crate) const ALL: [Outcome; 8] = [
        Outcome::Success,
        Outcome::Failure,
        Outcome::Timeout,
        Outcome::BadRequest,
        Outcome::ShortCircuited,
        Outcome::ThreadPoolRejected,
        Outcome::SemaphoreRejected,
        Outcome::Cancelled,
    ];

    /// Returns the word used in logs and metric labels, such as `short_circuited`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Failure => "failure",
            Outcome::Timeout => "timeout",
            Outcome::BadRequest => "bad_request",
            Outcome::ShortCircuited => "short_circuited",
            Outcome::ThreadPoolRejected => "thread_pool_rejected",
            Outcome::SemaphoreRejected => "semaphore_rejected",
            Outcome::Cancelled => "cancelled",
        }
    }

    /// Returns whether the body was kept from running by the library.
    #[must_use]
    pub const fn is_rejection(self) -> bool {
        matches!(self, Outcome::ShortCircuited | Outcome::ThreadPoolRejected | Outcome::SemaphoreRejected)
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the fallback of a call ended, in Hystrix's event words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackOutcome {
    /// The fallback answered.
    Success,
    /// The fallback returned an error or panicked.
    Failure,
    /// The fallback got no permit or no worker.
    Rejection,
    /// There is no fallback.
    Missing,
    /// `fallback_if` said no, or fallbacks are switched off.
    Skipped,
    /// The caller left while the fallback ran.
    Cancelled,
}

impl FallbackOutcome {
    pub(crate) const ALL: [FallbackOutcome; 6] = [
        FallbackOutcome::Success,
        FallbackOutcome::Failure,
        FallbackOutcome::Rejection,
        FallbackOutcome::Missing,
        FallbackOutcome::Skipped,
        FallbackOutcome::Cancelled,
    ];

    /// Returns the word used in logs and metric labels, such as `fallback_success`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            FallbackOutcome::Success => "fallback_success",
            FallbackOutcome::Failure => "fallback_failure",
            FallbackOutcome::Rejection => "fallback_rejection",
            FallbackOutcome::Missing => "fallback_missing",
            FallbackOutcome::Skipped => "fallback_skipped",
            FallbackOutcome::Cancelled => "fallback_cancelled",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for FallbackOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a result means to the command: what a `classify` function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub(crate) Meaning);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Success,
    Failure,
    Ignore,
}

impl Class {
    /// The dependency did its work. An error so judged is returned as it is, without a fallback.
    pub const SUCCESS: Class = Class(Meaning::Success);
    /// The dependency failed: counts against the circuit, and the fallback applies.
    pub const FAILURE: Class = Class(Meaning::Failure);
    /// The caller's own mistake: returned as it is, no fallback, neutral for the circuit.
    pub const IGNORE: Class = Class(Meaning::Ignore);
}

/// How far the library interferes with calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Refuses, cuts and falls back as configured.
    #[default]
    Enforce,
    /// Decides and counts what it would have done, and lets everything through: no refusal, no cut, no fallback.
    Shadow,
    /// Runs the body only: nothing is decided and nothing is counted.
    Off,
}

/// The state of a circuit. Closed means serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CircuitState {
    /// Calls pass and are judged.
    Closed,
    /// Calls are refused until the sleep window has passed.
    Open,
    /// One trial call at a time decides.
    HalfOpen,
    /// Held open by hand.
    ForcedOpen,
    /// Held closed by hand.
    ForcedClosed,
}

impl CircuitState {
    /// Returns the word used in logs and metric labels, such as `half_open`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CircuitState::Closed => "closed",
            CircuitState::Open => "open",
            CircuitState::HalfOpen => "half_open",
            CircuitState::ForcedOpen => "forced_open",
            CircuitState::ForcedClosed => "forced_closed",
        }
    }
}

impl fmt::Display for CircuitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
