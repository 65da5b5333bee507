//! What a body's end means: the clock first, then the panic, then the caller's own rules.

use crate::admission::{Core, CoreRef, Ticket};
use crate::clock::Timestamp;
use crate::error::{CommandError, Rejection, RejectionKind};
use crate::outcome::{Class, Meaning, Outcome};
use crate::sealed::Sealed;
use crate::unwind::{Panic, drop_quietly};

// ===== the caller's rules =====

/// Says what a result means. Sealed: made by the `classify`, `ignore` and `failure` options of a call.
pub trait Classify<T, E>: Sealed {
    /// Judges.
    #[doc(hidden)]
    fn class(&self, result: &Result<T, E>) -> Class;
}

/// The rules of one call: `ignore` on errors first, `failure` on values next, then `classify`, then the result itself.
#[derive(Clone, Copy, Debug)]
pub struct Judge<C = Unset, I = Unset, F = Unset> {
    pub(crate) classify: C,
    pub(crate) ignore: I,
    pub(crate) failure: F,
}

/// A rule that was not given.
#[derive(Clone, Copy, Debug)]
pub struct Unset;

/// A rule that was given.
#[derive(Clone, Copy, Debug)]
pub struct Given<R>(pub(crate) R);

/// One of the rules. Sealed.
pub trait Rule<A: ?Sized, R>: Sealed {
    /// Asks it, if it was given.
    #[doc(hidden)]
    fn ask(&self, about: &A) -> Option<R>;
}

impl Sealed for Unset {}
impl<R> Sealed for Given<R> {}
impl<C, I, F> Sealed for Judge<C, I, F> {}

impl<A: ?Sized, R> Rule<A, R> for Unset {
    #[inline]
    fn ask(&self, _about: &A) -> Option<R> {
        None
    }
}

impl<A: ?Sized, R, G: Fn(&A) -> R> Rule<A, R> for Given<G> {
    #[inline]
    fn ask(&self, about: &A) -> Option<R> {
        Some((self.0)(about))
    }
}

impl<T, E, C, I, F> Classify<T, E> for Judge<C, I, F>
where
    C: Rule<Result<T, E>, Class>,
    I: Rule<E, bool>,
    F: Rule<T, bool>,
{
    #[inline]
    fn class(&self, result: &Result<T, E>) -> Class {
        match result {
            Err(error) if self.ignore.ask(error) == Some(true) => return Class::IGNORE,
            Ok(value) if self.failure.ask(value) == Some(true) => return Class::FAILURE,
            _ => {}
        }
        self.classify.ask(result).unwrap_or(match result {
            Ok(_) => Class::SUCCESS,
            Err(_) => Class::FAILURE,
        })
    }
}

// ===== the verdict =====

/// What a caller is to get.
pub(crate) enum Answer<T, E> {
    /// The value.
    Value(T),
    /// The error as it is: no fallback.
    Error(E),
    /// Not what was asked for: the fallback applies.
    Failed(CommandError<E>),
    /// A value judged as a failure: the fallback applies, and without one this is the answer.
    FailedValue(T),
}

/// What a body left: its result and class, and the time of its end.
pub(crate) struct Left<T, E> {
    pub(crate) end: Timestamp,
    pub(crate) result: Result<(Result<T, E>, Class), Panic>,
}

/// What an ended body leaves. May panic as `judge` does.
#[inline]
pub(crate) fn left<T, E>(
    core: &Core,
    cut_at: Timestamp,
    judge: &impl Classify<T, E>,
    result: Result<T, E>,
) -> Left<T, E> {
    let end = core.clock.now();
    // A late result is dropped whatever it is: its class would be asked for nothing.
    let class = if end < cut_at { judge.class(&result) } else { Class::IGNORE };
    Left { end, result: Ok((result, class)) }
}

/// What a body in place left, sorted at once: a good value travels by itself, for moving anything larger costs more than
/// all the counting.
pub(crate) struct Ended<T, E> {
    /// In time, and a success.
    pub(crate) good: Option<(T, Timestamp)>,
    other: Option<Left<T, E>>,
}

