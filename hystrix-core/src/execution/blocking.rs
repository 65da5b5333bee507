//! The conductor for callers that wait on a thread. One of the two places that wait.

use std::cell::OnceCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use super::delay::Delay;
use super::job::{self, Body, Submitted, Wait};
use super::judge::{self, Classify};
use super::timed::InPlace;
use super::{
    Attempt, Failed, Next, Tell, after_fallback, conclude, contained, frame, open_fallback, without_fallback,
};
use crate::admission::{Core, Held, Ticket, admit};
use crate::clock::Timestamp;
use crate::context::{self, Stop};
use crate::error::{CommandError, Rejection};
use crate::fallback::Fallback;
use crate::sync::global::Arc;
use crate::sync::{Home, Thread, current, park};

/// A synchronous call on its caller's thread.
#[inline]
pub(crate) fn in_place<T, E, B, P, K>(
    core: &Arc<Core>,
    body: B,
    judge: P,
    fallback: K,
) -> Result<T, CommandError<E>>
where
    B: FnOnce() -> Result<T, E>,
    P: Classify<T, E>,
    K: InPlace<T, E>,
{
    if K::ARMS && core.live.cuts_in_place() {
        return fallback.timed(core, body, judge);
    }
    let home = Home::current();
    let now = core.clock.now();
    let attempt = match admit(&**core, home, now, core.live.deadline_in_place(now)) {
        Ok((ticket, held)) => attempt_here(home, ticket, held, body, judge),
        Err(refusal) => Attempt::refused(refusal),
    };
    answer_here(core, home, attempt, fallback)
}

#[inline]
fn attempt_here<T, E>(
    home: Home,
    mut ticket: Ticket<&Core>,
    held: Held<&Core>,
    body: impl FnOnce() -> Result<T, E>,
    judge: impl Classify<T, E>,
) -> Attempt<T, E> {
    let core = *ticket.core();
    core.stats.look(home, ticket.arrival);
    let start = begin(&ticket);
    ticket.begin_alone(start);
    let stop = stop_at(core, ticket.deadline);
    let left = judge::run(core, ticket.cut_at(), &judge, || {
        context::enter(frame(core, stop), body)
    });
    let end = left.end;
    drop(held);
    let (outcome, answer) = judge::verdict(&ticket, left);
    let facts = ticket.settle_alone(home, outcome, end);
    Attempt { facts, answer }
}

/// The body's start, after a forced latency.
#[inline]
pub(super) fn begin(ticket: &Ticket<&Core>) -> Timestamp {
    if ticket.delay.is_zero() {
        return ticket.arrival;
    }
    let core = *ticket.core();
    wait_for(Delay::new(core.runtime.clone(), ticket.delay));
    core.clock.now()
}

/// What tells a body in place that its time is up: its deadline.
#[inline]
pub(super) fn stop_at(core: &Core, deadline: Timestamp) -> Stop {
    if deadline == Timestamp::MAX {
        Stop::Never
    } else {
        Stop::At(deadline, core.clock.clone())
    }
}

/// A call on a pool whose caller waits on its thread.
pub(crate) fn on_pool<T, E, B, P, K>(
    core: &Arc<Core>,
    body: B,
    judge: P,
    fallback: K,
) -> Result<T, CommandError<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: Fallback<T, E>,
{
    let home = Home::current();
    let attempt = match job::submit(core, home, body, judge, |_| Wait::on_thread(core)) {
        Submitted::Refused(attempt) => attempt,
        Submitted::Taken(job) => {
            let attempt = block_on(|cx| job.poll(cx));
            // The body of a call that was cut before it began is dropped by its caller.
            job.clear();
            attempt
        }
    };
    answer_here(core, home, attempt, fallback)
}

/// The rest of a call whose caller runs its own fallback.
#[inline]
pub(super) fn answer_here<T, E>(
    core: &Core,
    home: Home,
    attempt: Attempt<T, E>,
    fallback: impl Fallback<T, E>,
) -> Result<T, CommandError<E>> {
    match conclude(core, home, attempt) {
        Next::Done(result) => result,
        Next::FallBack(failed) => fall_back_here(core, home, failed, fallback),
    }
}

#[cold]
fn fall_back_here<T, E>(
    core: &Core,
    home: Home,
    failed: Failed<T, E>,
    fallback: impl Fallback<T, E>,
) -> Result<T, CommandError<E>> {
    let permit = open_fallback(core, home, fallback.form(), || fallback.wants(&failed.error));
    let permit = match permit {
        Ok(permit) => permit,
        Err(why) => return without_fallback(core, home, failed, &why, Tell::Here),
    };
    let Failed { facts, error, .. } = failed;
    let original = error.rejection().map(Rejection::kind);
    let result = contained(|| fallback.answer(error));
    drop(permit);
    after_fallback(core, home, &facts, original, result)
}

// ===== waiting =====

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: OnceCell<Waker> = const { OnceCell::new() };
}

/// The waker that unparks the calling thread; made once per thread.
fn thread_waker() -> Waker {
    let make = || Waker::from(Arc::new(Unpark(current())));
    let known = WAKER.try_with(|waker| waker.get_or_init(make).clone());
    known.unwrap_or_else(|_| make())
}

/// Parks the thread until `poll` is ready: without a time, for a completion or the timer wakes it.
pub(super) fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let waker = thread_waker();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = poll(&mut cx) {
            return result;
        }
        park();
    }
}

/// Blocks on a future of our own.
pub(super) fn wait_for<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    block_on(|cx| future.as_mut().poll(cx))
}
