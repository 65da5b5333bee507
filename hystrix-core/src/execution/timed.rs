//! A synchronous body on its caller's thread, with a timeout and a fallback.
//!
//! The caller cannot return before its body does. What can be done at the deadline is done there: the timer settles the
//! attempt, so circuit and counts know at once, and a fallback that owns what it needs is handed to a fallback worker. A
//! fallback that borrows waits for the caller.

use super::blocking::{answer_here, begin, block_on, fall_back_here};
use super::judge::{self, Classify, Ended};
use super::promise::Promise;
use super::queued::{Answerer, FallbackTask};
use super::{Attempt, Failed, Tell, abandoned_ended, succeeded};
use crate::admission::{Color, Core, Cut, Entry, Held, Ticket};
use crate::clock::Timestamp;
use crate::context::{self, Captured};
use crate::error::CommandError;
use crate::fallback::{Fallback, Here, NoFallback, Owned, Plain, Value, When};
use crate::isolation::semaphore::PermitRelease;
use crate::outcome::Outcome;
use crate::sync::global::{Arc, Mutex};
use crate::timer::{Due, Meeting, Target};
use crate::unwind::{contained, drop_quietly};

/// A fallback of a synchronous call in place: says what a timeout does. Sealed.
pub trait InPlace<T, E>: Fallback<T, E> {
    /// Whether a timeout arms the timer. Without a fallback nothing can be done at the deadline, and the clock's reading at
    /// the end decides.
    #[doc(hidden)]
    const ARMS: bool = true;

    /// Conducts the call with an armed timeout.
    #[doc(hidden)]
    fn timed<B, P>(self, core: &Arc<Core>, body: B, judge: P) -> Result<T, CommandError<E>>
    where
        B: FnOnce() -> Result<T, E>,
        P: Classify<T, E>,
    {
        let mut entry = Entry::new(core, Color::SyncInPlace);
        if let Err(refusal) = core.admit(&mut entry) {
            drop_quietly((body, judge));
            return fall_back_here(core, entry.home, Failed::refused(refusal), self);
        }
        let attempt = match race(core, &entry, body, judge, Borrowing(Promise::new())) {
            (Raced::Good(value), _) => {
                drop_quietly(self);
                return Ok(value);
            }
            (Raced::Settled(attempt), _) => attempt,
            (Raced::Cut, timed) => Attempt::cut(block_on(|cx| timed.at_deadline.0.poll(cx))),
        };
        answer_here(core, entry.home, attempt, self)
    }
}

impl<T, E> InPlace<T, E> for NoFallback {
    const ARMS: bool = false;
}
impl<T, E, W: Fn(&CommandError<E>) -> bool> InPlace<T, E> for When<NoFallback, W> {
    const ARMS: bool = false;
}
impl<T, E> InPlace<T, E> for Value<T> {}
impl<T, E, W: Fn(&CommandError<E>) -> bool> InPlace<T, E> for When<Value<T>, W> {}
impl<T, E, G> InPlace<T, E> for Here<G, Plain> where G: FnOnce(CommandError<E>) -> Result<T, E> {}
impl<T, E, G, W> InPlace<T, E> for When<Here<G, Plain>, W>
where
    G: FnOnce(CommandError<E>) -> Result<T, E>,
    W: Fn(&CommandError<E>) -> bool,
{
}

impl<T, E, G> InPlace<T, E> for Owned<G>
where
    T: Send + 'static,
    E: Send + 'static,
    G: FnOnce(CommandError<E>) -> Result<T, E> + Send + 'static,
{
    fn timed<B, P>(self, core: &Arc<Core>, body: B, judge: P) -> Result<T, CommandError<E>>
    where
        B: FnOnce() -> Result<T, E>,
        P: Classify<T, E>,
    {
        timed_owned(core, body, judge, self)
    }
}

impl<T, E, G, W> InPlace<T, E> for When<Owned<G>, W>
where
    T: Send + 'static,
    E: Send + 'static,
    G: FnOnce(CommandError<E>) -> Result<T, E> + Send + 'static,
    W: Fn(&CommandError<E>) -> bool + Send + 'static,
{
    fn timed<B, P>(self, core: &Arc<Core>, body: B, judge: P) -> Result<T, CommandError<E>>
    where
        B: FnOnce() -> Result<T, E>,
        P: Classify<T, E>,
    {
        timed_owned(core, body, judge, self)
    }
}

/// A fallback that owns what it needs: at the deadline a worker runs it, while the caller is still in its body.
fn timed_owned<T, E, K>(
    core: &Arc<Core>,
    body: impl FnOnce() -> Result<T, E>,
    judge: impl Classify<T, E>,
    fallback: K,
) -> Result<T, CommandError<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    let mut entry = Entry::new(core, Color::SyncInPlace);
    let home = entry.home;
    if let Err(refusal) = core.admit(&mut entry) {
        drop_quietly((body, judge));
        return fall_back_here(core, home, Failed::refused(refusal), fallback);
    }
    let context = match contained(|| core.runtime.capture()) {
        Ok(context) => context,
        Err(panic) => {
            let attempt = Attempt::panicked(core, &entry, panic);
            return answer_here(core, home, attempt, fallback);
        }
    };
    let owning = Owning { rest: Mutex::new(Some((fallback, context))), promise: Promise::new() };
    match race(core, &entry, body, judge, owning) {
        (Raced::Good(value), timed) => {
            let rest = timed.at_deadline.rest.lock().take();
            drop_quietly(rest);
            Ok(value)
        }
        (Raced::Settled(attempt), timed) => {
            let rest = timed.at_deadline.rest.lock().take();
            let (fallback, _) =
                rest.expect("only the timer takes the fallback of an attempt that it has settled");
            answer_here(core, home, attempt, fallback)
        }
        (Raced::Cut, timed) => block_on(|cx| timed.at_deadline.promise.poll(cx)),
    }
}

