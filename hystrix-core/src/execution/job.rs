//! A body on a pool: one allocation that its caller, a worker and the timer share.
//!
//! The ticket inside says who decides. The worker runs what it took and settles at the body's end; the timer settles at the deadline; the
//! caller settles when it leaves. Whoever wins tells the waiting side ([`Then`]); whoever loses lets go of what
//! it has. A body that was never begun is dropped by its caller or a worker, never by the timer's thread.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::task::{Context, Poll};

use super::blocking::{block_on, wait_for};
use super::delay::Delay;
use super::judge::{self, Classify, Left};
use super::promise::Promise;
use super::{Attempt, abandoned_ended, close_unread};
use crate::admission::{Color, Core, Entry, Facts, Held, Stage, Ticket};
use crate::circuit_breaker::Verdict;
use crate::clock::Timestamp;
use crate::context::{self, Captured, StopSign};
use crate::error::{Rejection, RejectionKind};
use crate::identity::CommandKey;
use crate::outcome::{Mode, Outcome};
use crate::sync::global::{Arc, AtomicBool, Mutex, Relaxed};
use crate::sync::{AtomicU64, AtomicWaker, Home};
use crate::timer::{Due, Meeting, Target, Token};
use crate::unwind::{contained, drop_quietly};
use crate::workers::{Refused, Room, Seat, Task, Work};

// ===== bodies =====

/// What a pool can run. Sealed by its two implementors.
pub trait Body<T, E>: Send + 'static {
    /// A body that stops where it waits when its attempt is over; the other kind runs on as abandoned work.
    #[doc(hidden)]
    const STOPS: bool;

    /// Runs on a worker; `None` if it was stopped.
    #[doc(hidden)]
    fn run(self, worker: &OnWorker<'_>) -> Option<Result<T, E>>;
}

/// A synchronous body.
#[derive(Debug)]
pub struct Blocking<F>(pub(crate) F);

/// A closure that makes an asynchronous body.
#[derive(Debug)]
pub struct Async<F>(pub(crate) F);

impl<T, E, F> Body<T, E> for Blocking<F>
where
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    const STOPS: bool = false;

    fn run(self, worker: &OnWorker<'_>) -> Option<Result<T, E>> {
        Some(worker.inside(self.0))
    }
}

impl<T, E, F, Fut> Body<T, E> for Async<F>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>>,
{
    const STOPS: bool = true;

    /// Made and polled here, so only the closure crosses threads; the worker is held while the future waits.
    fn run(self, worker: &OnWorker<'_>) -> Option<Result<T, E>> {
        let mut future = pin!(Some(worker.inside(self.0)));
        let result = block_on(|cx| {
            worker.runner.register(cx.waker());
            if worker.stop.is_over() {
                return Poll::Ready(None);
            }
            let polled = worker.inside(|| future.as_mut().as_pin_mut().map(|future| future.poll(cx)));
            polled.expect("it is there until it has ended").map(Some)
        });
        // What it holds is dropped where it ran. Its panic is nobody's outcome, as in place.
        let _ = contained(|| worker.inside(|| future.set(None)));
        result
    }
}

/// The surroundings of a body on a worker.
pub struct OnWorker<'j> {
    core: &'j Core,
    context: &'j Captured,
    stop: Arc<dyn StopSign>,
    /// Wakes the worker when the attempt is over.
    runner: &'j AtomicWaker,
}

impl fmt::Debug for OnWorker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnWorker").finish_non_exhaustive()
    }
}

impl OnWorker<'_> {
    /// Runs user code with the caller's context, and as this command.
    fn inside<R>(&self, run: impl FnOnce() -> R) -> R {
        let sign = self.stop.clone();
        self.context.run(|| {
            let _inside = context::enter(&self.core.key, sign);
            run()
        })
    }
}

// ===== the job =====

/// What is to happen when an attempt on a pool is over. Told once, by whoever settled it.
pub(super) trait Then<T, E>: Send + Sync + 'static {
    /// On the timer's thread `woken` is there, and no user code may run.
    fn over(&self, core: &Arc<Core>, attempt: Attempt<T, E>, woken: Option<&Meeting>);
}

