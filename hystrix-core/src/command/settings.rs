//! The settings a command runs with, each with the layer it comes from.

use std::fmt;
use std::time::Duration;

use super::config::{CircuitSetting, CommandConfig, Timeout};
use crate::admission::LiveSettings;
use crate::circuit_breaker::{CircuitBreaker, Rules};
use crate::error::ConfigError;
use crate::outcome::Mode;
use crate::permits::Limit;
use crate::window::{LatencyShape, Shape};

/// Where a setting comes from; the first layer in this order that sets it wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Applied live to the command.
    LiveCommand,
    /// Applied live to its group.
    LiveGroup,
    /// Applied live to all commands.
    LiveAll,
    /// Written at the command: attribute or builder.
    Code,
    /// The group's defaults, in code.
    GroupDefaults,
    /// The registry's defaults, in code.
    RegistryDefaults,
    /// The library's own default.
    BuiltIn,
}

impl Origin {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Origin::LiveCommand | Origin::LiveGroup | Origin::LiveAll)
    }
}

/// A value and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The layer that set it.
    pub origin: Origin,
}

/// The layers of one command, the first to win first.
pub(crate) type Layers<'a> = [(Origin, &'a CommandConfig)];

/// The first layer that has a field, or the built-in value.
fn first<T>(layers: &Layers<'_>, field: impl Fn(&CommandConfig) -> Option<T>, built_in: T) -> Setting<T> {
    for (origin, layer) in layers {
        if let Some(value) = field(layer) {
            let origin = *origin;
            return Setting { value, origin };
        }
    }
    Setting { value: built_in, origin: Origin::BuiltIn }
}

/// Declares the settings once: name, type, and a sentence.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// The resolved settings of a command.
        ///
        /// Shown as a table, a line each: name, value, origin.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($name: Setting<$type>,)*
        }

        impl Settings {
            /// The names of all settings, as the builder spells them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            $($(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> Setting<$type> {
                self.$name.clone()
            })*
        }

        impl fmt::Display for Settings {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(writeln!(
                    f,
                    "{:<28} {:<14} {:?}",
                    stringify!($name),
                    format!("{:?}", self.$name.value),
                    self.$name.origin,
                )?;)*
                Ok(())
            }
        }
    };
}

settings! {
    /// Returns the timeout of an attempt. A built-in one does not apply to synchronous calls in place.
    timeout: Timeout,
    /// Returns the permits of calls in place.
    semaphore: Limit,
    /// Returns the permits of fallbacks.
    fallback_semaphore: Limit,
    /// Returns whether fallbacks run.
    fallback_enabled: bool,
    /// Returns whether there is a circuit breaker.
    circuit_breaker: bool,
    /// Returns the results needed before the circuit may open.
    request_volume_threshold: u64,
    /// Returns the share of failures at which it opens.
    error_threshold_percentage: f64,
    /// Returns how long it stays open.
    sleep_window: Duration,
    /// Returns how far the library interferes.
    mode: Mode,
    /// Returns the window of counts and health.
    rolling_window: Duration,
    /// Returns its buckets.
    rolling_buckets: usize,
    /// Returns the window of latency percentiles.
    latency_window: Duration,
    /// Returns its buckets.
    latency_buckets: usize,
}

impl Settings {
    /// Resolves the layers. `pool_places` is what a pool itself allows; a semaphore has its own
    /// setting.
    pub(crate) fn resolve(layers: &Layers<'_>, pool_places: Option<usize>) -> Self {
        let defaults = CircuitBreaker::new().rules();
        let circuit = |layer: &CommandConfig| layer.circuit_breaker.clone()?.0;
        // A shared circuit is not one command's to change: it runs by what is written in code.
        let is_shared = Self::shared_circuit(layers).is_some();
        let of_circuit = layers.iter().filter(|(origin, _)| !is_shared || !origin.is_live());
        let of_circuit: Vec<_> = of_circuit.copied().collect();
        let semaphore = first(layers, |layer| layer.semaphore, Limit::from(10));
        let execution_limit = match pool_places {
            Some(places) => Limit::from((places < Limit::MAX).then_some(places)),
            None => semaphore.value,
        };
        Self {
            timeout: first(layers, |layer| layer.timeout, Timeout::from(Duration::from_secs(1))),
            semaphore,
            fallback_semaphore: first(layers, |layer| layer.fallback_semaphore, execution_limit),
            fallback_enabled: first(layers, |layer| layer.fallback_enabled, true),
            circuit_breaker: first(
                layers,
                |layer| layer.circuit_breaker.as_ref().map(|CircuitSetting(on)| on.is_some()),
                true,
            ),
            request_volume_threshold: first(
                &of_circuit,
                |layer| circuit(layer)?.request_volume_threshold,
                defaults.request_volume_threshold,
            ),
            error_threshold_percentage: first(
                &of_circuit,
                |layer| circuit(layer)?.error_threshold_percentage,
                defaults.error_threshold_percentage,
            ),
            sleep_window: first(&of_circuit, |layer| circuit(layer)?.sleep_window, defaults.sleep_window),
            mode: first(layers, |layer| layer.mode, Mode::Enforce),
            rolling_window: first(layers, |layer| layer.rolling_window, Duration::from_secs(10)),
            rolling_buckets: first(layers, |layer| layer.rolling_buckets, 10),
            latency_window: first(layers, |layer| layer.latency_window, Duration::from_secs(60)),
            latency_buckets: first(layers, |layer| layer.latency_buckets, 6),
        }
    }

    /// The name of the circuit that the command shares, if it does.
    pub(crate) fn shared_circuit<'l>(layers: &'l Layers<'_>) -> Option<&'l str> {
        let named = |layer: &'l CommandConfig| layer.circuit_breaker.as_ref()?.0.as_ref()?.shared.as_deref();
        layers.iter().find_map(|(_, layer)| named(layer))
    }

    pub(crate) fn shape(&self) -> Result<Shape, ConfigError> {
        let window = ("rolling_window", self.rolling_window.value);
        Shape::new(window, ("rolling_buckets", self.rolling_buckets.value))
    }

    pub(crate) fn latency_shape(&self) -> Result<LatencyShape, ConfigError> {
        let window = ("latency_window", self.latency_window.value);
        Shape::new(window, ("latency_buckets", self.latency_buckets.value))
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            request_volume_threshold: self.request_volume_threshold.value,
            error_threshold_percentage: self.error_threshold_percentage.value,
            sleep_window: self.sleep_window.value,
        }
    }

    pub(crate) fn live(&self) -> LiveSettings {
        let written = self.timeout.origin != Origin::BuiltIn;
        LiveSettings {
            mode: self.mode.value,
            timeout: self.timeout.value.get(),
            timeout_in_place: self.timeout.value.get().filter(|_| written),
            circuit_enabled: self.circuit_breaker.value,
            fallback_enabled: self.fallback_enabled.value,
            limit_is_default: self.semaphore.origin == Origin::BuiltIn,
        }
    }
}
