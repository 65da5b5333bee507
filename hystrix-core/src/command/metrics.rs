//! A command's counts, as a plain value.

use std::fmt;
use std::time::Duration;

use crate::circuit_breaker::View;
use crate::clock::Timestamp;
use crate::event::CircuitCause;
use crate::identity::CommandKey;
use crate::outcome::{CircuitState, FallbackOutcome, Mode, Outcome};
use crate::window::{Distribution, Snapshot, Word};

/// A command at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// The command.
    pub command: CommandKey,
    /// When it was looked at.
    pub at: Timestamp,
    /// The mode it runs under.
    pub mode: Mode,
    /// The length of the rolling window.
    pub window: Duration,
    /// Counts within the rolling window.
    pub rolling: Counts,
    /// Counts since the command exists.
    pub cumulative: Counts,
    /// How long calls waited for a worker.
    pub queue: Latency,
    /// How long bodies ran until their attempt was settled; a timeout counts as its timeout.
    pub body: Latency,
    /// How long callers waited for their answer, the fallback included; refused calls are not counted.
    pub total: Latency,
    /// Attempts under way: admitted and not yet settled.
    pub in_flight: u64,
    /// The most there were at one time within the rolling window. Looked at by each thread at most every 10 µs.
    pub max_in_flight: u64,
    /// Bodies that run on although their callers have been answered.
    pub abandoned: u64,
    /// Fallbacks that run.
    pub fallbacks_in_flight: u64,
    /// Permits in use: by bodies that run, abandoned ones included.
    pub permits_in_use: usize,
    /// Fallback permits in use.
    pub fallback_permits_in_use: usize,
    /// The circuit.
    pub circuit: CircuitMetrics,
}

impl Metrics {
    /// Returns the results that say something of the dependency's health, in the rolling window: successes, failures, timeouts, and
    /// refusals by permits or pool.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        let counts = &self.rolling;
        counts.success + self.error_count()
    }

    /// Returns how many of them were not successes.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        let counts = &self.rolling;
        counts.failure + counts.timeout + counts.thread_pool_rejected + counts.semaphore_rejected
    }

    /// Returns their share in percent; zero without any.
    #[must_use]
    pub fn error_percentage(&self) -> f64 {
        match self.request_count() {
            0 => 0.0,
            requests => self.error_count() as f64 * 100.0 / requests as f64,
        }
    }
}

/// A circuit at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CircuitMetrics {
    /// A command's `group/key`, or the name the circuit is shared under.
    pub name: Box<str>,
    /// The state.
    pub state: CircuitState,
    /// Since when.
    pub since: Timestamp,
    /// Why it changed last, if it ever did.
    pub cause: Option<CircuitCause>,
    /// How long until the next trial may pass, while the circuit is open.
    pub retry_after: Option<Duration>,
    /// Results in the rolling window since the circuit closed last.
    pub requests: u64,
    /// How many of them were failures.
    pub failures: u64,
}

impl From<View> for CircuitMetrics {
    fn from(view: View) -> Self {
        Self {
            name: view.name,
            state: view.state,
            since: view.since,
            cause: view.cause,
            retry_after: view.retry_after,
            requests: view.requests,
            failures: view.failures,
        }
    }
}

/// Counts in Hystrix's event words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Good values.
    pub success: u64,
    /// Errors, panics, and values judged as failures.
    pub failure: u64,
    /// Deadlines that passed.
    pub timeout: u64,
    /// Results that were ignored.
    pub bad_request: u64,
    /// Refusals by the circuit.
    pub short_circuited: u64,
    /// Refusals by the thread pool.
    pub thread_pool_rejected: u64,
    /// Refusals for want of a permit.
    pub semaphore_rejected: u64,
    /// Callers that left.
    pub cancelled: u64,
    /// Fallbacks that answered.
    pub fallback_success: u64,
    /// Fallbacks that failed or panicked.
    pub fallback_failure: u64,
    /// Fallbacks without a permit or worker.
    pub fallback_rejection: u64,
    /// Failed calls without a fallback.
    pub fallback_missing: u64,
    /// Fallbacks that did not want to answer.
    pub fallback_skipped: u64,
    /// Callers that left while their fallback ran.
    pub fallback_cancelled: u64,
    /// Shadow mode: calls the circuit would have refused.
    pub would_have_short_circuited: u64,
    /// Shadow mode: calls the pool would have refused.
    pub would_have_thread_pool_rejected: u64,
    /// Shadow mode: calls that would have had no permit.
    pub would_have_semaphore_rejected: u64,
    /// Shadow mode: calls that would have been cut.
    pub would_have_timed_out: u64,
}

