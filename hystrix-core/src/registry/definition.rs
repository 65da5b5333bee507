//! What a command is defined by, and when two definitions of one identity clash.

use std::fmt;

use super::State;
use crate::command::{CommandConfig, Desk, Settings};
use crate::error::ConfigError;
use crate::identity::CommandKey;
use crate::isolation::semaphore::PermitRelease;
use crate::isolation::thread_pool::ThreadPool;

/// What a builder hands to the registry.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) key: CommandKey,
    pub(crate) config: CommandConfig,
    pub(crate) isolation: Isolation,
    pub(crate) named: Named,
}

/// How a command came by its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Group and key are written: whoever else writes them means this command.
    InCode,
    /// At least one follows from where the function stands: it is meant for no other.
    ByPlace,
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
impl Finding {
    pub(super) fn new(about: impl fmt::Display, message: impl Into<Box<str>>) -> Self {
        Self { about: about.to_string().into(), message: message.into() }
    }
}

impl Isolation {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Isolation::InPlace(_) => "semaphore",
            Isolation::Pool(_) => "thread_pool",
        }
    }
}

impl Definition {
    /// What differs in another definition of this identity. The first one stands.
    ///
    /// # Errors
    ///
    /// Another isolation: what the two build cannot be the same command.
    pub(super) fn clashes(&self, again: &Definition) -> Result<Vec<Finding>, ConfigError> {
        let differs = match (&self.isolation, &again.isolation) {
            (Isolation::InPlace(first), Isolation::InPlace(again)) => first != again,
            (Isolation::Pool(first), Isolation::Pool(again)) => {
                let group = self.key.group();
                let (first, again) = (first.name_in(group), again.name_in(group));
                if first != again {
                    let message = format!("is defined on two pools; it runs on {first}");
                    return Ok(vec![Finding::new(&self.key, message)]);
                }
                false
            }
            (first, again) => {
                let allowed = format!("{}, with which it was defined first", first.name());
                return Err(ConfigError::new("isolation", again.name(), allowed).of(&self.key));
            }
        };
        let message = "is defined twice, differently; the first definition stands";
        let clash = (differs || self.config != again.config).then(|| Finding::new(&self.key, message));
        Ok(clash.into_iter().collect())
    }
}

impl State {
    /// Notes what was not noted before, and returns it.
    pub(super) fn note(&mut self, findings: &[Finding]) -> Vec<Finding> {
        let news = findings.iter().filter(|finding| !self.findings.contains(finding));
        let news: Vec<Finding> = news.cloned().collect();
        self.findings.extend_from_slice(&news);
        news
    }

    /// What a definition says that something which exists says differently.
    pub(super) fn clashes(&self, definition: &Definition) -> Result<Vec<Finding>, ConfigError> {
        let first = self.first_definition(&definition.key);
        self.clashes_with(first.as_ref(), definition)
    }

    /// The same, where this identity's first definition is known, or there is none.
    pub(super) fn clashes_with(
        &self,
        first: Option<&Definition>,
        definition: &Definition,
    ) -> Result<Vec<Finding>, ConfigError> {
        let clashes = first.map_or(Ok(Vec::new()), |first| first.clashes(definition))?;
        Ok(if clashes.is_empty() { self.clashes_of_parts(definition) } else { clashes })
    }

    /// What the listed command of this identity was defined by.
    pub(super) fn first_definition(&self, key: &CommandKey) -> Option<Definition> {
        let Desk { code, isolation, named, .. } = &*self.commands.get(key)?.desk;
        let (config, isolation) = (code.clone(), isolation.clone());
        Some(Definition { key: key.clone(), config, isolation, named: *named })
    }

    /// The same, of the pool and the shared circuit that it names.
    fn clashes_of_parts(&self, definition: &Definition) -> Vec<Finding> {
        let Definition { key, config, isolation, .. } = definition;
        let mut clashes = Vec::new();
        let message = || format!("{key} defines it differently; the first definition stands");
        if let Isolation::Pool(wanted) = isolation
            && let Some(pool) = self.pools.get(wanted.name_in(key.group()))
            && pool.differs_from(wanted)
        {
            clashes.push(Finding::new(format_args!("pool {}", pool.name()), message()));
        }
        let layers = self.layers.of(key, config);
        if let Some(name) = Settings::shared_circuit(&layers)
            && let Some(circuit) = self.circuits.get(name)
        {
            let settings = Settings::resolve(&layers, None);
            let shape = settings.shape();
            if circuit.rules() != settings.rules() || shape.is_ok_and(|shape| shape != circuit.shape()) {
                clashes.push(Finding::new(format_args!("circuit {name}"), message()));
            }
        }
        clashes
    }
}
