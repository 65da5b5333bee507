//! The conductor for callers that wait on a thread. One of the two places that wait.

use std::cell::OnceCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use super::delay::Delay;
use super::job::{self, Body, Submitted, Wait};
use super::judge::{self, Classify, Ended, Left};
use super::timed::InPlace;
use super::{
    Attempt, Failed, Next, Tell, after_fallback, conclude, open_fallback, succeeded, without_fallback,
};
use crate::admission::{Color, Core, Entry, Held, Ticket};
use crate::clock::Timestamp;
use crate::context;
use crate::error::{CommandError, Rejection};
use crate::fallback::Fallback;
use crate::isolation::semaphore::PermitRelease;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::global::Arc;
use crate::sync::{AtomicU64, Home, Thread, current, park};
use crate::unwind::{contained, drop_quietly};

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
    if core.live.cuts_in_place() && (K::ARMS || core.semaphore.release == PermitRelease::AtTimeout) {
        return fallback.timed(core, body, judge);
    }
    let core: &Core = core;
    let mut entry = Entry::new(core, Color::SyncInPlace);
    if let Err(refusal) = core.admit(&mut entry) {
        drop_quietly((body, judge));
        return fall_back_here(core, entry.home, Failed::refused(refusal), fallback);
    }
    let held = Held::new(core, &entry);
    let start = begin(core, &entry);
    let cut_at = entry.cut_at();
    // From here to the end of the attempt user code runs in `contained` only, so nothing unwinds past the ticket that is not
    // made yet.
    let mut ended = Ended::not_yet();
    let ran = contained(|| {
        let inside = context::enter_until(&core.key, cut_at, &core.clock);
        let result = body();
        drop(inside);
        ended.with(core, cut_at, &judge, result);
    });
    drop(held);
    drop_quietly(judge);
    if let Some((value, end)) = ended.good {
        succeeded(core, &entry, start, end);
        drop_quietly(fallback);
        return Ok(value);
    }
    let left = ended.other(core, ran).expect("a body that has ended has left something");
    not_good(core, &entry, start, left, fallback)
}

#[cold]
fn not_good<T, E>(
    core: &Core,
    entry: &Entry,
    start: Timestamp,
    left: Left<T, E>,
    fallback: impl Fallback<T, E>,
) -> Result<T, CommandError<E>> {
    let mut ticket = Ticket::new(core, entry);
    ticket.begin(start);
    let end = left.end;
    let (outcome, answer) = judge::verdict(&ticket, left);
    let facts = ticket.settle_alone(entry.home, outcome, end);
    answer_here(core, entry.home, Attempt { facts, answer }, fallback)
}

/// The body's start, after a forced latency.
#[inline]
pub(super) fn begin(core: &Core, entry: &Entry) -> Timestamp {
    if entry.delay.is_zero() {
        return entry.arrival;
    }
    wait_for(Delay::new(core.runtime.clone(), entry.delay));
    core.clock.now()
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
    let attempt = match job::submit(core, body, judge, |_| Wait::on_thread(core)) {
        Submitted::Refused(attempt) => attempt,
        Submitted::Taken(job) => {
            let attempt = block_on(|cx| job.poll(cx));
            // The body of a call that was cut before it began is dropped by its caller.
            job.clear();
            attempt
        }
    };
    answer_here(core, Home::current(), attempt, fallback)
}

/// The rest of a call whose caller runs its own fallback.
#[cold]
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
pub(super) fn fall_back_here<T, E>(
    core: &Core,
    home: Home,
    failed: Failed<T, E>,
    fallback: impl Fallback<T, E>,
) -> Result<T, CommandError<E>> {
    let permit = open_fallback(core, home, fallback.form(), &mut || fallback.wants(&failed.error));
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

/// Wakes a thread that waits in [`block_on`].
struct Unpark {
    thread: Thread,
    /// A park's token may be taken by what is polled, which may itself park this thread; a count cannot.
    wakes: AtomicU64,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: whoever sees the count sees what was done before the wake.
        self.wakes.fetch_add(1, Release);
        self.thread.unpark();
    }
}

thread_local! {
    static WAKER: OnceCell<Arc<Unpark>> = const { OnceCell::new() };
}

/// What unparks the calling thread; made once per thread.
fn thread_waker() -> Arc<Unpark> {
    let make = || Arc::new(Unpark { thread: current(), wakes: AtomicU64::new(0) });
    let known = WAKER.try_with(|waker| waker.get_or_init(make).clone());
    known.unwrap_or_else(|_| make())
}

/// Parks the thread until `poll` is ready: without a time, for a completion or the timer wakes it.
pub(super) fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    let unpark = thread_waker();
    let waker = Waker::from(unpark.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        // Before the poll, so that a wake during it is not waited for.
        let seen = unpark.wakes.load(Acquire);
        if let Poll::Ready(result) = poll(&mut cx) {
            return result;
        }
        while unpark.wakes.load(Acquire) == seen {
            park();
        }
    }
}

/// Blocks on a future of our own.
pub(super) fn wait_for<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    block_on(|cx| future.as_mut().poll(cx))
}