// ===== the race of the body and its deadline =====

/// What the timer does for an attempt that it has settled.
trait AtDeadline: Send + Sync + Sized + 'static {
    fn cut(timed: &Arc<Timed<Self>>, cut: Cut);
}

struct Timed<N> {
    ticket: Ticket<Arc<Core>>,
    /// The permit, where it comes back at the timeout as Hystrix has it. Otherwise the body's caller holds it.
    early: Mutex<Option<Held<Arc<Core>>>>,
    at_deadline: N,
}

/// The caller runs the fallback when it comes back; it is only told.
struct Borrowing(Promise<Cut>);

impl AtDeadline for Borrowing {
    fn cut(timed: &Arc<Timed<Self>>, cut: Cut) {
        let unread = timed.at_deadline.0.keep(cut);
        debug_assert!(unread.is_none(), "the caller comes back for it, and only the winner gives it");
    }
}

/// A worker runs the fallback.
struct Owning<T, E, K> {
    rest: Mutex<Option<(K, Captured)>>,
    promise: Promise<Result<T, CommandError<E>>>,
}

impl<T, E, K> AtDeadline for Owning<T, E, K>
where
    T: Send + 'static,
    E: Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    fn cut(timed: &Arc<Timed<Self>>, cut: Cut) {
        let rest = timed.at_deadline.rest.lock().take();
        let (fallback, context) =
            rest.expect("only the timer takes the fallback of an attempt that it has settled");
        let core = timed.ticket.core().clone();
        let failed = Failed::cut(cut);
        FallbackTask::hand_over(core, failed, fallback, context, timed.clone(), Tell::Elsewhere);
    }
}

impl<T, E, K> Answerer<T, E> for Timed<Owning<T, E, K>>
where
    T: Send + 'static,
    E: Send + 'static,
    K: Fallback<T, E> + Send + 'static,
{
    fn answer(&self, result: Result<T, CommandError<E>>) {
        let unread = self.at_deadline.promise.keep(result);
        drop_quietly(unread);
    }

    fn is_given_up(&self) -> bool {
        // Its caller is in the body, and comes back for the answer.
        false
    }
}

impl<N: AtDeadline> Due for Timed<N> {
    fn due(self: Arc<Self>, now: Timestamp, _woken: &Meeting) {
        if let Some(cut) = self.ticket.cut_by_timer(now, true) {
            let early = self.early.lock().take();
            drop(early);
            N::cut(&self, cut);
        }
        let core = self.ticket.core().clone();
        if let Some(timed) = Arc::into_inner(self) {
            // The caller has gone meanwhile, and left the rest here.
            core.runtime.elsewhere(&core.key, move || drop(timed));
        }
    }
}

/// How a body with an armed deadline fared.
enum Raced<T, E> {
    Good(T),
    Settled(Attempt<T, E>),
    /// The timer was first.
    Cut,
}

/// Runs the body with its deadline armed.
fn race<T, E, N: AtDeadline>(
    core: &Arc<Core>,
    entry: &Entry,
    body: impl FnOnce() -> Result<T, E>,
    judge: impl Classify<T, E>,
    at_deadline: N,
) -> (Raced<T, E>, Arc<Timed<N>>) {
    let home = entry.home;
    let (held, early) = match core.semaphore.release {
        PermitRelease::WithTheBody => (Some(Held::new(&**core, entry)), None),
        PermitRelease::AtTimeout => (None, Some(Held::new(core.clone(), entry))),
    };
    let ticket = Ticket::new(core.clone(), entry);
    let timed = Arc::new(Timed { ticket, early: Mutex::new(early), at_deadline });
    let start = begin(core, entry);
    timed.ticket.begin(start);
    let cut_at = entry.cut_at();
    let token = match core.runtime.timer.arm(home, cut_at, Target::Claim(timed.clone())) {
        Ok(token) => token,
        Err(error) => return (Raced::Settled(Attempt::no_thread(home, &timed.ticket, &error)), timed),
    };
    let mut ended = Ended::not_yet();
    let ran = contained(|| {
        let inside = context::enter_until(&core.key, cut_at, &core.clock);
        let result = body();
        drop(inside);
        ended.with(core, cut_at, &judge, result);
    });
    core.runtime.timer.cancel(token);
    drop(held);
    drop_quietly(judge);
    if core.semaphore.release == PermitRelease::AtTimeout {
        let early = timed.early.lock().take();
        drop(early);
    }
    if let Some((value, end)) = ended.good {
        if timed.ticket.settle(Outcome::Success).is_some() {
            succeeded(core, entry, start, end);
            return (Raced::Good(value), timed);
        }
        return (late(&timed, value, end, false), timed);
    }
    let left = ended.other(core, ran).expect("a body that has ended has left something");
    let (end, panicked) = (left.end, left.panicked());
    let (outcome, answer) = judge::verdict(&timed.ticket, left);
    if timed.ticket.settle(outcome).is_some() {
        let facts = timed.ticket.account(home, outcome, end, false);
        return (Raced::Settled(Attempt { facts, answer }), timed);
    }
    (late(&timed, answer, end, panicked), timed)
}

/// The timer has settled the attempt: what the body left is dropped.
#[cold]
fn late<T, E, N, V>(timed: &Timed<N>, left: V, end: Timestamp, panicked: bool) -> Raced<T, E> {
    drop_quietly(left);
    abandoned_ended(&timed.ticket, end, panicked);
    Raced::Cut
}