pub(super) struct Job<T, E, B, P, N> {
    ticket: Ticket<Arc<Core>>,
    /// Its entry in the pool's queue.
    entry: AtomicU64,
    rest: Mutex<Rest<B, P>>,
    context: Captured,
    /// Wakes the worker that polls an async body.
    runner: AtomicWaker,
    then: N,
    result: PhantomData<fn() -> (T, E)>,
}

/// What is taken once, by whoever needs it.
struct Rest<B, P> {
    body: Option<(B, P)>,
    held: Option<Held<Arc<Core>>>,
    token: Option<Token>,
}

/// A call on its way to a pool.
pub(super) enum Submitted<J, T, E> {
    Taken(Arc<J>),
    Refused(Attempt<T, E>),
}

/// Admits a call, arms its timeout, and hands its body to the pool.
pub(super) fn submit<T, E, B, P, N>(
    core: &Arc<Core>,
    body: B,
    judge: P,
    then: impl FnOnce(&Captured) -> N,
) -> Submitted<Job<T, E, B, P, N>, T, E>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    N: Then<T, E>,
{
    let mut entry = Entry::new(core, Color::Other);
    if let Err(refusal) = core.admit(&mut entry) {
        drop_quietly((body, judge));
        return Submitted::Refused(Attempt::refused(refusal));
    }
    let home = entry.home;
    let context = match contained(|| core.runtime.capture()) {
        Ok(context) => context,
        Err(panic) => {
            drop_quietly((body, judge));
            return Submitted::Refused(Attempt::panicked(core, &entry, panic));
        }
    };
    let ticket = Ticket::new(core.clone(), &entry);
    let held = Held::new(core.clone(), &entry);
    let cut_at = ticket.cut_at();
    let job = Arc::new(Job {
        ticket,
        entry: AtomicU64::new(0),
        rest: Mutex::new(Rest { body: Some((body, judge)), held: Some(held), token: None }),
        then: then(&context),
        context,
        runner: AtomicWaker::new(),
        result: PhantomData,
    });
    // Armed before queueing, so time in the queue counts.
    if cut_at < Timestamp::MAX {
        match core.runtime.timer.arm(home, cut_at, Target::Claim(job.clone())) {
            Ok(token) => job.rest.lock().token = Some(token),
            Err(error) => return Submitted::Refused(Attempt::no_thread(home, &job.ticket, &error)),
        }
    }
    job.enqueue(home)
}

impl<T, E, B, P, N> Job<T, E, B, P, N>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    N: Then<T, E>,
{
    pub(super) fn core(&self) -> &Arc<Core> {
        self.ticket.core()
    }

    /// Drops a body that was never begun, when the attempt is over. Not for the timer's thread.
    pub(super) fn clear(&self) {
        let body = self.rest.lock().body.take();
        drop_quietly(body);
    }

    fn enqueue(self: Arc<Self>, home: Home) -> Submitted<Self, T, E> {
        let core = self.core().clone();
        let pool = core.pool.as_ref().expect("a command of this kind is built with its pool");
        let work = Work(self.clone());
        let room = match self.ticket.mode {
            Mode::Off => Room::Beyond,
            Mode::Enforce | Mode::Shadow => Room::Place,
        };
        let (mut result, event) = pool.submit(&work, room);
        core.runtime.pool_event(pool.name(), event);
        if self.ticket.mode == Mode::Shadow && matches!(result, Err(Refused::Full { .. })) {
            self.ticket.would_have_been_rejected(home, self.ticket.arrival);
            (result, _) = pool.submit(&work, Room::Beyond);
        }
        let Err(refused) = result else {
            core.stats.look(home, self.ticket.arrival);
            return Submitted::Taken(self);
        };
        let outcome = Outcome::ThreadPoolRejected;
        if self.ticket.settle(outcome).is_none() {
            // Its deadline was faster, and has told the waiting side.
            return Submitted::Taken(self);
        }
        self.let_go(Stage::Waiting);
        self.clear();
        let (rejection, verdict) = rejection(&core, refused);
        let now = core.clock.now();
        core.warn_of(now, outcome, &rejection);
        let (facts, change) = self.ticket.account_silently(home, outcome, verdict, now, false);
        core.runtime.circuit_changed(change);
        Submitted::Refused(Attempt::failed(facts, rejection))
    }

