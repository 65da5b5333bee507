//! A wait on the registry's clock: the latency that a test forces.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::runtime::Runtime;
use crate::sync::Home;
use crate::sync::global::Arc;
use crate::timer::{Target, Token};

pub(super) struct Delay {
    runtime: Arc<Runtime>,
    until: Timestamp,
    token: Option<Token>,
}

impl Delay {
    pub(super) fn new(runtime: Arc<Runtime>, duration: Duration) -> Self {
        let until = runtime.clock.now() + duration;
        Self { runtime, until, token: None }
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let timer = &this.runtime.timer;
        let waits = match &this.token {
            Some(token) => timer.refresh(token, cx.waker()),
            None => match timer.arm(Home::current(), this.until, Target::Waker(cx.waker().clone())) {
                Ok(token) => {
                    this.token = Some(token);
                    true
                }
                // Without a timer there is no latency to force.
                Err(_) => false,
            },
        };
        if waits { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.runtime.timer.cancel(token);
        }
    }
}
