//! A call that nobody waits for where it was made: it has a handle, and its fallback runs on a fallback worker.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::blocking::wait_for;
use super::job::{self, Body, Job, Submitted, Then};
use super::judge::Classify;
use super::promise::Promise;
use super::{
    Attempt, Ending, Failed, Next, NotRun, Tell, after_fallback, close, conclude, open_fallback,
    without_fallback,
};
use crate::admission::Core;
use crate::clock::Timestamp;
use crate::context::Captured;
use crate::error::{CommandError, Rejection, RejectionKind};
use crate::fallback::{Fallback, Form};
use crate::identity::CommandKey;
use crate::sync::global::{Arc, Mutex};
use crate::sync::{AtomicU64, Home};
use crate::timer::Meeting;
use crate::unwind::{contained, drop_quietly};
use crate::workers::{Refused, Room, Seat, Task, Work};

// ===== the handle =====

/// A call that was queued: a future of its answer, and [`wait`](Self::wait) for those without one.
///
/// The call is under way already, and its timeout runs. Its fallback runs on a `hystrix-fallback` worker, never inside `poll` and never
/// on the caller.
///
/// # Cancellation
///
/// Dropping the handle cancels the call: what has not begun never does, what runs on a worker goes on as abandoned.
/// [`detach`](Self::detach) lets it run on, timed, with nobody to hear of it.
#[must_use = "a queued call is cancelled when its handle is dropped; `detach` lets it run on"]
pub struct Queued<T, E> {
    promise: Arc<Promise<Result<T, CommandError<E>>>>,
    call: Option<Arc<dyn Leave>>,
}

/// What a handle knows of its call.
trait Leave: Send + Sync {
    /// The caller leaves without an answer.
    fn leave(&self);
    /// The caller has its answer; a body that never began is dropped.
    fn clear(&self);
}

impl<T, E> Queued<T, E> {
    /// Waits for the answer, on this thread.
    ///
    /// # Errors
    ///
    /// As for the call: the body's error, the fallback's, or the rejection.
    pub fn wait(self) -> Result<T, CommandError<E>> {
        wait_for(self)
    }

    /// Lets the call run on by itself: its timeout, its fallback and its counts stay as they are.
    pub fn detach(mut self) {
        self.call = None;
    }

    /// Returns whether the answer is there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.promise.is_kept()
    }
}

impl<T, E> Future for Queued<T, E> {
    type Output = Result<T, CommandError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(self.promise.poll(cx));
        if let Some(call) = self.call.take() {
            call.clear();
        }
        Poll::Ready(result)
    }
}

impl<T, E> Drop for Queued<T, E> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let unread = self.promise.give_up();
            drop_quietly(unread);
            call.leave();
        }
    }
}

impl<T, E> fmt::Debug for Queued<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("is_ready", &self.is_ready()).finish()
    }
}

// ===== the call =====

/// Queues a call on its pool.
pub(crate) fn queue<T, E, B, P, K>(core: &Arc<Core>, body: B, judge: P, fallback: K) -> Queued<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    let promise = Arc::new(Promise::new());
    let rest = Arc::new(Mutex::new(Some(fallback)));
    let mut captured = None;
    let then = |context: &Captured| Answering {
        context: context.clone(),
        fallback: rest.clone(),
        promise: promise.clone(),
    };
    let taken = |context: &Captured| {
        captured = Some(context.clone());
        then(context)
    };
    let call: Option<Arc<dyn Leave>> = match job::submit(core, body, judge, taken) {
        Submitted::Taken(job) => Some(job),
        Submitted::Refused(attempt) => {
            // The fallback of a refused call does not run here either.
            let capture = || contained(|| core.runtime.capture()).unwrap_or_default();
            let context = captured.unwrap_or_else(capture);
            then(&context).over(core, attempt, None);
            None
        }
    };
    Queued { promise, call }
}

/// After the attempt: the answer, or the fallback on a worker.
struct Answering<T, E, K> {
    context: Captured,
    /// Shared with whoever queues the call, who still needs it if the call is refused.
    fallback: Arc<Mutex<Option<K>>>,
    promise: Arc<Promise<Result<T, CommandError<E>>>>,
}

impl<T, E, K> Then<T, E> for Answering<T, E, K>
where
    T: Send + 'static,
    E: Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    fn over(&self, core: &Arc<Core>, attempt: Attempt<T, E>, woken: Option<&Meeting>) {
        let home = Home::current();
        let tell = if woken.is_some() { Tell::Elsewhere } else { Tell::Here };
        let failed = match conclude(core, home, attempt) {
            Next::Done(result) => return self.promise.answer(result),
            Next::FallBack(failed) => failed,
        };
        let fallback = self.fallback.lock().take();
        match fallback {
            Some(fallback) if fallback.form() != Form::Missing => {
                let (core, context) = (core.clone(), self.context.clone());
                FallbackTask::hand_over(core, failed, fallback, context, self.promise.clone(), tell);
            }
            _ => self.promise.answer(without_fallback(core, home, failed, &NotRun::MISSING, tell)),
        }
    }
}

