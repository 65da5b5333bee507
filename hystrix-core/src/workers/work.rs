//! The job of production: anything behind a reference.

use super::{Job, Refused, Seat};
use crate::clock::Timestamp;
use crate::identity::CommandKey;
use crate::sync::AtomicU64;
use crate::sync::global::Arc;

/// A job, as workers see it; see [`Job`].
pub(crate) trait Task: Send + Sync + 'static {
    fn run(self: Arc<Self>, seat: Seat<Work>, now: Timestamp);
    fn refuse(&self, why: Refused);
    fn is_over(&self) -> bool;
    fn entry(&self) -> &AtomicU64;
    fn command(&self) -> &CommandKey;
}

/// A reference to a task.
#[derive(Clone)]
pub(crate) struct Work(pub(crate) Arc<dyn Task>);

impl Job for Work {
    fn run(self, seat: Seat<Self>, now: Timestamp) {
        self.0.run(seat, now);
    }

    fn refuse(&self, why: Refused) {
        self.0.refuse(why);
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn entry(&self) -> &AtomicU64 {
        self.0.entry()
    }

    fn command(&self) -> &CommandKey {
        self.0.command()
    }
}
