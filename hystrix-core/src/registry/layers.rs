//! The layers of a registry, and who wins.

use std::collections::HashMap;

use super::Registry;
use crate::command::{CommandConfig, CommandHandle, Origin};
use crate::error::ConfigError;
use crate::identity::CommandKey;
use crate::log;

/// Which commands a live layer is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Select(pub(super) Selected);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Selected {
    Command(CommandKey),
    Group(Box<str>),
    All,
}

impl Select {
    /// Selects one command, whether it exists yet or not.
    #[must_use]
    pub fn command(group: &str, key: &str) -> Self {
        Self(Selected::Command(CommandKey::new(group.to_owned(), key.to_owned())))
    }

    /// Selects the commands of a group.
    #[must_use]
    pub fn group(group: &str) -> Self {
        Self(Selected::Group(group.into()))
    }

    /// Selects all commands.
    #[must_use]
    pub const fn all() -> Self {
        Self(Selected::All)
    }

    fn matches(&self, handle: &CommandHandle) -> bool {
        match &self.0 {
            Selected::Command(key) => handle.key() == key,
            Selected::Group(group) => handle.key().group() == &**group,
            Selected::All => true,
        }
    }
}

#[derive(Default)]
pub(super) struct LayerStore {
    live: HashMap<Selected, CommandConfig>,
    pub(super) group_defaults: HashMap<Box<str>, CommandConfig>,
    pub(super) registry_defaults: CommandConfig,
}

impl LayerStore {
    /// The layers of one command, the first to win first.
    pub(super) fn of<'a>(
        &'a self,
        key: &CommandKey,
        code: &'a CommandConfig,
    ) -> Vec<(Origin, &'a CommandConfig)> {
        let live = |selected, origin| Some((origin, self.live.get(&selected)?));
        let group_defaults = self.group_defaults.get(key.group());
        let layers = [
            live(Selected::Command(key.clone()), Origin::LiveCommand),
            live(Selected::Group(key.group().into()), Origin::LiveGroup),
            live(Selected::All, Origin::LiveAll),
            Some((Origin::Code, code)),
            group_defaults.map(|layer| (Origin::GroupDefaults, layer)),
            Some((Origin::RegistryDefaults, &self.registry_defaults)),
        ];
        layers.into_iter().flatten().collect()
    }
}

impl Registry {
    /// Puts a layer into effect over the commands selected, present and future; what it does not set, the layers below decide. A second layer for the same
    /// selection replaces the first.
    ///
    /// # Errors
    ///
    /// A setting that cannot be, or one that is fixed in code. The layer is refused as a whole then, logged once, and what was in effect stays.
    pub fn apply(&self, select: Select, config: CommandConfig) -> Result<(), ConfigError> {
        if let Err(error) = config.validate_live() {
            log::layer_refused(&error);
            return Err(error);
        }
        self.0.state.lock().layers.live.insert(select.0.clone(), config);
        self.resettle_all(&select);
        Ok(())
    }

    /// Takes a live layer away: what lies below applies again. Returns whether there was one.
    pub fn remove(&self, select: &Select) -> bool {
        let removed = self.0.state.lock().layers.live.remove(&select.0).is_some();
        if removed {
            self.resettle_all(select);
        }
        removed
    }

    fn resettle_all(&self, select: &Select) {
        for handle in self.handles(|handle| select.matches(handle)) {
            self.resettle(&handle);
        }
    }
}