    /// What follows when the attempt was settled without its body.
    fn settled_without_body(&self, stage: Stage) {
        if let Some(pool) = &self.core().pool {
            match stage {
                Stage::Waiting => pool.withdraw(&self.entry),
                Stage::Running if B::STOPS => self.runner.wake(),
                Stage::Running => pool.abandon(&self.entry),
            }
        }
        self.let_go(stage);
    }

    /// Gives back what a settled attempt holds: its timer entry, and its permit unless a body has it.
    fn let_go(&self, stage: Stage) {
        let mut rest = self.rest.lock();
        let token = rest.token.take();
        let held = (stage == Stage::Waiting).then(|| rest.held.take());
        drop(rest);
        drop(held);
        if let Some(token) = token {
            self.core().runtime.timer.cancel(token);
        }
    }

    /// The caller leaves; `None` if the attempt was settled before.
    pub(super) fn cancel(&self) -> Option<Facts> {
        let core = self.core();
        let home = Home::current();
        let (stage, abandoned) = self.ticket.settle_without_body(home, Outcome::Cancelled, !B::STOPS)?;
        let now = core.clock.now();
        let facts = self.ticket.account(home, Outcome::Cancelled, now, abandoned);
        self.settled_without_body(stage);
        self.clear();
        Some(facts)
    }

    /// Runs what was taken, unless there is nothing to run any more. `None`: it was stopped.
    fn run_body(self: &Arc<Self>, now: Timestamp) -> Option<Left<T, E>> {
        let core = self.core();
        let (body, judge) = self.rest.lock().body.take()?;
        if !self.ticket.delay.is_zero() {
            wait_for(Delay::new(core.runtime.clone(), self.ticket.delay));
            if self.ticket.is_over() {
                drop_quietly((body, judge));
                return None;
            }
        }
        let worker = OnWorker { core, context: &self.context, stop: self.clone(), runner: &self.runner };
        let cut_at = self.ticket.cut_at();
        if now >= cut_at {
            // The deadline passed in the queue, and this worker was faster than the timer.
            drop_quietly((body, judge));
            return Some(Left::nothing(now));
        }
        let ran = contained(|| {
            let result = body.run(&worker)?;
            Some(self.context.run(|| judge::left(core, cut_at, &judge, result)))
        });
        drop_quietly(judge);
        ran.unwrap_or_else(|panic| Some(Left::panic(core.clock.now(), panic)))
    }
}

fn rejection(core: &Core, refused: Refused) -> (Rejection, Verdict) {
    match refused {
        Refused::Full { places, in_use } => {
            let rejection = core.rejection(RejectionKind::PoolFull);
            (rejection.with_limit(places).with_in_use(in_use), Verdict::Refused)
        }
        Refused::NoThread(error) => {
            let rejection = core.rejection(RejectionKind::NoThread);
            (rejection.with_message(error.to_string()), Verdict::Refused)
        }
        Refused::ShutDown => (core.rejection(RejectionKind::ShutDown), Verdict::Neutral),
    }
}

// ===== the worker, the timer, and the end of the pool =====

impl<T, E, B, P, N> Task for Job<T, E, B, P, N>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    N: Then<T, E>,
{
    fn run(self: Arc<Self>, seat: Seat<Work>, now: Timestamp) {
        if !self.ticket.begin(now) {
            drop(seat);
            self.clear();
            return;
        }
        let home = Home::current();
        if self.ticket.mode != Mode::Off {
            self.core().stats.queued(home, now, now.nanos_since(self.ticket.arrival));
        }
        let left = self.run_body(now);
        // Innermost first: the place, then the permit; the caller is told last.
        drop(seat);
        let held = self.rest.lock().held.take();
        drop(held);
        let end = left.as_ref().map_or_else(|| self.core().clock.now(), |left| left.end);
        let panicked = left.as_ref().is_some_and(Left::panicked);
        if let Some(left) = left {
            let (outcome, answer) = judge::verdict(&self.ticket, left);
            if self.ticket.settle(outcome).is_some() {
                self.let_go(Stage::Running);
                let facts = self.ticket.account(home, outcome, end, false);
                self.then.over(self.core(), Attempt { facts, answer }, None);
                return;
            }
            drop_quietly(answer);
        }
        if !B::STOPS {
            abandoned_ended(&self.ticket, end, panicked);
        }
    }

