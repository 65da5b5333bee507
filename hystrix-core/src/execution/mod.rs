//! The conductor: knows the order of the stages, in one straight function per colour.
//!
//! [`blocking`] waits on a thread, [`future`] in a task; what they call is shared and does not wait. [`judge`] says what a body's end
//! means. [`timed`] is the synchronous body with an armed timeout, [`job`] the body on a pool, [`queued`] the call nobody
//! waits for.
//!
//! ```text
//! admit ──► run ──► give back ──► settle ──► conclude ──► answer
//!   │ no                                        │ failed
//!   └──────────────────────────────────────────►└──► fallback ──► answer
//! ```

mod blocking;
mod delay;
mod future;
mod job;
mod judge;
pub(crate) mod promise;
mod queued;
mod timed;

pub use self::judge::{Classify, Given, Judge, Unset};

use std::io;

pub(crate) use self::blocking::{in_place, on_pool};
pub use self::future::{InPlaceCall, PoolCall};
pub use self::job::{Async, Blocking, Body};
pub use self::queued::Queued;
pub(crate) use self::queued::queue;
pub use self::timed::InPlace;

use self::judge::{Answer, panic_rejection};
use crate::admission::{Core, CoreRef, Cut, Entry, Facts, Held, Refusal, Ticket};
use crate::clock::Timestamp;
use crate::error::{CommandError, Rejection, RejectionKind};
use crate::event::{AbandonedEvent, CallEvent};
use crate::fallback::Form;
use crate::outcome::{FallbackOutcome, Mode, Outcome};
use crate::sync::Home;
use crate::unwind::{Panic, contained, drop_quietly};
use crate::window::Word;
use crate::workers::Refused;

/// A settled attempt on its way to its caller.
pub(crate) struct Attempt<T, E> {
    pub(crate) facts: Facts,
    pub(crate) answer: Answer<T, E>,
}

impl<T, E> Attempt<T, E> {
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::failed(refusal.facts, refusal.rejection)
    }

    pub(crate) fn cut(cut: Cut) -> Self {
        Self::failed(cut.facts, cut.rejection)
    }

    fn failed(facts: Facts, rejection: Rejection) -> Self {
        let answer = Answer::Failed(rejection.into_error());
        Self { facts, answer }
    }

    /// User code that belongs to the call panicked before its body could begin.
    pub(crate) fn panicked(core: &Core, entry: &Entry, panic: Panic) -> Self {
        drop(Held::new(core, entry));
        let facts = Ticket::new(core, entry).settle_alone(entry.home, Outcome::Failure, core.clock.now());
        Self::failed(facts, panic_rejection(core, panic))
    }

    /// The system refused a thread that the attempt needs. Only for a ticket nobody else can settle.
    #[cold]
    pub(crate) fn no_thread<C: CoreRef>(home: Home, ticket: &Ticket<C>, error: &io::Error) -> Self {
        let core: &Core = ticket.core();
        let outcome = core.rejected_by_isolation();
        let end = core.clock.now();
        let rejection = core.rejection(RejectionKind::NoThread).with_message(error.to_string());
        core.warn_of(end, outcome, &rejection);
        ticket.settle(outcome);
        let facts = ticket.account(home, outcome, end, false);
        Self::failed(facts, rejection)
    }
}

/// A body in place has ended well: counts the attempt and closes its call. Most calls end here.
#[inline]
pub(crate) fn succeeded(core: &Core, entry: &Entry, start: Timestamp, end: Timestamp) {
    let watched = core.runtime.sinks.listened() || core.runtime.is_closing();
    if entry.is_plain() && !watched {
        core.succeeded(entry, end);
    } else {
        succeeded_watched(core, entry, start, end);
    }
}

#[cold]
fn succeeded_watched(core: &Core, entry: &Entry, start: Timestamp, end: Timestamp) {
    let mut ticket = Ticket::new(core, entry);
    ticket.begin(start);
    let facts = ticket.settle_alone(entry.home, Outcome::Success, end);
    close(core, entry.home, &facts, None, Ending::DIRECT);
}

/// What is left to do with an attempt.
pub(crate) enum Next<T, E> {
    /// Nothing: this is the answer.
    Done(Result<T, CommandError<E>>),
    /// The fallback is asked.
    FallBack(Failed<T, E>),
}

/// An attempt that failed: what the fallback is asked about, and what the caller gets if it does not answer.
pub(crate) struct Failed<T, E> {
    pub(crate) facts: Facts,
    pub(crate) error: CommandError<E>,
    /// A value that was judged as a failure.
    value: Option<T>,
}

impl<T, E> Failed<T, E> {
    /// Only an enforcing command refuses: a refusal always goes to the fallback.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self { facts: refusal.facts, error: refusal.rejection.into_error(), value: None }
    }

    pub(crate) fn cut(cut: Cut) -> Self {
        Self { facts: cut.facts, error: cut.rejection.into_error(), value: None }
    }
}

