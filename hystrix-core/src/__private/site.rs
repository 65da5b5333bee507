//! Where a function's command is kept, so that a call finds it with two loads.

use std::fmt;
use std::ops::Deref;

use crate::command::{
    Annotated, Buildable, Command, CommandBuilder, InPlaceIsolation, Keyed, KeyedKind, PoolCommand,
    PoolIsolation,
};
use crate::registry::{Made, Place, Registry, entered};
use crate::sealed::Sealed;
use crate::sync::global::OnceLock;

/// What a function's calls are made on: a command, or a family of them. Sealed.
pub trait AtSite: Sealed + Sized + 'static {
    #[doc(hidden)]
    type Isolation: Buildable + 'static;

    #[doc(hidden)]
    fn make(
        registry: &Registry,
        place: Place,
        of: &'static str,
        define: fn() -> CommandBuilder<Self::Isolation>,
    ) -> Self;
}

macro_rules! at_site {
    ($($command:ident: $isolation:ident),*) => {$(
        impl AtSite for $command {
            type Isolation = $isolation;

            fn make(
                registry: &Registry,
                place: Place,
                of: &'static str,
                define: fn() -> CommandBuilder<$isolation>,
            ) -> Self {
                match Annotated::new(place, of, false, define).made(registry) {
                    Made::Command(handle) => $command::from_handle(handle),
                    Made::Family(_) => unreachable!("a site is always of one kind"),
                }
            }
        }

        impl AtSite for Keyed<$command> {
            type Isolation = $isolation;

            fn make(
                registry: &Registry,
                place: Place,
                of: &'static str,
                define: fn() -> CommandBuilder<$isolation>,
            ) -> Self {
                match Annotated::new(place, of, true, define).made(registry) {
                    Made::Family(family) => Keyed::new(registry.clone(), family),
                    Made::Command(_) => unreachable!("a site is always of one kind"),
                }
            }
        }
    )*};
}

at_site!(Command: InPlaceIsolation, PoolCommand: PoolIsolation);
impl<C> Sealed for Keyed<C> {}

/// One in each annotated function: its command in the global registry, once it has been called there.
///
/// In other registries, and for the second type of a function that belongs to several, the registry is asked.
#[derive(Debug)]
pub struct Site<C> {
    place: Place,
    first: OnceLock<Known<C>>,
}

/// A command, and the type whose function it is for: the body of a trait's default method is that of many types, and a
/// static in it is one for all of them. Types are as many as the program has, so the list stays as it grows.
#[derive(Debug)]
struct Known<C> {
    of: &'static str,
    command: C,
    next: OnceLock<Box<Known<C>>>,
}

impl<C: AtSite> Site<C> {
    /// Makes the site of a function.
    #[must_use]
    pub const fn new(place: Place) -> Self {
        Self { place, first: OnceLock::new() }
    }

    /// Finds the command in the current registry, or makes it. `of` names the type that the function belongs to.
    #[inline]
    pub fn find(&'static self, of: &'static str, define: fn() -> CommandBuilder<C::Isolation>) -> Found<C> {
        match (entered(), self.first.get()) {
            (None, Some(known)) if std::ptr::eq(known.of, of) => Found::Kept(&known.command),
            (None, _) => Found::Kept(self.known(of, define)),
            (Some(registry), _) => Found::Made(C::make(&registry, self.place, of, define)),
        }
    }

    #[cold]
    fn known(&'static self, of: &'static str, define: fn() -> CommandBuilder<C::Isolation>) -> &'static C {
        let mut place = self.first.get();
        while let Some(known) = place {
            if known.of == of {
                return &known.command;
            }
            place = known.next.get().map(|next| &**next);
        }
        let mut new =
            Known { of, command: C::make(Registry::global(), self.place, of, define), next: OnceLock::new() };
        // A command that is added meanwhile, of this type or another, stays; ours goes behind it.
        let Err(back) = self.first.set(new) else {
            return &self.first.get().expect("it was set a line ago").command;
        };
        new = back;
        let mut last = self.first.get().expect("setting it failed because it is there");
        loop {
            if last.of == of {
                return &last.command;
            }
            match last.next.set(Box::new(new)) {
                Ok(()) => return &last.next.get().expect("it was set a line ago").command,
                Err(back) => new = *back,
            }
            last = last.next.get().expect("setting it failed because it is there");
        }
    }
}

/// A command that a call is made on.
pub enum Found<C: 'static> {
    /// The global registry's, which stays.
    Kept(&'static C),
    /// Another registry's.
    Made(C),
}

impl<C> Deref for Found<C> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        match self {
            Found::Kept(command) => command,
            Found::Made(command) => command,
        }
    }
}

impl<C: fmt::Debug> fmt::Debug for Found<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