impl Counts {
    pub(crate) fn new(of: impl Fn(Word) -> u64) -> Self {
        let ended = |outcome| of(Word::Ended(outcome));
        let fallback = |outcome| of(Word::Fallback(outcome));
        let would_have = |outcome| of(Word::WouldHave(outcome));
        Self {
            success: ended(Outcome::Success),
            failure: ended(Outcome::Failure),
            timeout: ended(Outcome::Timeout),
            bad_request: ended(Outcome::BadRequest),
            short_circuited: ended(Outcome::ShortCircuited),
            thread_pool_rejected: ended(Outcome::ThreadPoolRejected),
            semaphore_rejected: ended(Outcome::SemaphoreRejected),
            cancelled: ended(Outcome::Cancelled),
            fallback_success: fallback(FallbackOutcome::Success),
            fallback_failure: fallback(FallbackOutcome::Failure),
            fallback_rejection: fallback(FallbackOutcome::Rejection),
            fallback_missing: fallback(FallbackOutcome::Missing),
            fallback_skipped: fallback(FallbackOutcome::Skipped),
            fallback_cancelled: fallback(FallbackOutcome::Cancelled),
            would_have_short_circuited: would_have(Outcome::ShortCircuited),
            would_have_thread_pool_rejected: would_have(Outcome::ThreadPoolRejected),
            would_have_semaphore_rejected: would_have(Outcome::SemaphoreRejected),
            would_have_timed_out: would_have(Outcome::Timeout),
        }
    }

    /// Returns the attempts that ended, however they did.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.success
            + self.failure
            + self.timeout
            + self.bad_request
            + self.short_circuited
            + self.thread_pool_rejected
            + self.semaphore_rejected
            + self.cancelled
    }

    /// Returns the calls that ended in an error for their caller (Hystrix's `EXCEPTION_THROWN`).
    #[must_use]
    pub fn exceptions_thrown(&self) -> u64 {
        self.bad_request
            + self.fallback_failure
            + self.fallback_rejection
            + self.fallback_missing
            + self.fallback_skipped
    }
}

/// Latencies within the latency window. Percentiles are within 3.2 % (or 32 ns); mean, maximum and count are exact.
#[derive(Clone)]
pub struct Latency(pub(crate) Distribution);

impl Latency {
    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the mean; zero without any.
    #[must_use]
    pub fn mean(&self) -> Duration {
        self.0.mean()
    }

    /// Returns the largest; zero without any.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.0.max()
    }

    /// Returns the latency that `percent` of the calls do not pass, by nearest rank; zero without any. Below zero is the
    /// smallest, above a hundred the largest.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        self.0.percentile(percent)
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latency")
            .field("count", &self.count())
            .field("mean", &self.mean())
            .field("p50", &self.percentile(50.0))
            .field("p99", &self.percentile(99.0))
            .field("max", &self.max())
            .finish()
    }
}

impl Metrics {
    pub(crate) fn new(
        command: CommandKey,
        at: Timestamp,
        window: Duration,
        mode: Mode,
        seen: Snapshot,
        permits: (usize, usize),
        circuit: View,
    ) -> Self {
        Self {
            command,
            at,
            mode,
            window,
            rolling: Counts::new(|word| seen.rolling(word)),
            cumulative: Counts::new(|word| seen.cumulative(word)),
            in_flight: seen.in_flight,
            max_in_flight: seen.max_in_flight,
            abandoned: seen.abandoned,
            fallbacks_in_flight: seen.fallbacks,
            permits_in_use: permits.0,
            fallback_permits_in_use: permits.1,
            circuit: circuit.into(),
            queue: Latency(seen.queue),
            body: Latency(seen.body),
            total: Latency(seen.total),
        }
    }
}