/// Sorts a settled attempt; a call that is done is closed here.
pub(crate) fn conclude<T, E>(core: &Core, home: Home, attempt: Attempt<T, E>) -> Next<T, E> {
    let Attempt { facts, answer } = attempt;
    let result = match answer {
        Answer::Value(value) => Ok(value),
        Answer::Error(error) => Err(CommandError::Inner(error)),
        Answer::Failed(error) => {
            return failed(core, home, Failed { facts, error, value: None });
        }
        Answer::FailedValue(value) => {
            let error = core.rejection(RejectionKind::FailedValue).into_error();
            let value = Some(value);
            return failed(core, home, Failed { facts, error, value });
        }
    };
    close(core, home, &facts, None, Ending::DIRECT);
    Next::Done(result)
}

/// Closes a call that was settled before its caller left, and whose answer nobody has read.
pub(crate) fn close_unread<T, E>(core: &Core, home: Home, attempt: Attempt<T, E>) {
    match conclude(core, home, attempt) {
        Next::Done(result) => drop_quietly(result),
        Next::FallBack(failed) => {
            close(core, home, &failed.facts, failed.error.rejection(), Ending::CANCELLED);
            drop_quietly(failed);
        }
    }
}

fn failed<T, E>(core: &Core, home: Home, failed: Failed<T, E>) -> Next<T, E> {
    if failed.facts.mode == Mode::Enforce {
        return Next::FallBack(failed);
    }
    // Shadow and off have no fallback; the caller gets what the body gave.
    close(core, home, &failed.facts, failed.error.rejection(), Ending::DIRECT);
    Next::Done(match failed.value {
        Some(value) => Ok(value),
        None => Err(failed.error),
    })
}

// ===== the fallback's stage =====

/// The permit of a running fallback.
#[must_use]
pub(crate) struct FallbackPermit<'c> {
    core: &'c Core,
    taken: bool,
}

impl Drop for FallbackPermit<'_> {
    fn drop(&mut self) {
        let home = Home::current();
        // In this order: whoever sees that no fallback runs finds all their permits there.
        if self.taken {
            self.core.fallback.put(home);
        }
        self.core.stats.fallback_ended(home);
    }
}

/// Why a fallback does not run.
pub(crate) struct NotRun {
    outcome: FallbackOutcome,
    rejection: Option<RejectionKind>,
}

impl NotRun {
    /// No worker could be had for it.
    pub(crate) fn refused(why: &Refused) -> Self {
        let kind = match why {
            Refused::Full { .. } => RejectionKind::PoolFull,
            Refused::NoThread(_) => RejectionKind::NoThread,
            Refused::ShutDown => RejectionKind::ShutDown,
        };
        Self { outcome: FallbackOutcome::Rejection, rejection: Some(kind) }
    }

    /// There is none.
    pub(crate) const MISSING: NotRun = NotRun { outcome: FallbackOutcome::Missing, rejection: None };
    /// Nobody waits for its answer any more.
    pub(crate) const CANCELLED: NotRun = NotRun { outcome: FallbackOutcome::Cancelled, rejection: None };
}

/// Who tells the listeners of a call's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Here,
    /// A worker: this is the timer's thread, which runs no user code.
    Elsewhere,
}

/// May the fallback run? `wants` is the user's condition, and runs with its panics contained. Not generic, so that it is compiled once.
pub(crate) fn open_fallback<'c>(
    core: &'c Core,
    home: Home,
    form: Form,
    wants: &mut dyn FnMut() -> bool,
) -> Result<FallbackPermit<'c>, NotRun> {
    let not_run = |outcome, rejection| Err(NotRun { outcome, rejection });
    if form == Form::Missing {
        return not_run(FallbackOutcome::Missing, None);
    }
    if !core.live.rules().has_fallback() {
        return not_run(FallbackOutcome::Skipped, None);
    }
    match contained(wants) {
        Ok(true) => {}
        Ok(false) => return not_run(FallbackOutcome::Skipped, None),
        Err(panic) => {
            drop_quietly(panic);
            return not_run(FallbackOutcome::Failure, Some(RejectionKind::Panicked));
        }
    }
    let taken = match form {
        Form::Missing | Form::Value => Some(false),
        Form::Code => core.fallback.take(home),
    };
    match taken {
        Some(taken) => {
            core.stats.fallback_began(home);
            Ok(FallbackPermit { core, taken })
        }
        None => not_run(FallbackOutcome::Rejection, Some(RejectionKind::PermitsExhausted)),
    }
}

/// The answer of a call whose fallback did not run: the original error, or the value that was judged as a failure.
pub(crate) fn without_fallback<T, E>(
    core: &Core,
    home: Home,
    failed: Failed<T, E>,
    why: &NotRun,
    tell: Tell,
) -> Result<T, CommandError<E>> {
    let Failed { facts, mut error, value } = failed;
    if let CommandError::Rejected(rejection) = &mut error {
        rejection.set_fallback(why.outcome);
    }
    let ending = Ending::fallback(why.outcome, why.rejection, tell);
    close(core, home, &facts, error.rejection(), ending);
    match value {
        Some(value) => Ok(value),
        None => Err(error),
    }
}

