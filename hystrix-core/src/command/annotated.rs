//! The command behind an annotated function.

use std::fmt::{self, Display};
use std::ops::Deref;

use super::builder::{Buildable, CommandBuilder, Draft, InPlaceIsolation, Written};
use super::{CommandHandle, Keyed};
use crate::registry::{Blueprint, Made, Place, Registry};
use crate::sync::global::OnceLock;

/// The command behind a function that has the attribute, as [`command_of!`](crate::command_of) gives it.
///
/// Dereferences to its [`CommandHandle`] in the registry that is current then, made if it has not been called there. Of a function
/// whose key is each call's own, that is the command of the keys beyond the limit; [`get`](Self::get) finds that of a key.
///
/// ```
/// use hystrix_core::{command, command_of};
///
/// #[command]
/// fn stock(item: &str) -> Result<u32, String> {
///     item.parse().map_err(|_| format!("no stock of {item}"))
/// }
///
/// assert_eq!(stock("7"), Ok(7));
/// assert_eq!(command_of!(stock).metrics().cumulative.success, 1);
/// ```
pub struct Annotated {
    place: Place,
    of: &'static str,
    keyed: bool,
    on_pool: bool,
    define: Box<dyn Fn() -> Draft + Send + Sync>,
    handle: OnceLock<CommandHandle>,
}

impl Annotated {
    #[doc(hidden)]
    pub fn new<I>(place: Place, of: &'static str, keyed: bool, define: fn() -> CommandBuilder<I>) -> Self
    where
        I: Buildable + 'static,
    {
        let define = Box::new(move || define().draft());
        Self { place, of, keyed, on_pool: I::ON_POOL, define, handle: OnceLock::new() }
    }

    #[cfg(feature = "discover")]
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn blueprint(&self) -> Blueprint<'_> {
        let Self { place, of, keyed, on_pool, define, .. } = self;
        Blueprint { place: *place, of, keyed: *keyed, on_pool: *on_pool, define: &**define }
    }

    pub(crate) fn made(&self, registry: &Registry) -> Made {
        registry.make_annotated_or_default(&self.blueprint())
    }

    /// Returns the command of a key, made if it is new, for a function whose key is each call's own. Of other functions it
    /// is their one command.
    pub fn get<K: Display + ?Sized>(&self, key: &K) -> CommandHandle {
        let registry = Registry::current();
        match self.made(&registry) {
            Made::Command(handle) => handle,
            Made::Family(family) => Keyed::<CommandHandle>::new(registry, family).get(key),
        }
    }

    fn handle(&self) -> &CommandHandle {
        if let Some(handle) = self.handle.get() {
            return handle;
        }
        // Not within the cell: what is written in the attribute is user code.
        let registry = Registry::current();
        let handle = match self.made(&registry) {
            Made::Command(handle) => handle,
            Made::Family(family) => family.other(&registry, registry.now()),
        };
        self.handle.get_or_init(|| handle)
    }
}

impl Deref for Annotated {
    type Target = CommandHandle;

    fn deref(&self) -> &CommandHandle {
        self.handle()
    }
}

impl fmt::Debug for Annotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotated").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Begins the definition of a function's command: names that are not written follow from where it stands.
#[doc(hidden)]
pub fn definition() -> CommandBuilder<InPlaceIsolation> {
    CommandBuilder::new(Written::default())
}

/// Writes the key.
#[doc(hidden)]
pub fn keyed_by<I: Buildable>(builder: CommandBuilder<I>, key: &'static str) -> CommandBuilder<I> {
    builder.with_key(key)
}