impl<T, E, B, P, K> Leave for Job<T, E, B, P, Answering<T, E, K>>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    fn leave(&self) {
        if let Some(facts) = self.cancel() {
            close(self.core(), Home::current(), &facts, None, Ending::DIRECT);
        }
        self.clear();
    }

    fn clear(&self) {
        Job::clear(self);
    }
}

// ===== a fallback on a worker =====

/// Where the answer of a fallback that runs elsewhere goes.
pub(super) trait Answerer<T, E>: Send + Sync + 'static {
    fn answer(&self, result: Result<T, CommandError<E>>);
    /// Whether nobody waits any more.
    fn is_given_up(&self) -> bool;
}

impl<T: Send + 'static, E: Send + 'static> Answerer<T, E> for Promise<Result<T, CommandError<E>>> {
    fn answer(&self, result: Result<T, CommandError<E>>) {
        let unread = self.keep(result);
        drop_quietly(unread);
    }

    fn is_given_up(&self) -> bool {
        Promise::is_given_up(self)
    }
}

/// A fallback on its way to a worker.
pub(super) struct FallbackTask<T, E, K> {
    core: Arc<Core>,
    rest: Mutex<Option<(Failed<T, E>, K)>>,
    context: Captured,
    answerer: Arc<dyn Answerer<T, E>>,
    entry: AtomicU64,
    result: PhantomData<fn() -> (T, E)>,
}

impl<T, E, K> FallbackTask<T, E, K>
where
    T: Send + 'static,
    E: Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    /// Hands a fallback to the workers; if none can be had, the call is answered without it.
    pub(super) fn hand_over(
        core: Arc<Core>,
        failed: Failed<T, E>,
        fallback: K,
        context: Captured,
        answerer: Arc<dyn Answerer<T, E>>,
        tell: Tell,
    ) {
        let task = Arc::new(Self {
            core,
            rest: Mutex::new(Some((failed, fallback))),
            context,
            answerer,
            entry: AtomicU64::new(0),
            result: PhantomData,
        });
        let submitted = task.core.runtime.fallback_workers.submit(&Work(task.clone()), Room::Place);
        if let Err(refused) = submitted {
            task.answer_without(&NotRun::refused(&refused), tell);
        }
    }

    /// Answers with the original error. The fallback itself is dropped where user code may run.
    fn answer_without(&self, why: &NotRun, tell: Tell) {
        let Some((failed, fallback)) = self.rest.lock().take() else {
            return;
        };
        let result = without_fallback(&self.core, Home::current(), failed, why, tell);
        match tell {
            Tell::Here => drop_quietly(fallback),
            Tell::Elsewhere => self.core.runtime.elsewhere(&self.core.key, move || drop(fallback)),
        }
        self.answerer.answer(result);
    }
}

impl<T, E, K> Task for FallbackTask<T, E, K>
where
    T: Send + 'static,
    E: Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    fn run(self: Arc<Self>, seat: Seat<Work>, _now: Timestamp) {
        if self.answerer.is_given_up() {
            drop(seat);
            return self.answer_without(&NotRun::CANCELLED, Tell::Here);
        }
        let Some((failed, fallback)) = self.rest.lock().take() else {
            return;
        };
        let (core, home) = (&*self.core, Home::current());
        let permit = open_fallback(core, home, fallback.form(), &mut || {
            self.context.run(|| fallback.wants(&failed.error))
        });
        let permit = match permit {
            Ok(permit) => permit,
            Err(why) => {
                drop_quietly(fallback);
                drop(seat);
                let result = without_fallback(core, home, failed, &why, Tell::Here);
                return self.answerer.answer(result);
            }
        };
        let Failed { facts, error, .. } = failed;
        let original = error.rejection().map(Rejection::kind);
        let result = contained(|| self.context.run(|| fallback.answer(error)));
        drop(permit);
        drop(seat);
        if self.answerer.is_given_up() {
            // Nobody hears of it: however it ended, it was cancelled.
            drop_quietly(result);
            let ending = Ending::CANCELLED;
            return close(core, home, &facts, None, ending);
        }
        let result = after_fallback(core, home, &facts, original, result);
        self.answerer.answer(result);
    }

    fn refuse(&self, why: Refused) {
        self.answer_without(&NotRun::refused(&why), Tell::Here);
        // One that runs when its workers end is not waited for any longer; it is counted when it ends.
        let rejection = self.core.rejection(RejectionKind::ShutDown);
        self.answerer.answer(Err(rejection.into_error()));
    }

    fn is_over(&self) -> bool {
        false
    }

    fn entry(&self) -> &AtomicU64 {
        &self.entry
    }

    fn command(&self) -> &CommandKey {
        &self.core.key
    }
}
