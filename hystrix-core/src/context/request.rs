//! A typed request context: values by type, in place for a piece of code or a future.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Carried, Propagator};
use crate::sync::global::Arc;

thread_local! {
    static VALUES: RefCell<Option<Arc<Node>>> = const { RefCell::new(None) };
}

/// One value, and those that were in place when it was added.
struct Node {
    kind: TypeId,
    value: Arc<dyn Any + Send + Sync>,
    outer: Option<Arc<Node>>,
}

/// Runs `body` with `value` in the request context; an outer value of the same type is hidden meanwhile.
///
/// ```
/// use hystrix_core::context;
///
/// struct RequestId(u64);
///
/// let seen = context::with(RequestId(7), || context::get::<RequestId>().map(|id| id.0));
/// assert_eq!(seen, Some(7));
/// assert!(context::get::<RequestId>().is_none());
/// ```
pub fn with<T: Any + Send + Sync, R>(value: T, body: impl FnOnce() -> R) -> R {
    let _restore = enter(Some(pushed(value)));
    body()
}

/// Makes a future that has `value` in its request context whenever it is polled.
///
/// What else is in place is what was in place where this function was called.
pub fn scope<T: Any + Send + Sync, F: Future>(value: T, future: F) -> Scoped<F> {
    Scoped { values: pushed(value), future }
}

/// Returns the innermost value of type `T`.
#[must_use]
pub fn get<T: Any + Send + Sync>() -> Option<Arc<T>> {
    let mut next = VALUES.with_borrow(Option::clone);
    while let Some(node) = next {
        if node.kind == TypeId::of::<T>() {
            return node.value.clone().downcast().ok();
        }
        next = node.outer.clone();
    }
    None
}

fn pushed<T: Any + Send + Sync>(value: T) -> Arc<Node> {
    Arc::new(Node {
        kind: TypeId::of::<T>(),
        value: Arc::new(value),
        outer: VALUES.with_borrow(Option::clone),
    })
}

fn enter(values: Option<Arc<Node>>) -> Restore {
    Restore(VALUES.replace(values))
}

struct Restore(Option<Arc<Node>>);

impl Drop for Restore {
    fn drop(&mut self) {
        // Dropped after the borrow: the last user of a value runs that value's drop.
        drop(VALUES.replace(self.0.take()));
    }
}

pin_project! {
    /// A future with a value in its request context: see [`scope`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Scoped<F> {
        values: Arc<Node>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _restore = enter(Some(this.values.clone()));
        this.future.poll(cx)
    }
}

impl<F> std::fmt::Debug for Scoped<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scoped").finish_non_exhaustive()
    }
}

/// Carries what this module holds.
pub(super) struct RequestContext;

impl Propagator for RequestContext {
    fn capture(&self) -> Option<Box<dyn Carried>> {
        // A thread that is ending has none.
        let values = VALUES.try_with(|values| values.borrow().clone()).ok()??;
        Some(Box::new(values))
    }
}

impl Carried for Arc<Node> {
    fn run(&self, body: &mut dyn FnMut()) {
        let _restore = enter(Some(self.clone()));
        body();
    }
}
