//! The conductor for callers that wait in a task. One of the two places that wait.
//!
//! Nothing is boxed: the body's future lives inside the call's. The timer is armed at the first `Pending`, so a body that is ready
//! at once never touches it.
//!
//! # Cancellation
//!
//! Dropping a call's future at any point drops the body first, then gives back what the call holds ([`Flight`]), settles the attempt, and tells
//! who listens: cancelled, unless its deadline had been decided before.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::blocking::stop_at;
use super::delay::Delay;
use super::job::{self, Body, Job, Submitted, Wait};
use super::judge::{self, Classify, Left, drop_quietly};
use super::{
    Attempt, Ending, Failed, FallbackPermit, FallbackResult, Next, Tell, after_fallback, close, conclude,
    contained, frame, open_fallback, without_fallback,
};
use crate::admission::{Core, Facts, Held, Ticket, admit};
use crate::circuit_breaker::Verdict;
use crate::clock::Timestamp;
use crate::context;
use crate::error::{CommandError, Rejection, RejectionKind};
use crate::fallback::AsyncFallback;
use crate::outcome::{Mode, Outcome};
use crate::sync::Home;
use crate::sync::global::Arc;
use crate::timer::{Target, Token};

// ===== what a call in a task holds =====

/// Everything of a call in place that has to be given back. Declared after the body, so the body is dropped first.
struct Flight<'c> {
    core: &'c Arc<Core>,
    ticket: Option<Ticket<&'c Core>>,
    held: Option<Held<&'c Core>>,
    token: Option<Token>,
    falling: Option<Falling<'c>>,
}

/// A fallback under way.
struct Falling<'c> {
    facts: Facts,
    original: Option<RejectionKind>,
    permit: FallbackPermit<'c>,
}

impl Flight<'_> {
    fn new(core: &Arc<Core>) -> Flight<'_> {
        Flight {
            core,
            ticket: None,
            held: None,
            token: None,
            falling: None,
        }
    }

    /// Settles the attempt at its body's end.
    fn land<T, E>(&mut self, left: Left<T, E>) -> Attempt<T, E> {
        drop(self.held.take());
        self.disarm();
        let mut ticket = self.ticket.take().expect("a body runs under its ticket");
        let end = left.end;
        let (outcome, answer) = judge::verdict(&ticket, left);
        let facts = ticket.settle_alone(Home::current(), outcome, end);
        Attempt { facts, answer }
    }

    /// Settles the attempt whose deadline the timer has called, or whose timer has ended.
    fn cut<T, E>(&mut self) -> Attempt<T, E> {
        drop(self.held.take());
        let mut ticket = self.ticket.take().expect("a body runs under its ticket");
        let (home, now) = (Home::current(), self.core.clock.now());
        if now >= ticket.deadline {
            let facts = ticket.settle_alone(home, Outcome::Timeout, ticket.deadline);
            return Attempt::failed(facts, ticket.timed_out());
        }
        let outcome = self.core.rejected_by_isolation();
        ticket.settle(outcome);
        let (facts, change) = ticket.account_silently(home, outcome, Verdict::Neutral, now, false);
        self.core.runtime.circuit_changed(change);
        Attempt::failed(facts, self.core.rejection(RejectionKind::ShutDown))
    }

    /// Returns whether the timer had not fired.
    fn disarm(&mut self) -> bool {
        let token = self.token.take();
        token.is_none_or(|token| self.core.runtime.timer.cancel(token))
    }

    /// A body waits: sees to it that the deadline wakes the task. False if the deadline has been called.
    fn await_deadline(&mut self, cx: &Context<'_>) -> io::Result<bool> {
        let timer = &self.core.runtime.timer;
        if let Some(token) = &self.token {
            return Ok(timer.refresh(token, cx.waker()));
        }
        let Some(ticket) = &self.ticket else {
            return Ok(true);
        };
        if ticket.deadline < Timestamp::MAX {
            let target = Target::Waker(cx.waker().clone());
            self.token = Some(timer.arm(Home::current(), ticket.deadline, target)?);
        }
        Ok(true)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        let in_time = self.disarm();
        if let Some(mut ticket) = self.ticket.take() {
            let (home, now) = (Home::current(), self.core.clock.now());
            let timed_out = !in_time && ticket.mode == Mode::Enforce && now >= ticket.deadline;
            if timed_out {
                let facts = ticket.settle_alone(home, Outcome::Timeout, ticket.deadline);
                close(
                    self.core,
                    home,
                    &facts,
                    Some(&ticket.timed_out()),
                    Ending::CANCELLED,
                );
            } else {
                let facts = ticket.settle_alone(home, Outcome::Cancelled, now);
                close(self.core, home, &facts, None, Ending::DIRECT);
            }
        }
        if let Some(falling) = self.falling.take() {
            falling.abort(self.core);
        }
    }
}

