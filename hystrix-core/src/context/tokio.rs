//! The tokio runtime of the caller, for bodies that spawn, sleep or do I/O on a worker.

use tokio::runtime::Handle;

use super::{Carried, Propagator};

pub(super) struct RuntimeHandle;

impl Propagator for RuntimeHandle {
    fn capture(&self) -> Option<Box<dyn Carried>> {
        let handle = Handle::try_current().ok()?;
        Some(Box::new(handle))
    }
}

impl Carried for Handle {
    fn run(&self, body: &mut dyn FnMut()) {
        let _inside = self.enter();
        body();
    }
}
