//! The caller's span and subscriber, so that what a worker logs belongs to the request.

use tracing::dispatcher::{self, Dispatch};
use tracing::{Span, subscriber::NoSubscriber};

use super::{Carried, Propagator};

pub(super) struct SpanAndSubscriber;

struct Traced {
    dispatch: Dispatch,
    span: Span,
}

impl Propagator for SpanAndSubscriber {
    fn capture(&self) -> Option<Box<dyn Carried>> {
        if !dispatcher::has_been_set() {
            return None;
        }
        let dispatch = dispatcher::get_default(Dispatch::clone);
        if dispatch.is::<NoSubscriber>() {
            return None;
        }
        let span = Span::current();
        Some(Box::new(Traced { dispatch, span }))
    }
}

impl Carried for Traced {
    fn run(&self, body: &mut dyn FnMut()) {
        // The subscriber first: a span entered under another one would be unknown there.
        dispatcher::with_default(&self.dispatch, || self.span.in_scope(body));
    }
}
