//! Layers of settings: each field may be absent, and the first layer that has it wins.

use std::fmt;
use std::time::Duration;

use crate::circuit_breaker::CircuitBreaker;
use crate::error::ConfigError;
use crate::outcome::Mode;
use crate::permits::Limit;

// ===== impl Timeout =====

/// How long an attempt may take: a duration, `"250ms"`, or `None`.
///
/// As text: a whole number and one of `ns`, `us`, `ms`, `s`, `m`, `h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(Written);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Off,
    After(Duration),
    /// Text that is no duration; told when the command is built.
    Unreadable(&'static str),
}

impl Timeout {
    /// Returns the duration, or `None` for no timeout.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        match self.0 {
            Written::After(duration) => Some(duration),
            Written::Off | Written::Unreadable(_) => None,
        }
    }

    fn validate(self) -> Result<(), ConfigError> {
        match self.0 {
            Written::After(Duration::ZERO) => {
                Err(ConfigError::new("timeout", Duration::ZERO, "above zero, or None"))
            }
            Written::Unreadable(text) => {
                let allowed = "a whole number with a unit (ns, us, ms, s, m, h), such as 250ms";
                Err(ConfigError::new("timeout", text, allowed))
            }
            Written::Off | Written::After(_) => Ok(()),
        }
    }
}

impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        Timeout(Written::After(duration))
    }
}

impl From<Option<Duration>> for Timeout {
    fn from(duration: Option<Duration>) -> Self {
        Timeout(duration.map_or(Written::Off, Written::After))
    }
}

impl From<&'static str> for Timeout {
    fn from(text: &'static str) -> Self {
        Timeout(parse(text).map_or(Written::Unreadable(text), Written::After))
    }
}

fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let duration = match unit {
        "ns" => Duration::from_nanos(number),
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3600)?),
        _ => return None,
    };
    Some(duration)
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Written::Off => f.write_str("none"),
            Written::After(duration) => write!(f, "{duration:?}"),
            Written::Unreadable(text) => write!(f, "{text:?}"),
        }
    }
}

// ===== impl CircuitSetting =====

/// What a layer says about the circuit breaker: settings, or `None` for no circuit breaker.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitSetting(pub(crate) Option<CircuitBreaker>);

impl From<CircuitBreaker> for CircuitSetting {
    fn from(settings: CircuitBreaker) -> Self {
        CircuitSetting(Some(settings))
    }
}

impl From<Option<CircuitBreaker>> for CircuitSetting {
    fn from(settings: Option<CircuitBreaker>) -> Self {
        CircuitSetting(settings)
    }
}

// ===== impl CommandConfig =====

/// Settings of a command, each of which may be absent: a layer.
///
/// A command has many: what is written in code, defaults of its group and registry, and what is applied live. Per field the first that has it
/// wins; see [`Origin`](crate::Origin) for the order.
///
/// ```
/// use hystrix_core::{CommandConfig, Registry, Select};
///
/// let registry = Registry::builder().build();
/// registry.apply(Select::group("users"), CommandConfig::new().timeout("200ms"))?;
/// # registry.shutdown(std::time::Duration::from_secs(1));
/// # Ok::<(), hystrix_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct CommandConfig {
    pub(crate) timeout: Option<Timeout>,
    pub(crate) semaphore: Option<Limit>,
    pub(crate) fallback_semaphore: Option<Limit>,
    pub(crate) fallback_enabled: Option<bool>,
    pub(crate) circuit_breaker: Option<CircuitSetting>,
    pub(crate) mode: Option<Mode>,
    pub(crate) rolling_window: Option<Duration>,
    pub(crate) rolling_buckets: Option<usize>,
    pub(crate) latency_window: Option<Duration>,
    pub(crate) latency_buckets: Option<usize>,
}

impl CommandConfig {
    /// Creates a layer in which nothing is set.
    pub const fn new() -> Self {
        Self {
            timeout: None,
            semaphore: None,
            fallback_semaphore: None,
            fallback_enabled: None,
            circuit_breaker: None,
            mode: None,
            rolling_window: None,
            rolling_buckets: None,
            latency_window: None,
            latency_buckets: None,
        }
    }

    /// The layer of a command whose own definition cannot be: windows that fit whatever other layers say of them.
    pub(crate) const fn built_in_windows() -> Self {
        let layer = Self::new().rolling_window(Duration::from_secs(10)).rolling_buckets(10);
        layer.latency_window(Duration::from_secs(60)).latency_buckets(6)
    }

