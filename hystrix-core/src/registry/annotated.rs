//! Commands of annotated functions: who they are, and that each has one in a registry.
//!
//! A function's command is made when it is first needed, by a call or by [`Registry::register`]. Its settings are evaluated then, outside
//! of any lock; of two threads that come first together, one's are dropped.

use std::borrow::Cow;

use super::{Definition, Finding, Isolation, Named, Registry, State};
use crate::command::{Annotated, CommandConfig, CommandHandle, Draft, Family};
use crate::error::ConfigError;
use crate::identity::CommandKey;
use crate::sync::global::Arc;

/// Where an annotated function stands in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The module's path, crate and all.
    module: &'static str,
    file: &'static str,
    line: u32,
    column: u32,
    function: &'static str,
    /// Tells functions apart that stand in one place: all that one `macro_rules` makes does.
    number: u32,
    /// It belongs to a type.
    is_method: bool,
}

/// A function: where it stands, and what it belongs to, for the body of a trait's default method stands once and is many functions. With it what it is, so that whatever else is alike, a function never gets the command of
/// another kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    place: Place,
    of: &'static str,
    keyed: bool,
    on_pool: bool,
}

/// What a registry has made for a function.
#[derive(Clone)]
pub(crate) enum Made {
    Command(CommandHandle),
    /// One command for each key that calls come with.
    Family(Arc<Family>),
}

/// What is to be made for a function.
#[derive(Clone, Copy)]
pub(crate) struct Blueprint<'d> {
    pub(crate) place: Place,
    /// The name, as the compiler has it, of the function's type; empty for one without.
    pub(crate) of: &'static str,
    /// The key is each call's own.
    pub(crate) keyed: bool,
    pub(crate) on_pool: bool,
    pub(crate) define: &'d dyn Fn() -> Draft,
}

impl Place {
    /// Says where a function stands that belongs to a module: `module_path!()`, its name, `file!()`, `line!()`, `column!()`, and the number of its expansion.
    #[must_use]
    pub const fn function(
        module: &'static str,
        function: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
        number: u32,
    ) -> Self {
        Self { module, file, line, column, function, number, is_method: false }
    }

    /// The same of one that belongs to a type.
    #[must_use]
    pub const fn method(
        module: &'static str,
        function: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
        number: u32,
    ) -> Self {
        Self { is_method: true, ..Self::function(module, function, file, line, column, number) }
    }
}

