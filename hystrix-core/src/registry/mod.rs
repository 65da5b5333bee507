//! The registry: owns everything a process has of the library.
//!
//! Clock, timer, fallback workers, pools, circuits, commands, listeners, propagators and layers belong to a registry; the
//! global one is merely the default. A test, a library or a tenant can have its own.

mod builder;
mod layers;
mod scope;
mod shutdown;

pub use self::builder::RegistryBuilder;
pub use self::layers::Select;
pub use self::scope::{Entered, InRegistry};
pub use self::shutdown::{LeftOver, Shutdown, ShutdownReport};

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use self::layers::LayerStore;
use crate::admission::{Core, Live, Warned};
use crate::circuit_breaker::Circuit;
use crate::clock::Timestamp;
use crate::command::{CommandConfig, CommandHandle, Desk, Settings};
use crate::context::Propagator;
use crate::error::ConfigError;
use crate::event::{EventSink, ModeEvent, PoolEventKind};
use crate::fallback::FallbackPermits;
use crate::identity::CommandKey;
use crate::isolation::semaphore::{PermitRelease, Semaphore};
use crate::isolation::thread_pool::{Pool, PoolReport, ThreadPool};
use crate::log;
use crate::permits::Limit;
use crate::runtime::Runtime;
use crate::sinks::Listener;
use crate::sync::global::{Arc, Mutex, OnceLock};
use crate::window::Stats;

/// Everything a process has of the library, or a part of it that stands by itself. Clones are the same registry.
///
/// A registry that is not the global one shuts down when its last handle goes, within a second.
///
/// ```
/// use hystrix_core::{Command, ManualClock, Registry};
///
/// let clock = ManualClock::new();
/// let registry = Registry::builder().clock(clock.clone()).build();
/// let _here = registry.enter();
/// let users = Command::builder("get_user").build()?;
/// assert!(registry.find("default", "get_user").is_some());
/// # Ok::<(), hystrix_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    runtime: Arc<Runtime>,
    state: Mutex<State>,
    /// A definition that clashes is an error, not a finding.
    strict: bool,
}

struct State {
    commands: BTreeMap<CommandKey, CommandHandle>,
    circuits: HashMap<Box<str>, Arc<Circuit>>,
    pools: BTreeMap<Box<str>, Arc<Pool>>,
    layers: LayerStore,
    findings: Vec<Finding>,
}

/// What a builder hands to the registry.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) key: CommandKey,
    pub(crate) config: CommandConfig,
    pub(crate) isolation: Isolation,
}

/// Where a command's bodies run.
#[derive(Clone, Debug)]
pub enum Isolation {
    /// In place.
    InPlace(PermitRelease),
    /// On a pool.
    Pool(ThreadPool),
}

/// Something an operator should know about the definitions of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The command, pool or circuit it is about.
    pub about: Box<str>,
    /// What is the matter, and what applies.
    pub message: Box<str>,
}

static GLOBAL: OnceLock<Registry> = OnceLock::new();