    /// Sets how long an attempt may take, time in a queue included. Default 1 s; none for a synchronous call in place,
    /// whose caller cannot return before its body does. Zero is refused; `None` switches it off.
    pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
        self.timeout = Some(timeout.into());
        self
    }

    /// Sets how many calls in place may run at once. Default 10; `None` for no limit. Without effect on a pool.
    pub fn semaphore(mut self, permits: impl Into<Limit>) -> Self {
        self.semaphore = Some(permits.into());
        self
    }

    /// Sets how many fallbacks may run at once. Default: what the command itself may run, the pool's queue included.
    pub fn fallback_semaphore(mut self, permits: impl Into<Limit>) -> Self {
        self.fallback_semaphore = Some(permits.into());
        self
    }

    /// Switches fallbacks off and on. Default on. A call whose fallback is off gets its original error.
    pub const fn fallback_enabled(mut self, enabled: bool) -> Self {
        self.fallback_enabled = Some(enabled);
        self
    }

    /// Sets up the circuit breaker; `None` switches it off. Default on, see [`CircuitBreaker`].
    pub fn circuit_breaker(mut self, settings: impl Into<CircuitSetting>) -> Self {
        self.circuit_breaker = Some(settings.into());
        self
    }

    /// Sets how far the library interferes. Default [`Mode::Enforce`].
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the window of counts and of the circuit's health. Default 10 s. Fixed once the command exists.
    pub const fn rolling_window(mut self, window: Duration) -> Self {
        self.rolling_window = Some(window);
        self
    }

    /// Sets the number of buckets in that window, 1 to 240, which must divide it into a millisecond or more each. Default
    /// 10. Fixed once the command exists.
    pub const fn rolling_buckets(mut self, buckets: usize) -> Self {
        self.rolling_buckets = Some(buckets);
        self
    }

    /// Sets the window of latency percentiles. Default 60 s. Fixed once the command exists.
    pub const fn latency_window(mut self, window: Duration) -> Self {
        self.latency_window = Some(window);
        self
    }

    /// Sets the number of buckets in that window, as for [`rolling_buckets`](Self::rolling_buckets). Default 6.
    pub const fn latency_buckets(mut self, buckets: usize) -> Self {
        self.latency_buckets = Some(buckets);
        self
    }

    /// Fills what is not set here from another layer.
    pub fn or(self, below: &CommandConfig) -> Self {
        let circuit_breaker = match (self.circuit_breaker, &below.circuit_breaker) {
            (Some(CircuitSetting(Some(own))), Some(CircuitSetting(Some(below)))) => {
                Some(own.over(below).into())
            }
            (own, below) => own.or_else(|| below.clone()),
        };
        Self {
            timeout: self.timeout.or(below.timeout),
            semaphore: self.semaphore.or(below.semaphore),
            fallback_semaphore: self.fallback_semaphore.or(below.fallback_semaphore),
            fallback_enabled: self.fallback_enabled.or(below.fallback_enabled),
            circuit_breaker,
            mode: self.mode.or(below.mode),
            rolling_window: self.rolling_window.or(below.rolling_window),
            rolling_buckets: self.rolling_buckets.or(below.rolling_buckets),
            latency_window: self.latency_window.or(below.latency_window),
            latency_buckets: self.latency_buckets.or(below.latency_buckets),
        }
    }

    /// Checks every field by itself.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if let Some(timeout) = self.timeout {
            timeout.validate()?;
        }
        if let Some(limit) = self.semaphore {
            limit.validate("semaphore")?;
        }
        if let Some(limit) = self.fallback_semaphore {
            limit.validate("fallback_semaphore")?;
        }
        if let Some(CircuitSetting(Some(circuit))) = &self.circuit_breaker {
            circuit.validate()?;
        }
        Ok(())
    }

    /// Checks a layer that is to change commands which exist already.
    pub(crate) fn validate_live(&self) -> Result<(), ConfigError> {
        let fixed = [
            ("rolling_window", self.rolling_window.is_some()),
            ("rolling_buckets", self.rolling_buckets.is_some()),
            ("latency_window", self.latency_window.is_some()),
            ("latency_buckets", self.latency_buckets.is_some()),
        ];
        for (field, set) in fixed {
            if set {
                return Err(ConfigError::new(
                    field,
                    "set",
                    "nothing: windows are fixed once a command exists",
                ));
            }
        }
        if let Some(CircuitSetting(Some(CircuitBreaker { shared: Some(name), .. }))) = &self.circuit_breaker {
            return Err(ConfigError::new(
                "shared",
                name,
                "nothing: which circuit a command has is decided in code",
            ));
        }
        self.validate()
    }
}