/// What a fallback left behind: its result, or its panic.
pub(crate) type FallbackResult<T, E> = Result<Result<T, CommandError<E>>, Panic>;

/// The answer of a call whose fallback has run. `original` is the refusal it was asked about, if it was one.
pub(crate) fn after_fallback<T, E>(
    core: &Core,
    home: Home,
    facts: &Facts,
    original: Option<RejectionKind>,
    result: FallbackResult<T, E>,
) -> Result<T, CommandError<E>> {
    let (outcome, rejection, result) = match result {
        Ok(Ok(value)) => (FallbackOutcome::Success, None, Ok(value)),
        Ok(Err(error)) => (FallbackOutcome::Failure, None, Err(error)),
        Err(panic) => {
            let mut rejection = panic_rejection(core, panic);
            rejection.set_fallback(FallbackOutcome::Failure);
            let kind = Some(RejectionKind::Panicked);
            (FallbackOutcome::Failure, kind, Err(rejection.into_error()))
        }
    };
    let original = original.map(|kind| core.rejection(kind));
    let ending = Ending::fallback(outcome, rejection, Tell::Here);
    close(core, home, facts, original.as_ref(), ending);
    result
}

// ===== the end of a call =====

/// How a call came by its answer, beyond its attempt.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    fallback: Option<FallbackOutcome>,
    fallback_rejection: Option<RejectionKind>,
    tell: Tell,
}

impl Ending {
    /// No fallback was asked.
    pub(crate) const DIRECT: Ending = Ending { fallback: None, fallback_rejection: None, tell: Tell::Here };

    /// The caller left while its fallback was under way.
    pub(crate) const CANCELLED: Ending =
        Ending { fallback: Some(FallbackOutcome::Cancelled), fallback_rejection: None, tell: Tell::Here };

    pub(crate) fn fallback(outcome: FallbackOutcome, rejection: Option<RejectionKind>, tell: Tell) -> Self {
        Self { fallback: Some(outcome), fallback_rejection: rejection, tell }
    }
}

/// Counts the call as a whole, and tells who listens: once per call.
pub(crate) fn close(core: &Core, home: Home, facts: &Facts, rejection: Option<&Rejection>, ending: Ending) {
    if facts.mode == Mode::Off {
        return;
    }
    // Without a fallback the answer came with the end of the attempt: no third reading of the clock.
    let answered = match ending.fallback {
        None | Some(FallbackOutcome::Missing) => facts.end,
        Some(_) => core.clock.now(),
    };
    if let Some(fallback) = ending.fallback {
        core.stats.count(home, answered, Word::Fallback(fallback));
    }
    if !facts.outcome.is_rejection() {
        core.stats.answered(home, answered, answered.nanos_since(facts.arrival));
    }
    if core.runtime.sinks.listened() {
        tell(core, facts, rejection, ending, answered);
    }
    if facts.owes {
        core.stats.paid(home);
    }
    if core.runtime.is_closing() {
        core.runtime.call_ended();
    }
}

#[cold]
fn tell(core: &Core, facts: &Facts, rejection: Option<&Rejection>, ending: Ending, answered: Timestamp) {
    let event = CallEvent {
        command: core.key.clone(),
        arrival: facts.arrival,
        start: (facts.start > Timestamp::ZERO).then_some(facts.start),
        end: facts.end,
        answered,
        outcome: facts.outcome,
        rejection: rejection.map(Rejection::kind),
        fallback: ending.fallback,
        fallback_rejection: ending.fallback_rejection,
        cause: rejection.and_then(Rejection::message).map(Box::from),
        attempts: 1,
        abandoned: facts.abandoned,
        generation: facts.pass.generation(),
        trial: facts.pass.is_trial(),
        mode: facts.mode,
        would_have: facts.would_have,
    };
    match ending.tell {
        Tell::Here => core.runtime.sinks.tell(|sink| sink.call(&event)),
        Tell::Elsewhere => {
            let runtime = core.runtime.clone();
            core.runtime.elsewhere(&core.key, move || runtime.sinks.tell(|sink| sink.call(&event)));
        }
    }
}

/// Tells of the real end of a body whose attempt had been settled without it.
pub(crate) fn abandoned_ended<C: CoreRef>(ticket: &Ticket<C>, end: Timestamp, panicked: bool) {
    let core: &Core = ticket.core();
    let outcome = ticket.outcome().unwrap_or(Outcome::Cancelled);
    core.stats.abandoned_ended(Home::current());
    let event = AbandonedEvent { command: core.key.clone(), outcome, ran: ticket.ran(end), panicked };
    core.runtime.sinks.tell(|sink| sink.abandoned_ended(&event));
}