impl Registry {
    /// Returns the registry that everything belongs to unless said otherwise.
    pub fn global() -> &'static Registry {
        GLOBAL.get_or_init(|| Registry::builder().build())
    }

    /// Starts the definition of a registry of its own.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::new()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.runtime.clock.now()
    }

    // ===== what there is =====

    /// Returns all commands, in the order of their keys.
    #[must_use]
    pub fn commands(&self) -> Vec<CommandHandle> {
        self.0.state.lock().commands.values().cloned().collect()
    }

    /// Returns a command by group and key.
    #[must_use]
    pub fn find(&self, group: &str, key: &str) -> Option<CommandHandle> {
        let key = CommandKey::new(group.to_owned(), key.to_owned());
        self.0.state.lock().commands.get(&key).cloned()
    }

    /// Returns the numbers of all pools, in the order of their names.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolReport> {
        let pools: Vec<Arc<Pool>> = self.0.state.lock().pools.values().cloned().collect();
        pools.iter().map(|pool| pool.report()).collect()
    }

    /// Returns the numbers of a pool.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<PoolReport> {
        let pool = self.0.state.lock().pools.get(name).cloned()?;
        Some(pool.report())
    }

    /// Returns the numbers of the workers that run fallbacks.
    #[must_use]
    pub fn fallback_workers(&self) -> PoolReport {
        let workers = &self.0.runtime.fallback_workers;
        PoolReport::new(workers.name(), workers.look(), self.now())
    }

    /// Returns the number of pending deadlines.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.0.runtime.timer.armed()
    }

    /// Returns what is the matter with the definitions: clashes, each reported once.
    #[must_use]
    pub fn audit(&self) -> Vec<Finding> {
        self.0.state.lock().findings.clone()
    }

    // ===== listeners and context =====

    /// Adds a listener, until the subscription is dropped.
    pub fn subscribe(&self, sink: impl EventSink) -> Subscription {
        Subscription { listener: self.0.runtime.sinks.add(Box::new(sink)), runtime: self.0.runtime.clone() }
    }

    /// Adds a kind of context that calls carry, for good.
    pub fn propagate(&self, propagator: impl Propagator) {
        self.0.runtime.add_propagator(Arc::new(propagator));
    }

    // ===== pools =====

    /// Changes the sizes of a pool while it runs. Nobody is stopped: what runs ends, what waits stays.
    ///
    /// # Errors
    ///
    /// Sizes that cannot be, or a pool that does not exist; nothing is changed then.
    pub fn resize(&self, definition: ThreadPool) -> Result<(), ConfigError> {
        let name = definition.name.clone().unwrap_or_default();
        let limits = definition.limits().map_err(|error| error.of(format_args!("pool {name}")))?;
        let pool = self.0.state.lock().pools.get(&*name).cloned();
        let Some(pool) = pool else {
            return Err(ConfigError::new("name", name, "the name of a pool that exists"));
        };
        pool.redefine(definition, limits);
        // The default limit of fallbacks follows the pool's places.
        let affected =
            self.handles(|handle| handle.core.pool.as_ref().is_some_and(|other| Arc::ptr_eq(other, &pool)));
        for handle in affected {
            self.resettle(&handle);
        }
        self.0.runtime.pool_event(pool.name(), Some(PoolEventKind::Resized));
        Ok(())
    }

    // ===== definitions =====

    /// Checks a definition without making anything.
    pub(crate) fn check(&self, definition: &Definition) -> Result<(), ConfigError> {
        let of = |error: ConfigError| error.of(&definition.key);
        definition.config.validate().map_err(of)?;
        let limits = match &definition.isolation {
            Isolation::Pool(pool) => Some(pool.limits().map_err(of)?),
            Isolation::InPlace(_) => None,
        };
        let state = self.0.state.lock();
        let layers = state.layers.of(&definition.key, &definition.config);
        let settings = Settings::resolve(&layers, limits.map(|limits| limits.places()));
        settings.shape().map_err(of)?;
        settings.latency_shape().map_err(of)?;
        Ok(())
    }

    /// Makes a command, or returns the one that has this identity.
    pub(crate) fn define(&self, definition: Definition) -> Result<CommandHandle, ConfigError> {
        self.check(&definition)?;
        let (handle, findings) = {
            let mut state = self.0.state.lock();
            let known = state.findings.len();
            let handle = match state.commands.get(&definition.key).cloned() {
                Some(handle) => state.compare(handle, &definition)?,
                None => self.make(&mut state, &definition)?,
            };
            (handle, state.findings[known..].to_vec())
        };
        for finding in &findings {
            log::clash(handle.key(), &finding.message);
            if self.0.strict {
                return Err(
                    ConfigError::new("definition", &finding.about, &*finding.message).of(&definition.key)
                );
            }
        }
        Ok(handle)
    }

    fn make(&self, state: &mut State, definition: &Definition) -> Result<CommandHandle, ConfigError> {
        let Definition { key, config, isolation } = definition;
        let runtime = &self.0.runtime;
        let (pool, release) = match isolation {
            Isolation::InPlace(release) => (None, *release),
            Isolation::Pool(pool) => (Some(self.pool_for(state, key, pool)?), PermitRelease::default()),
        };
        let places = pool.as_ref().map(|pool| pool.limits().places());
        let settings = Settings::resolve(&state.layers.of(key, config), places);
        let shape = settings.shape().map_err(|error| error.of(key))?;
        let latency = settings.latency_shape().map_err(|error| error.of(key))?;
        let now = runtime.clock.now();
        let shared = config.circuit_breaker.as_ref().and_then(|setting| setting.0.as_ref()?.shared.clone());
        let circuit = match &shared {
            Some(name) => state.shared_circuit(name, &settings, shape, now),
            None => Arc::new(Circuit::new(key.to_string(), settings.rules(), shape, now)),
        };
        // A pool bounds its own concurrency; a permit beside it would be a second limit for the same thing.
        let semaphore = if pool.is_some() { Limit::from(None) } else { settings.semaphore().value };
        let core = Core {
            key: key.clone(),
            runtime: runtime.clone(),
            clock: runtime.clock.clone(),
            live: Live::new(settings.live()),
            circuit,
            semaphore: Semaphore::new(semaphore, release),
            pool,
            fallback: FallbackPermits::new(settings.fallback_semaphore().value),
            stats: Stats::new(shape, latency, runtime.clock.is_system()),
            warned: Warned::new(),
        };
        let handle = CommandHandle {
            core: Arc::new(core),
            desk: Arc::new(Desk {
                code: config.clone(),
                settings: arc_swap::ArcSwap::from_pointee(settings),
                shares_circuit: shared.is_some(),
            }),
        };
        state.commands.insert(key.clone(), handle.clone());
        Ok(handle)
    }

    fn pool_for(
        &self,
        state: &mut State,
        key: &CommandKey,
        definition: &ThreadPool,
    ) -> Result<Arc<Pool>, ConfigError> {
        let limits = definition.limits().map_err(|error| error.of(key))?;
        let name = definition.name.clone().unwrap_or_else(|| key.group().to_owned().into());
        if let Some(pool) = state.pools.get(&*name) {
            let pool = pool.clone();
            // A command that only names a pool has no say in its sizes.
            let only_named = *definition == ThreadPool::named(name.clone());
            if !only_named && pool.definition() != *definition {
                state.find(
                    format!("pool {name}"),
                    format!("{key} defines it differently; the first definition stands"),
                );
            }
            return Ok(pool);
        }
        let (clock, timer) = (self.0.runtime.clock.clone(), self.0.runtime.timer.clone());
        let pool = Arc::new(Pool::new(&name, definition.clone(), limits, clock, timer));
        state.pools.insert(name.into(), pool.clone());
        Ok(pool)
    }

    /// Takes a command out whose key nobody uses any more.
    pub(crate) fn forget(&self, handle: &CommandHandle) {
        let removed = self.0.state.lock().commands.remove(handle.key());
        drop(removed);
        self.0.runtime.sinks.tell(|sink| sink.evicted(handle.key()));
    }

    // ===== live changes =====

    fn handles(&self, wanted: impl Fn(&CommandHandle) -> bool) -> Vec<CommandHandle> {
        let state = self.0.state.lock();
        state.commands.values().filter(|handle| wanted(handle)).cloned().collect()
    }

    /// Resolves a command's layers again and puts what changed into effect.
    fn resettle(&self, handle: &CommandHandle) {
        let core = &handle.core;
        let places = core.pool.as_ref().map(|pool| pool.limits().places());
        let (before, after) = {
            // Under the lock, so that of two changes the later one is the last to be put into effect.
            let state = self.0.state.lock();
            let settings = Settings::resolve(&state.layers.of(handle.key(), &handle.desk.code), places);
            let before = core.live.rules().mode();
            core.live.set(settings.live());
            if core.pool.is_none() {
                core.semaphore.set_limit(settings.semaphore().value);
            }
            core.fallback.set_limit(settings.fallback_semaphore().value);
            if !handle.desk.shares_circuit {
                core.circuit.set_rules(settings.rules());
            }
            let after = settings.mode().value;
            handle.desk.settings.store(Arc::new(settings));
            (before, after)
        };
        if before != after {
            let event = ModeEvent { command: handle.key().clone(), from: before, to: after };
            self.0.runtime.sinks.tell(|sink| sink.mode_changed(&event));
        }
    }
}

