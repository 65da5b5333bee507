//! The definition of a registry.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use super::layers::LayerStore;
use super::scope::CurrentRegistry;
use super::{Inner, Registry, State};
use crate::clock::{Clock, TimeSource};
use crate::command::CommandConfig;
use crate::context::{self, Propagator};
use crate::error::ConfigError;
use crate::event::EventSink;
use crate::runtime::Runtime;
use crate::sync::global::{Arc, Mutex};
use crate::workers::Limits;

/// Defines a registry; made by [`Registry::builder`].
#[must_use]
pub struct RegistryBuilder {
    clock: TimeSource,
    sinks: Vec<Box<dyn EventSink>>,
    propagators: Vec<Arc<dyn Propagator>>,
    layers: LayerStore,
    fallback_workers: usize,
    strict: bool,
}

impl RegistryBuilder {
    pub(super) fn new() -> Self {
        let mut propagators: Vec<Arc<dyn Propagator>> = vec![Arc::new(CurrentRegistry)];
        propagators.extend(context::built_in());
        Self {
            clock: TimeSource::System,
            sinks: Vec::new(),
            propagators,
            layers: LayerStore::default(),
            fallback_workers: 16,
            strict: false,
        }
    }

    /// Sets the clock. Default: the machine's, [`SystemClock`](crate::SystemClock).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = TimeSource::given(clock);
        self
    }

    /// Adds a listener, for good.
    pub fn sink(mut self, sink: impl EventSink) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Adds a kind of context that calls carry; the first added is the outermost around a body.
    pub fn propagator(mut self, propagator: impl Propagator) -> Self {
        self.propagators.push(Arc::new(propagator));
        self
    }

    /// Drops the propagators that are there by default: calls then carry what is added after this.
    pub fn without_default_propagators(mut self) -> Self {
        self.propagators.clear();
        self
    }

    /// Sets defaults for all commands.
    ///
    /// # Errors
    ///
    /// A setting that cannot be.
    pub fn defaults(mut self, config: CommandConfig) -> Result<Self, ConfigError> {
        config.validate().map_err(|error| error.of("registry defaults"))?;
        self.layers.registry_defaults = config;
        Ok(self)
    }

    /// Sets defaults for the commands of a group.
    ///
    /// # Errors
    ///
    /// A setting that cannot be.
    pub fn group_defaults(mut self, group: &str, config: CommandConfig) -> Result<Self, ConfigError> {
        config.validate().map_err(|error| error.of(format_args!("defaults of group {group}")))?;
        self.layers.group_defaults.insert(group.into(), config);
        Ok(self)
    }

    /// Sets how many workers run the fallbacks of calls that nobody can answer in place. Default 16; they start when
    /// needed and queue nothing.
    ///
    /// # Errors
    ///
    /// Zero.
    pub fn fallback_workers(mut self, workers: usize) -> Result<Self, ConfigError> {
        if workers == 0 {
            return Err(ConfigError::new("fallback_workers", workers, "1 or more"));
        }
        self.fallback_workers = workers;
        Ok(self)
    }

    /// Makes definitions that clash an error of the later one's `build`, instead of a finding. Of annotated functions it is an error of
    /// [`Registry::register`], as is a setting that cannot be.
    ///
    /// # Panics
    ///
    /// Not here: the first call of an annotated function panics, if its definition is such an error and it was not registered.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Builds the registry. No thread is started until one is needed.
    #[must_use]
    pub fn build(self) -> Registry {
        let fallback =
            Limits { core: 0, maximum: self.fallback_workers, queue: 0, keep_alive: Duration::from_secs(60) };
        let runtime = Arc::new(Runtime::new(self.clock, fallback, self.propagators));
        for sink in self.sinks {
            runtime.sinks.add(sink);
        }
        Registry(Arc::new(Inner {
            runtime,
            state: Mutex::new(State {
                commands: BTreeMap::new(),
                circuits: HashMap::new(),
                pools: BTreeMap::new(),
                layers: self.layers,
                families: HashMap::new(),
                places: HashMap::new(),
                unlisted: Vec::new(),
                findings: Vec::new(),
            }),
            strict: self.strict,
        }))
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryBuilder").field("clock", &self.clock).finish_non_exhaustive()
    }
}