impl<T, E> Ended<T, E> {
    #[inline]
    pub(crate) fn not_yet() -> Self {
        Self { good: None, other: None }
    }

    /// The body has ended with `result`. May panic as `judge` does.
    #[inline]
    pub(crate) fn with(
        &mut self,
        core: &Core,
        cut_at: Timestamp,
        judge: &impl Classify<T, E>,
        result: Result<T, E>,
    ) {
        match left(core, cut_at, judge, result) {
            Left { end, result: Ok((Ok(value), Class::SUCCESS)) } if end < cut_at => {
                self.good = Some((value, end));
            }
            other => self.other = Some(other),
        }
    }

    /// What it left that is not good; nothing if it has not ended. `ran` says whether it panicked.
    #[inline]
    pub(crate) fn other(self, core: &Core, ran: Result<(), Panic>) -> Option<Left<T, E>> {
        match ran {
            Ok(()) => self.other,
            Err(panic) => Some(Left::panic(core.clock.now(), panic)),
        }
    }

    /// What it left, good or not; nothing if it has not ended.
    pub(crate) fn left(mut self, core: &Core, ran: Result<(), Panic>) -> Option<Left<T, E>> {
        match self.good.take() {
            Some((value, end)) => Some(Left { end, result: Ok((Ok(value), Class::SUCCESS)) }),
            None => self.other(core, ran),
        }
    }
}

impl<T, E> Left<T, E> {
    pub(crate) fn panic(end: Timestamp, panic: Panic) -> Self {
        let result = Err(panic);
        Self { end, result }
    }

    /// What is left of a body that was not run because its deadline had passed: nobody looks at it.
    pub(crate) fn nothing(end: Timestamp) -> Self {
        Self { end, result: Err(Panic::NONE) }
    }

    pub(crate) fn panicked(&self) -> bool {
        self.result.is_err()
    }
}

/// The outcome of an attempt whose body has ended, and the answer to its caller.
///
/// The end decides: at or after its deadline an attempt is a timeout, armed or not, and its value is dropped here.
#[inline]
pub(crate) fn verdict<T, E, C: CoreRef>(ticket: &Ticket<C>, left: Left<T, E>) -> (Outcome, Answer<T, E>) {
    if left.end >= ticket.cut_at() {
        drop_quietly(left);
        return (Outcome::Timeout, Answer::Failed(ticket.timed_out().into_error()));
    }
    match left.result {
        Ok((result, Class(meaning))) => judged(result, meaning),
        Err(panic) => panicked(ticket.core(), panic),
    }
}

#[inline]
fn judged<T, E>(result: Result<T, E>, meaning: Meaning) -> (Outcome, Answer<T, E>) {
    match (result, meaning) {
        (Ok(value), Meaning::Success) => (Outcome::Success, Answer::Value(value)),
        (Ok(value), Meaning::Ignore) => (Outcome::BadRequest, Answer::Value(value)),
        (Ok(value), Meaning::Failure) => (Outcome::Failure, Answer::FailedValue(value)),
        (Err(error), Meaning::Success) => (Outcome::Success, Answer::Error(error)),
        (Err(error), Meaning::Ignore) => (Outcome::BadRequest, Answer::Error(error)),
        (Err(error), Meaning::Failure) => (Outcome::Failure, Answer::Failed(CommandError::Inner(error))),
    }
}

#[cold]
fn panicked<T, E>(core: &Core, panic: Panic) -> (Outcome, Answer<T, E>) {
    (Outcome::Failure, Answer::Failed(panic_rejection(core, panic).into_error()))
}

/// The rejection that a contained panic becomes.
pub(crate) fn panic_rejection(core: &Core, panic: Panic) -> Rejection {
    core.rejection(RejectionKind::Panicked).with_message(panic.message())
}

impl Rejection {
    pub(crate) fn into_error<E>(self) -> CommandError<E> {
        CommandError::Rejected(self)
    }
}