impl State {
    /// Notes something once.
    fn find(&mut self, about: String, message: String) {
        let finding = Finding { about: about.into(), message: message.into() };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// A definition of an identity that exists: the first one stands.
    fn compare(&mut self, handle: CommandHandle, again: &Definition) -> Result<CommandHandle, ConfigError> {
        let on_pool = matches!(again.isolation, Isolation::Pool(_));
        if on_pool != handle.core.pool.is_some() {
            let isolation = if on_pool { "thread_pool" } else { "semaphore" };
            let allowed = "the isolation this command was defined with first";
            return Err(ConfigError::new("isolation", isolation, allowed).of(&again.key));
        }
        if handle.desk.code != again.config {
            let message = "is defined twice, differently; the first definition stands";
            self.find(again.key.to_string(), message.to_owned());
        }
        if let (Isolation::Pool(wanted), Some(pool)) = (&again.isolation, &handle.core.pool)
            && wanted.name.as_deref().unwrap_or(again.key.group()) != pool.name()
        {
            let message = format!("is defined on two pools; it runs on {}", pool.name());
            self.find(again.key.to_string(), message);
        }
        Ok(handle)
    }

    fn shared_circuit(
        &mut self,
        name: &str,
        settings: &Settings,
        shape: crate::window::Shape,
        now: Timestamp,
    ) -> Arc<Circuit> {
        if let Some(circuit) = self.circuits.get(name) {
            let circuit = circuit.clone();
            if circuit.rules() != settings.rules() {
                let message = "is defined differently by two commands; the first definition stands";
                self.find(format!("circuit {name}"), message.to_owned());
            }
            return circuit;
        }
        let circuit = Arc::new(Circuit::new(name, settings.rules(), shape, now));
        self.circuits.insert(name.into(), circuit.clone());
        circuit
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("Registry")
            .field("commands", &state.commands.len())
            .field("pools", &state.pools.len())
            .finish_non_exhaustive()
    }
}

/// A listener's place in a registry: see [`Registry::subscribe`].
#[must_use = "a listener hears nothing any more when its subscription is dropped"]
pub struct Subscription {
    listener: Arc<Listener>,
    runtime: Arc<Runtime>,
}

impl Subscription {
    /// Keeps the listener for as long as the registry lives.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.runtime.sinks.remove(&self.listener);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
