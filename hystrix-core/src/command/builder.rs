//! The definition of a command in code.

use std::borrow::Cow;
use std::time::Duration;

use super::config::{CircuitSetting, CommandConfig, Timeout};
use super::key::{Keyed, KeyedKind};
use super::{Command, PoolCommand};
use crate::error::ConfigError;
use crate::identity::CommandKey;
use crate::isolation::semaphore::PermitRelease;
use crate::isolation::thread_pool::ThreadPool;
use crate::outcome::Mode;
use crate::permits::Limit;
use crate::registry::{Definition, Isolation, Named, Registry};

/// The group of commands that name none.
const DEFAULT_GROUP: &str = "default";

/// Defines a command; made by [`Command::builder`].
///
/// The type parameter is the isolation: [`thread_pool`](Self::thread_pool) changes it, and with it what
/// [`build`](Self::build) gives. Building the same group and key again gives the same command; a definition that differs is a
/// finding of [`Registry::audit`], and the first one stands.
#[derive(Clone, Debug)]
#[must_use]
pub struct CommandBuilder<I> {
    names: Written,
    config: CommandConfig,
    /// What `config` was given: below what the builder sets by itself.
    layer: CommandConfig,
    isolation: I,
    registry: Option<Registry>,
}

/// The names that were written; the others have defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) key: Option<Cow<'static, str>>,
    pub(crate) group: Option<Cow<'static, str>>,
}

/// A definition whose identity may be incomplete.
pub(crate) struct Draft {
    pub(crate) names: Written,
    pub(crate) config: CommandConfig,
    pub(crate) isolation: Isolation,
}

/// Bodies run where their callers are.
#[derive(Clone, Copy, Debug)]
pub struct InPlaceIsolation {
    release: PermitRelease,
}

/// Bodies run on a pool.
#[derive(Clone, Debug)]
pub struct PoolIsolation {
    pool: ThreadPool,
}

/// A pool, as the builder takes it: a name, or a definition.
pub trait IntoThreadPool {
    /// Makes a definition of it.
    #[doc(hidden)]
    fn into_thread_pool(self) -> ThreadPool;
}

impl IntoThreadPool for ThreadPool {
    fn into_thread_pool(self) -> ThreadPool {
        self
    }
}

impl IntoThreadPool for &'static str {
    fn into_thread_pool(self) -> ThreadPool {
        ThreadPool::named(self)
    }
}

impl IntoThreadPool for String {
    fn into_thread_pool(self) -> ThreadPool {
        ThreadPool::named(self)
    }
}

impl CommandBuilder<InPlaceIsolation> {
    pub(crate) fn new(names: Written) -> Self {
        Self {
            names,
            config: CommandConfig::new(),
            layer: CommandConfig::new(),
            isolation: InPlaceIsolation { release: PermitRelease::WithTheBody },
            registry: None,
        }
    }

    /// Sets how many bodies may run at once: see [`CommandConfig::semaphore`].
    pub fn semaphore(mut self, permits: impl Into<Limit>) -> Self {
        self.config = self.config.semaphore(permits);
        self
    }

    /// Runs bodies on a pool: a name, or a [`ThreadPool`] with its sizes.
    pub fn thread_pool(self, pool: impl IntoThreadPool) -> CommandBuilder<PoolIsolation> {
        CommandBuilder {
            names: self.names,
            config: self.config,
            layer: self.layer,
            isolation: PoolIsolation { pool: pool.into_thread_pool() },
            registry: self.registry,
        }
    }

    /// Gives permits back when the timeout passes, as Hystrix does: more bodies may run then than there are permits, and
    /// only [`Metrics::abandoned`](crate::Metrics) shows them. For comparison only.
    pub fn permit_release(mut self, _as_hystrix: crate::compat::ReleaseAtTimeout) -> Self {
        self.isolation.release = PermitRelease::AtTimeout;
        self
    }
}

impl<I: Buildable> CommandBuilder<I> {
    /// Sets the group: half of the identity, and the default name of the pool. Default `default`.
    pub fn group(mut self, group: impl Into<Cow<'static, str>>) -> Self {
        self.names.group = Some(group.into());
        self
    }

