//! What the expansion of the attribute is made of. Not for use by hand: it changes with the macros, which are pinned to this version.
//!
//! A function's expansion finds its command ([`Site`]), makes a call of the library layer with the function's body, and
//! turns the answer into the function's own error ([`way`], or [`as_is`] where the function says itself how). Everything
//! that needs a type is decided here, by traits; the macros see tokens only.

mod arguments;
mod site;
mod ways;

pub use self::arguments::{
    Answers, AsCommand, Ask, Checked, Keeps, KeepsNot, Lend, Lent, LentCow, LentOption, Moves, MovesNot,
    MovesToWorker, NeededTwice, Output, OwnedByWorker, Owning, Owns, OwnsNot, TakesThenError, WorkerChecked,
    WorkerOutput, given, planted,
};
pub use self::site::{AtSite, Found, Site};
pub use self::ways::{AsIs, ErrorOf, Flat, Own, Way, as_is, way};
pub use crate::command::{
    Annotated, Command, CommandBuilder, InPlaceIsolation, Keyed, PoolCommand, PoolIsolation, definition,
    keyed_by,
};
pub use crate::isolation::thread_pool::ThreadPool;
pub use crate::registry::Place;
