//! An async call in its caller's task: the body's future lives inside the call's.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Fallen, Falling, answer_later, poll_contained};
use crate::admission::{Color, Core, Entry, Held, Ticket};
use crate::circuit_breaker::Verdict;
use crate::clock::Timestamp;
use crate::context;
use crate::error::{CommandError, RejectionKind};
use crate::execution::delay::Delay;
use crate::execution::judge::{self, Classify, Left};
use crate::execution::{Attempt, Ending, close, contained};
use crate::fallback::AsyncFallback;
use crate::outcome::{Mode, Outcome};
use crate::sync::Home;
use crate::sync::global::Arc;
use crate::timer::{Target, Token};

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
                    let falling = this.flight.falling.take().expect("a fallback runs under its permit");
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
        let mut entry = Entry::new(core, Color::Other);
        core.admit(&mut entry).map_err(Attempt::refused)?;
        self.held = Some(Held::new(core, &entry));
        let ticket = self.ticket.insert(Ticket::new(core, &entry));
        let delay = ticket.delay;
        Ok(delay)
    }

    /// Makes the body.
    fn begin<T, E, F, Fut>(&mut self, make: &mut Option<F>) -> Result<Fut, Left<T, E>>
    where
        F: FnOnce() -> Fut,
    {
        let core = self.core;
        let ticket = self.ticket.as_mut().expect("a body begins under its ticket");
        let start = if ticket.delay.is_zero() { ticket.arrival } else { core.clock.now() };
        ticket.begin(start);
        let make = make.take().expect("a body begins once");
        let deadline = ticket.deadline;
        contained(|| context::enter_until(&core.key, deadline, &core.clock, make))
            .map_err(|panic| Left::panic(core.clock.now(), panic))
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
        let deadline = ticket.deadline;
        let polled =
            contained(|| match context::enter_until(&core.key, deadline, &core.clock, || body.poll(cx)) {
                Poll::Pending => None,
                Poll::Ready(result) => Some(judge::left(core, cut_at, judge, result)),
            });
        match polled {
            Ok(None) => {}
            Ok(Some(left)) => return Poll::Ready(Over::Left(left)),
            Err(panic) => {
                return Poll::Ready(Over::Left(Left::panic(core.clock.now(), panic)));
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
            ticket.would_have_timed_out(Home::current(), ticket.deadline);
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

// ===== what a call in a task holds =====

/// Everything of a call in place that has to be given back. Declared after the body, so the body is dropped first.
struct Flight<'c> {
    core: &'c Arc<Core>,
    ticket: Option<Ticket<&'c Core>>,
    held: Option<Held<&'c Core>>,
    token: Option<Token>,
    falling: Option<Falling<'c>>,
}

impl Flight<'_> {
    fn new(core: &Arc<Core>) -> Flight<'_> {
        Flight { core, ticket: None, held: None, token: None, falling: None }
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
                close(self.core, home, &facts, Some(&ticket.timed_out()), Ending::CANCELLED);
            } else {
                if !in_time && ticket.mode == Mode::Shadow {
                    ticket.would_have_timed_out(home, ticket.deadline);
                }
                let facts = ticket.settle_alone(home, Outcome::Cancelled, now);
                close(self.core, home, &facts, None, Ending::DIRECT);
            }
        }
        if let Some(falling) = self.falling.take() {
            falling.abort(self.core);
        }
    }
}
