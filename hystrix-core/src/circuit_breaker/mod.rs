//! Decides whether a call may pass, from how the calls before it ended. Closed means serving.
//!
//! [`state`] is the state machine alone, a plain value; [`circuit`] keeps one under a lock for the rare changes, and
//! mirrors it in a word that the many read. Health is counted here, apart from the command's own counts: a circuit may
//! serve several commands, and it forgets when it begins anew.

mod circuit;
mod state;

pub(crate) use self::circuit::{Change, Circuit, Pass, Rules, Verdict, View};

use std::borrow::Cow;
use std::time::Duration;

use crate::error::ConfigError;

/// The settings of a circuit breaker. What is not set comes from the layers below, and in the end from the defaults.
///
/// The rules are Hystrix's, with its known faults corrected: results are judged the moment they arrive, a result counts
/// only in the generation in which its call was admitted, and a trial is a lease that cannot get lost.
///
/// ```
/// use hystrix_core::CircuitBreaker;
/// use std::time::Duration;
///
/// let settings = CircuitBreaker::new()
///     .request_volume_threshold(50)
///     .error_threshold_percentage(25)
///     .sleep_window(Duration::from_secs(2));
/// # let _ = settings;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct CircuitBreaker {
    pub(crate) shared: Option<Cow<'static, str>>,
    pub(crate) request_volume_threshold: Option<u64>,
    pub(crate) error_threshold_percentage: Option<f64>,
    pub(crate) sleep_window: Option<Duration>,
}

impl CircuitBreaker {
    /// Creates settings in which nothing is set.
    pub const fn new() -> Self {
        Self {
            shared: None,
            request_volume_threshold: None,
            error_threshold_percentage: None,
            sleep_window: None,
        }
    }

    /// Names one circuit for all commands of the registry that name it: they share its state, its counts and its trial.
    ///
    /// The first command that names it defines it; a definition that differs is reported and changes nothing.
    pub fn shared(name: impl Into<Cow<'static, str>>) -> Self {
        Self { shared: Some(name.into()), ..Self::new() }
    }

    /// Sets the results that the rolling window must hold before the circuit may open. Default 20, at least 1.
    pub const fn request_volume_threshold(mut self, results: u64) -> Self {
        self.request_volume_threshold = Some(results);
        self
    }

    /// Sets the share of failures, in percent, at which the circuit opens. Default 50; above 0, up to 100.
    pub fn error_threshold_percentage(mut self, percent: impl Into<f64>) -> Self {
        self.error_threshold_percentage = Some(percent.into());
        self
    }

    /// Sets how long an open circuit refuses before it lets a trial through. Default 5 s, above zero.
    ///
    /// It is also how long a trial may outlast its deadline, or without a timeout its start, before it counts as lost and another call
    /// becomes the trial. What a lost trial ends with decides nothing: a body that takes longer than this should have a timeout.
    pub const fn sleep_window(mut self, window: Duration) -> Self {
        self.sleep_window = Some(window);
        self
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.request_volume_threshold == Some(0) {
            return Err(ConfigError::new("request_volume_threshold", 0, "1 or more"));
        }
        if let Some(percent) = self.error_threshold_percentage
            && !(percent > 0.0 && percent <= 100.0)
        {
            return Err(ConfigError::new("error_threshold_percentage", percent, "above 0, up to 100"));
        }
        if self.sleep_window == Some(Duration::ZERO) {
            return Err(ConfigError::new("sleep_window", Duration::ZERO, "above zero"));
        }
        Ok(())
    }

    /// Fills what is not set here from a layer below.
    pub(crate) fn over(self, below: &CircuitBreaker) -> Self {
        Self {
            shared: self.shared.or_else(|| below.shared.clone()),
            request_volume_threshold: self.request_volume_threshold.or(below.request_volume_threshold),
            error_threshold_percentage: self.error_threshold_percentage.or(below.error_threshold_percentage),
            sleep_window: self.sleep_window.or(below.sleep_window),
        }
    }

    /// The rules, with defaults for what no layer sets.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            request_volume_threshold: self.request_volume_threshold.unwrap_or(20),
            error_threshold_percentage: self.error_threshold_percentage.unwrap_or(50.0),
            sleep_window: self.sleep_window.unwrap_or(Duration::from_secs(5)),
        }
    }
}

#[cfg(test)]
mod tests;
