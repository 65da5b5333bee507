//! Tells a registry's listeners. A listener that panics is switched off, and said so once.

use arc_swap::ArcSwap;

use crate::event::EventSink;
use crate::log;
use crate::sync::global::{Arc, AtomicBool, Mutex, Relaxed};
use crate::unwind::contained;

/// The listeners of a registry.
#[derive(Default)]
pub(crate) struct Sinks {
    listened: AtomicBool,
    list: ArcSwap<Vec<Arc<Listener>>>,
    /// Held by whoever changes the list.
    change: Mutex<()>,
}

/// One listener.
pub(crate) struct Listener {
    sink: Box<dyn EventSink>,
    off: AtomicBool,
}

impl Sinks {
    /// Whether anybody listens: the one load that a call pays.
    #[inline]
    pub(crate) fn listened(&self) -> bool {
        self.listened.load(Relaxed)
    }

    pub(crate) fn add(&self, sink: Box<dyn EventSink>) -> Arc<Listener> {
        let listener = Arc::new(Listener { sink, off: AtomicBool::new(false) });
        self.change(|list| list.push(listener.clone()));
        listener
    }

    pub(crate) fn remove(&self, listener: &Arc<Listener>) {
        self.change(|list| list.retain(|known| !Arc::ptr_eq(known, listener)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Listener>>)) {
        let before = {
            let _change = self.change.lock();
            let mut list = Vec::clone(&self.list.load());
            change(&mut list);
            self.listened.store(!list.is_empty(), Relaxed);
            self.list.swap(Arc::new(list))
        };
        // The last reference to a removed sink may go here: its drop is user code, and no lock is held.
        drop(before);
    }

    /// Tells everybody.
    pub(crate) fn tell(&self, tell: impl Fn(&dyn EventSink)) {
        if !self.listened() {
            return;
        }
        for listener in self.list.load_full().iter() {
            if listener.off.load(Relaxed) {
                continue;
            }
            let told = contained(|| tell(&*listener.sink));
            if told.is_err() && !listener.off.swap(true, Relaxed) {
                log::sink_panicked();
            }
        }
    }
}
