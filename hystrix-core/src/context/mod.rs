//! The caller's context: captured once per call, put in place around the body and the fallback wherever they run.
//!
//! A registry has a list of [`Propagator`]s. When a call can leave its caller's thread or task, each is asked once, on the
//! caller, for what it carries; that is put in place around the body, the rules that judge it and the fallback, the first
//! propagator outermost, and taken away afterwards, on a panic too. A call that stays where it is captures nothing: it
//! sees its context anyway.
//!
//! Carried by every registry unless its builder says otherwise: the request context of this module, the registry that
//! [`Registry::enter`](crate::Registry::enter) made current, the tokio handle (feature `tokio`), and the tracing span and subscriber (feature
//! `tracing`). One's own thread-local takes a line:
//!
//! ```
//! use hystrix_core::{Registry, context};
//! use std::cell::RefCell;
//!
//! thread_local! { static TENANT: RefCell<String> = RefCell::default(); }
//!
//! let registry = Registry::builder().propagator(context::thread_local(&TENANT)).build();
//! # registry.shutdown(std::time::Duration::from_secs(1));
//! ```

mod current;
mod local;
mod request;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tracing")]
mod tracing;

pub use self::current::{Cancellation, cancellation, current_command};
pub use self::local::{ThreadLocal, thread_local};
pub use self::request::{Scoped, get, scope, with};

pub(crate) use self::current::{StopSign, enter, enter_until};

use std::fmt;

use crate::sync::global::Arc;

/// Knows one kind of context, and how to carry it.
///
/// Two closures make one: `context::propagator(capture, run)`.
pub trait Propagator: Send + Sync + 'static {
    /// Captures the caller's present context, on the caller; `None` if there is nothing to carry.
    ///
    /// A panic here ends the call as a panic of its body would.
    fn capture(&self) -> Option<Box<dyn Carried>>;
}

/// What a propagator carries for one call.
pub trait Carried: Send + Sync + 'static {
    /// Runs `body` with the context in place, and puts back what was there before, on a panic too.
    ///
    /// Called once for each piece of user code: the body (an async one at every poll), the fallback.
    fn run(&self, body: &mut dyn FnMut());
}

/// Makes a propagator of two functions: `capture` takes the context of the caller, `run` puts it in place around a body.
///
/// A tokio task-local, for instance:
///
/// ```
/// use hystrix_core::context;
///
/// tokio::task_local! { static USER: u64; }
///
/// let propagator = context::propagator(
///     || USER.try_with(|user| *user).ok(),
///     |user: &u64, body| USER.sync_scope(*user, body),
/// );
/// # let _ = propagator;
/// ```
pub fn propagator<V, C, R>(capture: C, run: R) -> impl Propagator
where
    V: Send + Sync + 'static,
    C: Fn() -> Option<V> + Send + Sync + 'static,
    R: Fn(&V, &mut dyn FnMut()) + Send + Sync + 'static,
{
    struct Functions<C, R>(C, Arc<R>);
    struct Value<V, R>(V, Arc<R>);

    impl<V, C, R> Propagator for Functions<C, R>
    where
        V: Send + Sync + 'static,
        C: Fn() -> Option<V> + Send + Sync + 'static,
        R: Fn(&V, &mut dyn FnMut()) + Send + Sync + 'static,
    {
        fn capture(&self) -> Option<Box<dyn Carried>> {
            let value = (self.0)()?;
            Some(Box::new(Value(value, self.1.clone())))
        }
    }

    impl<V, R> Carried for Value<V, R>
    where
        V: Send + Sync + 'static,
        R: Fn(&V, &mut dyn FnMut()) + Send + Sync + 'static,
    {
        fn run(&self, body: &mut dyn FnMut()) {
            (self.1)(&self.0, body);
        }
    }

    Functions(capture, Arc::new(run))
}

/// The propagators that come with the library.
pub(crate) fn built_in() -> Vec<Arc<dyn Propagator>> {
    vec![
        Arc::new(request::RequestContext),
        #[cfg(feature = "tokio")]
        Arc::new(tokio::RuntimeHandle),
        #[cfg(feature = "tracing")]
        Arc::new(tracing::SpanAndSubscriber),
    ]
}

// ===== impl Captured =====

/// The context of one call, as captured. Clones are the same context.
#[derive(Clone, Default)]
pub(crate) struct Captured(Option<Arc<[Box<dyn Carried>]>>);

impl Captured {
    pub(crate) fn new(propagators: &[Arc<dyn Propagator>]) -> Self {
        let carried: Vec<_> = propagators.iter().filter_map(|propagator| propagator.capture()).collect();
        Self((!carried.is_empty()).then(|| carried.into()))
    }

    /// Runs `body` with everything in place.
    pub(crate) fn run<R>(&self, body: impl FnOnce() -> R) -> R {
        let Some(carried) = &self.0 else {
            return body();
        };
        let mut body = Some(body);
        let mut result = None;
        nest(carried, &mut || {
            // A propagator that runs its body twice runs it once.
            if let Some(body) = body.take() {
                result = Some(body());
            }
        });
        match (result, body) {
            (Some(result), _) => result,
            // A propagator that forgot its body: better without that context than not at all.
            (None, Some(body)) => body(),
            (None, None) => unreachable!("a body that was taken has left a result or unwound"),
        }
    }
}

fn nest(carried: &[Box<dyn Carried>], body: &mut dyn FnMut()) {
    match carried.split_first() {
        None => body(),
        Some((outer, inner)) => outer.run(&mut || nest(inner, body)),
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_ref().map_or(0, |carried| carried.len());
        f.debug_tuple("Captured").field(&count).finish()
    }
}
