//! The front desk: commands, their builder, their settings, and the options of a call.
//!
//! A [`Command`] runs bodies where its caller is; a [`PoolCommand`] runs them on the workers of a pool, so its bodies are
//! `Send + 'static`. Options without the result's types belong to the builder, options with them to the call.

mod annotated;
mod builder;
mod call;
mod config;
mod key;
mod metrics;
mod settings;

pub use self::annotated::{Annotated, definition, keyed_by};
pub use self::builder::{Buildable, CommandBuilder, InPlaceIsolation, IntoThreadPool, PoolIsolation};
pub(crate) use self::builder::{Draft, Written};
pub use self::call::Call;
pub use self::config::{CircuitSetting, CommandConfig, Timeout};
pub(crate) use self::key::Family;
pub use self::key::{Keyed, KeyedKind};
pub use self::metrics::{CircuitMetrics, Counts, Latency, Metrics};
pub use self::settings::{Origin, Setting, Settings};

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use arc_swap::ArcSwap;

use crate::admission::{Core, Force};
use crate::circuit_breaker::Change;
use crate::identity::CommandKey;
use crate::isolation::thread_pool::PoolReport;
use crate::outcome::{CircuitState, Mode};
use crate::registry::{Isolation, Named};
use crate::sync::global::Arc;

// ===== CommandHandle =====

/// What every command can be asked and told, whatever its isolation. Clones are the same command.
#[derive(Clone)]
pub struct CommandHandle {
    pub(crate) core: Arc<Core>,
    pub(crate) desk: Arc<Desk>,
}

/// What the front desk knows of a command.
pub(crate) struct Desk {
    /// What is written in code.
    pub(crate) code: CommandConfig,
    pub(crate) isolation: Isolation,
    pub(crate) named: Named,
    pub(crate) settings: ArcSwap<Settings>,
    /// The circuit is shared: its rules are its own.
    pub(crate) shares_circuit: bool,
}

impl CommandHandle {
    /// Returns the command's identity.
    #[must_use]
    pub fn key(&self) -> &CommandKey {
        &self.core.key
    }

    /// Returns the command's counts: a plain value, added up from all threads.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let core = &*self.core;
        let now = core.clock.now();
        Metrics::new(
            core.key.clone(),
            now,
            core.stats.window(),
            core.live.rules().mode(),
            core.stats.snapshot(now),
            (core.semaphore.usage().1, core.fallback.in_use()),
            core.circuit.view(now),
        )
    }

    /// Returns the settings the command runs with, each with its origin.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings::clone(&self.desk.settings.load())
    }

    /// Returns the mode the command runs under.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.core.live.rules().mode()
    }

    /// Returns the circuit's state.
    #[must_use]
    pub fn circuit_state(&self) -> CircuitState {
        self.core.circuit.state()
    }

    /// Holds the circuit open, until [`clear_forced`](Self::clear_forced). Wins over everything, a circuit that is switched off
    /// included.
    pub fn force_open(&self) {
        self.tell(self.core.circuit.force_open(self.core.clock.now()));
    }

    /// Holds the circuit closed, until [`clear_forced`](Self::clear_forced). Results are still judged underneath.
    pub fn force_closed(&self) {
        self.tell(self.core.circuit.force_closed(self.core.clock.now()));
    }

    /// Lets the circuit go on by its own rules, from the state it has underneath.
    pub fn clear_forced(&self) {
        self.tell(self.core.circuit.clear_forced(self.core.clock.now()));
    }

    /// Closes the circuit and forgets its health. What was admitted before decides nothing any more.
    pub fn reset_circuit(&self) {
        self.tell(self.core.circuit.reset(self.core.clock.now()));
    }

    fn tell(&self, change: Option<Change>) {
        self.core.runtime.circuit_changed(change);
    }

    /// Makes every call end in a given way, for tests of fallbacks and callers; `None` ends it.
    ///
    /// A forced ending counts as the real one would, for the circuit too.
    ///
    /// ```
    /// use hystrix_core::{Command, Force};
    ///
    /// let stock = Command::builder("stock").group("doc_force").build()?;
    /// stock.force(Force::Timeout);
    /// let answer: Result<u32, _> = stock.run(|| Ok::<_, String>(7)).fallback(|_| Ok(0)).execute();
    /// assert_eq!(answer, Ok(0));
    /// stock.force(None);
    /// # Ok::<(), hystrix_core::ConfigError>(())
    /// ```
    pub fn force(&self, force: impl Into<Option<Force>>) {
        self.core.live.force(force.into());
    }
}

impl fmt::Debug for CommandHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("key", self.key())
            .field("circuit", &self.circuit_state())
            .finish_non_exhaustive()
    }
}

// ===== Command =====

/// A command whose bodies run where their callers are, under a semaphore. Bodies may borrow and need not be `Send`.
///
/// **A timeout here does not free the caller of a synchronous body**: its thread is inside that body. What can be done at the deadline is done there: the
/// timeout is counted, the circuit judges it, and a fallback that owns what it needs begins. An asynchronous body is dropped at its
/// timeout, and its caller is answered at once.
///
/// ```
/// use hystrix_core::Command;
///
/// let rows = [3, 4, 5];
/// let sum = Command::builder("sum").group("doc_command").semaphore(64).build()?;
/// let total = sum.run(|| Ok::<_, String>(rows.iter().sum::<u32>())).execute();
/// assert_eq!(total, Ok(12));
/// # Ok::<(), hystrix_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Command(pub(crate) CommandHandle);

impl Command {
    /// Starts the definition of a command: semaphore isolation, until the builder names a thread pool.
    pub fn builder(key: impl Into<Cow<'static, str>>) -> CommandBuilder<InPlaceIsolation> {
        CommandBuilder::new(Written { key: Some(key.into()), group: None })
    }
}

impl Deref for Command {
    type Target = CommandHandle;

    fn deref(&self) -> &CommandHandle {
        &self.0
    }
}

// ===== PoolCommand =====

/// A command whose bodies run on the workers of a thread pool. Its caller is free at the timeout, whatever the body does.
///
/// ```
/// use hystrix_core::Command;
///
/// let hashing = Command::builder("checksum").group("doc_pool").thread_pool("hashing").build()?;
/// let data = vec![1u8, 2, 3];
/// let sum = hashing.run(move || Ok::<_, String>(data.iter().map(|b| u32::from(*b)).sum::<u32>())).execute();
/// assert_eq!(sum, Ok(6));
/// # Ok::<(), hystrix_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoolCommand(pub(crate) CommandHandle);

impl PoolCommand {
    /// Returns the pool's numbers at this moment.
    #[must_use]
    pub fn pool(&self) -> PoolReport {
        let pool = self.0.core.pool.as_ref();
        pool.expect("a command of this kind is built with its pool").report()
    }
}

impl Deref for PoolCommand {
    type Target = CommandHandle;

    fn deref(&self) -> &CommandHandle {
        &self.0
    }
}
