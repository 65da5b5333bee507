//! What the expansion of the attribute is made of. Not for use by hand: it changes with the macros, which are pinned to this version.
//!
//! A function's expansion finds its command ([`Site`]), makes a call of the library layer with the function's body, and
//! turns the answer into the function's own error ([`way`], or [`as_is`] where the function says itself how). Everything
//! that needs a type is decided here, by traits; the macros see tokens only.

#[cfg(feature = "discover")]
mod announced;
mod arguments;
mod site;
mod ways;

pub use self::arguments::{
    Answers, AsCommand, Ask, Checked, Keeps, KeepsNot, Leaves, Lend, Lent, LentCow, LentOption, Moves,
    MovesNot, MovesToWorker, NeededTwice, OnAWorker, OnTheCaller, Output, OwnedByWorker, Owning, Owns,
    OwnsNot, Stays, TakesThenError, WorkerChecked, WorkerOutput, given, parts, planted, type_of,
};
pub use self::site::{AtSite, Found, Site};
pub use self::ways::{AsIs, ErrorOf, Flat, Own, Way, as_is, way};
pub use crate::command::{
    Annotated, Command, CommandBuilder, InPlaceIsolation, Keyed, PoolCommand, PoolIsolation, definition,
    keyed_by,
};
pub use crate::isolation::thread_pool::ThreadPool;
pub use crate::registry::Place;

#[cfg(feature = "discover")]
pub(crate) use self::announced::all;
#[cfg(feature = "discover")]
pub use self::announced::{Announced, inventory};
pub use crate::__hystrix_announce as announce;

/// Announces a command to `Registry::discover`.
#[cfg(feature = "discover")]
#[doc(hidden)]
#[macro_export]
macro_rules! __hystrix_announce {
    ($annotated:expr) => {
        const _: () = {
            fn made() -> $crate::__private::Annotated {
                $annotated
            }
            $crate::__private::inventory::submit! { $crate::__private::Announced(made) }
        };
    };
}

/// Without the feature `discover` nobody listens.
#[cfg(not(feature = "discover"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __hystrix_announce {
    ($annotated:expr) => {};
}
