//! Something that somebody else will give.

use std::task::{Context, Poll};

use crate::sync::AtomicWaker;
use crate::sync::global::Mutex;

/// One value, from whoever keeps the promise to whoever waits.
pub(crate) struct Promise<R> {
    state: Mutex<State<R>>,
    waiter: AtomicWaker,
}

enum State<R> {
    Awaited,
    Kept(R),
    /// Nobody waits any more, or the value was taken.
    Gone,
}

impl<R> Promise<R> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::Awaited), waiter: AtomicWaker::new() }
    }

    /// Takes the value, or sees to it that the task is woken when it comes.
    ///
    /// # Panics
    ///
    /// When the value was taken before.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<R> {
        self.waiter.register(cx.waker());
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Kept(value) => Poll::Ready(value),
            State::Awaited => {
                *state = State::Awaited;
                Poll::Pending
            }
            State::Gone => panic!("a call was polled after it had its answer"),
        }
    }

    /// Gives the value. A value nobody waits for is dropped here.
    pub(crate) fn keep(&self, value: R) {
        let mut state = self.state.lock();
        if matches!(*state, State::Awaited) {
            *state = State::Kept(value);
            drop(state);
            self.waiter.wake();
        } else {
            drop(state);
            drop(value);
        }
    }

    /// Gives up waiting. A value that is there already is returned.
    pub(crate) fn give_up(&self) -> Option<R> {
        match std::mem::replace(&mut *self.state.lock(), State::Gone) {
            State::Kept(value) => Some(value),
            State::Awaited | State::Gone => None,
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(*self.state.lock(), State::Gone)
    }

    /// Whether the value is there, or was.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(*self.state.lock(), State::Awaited)
    }
}
