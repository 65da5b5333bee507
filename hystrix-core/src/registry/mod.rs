//! The registry: owns everything a process has of the library.
//!
//! Clock, timer, fallback workers, pools, circuits, commands, listeners, propagators and layers belong to a registry; the
//! global one is merely the default. A test, a library or a tenant can have its own.

mod annotated;
mod builder;
mod definition;
mod layers;
mod scope;
mod shutdown;

pub use self::annotated::Place;
pub(crate) use self::annotated::{Blueprint, Made};
pub use self::builder::RegistryBuilder;
pub use self::definition::Finding;
pub(crate) use self::definition::{Definition, Isolation, Named};
pub use self::layers::Select;
pub(crate) use self::scope::entered;
pub use self::scope::{Entered, InRegistry};
pub use self::shutdown::{LeftOver, Shutdown, ShutdownReport};

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use self::annotated::Spot;
use self::layers::LayerStore;
use crate::admission::{Core, Live, Warned};
use crate::circuit_breaker::Circuit;
use crate::clock::Timestamp;
use crate::command::{CommandHandle, Desk, Family, Settings};
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
use crate::sync::global::{Arc, Mutex, OnceLock, Weak};
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
    families: HashMap<CommandKey, Arc<Family>>,
    /// What annotated functions have made here, by where they stand.
    places: HashMap<Spot, Made>,
    /// Commands that are not listed, or not any more, and may still be called.
    unlisted: Vec<Unlisted>,
    findings: Vec<Finding>,
}

