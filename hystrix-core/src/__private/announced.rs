//! All annotated functions that are linked into the program, for [`Registry::discover`](crate::Registry::discover).

pub use inventory;

use crate::command::Annotated;

/// How a function's command is made.
#[derive(Debug)]
pub struct Announced(pub fn() -> Annotated);

inventory::collect!(Announced);

/// All of them, in the order in which they stand in the source.
pub(crate) fn all() -> Vec<Annotated> {
    let mut all: Vec<Annotated> = inventory::iter::<Announced>().map(|announced| (announced.0)()).collect();
    all.sort_by(|one, other| one.place().cmp(other.place()));
    all
}
