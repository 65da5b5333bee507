//! An async call in its caller's task: the body's future lives inside the call's.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Fallen, Falling, answer_later, poll_contained};
use crate::admission::{Color, Core, Entry, Held, Ticket};
use crate::circuit_breaker::Verdict;
use crate::clock::Timestamp;
use crate::context;
use crate::error::{CommandError, RejectionKind};
use crate::execution::delay::Delay;
use crate::execution::judge::{self, Classify, Ended, Left};
use crate::execution::{Attempt, Ending, close, succeeded};
use crate::fallback::AsyncFallback;
use crate::outcome::{Mode, Outcome};
use crate::sync::Home;
use crate::sync::global::Arc;
use crate::timer::{Target, Token};
use crate::unwind::{Panic, contained, drop_quietly};

pin_project! {
    /// An async call in its caller's task: await it.
    #[must_use = "futures do nothing unless polled"]
    // The fallback's answer is a parameter of its own and not a projection: whether a task that holds this is `Send` is asked with every lifetime
    // forgotten, `'static` too, and a projection cannot be resolved then.
    pub struct InPlaceCall<'c, T, E, F, Fut, P, K, A> {
        #[pin]
        stage: InPlace<F, Fut, A>,
        judge: P,
        fallback: Option<K>,
        flight: Flight<'c>,
        result: PhantomData<fn() -> (T, E)>,
    }
}