/// A command that is not listed, for as long as somebody has it.
type Unlisted = (Weak<Core>, Weak<Desk>);

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

    /// Returns the number of pending deadlines that callers wait for.
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
        pool.resize(limits);
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
    pub(crate) fn define(&self, definition: &Definition) -> Result<CommandHandle, ConfigError> {
        self.check(definition)?;
        // Read without the lock: a clock may be the user's.
        let now = self.now();
        let (handle, news) = {
            let mut state = self.0.state.lock();
            let clashes = state.clashes(definition)?;
            let news = state.note(&clashes);
            self.refuse_if_strict(&clashes, &definition.key)?;
            (self.listed(&mut state, definition, now)?, news)
        };
        self.tell_clashes(&definition.key, &news);
        Ok(handle)
    }

    /// Makes a member of a family. What differs from other definitions was said of the family; nothing is told here, for the family's
    /// turn is held.
    pub(crate) fn define_member(
        &self,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<CommandHandle, ConfigError> {
        self.check(definition)?;
        let mut state = self.0.state.lock();
        if let Some(first) = state.first_definition(&definition.key) {
            // An error only where the name belongs to another isolation.
            first.clashes(definition)?;
        }
        self.listed(&mut state, definition, now)
    }

    fn listed(
        &self,
        state: &mut State,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<CommandHandle, ConfigError> {
        if let Some(handle) = state.commands.get(&definition.key) {
            return Ok(handle.clone());
        }
        let handle = self.make(state, definition, now)?;
        state.commands.insert(definition.key.clone(), handle.clone());
        Ok(handle)
    }

    /// Makes a command that cannot be listed, for its name is another's. The finding says so, once.
    pub(crate) fn define_apart(&self, definition: &Definition, now: Timestamp) -> CommandHandle {
        let mut state = self.0.state.lock();
        let handle = self.make(&mut state, definition, now).expect("the family's definition was checked");
        state.unlist(&handle);
        let message = "is the name of another command: what is beyond a family's limit is not listed";
        state.note(&[Finding::new(&definition.key, message)]);
        handle
    }

    /// Makes a family, or returns the one that has this identity.
    pub(crate) fn family(&self, definition: Definition) -> Result<Arc<Family>, ConfigError> {
        self.check(&definition)?;
        let (family, news) = {
            let mut state = self.0.state.lock();
            let first = state.families.get(&definition.key).map(|family| &family.definition);
            let clashes = state.clashes_with(first, &definition)?;
            let news = state.note(&clashes);
            self.refuse_if_strict(&clashes, &definition.key)?;
            let key = definition.key.clone();
            let family = state.families.entry(key).or_insert_with(|| Arc::new(Family::new(definition)));
            (family.clone(), news)
        };
        self.tell_clashes(&family.definition.key, &news);
        Ok(family)
    }

    fn refuse_if_strict(&self, clashes: &[Finding], key: &CommandKey) -> Result<(), ConfigError> {
        match clashes.first() {
            Some(clash) if self.0.strict => {
                Err(ConfigError::new("definition", &clash.about, &*clash.message).of(key))
            }
            _ => Ok(()),
        }
    }

    fn tell_clashes(&self, key: &CommandKey, clashes: &[Finding]) {
        for clash in clashes {
            log::clash(key, &clash.message);
        }
    }

    fn make(
        &self,
        state: &mut State,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<CommandHandle, ConfigError> {
        let Definition { key, config, isolation, named } = definition;
        let runtime = &self.0.runtime;
        let (pool, release) = match isolation {
            Isolation::InPlace(release) => (None, *release),
            Isolation::Pool(pool) => (Some(self.pool_for(state, key, pool)?), PermitRelease::default()),
        };
        let places = pool.as_ref().map(|pool| pool.limits().places());
        let settings = Settings::resolve(&state.layers.of(key, config), places);
        let shape = settings.shape().map_err(|error| error.of(key))?;
        let latency = settings.latency_shape().map_err(|error| error.of(key))?;
        let layers = state.layers.of(key, config);
        let shared = Settings::shared_circuit(&layers).map(Box::<str>::from);
        let circuit = match &shared {
            Some(name) => {
                let make = || Arc::new(Circuit::new(name.clone(), settings.rules(), shape, now));
                state.circuits.entry(name.clone()).or_insert_with(make).clone()
            }
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
                isolation: isolation.clone(),
                named: *named,
                settings: arc_swap::ArcSwap::from_pointee(settings),
                shares_circuit: shared.is_some(),
            }),
        };
        Ok(handle)
    }

    fn pool_for(
        &self,
        state: &mut State,
        key: &CommandKey,
        definition: &ThreadPool,
    ) -> Result<Arc<Pool>, ConfigError> {
        let limits = definition.limits().map_err(|error| error.of(key))?;
        let name = definition.name_in(key.group());
        if let Some(pool) = state.pools.get(name) {
            return Ok(pool.clone());
        }
        let (clock, timer) = (self.0.runtime.clock.clone(), self.0.runtime.timer.clone());
        let pool = Arc::new(Pool::new(name, definition.clone(), limits, clock, timer));
        state.pools.insert(name.into(), pool.clone());
        Ok(pool)
    }

    /// Takes a command out of the list whose key nobody uses any more. Handles to it work on.
    pub(crate) fn unlist(&self, handle: &CommandHandle) {
        let mut state = self.0.state.lock();
        let listed = state.commands.get(handle.key());
        let is_this = listed.is_some_and(|listed| Arc::ptr_eq(&listed.core, &handle.core));
        let removed = if is_this { state.commands.remove(handle.key()) } else { None };
        state.unlist(handle);
        drop(state);
        drop(removed);
    }

    pub(crate) fn tell_evicted(&self, evicted: &[CommandHandle]) {
        for handle in evicted {
            self.0.runtime.sinks.tell(|sink| sink.evicted(handle.key()));
        }
    }

    // ===== live changes =====

    fn handles(&self, wanted: impl Fn(&CommandHandle) -> bool) -> Vec<CommandHandle> {
        let mut handles = self.0.state.lock().handles();
        handles.retain(wanted);
        handles
    }

    /// Resolves a command's layers again and puts what changed into effect.
    fn resettle(&self, handle: &CommandHandle) {
        let core = &handle.core;
        let (before, after) = {
            // Under the lock, so that of two changes the later one is the last to be put into effect.
            let state = self.0.state.lock();
            let places = core.pool.as_ref().map(|pool| pool.limits().places());
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
    /// Every command that may be called, listed or not.
    fn handles(&self) -> Vec<CommandHandle> {
        let unlisted = self.unlisted.iter().filter_map(|(core, desk)| {
            let (core, desk) = (core.upgrade()?, desk.upgrade()?);
            Some(CommandHandle { core, desk })
        });
        self.commands.values().cloned().chain(unlisted).collect()
    }

    fn unlist(&mut self, handle: &CommandHandle) {
        // Now and then, so that a family that comes and goes leaves nothing.
        if self.unlisted.len() == self.unlisted.capacity() {
            self.unlisted.retain(|(core, _)| core.strong_count() > 0);
        }
        self.unlisted.push((Arc::downgrade(&handle.core), Arc::downgrade(&handle.desk)));
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
