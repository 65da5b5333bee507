//! Something that somebody else will give.

use std::task::{Context, Poll};

use crate::sync::{AtomicWaker, Mutex};
use crate::unwind::contained;

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

    /// Gives the value. Has it back if nobody waits any more, or the promise was kept before.
    #[must_use = "a value nobody waits for is dropped where user code may run"]
    pub(crate) fn keep(&self, value: R) -> Option<R> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Awaited) {
            return Some(value);
        }
        *state = State::Kept(value);
        drop(state);
        // A waker is the executor's code; its panic is not that of whoever keeps promises.
        let _ = contained(|| self.waiter.wake());
        None
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

#[cfg(all(test, hystrix_loom))]
mod loom_promise {
    use super::*;
    use crate::sync::global::Arc;
    use loom::thread;

    /// Either the waiting side has the value or the giving side has it back: nobody counts a call twice, or not at all.
    #[test]
    fn kept_against_given_up() {
        loom::model(|| {
            let promise = Arc::new(Promise::new());
            let giver = {
                let promise = promise.clone();
                thread::spawn(move || promise.keep(7).is_some())
            };
            let read = promise.give_up().is_some();
            let handed_back = giver.join().expect("keeping does not panic");
            assert!(read != handed_back);
        });
    }
}