pin_project! {
    #[project = InPlaceAt]
    // What makes the body is in the body's place, so that what both hold takes its room once.
    enum InPlace<F, Fut, A> {
        Start { make: Option<F> },
        Delayed { delay: Delay, make: Option<F> },
        Running { #[pin] body: Fut },
        FallingBack { #[pin] answer: A },
        Done,
    }
}

impl<'c, T, E, F, Fut, P, K, A> InPlaceCall<'c, T, E, F, Fut, P, K, A> {
    #[inline]
    pub(crate) fn new(core: &'c Arc<Core>, make: F, judge: P, fallback: K) -> Self {
        Self {
            stage: InPlace::Start { make: Some(make) },
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

impl<T, E, F, Fut, P, K, A> Future for InPlaceCall<'_, T, E, F, Fut, P, K, A>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: Classify<T, E>,
    K: AsyncFallback<T, E, Answer = A>,
    A: Future<Output = Result<T, CommandError<E>>>,
{
    type Output = Result<T, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = this.flight.core;
        loop {
            let attempt = match this.stage.as_mut().project() {
                InPlaceAt::Start { make } => {
                    let mut entry = Entry::new(core, Color::Other);
                    if let Err(refusal) = core.admit(&mut entry) {
                        Attempt::refused(refusal)
                    } else if !entry.delay.is_zero() {
                        this.flight.take_off(&entry, Held::new(core, &entry));
                        // No longer than the attempt has.
                        let delay = entry.delay.min(entry.cut_at().since(entry.arrival));
                        let delay = Delay::new(core.runtime.clone(), delay);
                        let make = make.take();
                        this.stage.set(InPlace::Delayed { delay, make });
                        continue;
                    } else {
                        // A body that is ready at once needs no ticket: only this poll can settle its attempt, and user code runs
                        // in `contained` only.
                        let held = Held::new(&**core, &entry);
                        let (start, cut_at) = (entry.arrival, entry.cut_at());
                        let make = make.take().expect("a body begins once");
                        let mut ended = Ended::not_yet();
                        let ran = contained(|| {
                            let inside = context::enter_until(&core.key, cut_at, &core.clock);
                            let polled = begun(this.stage.as_mut(), make()).poll(cx);
                            drop(inside);
                            if let Poll::Ready(result) = polled {
                                ended.with(core, cut_at, this.judge, result);
                            }
                        });
                        if let Some((value, end)) = ended.good {
                            this.stage.end();
                            drop(held);
                            succeeded(core, &entry, start, end);
                            return Poll::Ready(Ok(value));
                        }
                        this.flight.take_off(&entry, held).begin(start);
                        let over = match ended.other(core, ran) {
                            Some(left) => Over::Left(left),
                            None => ready!(this.flight.await_deadline(cx)),
                        };
                        this.flight.over(this.stage.as_mut(), over)
                    }
                }
                InPlaceAt::Delayed { delay, make } => {
                    ready!(Pin::new(delay).poll(cx));
                    let make = make.take();
                    match this.flight.begin() {
                        Ok(()) => {
                            let over = this.flight.poll_body(this.stage.as_mut(), make, this.judge, cx);
                            this.flight.over(this.stage.as_mut(), ready!(over))
                        }
                        Err(now) => {
                            drop_quietly(make);
                            this.flight.land(Left::nothing(now))
                        }
                    }
                }
                InPlaceAt::Running { .. } => {
                    let over = this.flight.poll_body(this.stage.as_mut(), None, this.judge, cx);
                    this.flight.over(this.stage.as_mut(), ready!(over))
                }
                InPlaceAt::FallingBack { answer } => {
                    let result = ready!(poll_contained(answer, cx));
                    this.stage.end();
                    let falling = this.flight.falling.take().expect("a fallback runs under its permit");
                    return Poll::Ready(falling.land(core, result));
                }
                InPlaceAt::Done => panic!("a call was polled after it had its answer"),
            };
            this.stage.as_mut().end();
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

/// The body in its place.
#[inline]
fn begun<F, Fut, A>(mut stage: Pin<&mut InPlace<F, Fut, A>>, body: Fut) -> Pin<&mut Fut> {
    stage.set(InPlace::Running { body });
    match stage.project() {
        InPlaceAt::Running { body } => body,
        _ => unreachable!("it was set a line ago"),
    }
}

/// Polls a body that waited, or that was held up and is made first.
#[inline]
fn poll_body<T, E, F, Fut, A>(
    core: &Core,
    cut_at: Timestamp,
    mut stage: Pin<&mut InPlace<F, Fut, A>>,
    make: Option<F>,
    judge: &impl Classify<T, E>,
    cx: &mut Context<'_>,
) -> (Ended<T, E>, Result<(), Panic>)
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mut ended = Ended::not_yet();
    let ran = contained(|| {
        let inside = context::enter_until(&core.key, cut_at, &core.clock);
        if let Some(make) = make {
            stage.set(InPlace::Running { body: make() });
        }
        let polled = match stage.project() {
            InPlaceAt::Running { body } => body.poll(cx),
            _ => unreachable!("a body is polled where it runs"),
        };
        drop(inside);
        if let Poll::Ready(result) = polled {
            ended.with(core, cut_at, judge, result);
        }
    });
    (ended, ran)
}

impl<F, Fut, A> InPlace<F, Fut, A> {
    /// Drops what is there. Its panic is nobody's outcome.
    #[inline]
    fn end(mut self: Pin<&mut Self>) {
        if std::mem::needs_drop::<Self>() {
            let _ = contained(|| self.as_mut().set(InPlace::Done));
        } else {
            self.set(InPlace::Done);
        }
    }
}

impl<'c> Flight<'c> {
    /// Takes what admission gave: from here on it is given back when this is dropped.
    fn take_off(&mut self, entry: &Entry, held: Held<&'c Core>) -> &Ticket<&'c Core> {
        let core: &'c Core = self.core;
        self.held = Some(held);
        self.ticket.insert(Ticket::new(core, entry))
    }

    /// Begins a body that was held up. An error is the time, if it was held up for longer than it had.
    fn begin(&mut self) -> Result<(), Timestamp> {
        let ticket = self.ticket.as_ref().expect("a body begins under its ticket");
        let now = self.core.clock.now();
        if now >= ticket.cut_at() {
            return Err(now);
        }
        ticket.begin(now);
        Ok(())
    }

    fn poll_body<T, E, F, Fut, A>(
        &mut self,
        stage: Pin<&mut InPlace<F, Fut, A>>,
        make: Option<F>,
        judge: &impl Classify<T, E>,
        cx: &mut Context<'_>,
    ) -> Poll<Over<T, E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let ticket = self.ticket.as_ref().expect("a body runs under its ticket");
        let (ended, ran) = poll_body(self.core, ticket.cut_at(), stage, make, judge, cx);
        match ended.left(self.core, ran) {
            Some(left) => Poll::Ready(Over::Left(left)),
            None => self.await_deadline(cx),
        }
    }

    /// A body waits: sees to it that its deadline wakes the task, unless it has passed.
    fn await_deadline<T, E>(&mut self, cx: &Context<'_>) -> Poll<Over<T, E>> {
        match self.arm(cx) {
            Ok(true) => Poll::Pending,
            Ok(false) if self.ticket.as_ref().is_some_and(|ticket| ticket.mode == Mode::Enforce) => {
                Poll::Ready(Over::Cut)
            }
            // Shadow: nothing is cut, and a timer that has ended says nothing of the deadline.
            Ok(false) if self.core.runtime.timer.has_ended() => Poll::Pending,
            Ok(false) => {
                self.would_have_been_cut();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Over::NoThread(error)),
        }
    }

    /// Settles the attempt. The body goes first: what it holds, its permit included, is held until here.
    fn over<T, E, F, Fut, A>(
        &mut self,
        stage: Pin<&mut InPlace<F, Fut, A>>,
        over: Over<T, E>,
    ) -> Attempt<T, E> {
        stage.end();
        match over {
            Over::Left(left) => self.land(left),
            Over::Cut => self.cut(),
            Over::NoThread(error) => self.without_timer(&error),
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
        // What the timer has called is over, whatever this thread's clock says; only its end calls everything.
        if now >= ticket.deadline || !self.core.runtime.timer.has_ended() {
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

    /// Arms the deadline, or has it wake this task. False if it has been called.
    fn arm(&mut self, cx: &Context<'_>) -> io::Result<bool> {
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
                if !in_time && ticket.mode == Mode::Shadow && now >= ticket.deadline {
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
