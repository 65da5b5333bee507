//! A call on a pool whose caller waits in a task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Fallen, Falling, answer_later, poll_contained};
use crate::admission::Core;
use crate::error::CommandError;
use crate::execution::job::{self, Body, Job, Submitted, Wait};
use crate::execution::judge::Classify;
use crate::execution::{Ending, close, close_unread};
use crate::fallback::AsyncFallback;
use crate::sync::Home;
use crate::sync::global::Arc;
use crate::unwind::contained;

pin_project! {
    /// A call on a pool whose caller waits in a task: await it.
    #[must_use = "futures do nothing unless polled"]
    // The answer is a parameter for the reason given at `InPlaceCall`.
    pub struct PoolCall<'c, T, E, B, P, K, A>
    where
        T: Send,
        T: 'static,
        E: Send,
        E: 'static,
        B: Body<T, E>,
        P: Classify<T, E>,
        P: Send,
        P: 'static,
    {
        #[pin]
        stage: OnPool<A>,
        call: Option<(B, P)>,
        fallback: Option<K>,
        away: Away<'c, T, E, B, P>,
    }
}

pin_project! {
    #[project = OnPoolAt]
    enum OnPool<A> {
        Start,
        Waiting,
        FallingBack { #[pin] answer: A },
        Done,
    }
}

/// A job whose caller waits for it.
type Waited<T, E, B, P> = Job<T, E, B, P, Wait<T, E>>;

/// What of a call on a pool has to be given back when its caller leaves.
struct Away<'c, T, E, B, P>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
{
    core: &'c Arc<Core>,
    job: Option<Arc<Waited<T, E, B, P>>>,
    falling: Option<Falling<'c>>,
}

impl<'c, T, E, B, P, K, A> PoolCall<'c, T, E, B, P, K, A>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
{
    pub(crate) fn new(core: &'c Arc<Core>, body: B, judge: P, fallback: K) -> Self {
        Self {
            stage: OnPool::Start,
            call: Some((body, judge)),
            fallback: Some(fallback),
            away: Away { core, job: None, falling: None },
        }
    }
}

impl<T, E, B, P, K, A> Future for PoolCall<'_, T, E, B, P, K, A>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: AsyncFallback<T, E, Answer = A>,
    A: Future<Output = Result<T, CommandError<E>>>,
{
    type Output = Result<T, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = this.away.core;
        loop {
            let attempt = match this.stage.as_mut().project() {
                OnPoolAt::Start => {
                    let (body, judge) = this.call.take().expect("a call begins once");
                    match job::submit(core, body, judge, |_| Wait::in_task()) {
                        Submitted::Refused(attempt) => attempt,
                        Submitted::Taken(job) => {
                            this.away.job = Some(job);
                            this.stage.set(OnPool::Waiting);
                            continue;
                        }
                    }
                }
                OnPoolAt::Waiting => {
                    let job = this.away.job.as_ref().expect("a call waits for its job");
                    let attempt = ready!(job.poll(cx));
                    job.clear();
                    this.away.job = None;
                    attempt
                }
                OnPoolAt::FallingBack { answer } => {
                    let result = ready!(poll_contained(answer, cx));
                    let _ = contained(|| this.stage.as_mut().set(OnPool::Done));
                    let falling = this.away.falling.take().expect("a fallback runs under its permit");
                    return Poll::Ready(falling.land(core, result));
                }
                OnPoolAt::Done => panic!("a call was polled after it had its answer"),
            };
            this.stage.set(OnPool::Done);
            let fallback = this.fallback.take().expect("an attempt is over once");
            match answer_later(core, attempt, fallback) {
                Fallen::Answered(result) => return Poll::Ready(result),
                Fallen::Begun(answer, falling) => {
                    this.away.falling = Some(falling);
                    this.stage.set(OnPool::FallingBack { answer });
                }
            }
        }
    }
}

impl<T, E, B, P> Drop for Away<'_, T, E, B, P>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
{
    fn drop(&mut self) {
        let core = self.core;
        if let Some(job) = self.job.take() {
            let home = Home::current();
            if let Some(facts) = job.cancel() {
                close(core, home, &facts, None, Ending::DIRECT);
            } else if let Some(attempt) = job.give_up() {
                close_unread(core, home, attempt);
            }
            job.clear();
        }
        if let Some(falling) = self.falling.take() {
            falling.abort(core);
        }
    }
}
