//! Which registry is current: on a thread, or in a future.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Registry;
use crate::context::{Carried, Propagator};
use crate::sync::global::{AtomicUsize, Relaxed};

/// How many scopes there are in the process; while there are none, finding the current registry costs this load.
static SCOPES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The registries entered on this thread, the innermost last, each with the number of its guard.
    static ENTERED: RefCell<Vec<(u64, Registry)>> = const { RefCell::new(Vec::new()) };
}

impl Registry {
    /// Returns the registry that is current on this thread: the innermost one entered, or the global one.
    #[must_use]
    pub fn current() -> Registry {
        entered().unwrap_or_else(|| Registry::global().clone())
    }

    /// Makes this registry the current one on this thread, until the guard is dropped. Carried to workers and fallbacks.
    ///
    /// Scopes nest. A guard ends its own scope, in whatever order guards are dropped.
    pub fn enter(&self) -> Entered {
        SCOPES.fetch_add(1, Relaxed);
        let entered = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let number = entered.last().map_or(0, |(number, _)| number + 1);
            entered.push((number, self.clone()));
            number
        });
        // A thread that is ending is in no scope any more; its guard ends nothing.
        Entered { number: entered.unwrap_or(u64::MAX), on_this_thread: PhantomData }
    }

    /// Makes a future in which this registry is the current one, while it is polled and while it is dropped.
    ///
    /// A task that it spawns is outside of it, unless it is given a scope of its own.
    pub fn scope<F: Future>(&self, future: F) -> InRegistry<F> {
        InRegistry { registry: self.clone(), future: Some(future) }
    }
}

/// The registry that was entered on this thread, if one was.
#[inline]
pub(crate) fn entered() -> Option<Registry> {
    if SCOPES.load(Relaxed) == 0 {
        return None;
    }
    ENTERED.try_with(|entered| entered.borrow().last().map(|(_, registry)| registry.clone())).ok()?
}

/// Keeps a registry current: see [`Registry::enter`].
#[must_use = "the registry is current only until this is dropped"]
pub struct Entered {
    number: u64,
    /// Guards belong to the thread that entered.
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Dropped after the borrow: the last handle of a registry shuts it down.
        let own = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let place = entered.iter().rposition(|(number, _)| *number == self.number)?;
            Some(entered.remove(place))
        });
        drop(own);
        SCOPES.fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

pin_project! {
    /// A future with its own current registry: see [`Registry::scope`].
    #[must_use = "futures do nothing unless polled"]
    pub struct InRegistry<F> {
        registry: Registry,
        // Taken when this is dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for InRegistry<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _here = this.registry.enter();
            this.future.set(None);
        }
    }
}

impl<F: Future> Future for InRegistry<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _here = this.registry.enter();
        let future = this.future.as_pin_mut().expect("it is there until this is dropped");
        future.poll(cx)
    }
}

impl<F> fmt::Debug for InRegistry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InRegistry").finish_non_exhaustive()
    }
}

/// Carries the current registry to where bodies and fallbacks run.
pub(super) struct CurrentRegistry;

impl Propagator for CurrentRegistry {
    fn capture(&self) -> Option<Box<dyn Carried>> {
        Some(Box::new(entered()?))
    }
}

impl Carried for Registry {
    fn run(&self, body: &mut dyn FnMut()) {
        let _here = self.enter();
        body();
    }
}