/// What follows on a failed attempt: the answer, or a fallback to await.
enum Fallen<'c, T, E, A> {
    Answered(Result<T, CommandError<E>>),
    Begun(A, Falling<'c>),
}

/// The rest of a call in a task whose attempt is settled.
fn answer_later<'c, T, E, K>(
    core: &'c Core,
    attempt: Attempt<T, E>,
    fallback: K,
) -> Fallen<'c, T, E, K::Answer>
where
    K: AsyncFallback<T, E>,
{
    let home = Home::current();
    match conclude(core, home, attempt) {
        Next::Done(result) => Fallen::Answered(result),
        Next::FallBack(failed) => fall_back_later(core, home, failed, fallback),
    }
}

#[cold]
fn fall_back_later<'c, T, E, K>(
    core: &'c Core,
    home: Home,
    failed: Failed<T, E>,
    fallback: K,
) -> Fallen<'c, T, E, K::Answer>
where
    K: AsyncFallback<T, E>,
{
    let permit = open_fallback(core, home, fallback.form(), || fallback.wants(&failed.error));
    let permit = match permit {
        Ok(permit) => permit,
        Err(why) => {
            return Fallen::Answered(without_fallback(core, home, failed, &why, Tell::Here));
        }
    };
    let Failed { facts, error, .. } = failed;
    let original = error.rejection().map(Rejection::kind);
    match contained(|| fallback.begin(error)) {
        Ok(answer) => Fallen::Begun(
            answer,
            Falling {
                facts,
                original,
                permit,
            },
        ),
        Err(panic) => {
            drop(permit);
            Fallen::Answered(after_fallback(core, home, &facts, original, Err(panic)))
        }
    }
}

impl Falling<'_> {
    /// The fallback has answered, or panicked.
    fn land<T, E>(self, core: &Core, result: FallbackResult<T, E>) -> Result<T, CommandError<E>> {
        drop(self.permit);
        after_fallback(core, Home::current(), &self.facts, self.original, result)
    }

    /// The caller has left.
    fn abort(self, core: &Core) {
        drop(self.permit);
        let original = self.original.map(|kind| core.rejection(kind));
        close(
            core,
            Home::current(),
            &self.facts,
            original.as_ref(),
            Ending::CANCELLED,
        );
    }
}

