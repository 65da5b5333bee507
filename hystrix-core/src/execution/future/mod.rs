//! The conductor for callers that wait in a task. One of the two places that wait.
//!
//! Nothing is boxed: the body's future lives inside the call's. The timer is armed at the first `Pending`, so a body that is ready
//! at once never touches it.
//!
//! # Cancellation
//!
//! Dropping a call's future at any point drops the body first, then gives back what the call holds (`Flight`), settles the attempt, and tells
//! who listens: cancelled, unless its deadline had been decided before.

mod in_place;
mod on_pool;

pub use self::in_place::InPlaceCall;
pub use self::on_pool::PoolCall;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{
    Attempt, Ending, Failed, FallbackPermit, FallbackResult, Next, Tell, after_fallback, close, conclude,
    open_fallback, without_fallback,
};
use crate::admission::{Core, Facts};
use crate::error::{CommandError, Rejection, RejectionKind};
use crate::fallback::{Answered, AsyncFallback};
use crate::sync::Home;
use crate::unwind::{Panic, contained};

/// A fallback under way.
struct Falling<'c> {
    facts: Facts,
    original: Option<RejectionKind>,
    permit: FallbackPermit<'c>,
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
    let permit = open_fallback(core, home, fallback.form(), &mut || fallback.wants(&failed.error));
    let permit = match permit {
        Ok(permit) => permit,
        Err(why) => {
            return Fallen::Answered(without_fallback(core, home, failed, &why, Tell::Here));
        }
    };
    let Failed { facts, error, .. } = failed;
    let original = error.rejection().map(Rejection::kind);
    match contained(|| fallback.begin(error)) {
        Ok(Answered::Later(answer)) => Fallen::Begun(answer, Falling { facts, original, permit }),
        Ok(Answered::Now(result)) => {
            drop(permit);
            Fallen::Answered(after_fallback(core, home, &facts, original, Ok(result)))
        }
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
        close(core, Home::current(), &self.facts, original.as_ref(), Ending::CANCELLED);
    }
}

/// Polls user code with its panics contained.
fn poll_contained<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<Result<F::Output, Panic>> {
    match contained(|| future.poll(cx)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}