    /// Sets the timeout: see [`CommandConfig::timeout`].
    pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
        self.config = self.config.timeout(timeout);
        self
    }

    /// Sets how many fallbacks may run at once: see [`CommandConfig::fallback_semaphore`].
    pub fn fallback_semaphore(mut self, permits: impl Into<Limit>) -> Self {
        self.config = self.config.fallback_semaphore(permits);
        self
    }

    /// Switches fallbacks off and on: see [`CommandConfig::fallback_enabled`].
    pub fn fallback_enabled(mut self, enabled: bool) -> Self {
        self.config = self.config.fallback_enabled(enabled);
        self
    }

    /// Sets up the circuit breaker: see [`CommandConfig::circuit_breaker`].
    pub fn circuit_breaker(mut self, settings: impl Into<CircuitSetting>) -> Self {
        self.config = self.config.circuit_breaker(settings);
        self
    }

    /// Sets how far the library interferes: see [`CommandConfig::mode`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.config = self.config.mode(mode);
        self
    }

    /// Sets the window of counts and health: see [`CommandConfig::rolling_window`].
    pub fn rolling_window(mut self, window: Duration) -> Self {
        self.config = self.config.rolling_window(window);
        self
    }

    /// Sets its buckets: see [`CommandConfig::rolling_buckets`].
    pub fn rolling_buckets(mut self, buckets: usize) -> Self {
        self.config = self.config.rolling_buckets(buckets);
        self
    }

    /// Sets the window of latency percentiles: see [`CommandConfig::latency_window`].
    pub fn latency_window(mut self, window: Duration) -> Self {
        self.config = self.config.latency_window(window);
        self
    }

    /// Sets its buckets: see [`CommandConfig::latency_buckets`].
    pub fn latency_buckets(mut self, buckets: usize) -> Self {
        self.config = self.config.latency_buckets(buckets);
        self
    }

    /// Takes a whole layer of settings. What the builder sets by itself wins, before or after, and so does an earlier layer.
    pub fn config(mut self, config: CommandConfig) -> Self {
        self.layer = self.layer.or(&config);
        self
    }

    /// Builds the command in a given registry instead of the current one.
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Registers the command and returns it.
    ///
    /// # Errors
    ///
    /// A setting that cannot be, or an identity that another isolation has; the error names field, value and what is allowed.
    pub fn build(self) -> Result<I::Command, ConfigError> {
        let (registry, definition) = self.defined();
        Ok(I::Command::from_handle(registry.define(&definition)?))
    }

    /// Makes a family of commands, one for each key that calls come with: see [`Keyed`]. The builder's own key is the
    /// beginning of theirs. Building the same group and key again gives the same family.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build).
    pub fn build_keyed(self) -> Result<Keyed<I::Command>, ConfigError> {
        let (registry, definition) = self.defined();
        let family = registry.family(definition)?;
        Ok(Keyed::new(registry, family))
    }

    fn defined(self) -> (Registry, Definition) {
        let registry = self.registry.clone().unwrap_or_else(Registry::current);
        let Draft { names, config, isolation } = self.draft();
        let group = names.group.unwrap_or(Cow::Borrowed(DEFAULT_GROUP));
        let key = CommandKey::new(group, names.key.unwrap_or_default());
        (registry, Definition { key, config, isolation, named: Named::InCode })
    }

    pub(super) fn with_key(mut self, key: &'static str) -> Self {
        self.names.key = Some(Cow::Borrowed(key));
        self
    }

    /// What was written, for a command whose other names follow from where it stands.
    pub(crate) fn draft(self) -> Draft {
        let config = self.config.or(&self.layer);
        Draft { names: self.names, config, isolation: self.isolation.into_isolation() }
    }
}

/// An isolation, as the builder knows it. Sealed.
pub trait Buildable: crate::sealed::Sealed {
    /// The kind of command it builds.
    type Command: KeyedKind;

    #[doc(hidden)]
    const ON_POOL: bool;

    /// What the registry makes of it.
    #[doc(hidden)]
    fn into_isolation(self) -> Isolation;
}

impl crate::sealed::Sealed for InPlaceIsolation {}
impl crate::sealed::Sealed for PoolIsolation {}

impl Buildable for InPlaceIsolation {
    type Command = Command;
    const ON_POOL: bool = false;

    fn into_isolation(self) -> Isolation {
        Isolation::InPlace(self.release)
    }
}

impl Buildable for PoolIsolation {
    type Command = PoolCommand;
    const ON_POOL: bool = true;

    fn into_isolation(self) -> Isolation {
        Isolation::Pool(self.pool)
    }
}