/// Polls user code with its panics contained.
fn poll_contained<F: Future>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, Box<dyn std::any::Any + Send>>> {
    match contained(|| future.poll(cx)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

// ===== in place =====

pin_project! {
    /// An async call in its caller's task: await it.
    #[must_use = "futures do nothing unless polled"]
    pub struct InPlaceCall<'c, T, E, F, Fut, P, K>
    where
        K: AsyncFallback<T, E>,
    {
        #[pin]
        stage: InPlace<Fut, K::Answer>,
        make: Option<F>,
        judge: P,
        fallback: Option<K>,
        flight: Flight<'c>,
        result: PhantomData<fn() -> (T, E)>,
    }
}

pin_project! {
    #[project = InPlaceAt]
    enum InPlace<Fut, A> {
        Start,
        Delayed { delay: Delay },
        Running { #[pin] body: Fut },
        FallingBack { #[pin] answer: A },
        Done,
    }
}

impl<'c, T, E, F, Fut, P, K> InPlaceCall<'c, T, E, F, Fut, P, K>
where
    K: AsyncFallback<T, E>,
{
    pub(crate) fn new(core: &'c Arc<Core>, make: F, judge: P, fallback: K) -> Self {
        Self {
            stage: InPlace::Start,
            make: Some(make),
            judge,
            fallback: Some(fallback),
            flight: Flight::new(core),
            result: PhantomData,
        }
    }
}

/// How a poll of a body ended its attempt.
enum Over<T, E> {
    Left(Left<T, E>),
    Cut,
    NoThread(io::Error),
}

impl<T, E, F, Fut, P, K> Future for InPlaceCall<'_, T, E, F, Fut, P, K>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: Classify<T, E>,
    K: AsyncFallback<T, E>,
{
    type Output = Result<T, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = this.flight.core;
        loop {
            let attempt = match this.stage.as_mut().project() {
                InPlaceAt::Start => match this.flight.take_off() {
                    Err(attempt) => attempt,
                    Ok(delay) if delay.is_zero() => match this.flight.begin(this.make) {
                        Ok(body) => {
                            this.stage.set(InPlace::Running { body });
                            continue;
                        }
                        Err(left) => this.flight.land(left),
                    },
                    Ok(delay) => {
                        let delay = Delay::new(core.runtime.clone(), delay);
                        this.stage.set(InPlace::Delayed { delay });
                        continue;
                    }
                },
                InPlaceAt::Delayed { delay } => {
                    ready!(Pin::new(delay).poll(cx));
                    match this.flight.begin(this.make) {
                        Ok(body) => {
                            this.stage.set(InPlace::Running { body });
                            continue;
                        }
                        Err(left) => this.flight.land(left),
                    }
                }
                InPlaceAt::Running { body } => {
                    let over = ready!(this.flight.poll_body(body, this.judge, cx));
                    // The body goes first: what it holds, its permit included, is held until here.
                    let _ = contained(|| this.stage.as_mut().set(InPlace::Done));
                    match over {
                        Over::Left(left) => this.flight.land(left),
                        Over::Cut => this.flight.cut(),
                        Over::NoThread(error) => this.flight.without_timer(&error),
                    }
                }
                InPlaceAt::FallingBack { answer } => {
                    let result = ready!(poll_contained(answer, cx));
                    let _ = contained(|| this.stage.as_mut().set(InPlace::Done));
                    let falling = this
                        .flight
                        .falling
                        .take()
                        .expect("a fallback runs under its permit");
                    return Poll::Ready(falling.land(core, result));
                }
                InPlaceAt::Done => panic!("a call was polled after it had its answer"),
            };
            this.stage.set(InPlace::Done);
            let fallback = this.fallback.take().expect("an attempt is over once");
            match answer_later(core, attempt, fallback) {
                Fallen::Answered(result) => return Poll::Ready(result),
                Fallen::Begun(answer, falling) => {
                    this.flight.falling = Some(falling);
                    this.stage.set(InPlace::FallingBack { answer });
                }
            }
        }
    }
}

impl<'c> Flight<'c> {
    /// Asks for admission; the body may begin after a forced latency.
    fn take_off<T, E>(&mut self) -> Result<Duration, Attempt<T, E>> {
        let core: &'c Core = self.core;
        let (home, now) = (Home::current(), core.clock.now());
        let (ticket, held) = admit(core, home, now, core.live.deadline(now)).map_err(Attempt::refused)?;
        core.stats.look(home, now);
        let delay = ticket.delay;
        self.held = Some(held);
        self.ticket = Some(ticket);
        Ok(delay)
    }

    /// Makes the body.
    fn begin<T, E, F, Fut>(&mut self, make: &mut Option<F>) -> Result<Fut, Left<T, E>>
    where
        F: FnOnce() -> Fut,
    {
        let core = self.core;
        let ticket = self.ticket.as_mut().expect("a body begins under its ticket");
        let start = if ticket.delay.is_zero() {
            ticket.arrival
        } else {
            core.clock.now()
        };
        ticket.begin_alone(start);
        let make = make.take().expect("a body begins once");
        let stop = stop_at(core, ticket.deadline);
        contained(|| context::enter(frame(core, stop), make)).map_err(|panic| Left {
            end: core.clock.now(),
            result: Err(panic),
        })
    }

    fn poll_body<T, E, Fut>(
        &mut self,
        body: Pin<&mut Fut>,
        judge: &impl Classify<T, E>,
        cx: &mut Context<'_>,
    ) -> Poll<Over<T, E>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let core = self.core;
        let ticket = self.ticket.as_ref().expect("a body runs under its ticket");
        let (cut_at, mode) = (ticket.cut_at(), ticket.mode);
        let stop = stop_at(core, ticket.deadline);
        let polled = contained(|| match context::enter(frame(core, stop), || body.poll(cx)) {
            Poll::Pending => None,
            Poll::Ready(result) => Some(judge::left(core, cut_at, judge, result)),
        });
        match polled {
            Ok(None) => {}
            Ok(Some(left)) => return Poll::Ready(Over::Left(left)),
            Err(panic) => {
                return Poll::Ready(Over::Left(Left {
                    end: core.clock.now(),
                    result: Err(panic),
                }));
            }
        }
        match self.await_deadline(cx) {
            Ok(true) => Poll::Pending,
            Ok(false) if mode == Mode::Enforce => Poll::Ready(Over::Cut),
            Ok(false) => {
                self.would_have_been_cut();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Over::NoThread(error)),
        }
    }

    /// Shadow mode: enforcing would have dropped the body here, and given its permit back.
    fn would_have_been_cut(&mut self) {
        if let Some(ticket) = &self.ticket {
            ticket.would_have_timed_out(Home::current(), self.core.clock.now());
        }
        drop(self.held.take());
        self.token = Some(Token::NEVER);
    }

    /// The timer could not be armed: the system refuses it its thread.
    fn without_timer<T, E>(&mut self, error: &io::Error) -> Attempt<T, E> {
        drop(self.held.take());
        let ticket = self.ticket.take().expect("a body runs under its ticket");
        Attempt::no_thread(Home::current(), &ticket, error)
    }
}

// ===== on a pool =====

pin_project! {
    /// A call on a pool whose caller waits in a task: await it.
    #[must_use = "futures do nothing unless polled"]
    pub struct PoolCall<'c, T, E, B, P, K>
    where
        T: Send,
        T: 'static,
        E: Send,
        E: 'static,
        B: Body<T, E>,
        P: Classify<T, E>,
        P: Send,
        P: 'static,
        K: AsyncFallback<T, E>,
    {
        #[pin]
        stage: OnPool<K::Answer>,
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

/// What of a call on a pool has to be given back when its caller leaves.
struct Away<'c, T, E, B, P>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
{
    core: &'c Arc<Core>,
    job: Option<Arc<Job<T, E, B, P, Wait<T, E>>>>,
    falling: Option<Falling<'c>>,
}

impl<'c, T, E, B, P, K> PoolCall<'c, T, E, B, P, K>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: AsyncFallback<T, E>,
{
    pub(crate) fn new(core: &'c Arc<Core>, body: B, judge: P, fallback: K) -> Self {
        Self {
            stage: OnPool::Start,
            call: Some((body, judge)),
            fallback: Some(fallback),
            away: Away {
                core,
                job: None,
                falling: None,
            },
        }
    }
}

impl<T, E, B, P, K> Future for PoolCall<'_, T, E, B, P, K>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: AsyncFallback<T, E>,
{
    type Output = Result<T, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = this.away.core;
        loop {
            let attempt = match this.stage.as_mut().project() {
                OnPoolAt::Start => {
                    let (body, judge) = this.call.take().expect("a call begins once");
                    match job::submit(core, Home::current(), body, judge, |_| Wait::in_task()) {
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
                    let falling = this
                        .away
                        .falling
                        .take()
                        .expect("a fallback runs under its permit");
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
                // Settled before its caller left, and not read.
                match conclude(core, home, attempt) {
                    Next::Done(result) => drop_quietly(result),
                    Next::FallBack(failed) => {
                        let rejection = failed.error.rejection();
                        close(core, home, &failed.facts, rejection, Ending::CANCELLED);
                    }
                }
            }
            job.clear();
        }
        if let Some(falling) = self.falling.take() {
            falling.abort(core);
        }
    }
}