    fn refuse(&self, why: Refused) {
        let outcome = Outcome::ThreadPoolRejected;
        let core = self.core();
        let home = Home::current();
        let Some((stage, abandoned)) = self.ticket.settle_without_body(home, outcome, !B::STOPS) else {
            return;
        };
        let now = core.clock.now();
        let (rejection, verdict) = rejection(core, why);
        let (facts, change) = self.ticket.account_silently(home, outcome, verdict, now, abandoned);
        core.runtime.circuit_changed(change);
        self.settled_without_body(stage);
        self.then.over(core, Attempt::failed(facts, rejection), None);
    }

    fn is_over(&self) -> bool {
        self.ticket.is_over()
    }

    fn entry(&self) -> &AtomicU64 {
        &self.entry
    }

    fn command(&self) -> &CommandKey {
        &self.core().key
    }
}

impl<T, E, B, P, N> Due for Job<T, E, B, P, N>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    N: Then<T, E>,
{
    fn due(self: Arc<Self>, now: Timestamp, woken: &Meeting) {
        if let Some(cut) = self.ticket.cut_by_timer(now, !B::STOPS) {
            self.settled_without_body(cut.stage);
            self.then.over(self.core(), Attempt::cut(cut), Some(woken));
        }
        let core = self.core().clone();
        if let Some(job) = Arc::into_inner(self) {
            // Everybody else has gone meanwhile, and left a body here.
            core.runtime.elsewhere(&core.key, move || drop(job));
        }
    }
}

impl<T, E, B, P, N> StopSign for Job<T, E, B, P, N>
where
    B: Send,
    P: Send,
    N: Send + Sync,
{
    fn is_over(&self) -> bool {
        self.ticket.is_over()
    }
}

// ===== a caller that waits =====

/// The caller waits, on its thread or in its task, and has its own fallback.
pub(super) struct Wait<T, E> {
    attempt: Promise<Attempt<T, E>>,
    /// The caller is parked, and the clock is one that waits for those it wakes.
    meets: bool,
    /// It is expected at the meeting.
    met: AtomicBool,
}

impl<T, E> Wait<T, E> {
    pub(super) fn on_thread(core: &Core) -> Self {
        Self { meets: !core.clock.is_system(), ..Self::in_task() }
    }

    pub(super) fn in_task() -> Self {
        Self { attempt: Promise::new(), meets: false, met: AtomicBool::new(false) }
    }
}

impl<T: Send + 'static, E: Send + 'static> Then<T, E> for Wait<T, E> {
    fn over(&self, core: &Arc<Core>, attempt: Attempt<T, E>, woken: Option<&Meeting>) {
        if let (Some(meeting), true) = (woken, self.meets) {
            meeting.expect();
            self.met.store(true, Relaxed);
        }
        let Some(unread) = self.attempt.keep(attempt) else {
            return;
        };
        // The caller left between the decision and here; only this side can still close its call.
        if woken.is_some() {
            let own = core.clone();
            core.runtime.elsewhere(&core.key, move || close_unread(&own, Home::current(), unread));
        } else {
            close_unread(core, Home::current(), unread);
        }
    }
}

impl<T, E, B, P> Job<T, E, B, P, Wait<T, E>> {
    /// Takes the settled attempt, or sees to it that the task is woken.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Attempt<T, E>> {
        let attempt = std::task::ready!(self.then.attempt.poll(cx));
        if self.then.met.swap(false, Relaxed) {
            self.ticket.core().runtime.timer.meeting().arrive();
        }
        Poll::Ready(attempt)
    }

    /// Takes an attempt that was settled before its caller left, if there is one.
    pub(super) fn give_up(&self) -> Option<Attempt<T, E>> {
        self.then.attempt.give_up()
    }
}