/// A path without its crate; the crate itself at its root.
fn below_the_crate(path: &str) -> &str {
    path.split_once("::").map_or(path, |(_crate, below)| below)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// A type's name without its generics: the command of a method is that of all of them. A tuple, an array or a reference is a type by its parts.
fn without_generics(name: &'static str) -> &'static str {
    let generics = if name.starts_with(is_word) { name.find('<') } else { None };
    generics.map_or(name, |generics| &name[..generics])
}

/// A type's name without paths and generics: `Inventory` of `shop::stock::Inventory<u8>`.
fn short(name: &'static str) -> Cow<'static, str> {
    let name = without_generics(name);
    if name.starts_with(is_word) {
        return Cow::Borrowed(name.rsplit_once("::").map_or(name, |(_path, name)| name));
    }
    let words = name.split_inclusive(|letter| !is_word(letter) && letter != ':');
    Cow::Owned(words.map(|word| word.rsplit_once("::").map_or(word, |(_path, name)| name)).collect())
}

impl Blueprint<'_> {
    fn spot(&self) -> Spot {
        let Self { place, of, keyed, on_pool, .. } = *self;
        Spot { place, of: without_generics(of), keyed, on_pool }
    }

    /// The module that goes before the group where a name is taken: the type's, or the function's own.
    fn module(&self) -> &'static str {
        let of = without_generics(self.of);
        let path = if self.place.is_method { of.rsplit_once("::").map(|(path, _name)| path) } else { None };
        below_the_crate(path.unwrap_or(self.place.module))
    }

    /// The identity, where the function wrote none: the type, or the module, and the function's name.
    fn definition(&self, draft: Draft) -> Definition {
        let Draft { names, config, isolation } = draft;
        let written = names.group.is_some() && names.key.is_some();
        let named = if written { Named::InCode } else { Named::ByPlace };
        let by_place = || match self.place.is_method {
            true => short(self.of),
            false => Cow::Borrowed(below_the_crate(self.place.module)),
        };
        let group = names.group.unwrap_or_else(by_place);
        let key = CommandKey::new(group, names.key.unwrap_or(Cow::Borrowed(self.place.function)));
        Definition { key, config, isolation, named }
    }
}

impl Registry {
    /// Makes the commands of annotated functions here, in the order given, and checks what was written: a service does so when it starts, so that a
    /// setting that cannot be is not met by a first call, and metrics show a command that nobody has called yet.
    ///
    /// ```
    /// use hystrix_core::{Registry, command, command_of};
    ///
    /// #[command(semaphore = 4)]
    /// fn reserve(pieces: u32) -> Result<u32, String> {
    ///     Ok(pieces)
    /// }
    ///
    /// let registry = Registry::builder().build();
    /// registry.register([command_of!(reserve)])?;
    /// assert_eq!(registry.commands().len(), 1);
    /// # Ok::<(), hystrix_core::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first definition that cannot be, or in a strict registry one that clashes. What came before it is registered.
    pub fn register(&self, commands: impl IntoIterator<Item = Annotated>) -> Result<(), ConfigError> {
        commands.into_iter().try_for_each(|command| self.make_annotated(&command.blueprint()).map(drop))
    }

    /// Registers the commands of all annotated functions in the program, in the order in which they stand in the source: modules by name, then lines. For
    /// functions, and for methods of an impl block under `#[commands]` that has no type parameters. Other methods are found when they are first called.
    ///
    /// A library that nothing of the program uses is left out by linkers, with what it announces.
    ///
    /// # Errors
    ///
    /// As for [`register`](Self::register).
    #[cfg(feature = "discover")]
    #[cfg_attr(docsrs, doc(cfg(feature = "discover")))]
    pub fn discover(&self) -> Result<(), ConfigError> {
        self.register(crate::__private::all())
    }

    /// Makes a function's command here, or returns the one it has.
    pub(crate) fn make_annotated(&self, blueprint: &Blueprint<'_>) -> Result<Made, ConfigError> {
        if let Some(made) = self.made(blueprint) {
            return Ok(made);
        }
        let definition = blueprint.definition((blueprint.define)());
        self.admit_annotated(blueprint, definition)
    }

    /// The same for a call, which must not fail because of a definition: what cannot be is reported once, and the defaults apply.
    ///
    /// # Panics
    ///
    /// In a strict registry.
    pub(crate) fn make_annotated_or_default(&self, blueprint: &Blueprint<'_>) -> Made {
        let error = match self.make_annotated(blueprint) {
            Ok(made) => return made,
            Err(error) => error,
        };
        assert!(!self.0.strict, "{error}");
        let mut definition = blueprint.definition((blueprint.define)());
        let finding = Finding::new(&definition.key, format!("{error}; what was written does not apply"));
        let news = self.0.state.lock().note(&[finding]);
        self.tell_clashes(&definition.key, &news);
        // If the identity is another's, everything else stands.
        definition.named = Named::ByPlace;
        if let Ok(made) = self.admit_annotated(blueprint, definition.clone()) {
            return made;
        }
        definition.config = CommandConfig::built_in_windows();
        if let Isolation::Pool(pool) = &mut definition.isolation {
            *pool = pool.with_default_sizes();
        }
        self.admit_annotated(blueprint, definition).expect("defaults can be, and a free name is found")
    }

    fn made(&self, blueprint: &Blueprint<'_>) -> Option<Made> {
        self.0.state.lock().places.get(&blueprint.spot()).cloned()
    }

    fn admit_annotated(
        &self,
        blueprint: &Blueprint<'_>,
        mut definition: Definition,
    ) -> Result<Made, ConfigError> {
        self.check(&definition)?;
        let now = self.now();
        let wanted = definition.key.clone();
        let (made, news) = {
            let mut state = self.0.state.lock();
            if let Some(made) = state.places.get(&blueprint.spot()) {
                return Ok(made.clone());
            }
            let mut findings = Vec::new();
            match state.owner(&wanted) {
                None => {}
                Some(Named::InCode) if definition.named == Named::InCode => {
                    findings = state.clashes_of_kind(&definition, blueprint.keyed)?;
                }
                Some(_) => {
                    definition.key = state.free_name(&wanted, blueprint.module());
                    let message = format!(
                        "is the name of another command too; that of {}::{} is {}",
                        blueprint.place.module, blueprint.place.function, definition.key
                    );
                    findings.push(Finding::new(&wanted, message));
                }
            }
            let news = state.note(&findings);
            self.refuse_if_strict(&findings, &wanted)?;
            let made = if blueprint.keyed {
                let key = definition.key.clone();
                let make = || Arc::new(Family::new(definition));
                Made::Family(state.families.entry(key).or_insert_with(make).clone())
            } else {
                Made::Command(self.listed(&mut state, &definition, now)?)
            };
            state.places.insert(blueprint.spot(), made.clone());
            (made, news)
        };
        self.tell_clashes(&wanted, &news);
        Ok(made)
    }
}

impl State {
    /// How the command or family that has this identity came by it.
    fn owner(&self, key: &CommandKey) -> Option<Named> {
        let command = self.commands.get(key).map(|command| command.desk.named);
        command.or_else(|| self.families.get(key).map(|family| family.definition.named))
    }

    /// What a definition that shares its identity by intention says differently.
    fn clashes_of_kind(&self, definition: &Definition, keyed: bool) -> Result<Vec<Finding>, ConfigError> {
        if !keyed {
            return self.clashes(definition);
        }
        let first = self.families.get(&definition.key).map(|family| &family.definition);
        self.clashes_with(first, definition)
    }

    /// A name that nobody has: the module goes before the group, and where that is not enough a number after the key.
    fn free_name(&self, wanted: &CommandKey, module: &str) -> CommandKey {
        let group = format!("{module}::{}", wanted.group());
        let numbered = |number: u32| match number {
            1 => CommandKey::new(group.clone(), wanted.name().to_owned()),
            _ => CommandKey::new(group.clone(), format!("{}#{number}", wanted.name())),
        };
        let mut names = (1..).map(numbered);
        names.find(|name| self.owner(name).is_none()).expect("there are more numbers than commands")
    }
}
