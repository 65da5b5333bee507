//! What an operator sees unasked: a WARN line per change of a circuit, and per command, cause and minute of refusals.
//!
//! Nothing is logged per call. Without the feature `tracing` nothing is logged at all. A subscriber is user code: nothing is
//! logged while a lock is held.

use crate::error::Rejection;
use crate::event::CircuitEvent;
use crate::identity::CommandKey;

/// What the numbers behind a refusal are, for the log line.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "tracing"),
    expect(dead_code, reason = "without tracing there is no line to say them")
)]
pub(crate) struct Numbers {
    /// Refusals of this kind in the rolling window.
    pub(crate) refused: u64,
    /// The window, in seconds.
    pub(crate) window: f64,
    /// The limit that the command's own traffic suggests, where nobody chose the present one.
    pub(crate) suggested: Option<usize>,
}

#[cfg(feature = "tracing")]
mod lines {
    use super::{CircuitEvent, CommandKey, Numbers, Rejection};
    use tracing::warn;

    /// What filters name; the module a line stands in is nobody's business.
    const TARGET: &str = "hystrix_core";

    /// A subscriber's panic is not the call's.
    fn contained(line: impl FnOnce()) {
        let _ = crate::unwind::contained(line);
    }

    pub(crate) fn circuit_changed(event: &CircuitEvent) {
        contained(|| {
            warn!(
                target: TARGET,
                circuit = &*event.circuit,
                from = event.from.as_str(),
                to = event.to.as_str(),
                cause = event.cause.as_str(),
                requests = event.requests,
                failures = event.failures,
                "circuit changed"
            );
        });
    }

    pub(crate) fn refused(rejection: &Rejection, numbers: Numbers) {
        contained(|| match numbers.suggested {
            Some(suggested) => warn!(
                target: TARGET,
                command = %rejection.command(),
                cause = %rejection,
                refused = numbers.refused,
                window_seconds = numbers.window,
                suggested_limit = suggested,
                "calls are refused by a limit nobody chose"
            ),
            None => warn!(
                target: TARGET,
                command = %rejection.command(),
                cause = %rejection,
                refused = numbers.refused,
                window_seconds = numbers.window,
                "calls are refused"
            ),
        });
    }

    pub(crate) fn clash(command: &CommandKey, what: &str) {
        contained(|| warn!(target: TARGET, command = %command, "{what}"));
    }

    pub(crate) fn layer_refused(error: &crate::error::ConfigError) {
        contained(
            || warn!(target: TARGET, %error, "a configuration layer was refused; what lies below applies"),
        );
    }

    pub(crate) fn sink_panicked() {
        contained(|| warn!(target: TARGET, "an event sink panicked and was switched off"));
    }
}

#[cfg(not(feature = "tracing"))]
mod lines {
    use super::{CircuitEvent, CommandKey, Numbers, Rejection};

    pub(crate) fn circuit_changed(_event: &CircuitEvent) {}
    pub(crate) fn refused(_rejection: &Rejection, _numbers: Numbers) {}
    pub(crate) fn clash(_command: &CommandKey, _what: &str) {}
    pub(crate) fn layer_refused(_error: &crate::error::ConfigError) {}
    pub(crate) fn sink_panicked() {}
}

pub(crate) use lines::{circuit_changed, clash, layer_refused, refused, sink_panicked};
