//! The forms a fallback can take: none, a value, a closure, and conditions around them.

use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::error::CommandError;
use crate::sealed::Sealed;

/// What a form asks of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// There is none.
    Missing,
    /// A value: no permit, no refusal.
    Value,
    /// Code: needs a permit.
    Code,
}

/// A fallback that answers at once, on the thread that calls it. Sealed.
pub trait Fallback<T, E>: Sealed + Sized {
    /// What it asks for.
    #[doc(hidden)]
    fn form(&self) -> Form;

    /// Whether it wants to answer this error.
    #[doc(hidden)]
    fn wants(&self, error: &CommandError<E>) -> bool {
        let _ = error;
        true
    }

    /// Answers.
    #[doc(hidden)]
    fn answer(self, error: CommandError<E>) -> Result<T, CommandError<E>>;
}

/// A fallback that an async call can await. Sealed.
pub trait AsyncFallback<T, E>: Sealed + Sized {
    /// The answer to come.
    #[doc(hidden)]
    type Answer: Future<Output = Result<T, CommandError<E>>>;

    /// What it asks for.
    #[doc(hidden)]
    fn form(&self) -> Form;

    /// Whether it wants to answer this error.
    #[doc(hidden)]
    fn wants(&self, error: &CommandError<E>) -> bool {
        let _ = error;
        true
    }

    /// Begins to answer.
    #[doc(hidden)]
    fn begin(self, error: CommandError<E>) -> Answered<T, E, Self::Answer>;
}

/// What an async call's fallback has to say: something now, or later.
///
/// An answer that is there is no future: a task which holds such a call would hold room for a value and an error, and be `Send` only if they are.
#[derive(Debug)]
pub enum Answered<T, E, A> {
    /// The answer.
    Now(Result<T, CommandError<E>>),
    /// A future of it.
    Later(A),
}

/// The future of an answer that is never late.
#[derive(Clone, Copy, Debug)]
pub struct Never<R>(Infallible, PhantomData<fn() -> R>);

impl<R> Future for Never<R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<R> {
        match self.0 {}
    }
}

// ===== NoFallback =====

/// There is no fallback: the caller gets the error.
#[derive(Clone, Copy, Debug)]
pub struct NoFallback;

impl Sealed for NoFallback {}

impl<T, E> Fallback<T, E> for NoFallback {
    fn form(&self) -> Form {
        Form::Missing
    }

    fn answer(self, error: CommandError<E>) -> Result<T, CommandError<E>> {
        Err(error)
    }
}

impl<T, E> AsyncFallback<T, E> for NoFallback {
    type Answer = Never<Result<T, CommandError<E>>>;

    fn form(&self) -> Form {
        Form::Missing
    }

    fn begin(self, error: CommandError<E>) -> Answered<T, E, Self::Answer> {
        Answered::Now(Err(error))
    }
}

// ===== Value =====

/// A value that stands in.
#[derive(Clone, Copy, Debug)]
pub struct Value<T>(pub(crate) T);

impl<T> Sealed for Value<T> {}

impl<T, E> Fallback<T, E> for Value<T> {
    fn form(&self) -> Form {
        Form::Value
    }

    fn answer(self, _error: CommandError<E>) -> Result<T, CommandError<E>> {
        Ok(self.0)
    }
}

impl<T, E> AsyncFallback<T, E> for Value<T> {
    type Answer = Never<Result<T, CommandError<E>>>;

    fn form(&self) -> Form {
        Form::Value
    }

    fn begin(self, _error: CommandError<E>) -> Answered<T, E, Self::Answer> {
        Answered::Now(Ok(self.0))
    }
}

// ===== Here, Owned =====

/// A closure that runs where the caller waits. `M` tells what it returns: a result, or a future of one.
#[derive(Clone, Copy, Debug)]
pub struct Here<G, M>(pub(crate) G, pub(crate) PhantomData<M>);

impl<G, M> Sealed for Here<G, M> {}

impl<T, E, G> Fallback<T, E> for Here<G, Plain>
where
    G: FnOnce(CommandError<E>) -> Result<T, E>,
{
    fn form(&self) -> Form {
        Form::Code
    }

    fn answer(self, error: CommandError<E>) -> Result<T, CommandError<E>> {
        Ok(self.0(error)?)
    }
}

impl<T, E, G, A, M> AsyncFallback<T, E> for Here<G, M>
where
    G: FnOnce(CommandError<E>) -> A,
    A: IntoAnswer<T, E, M>,
{
    type Answer = A::Answer;

    fn form(&self) -> Form {
        Form::Code
    }

    fn begin(self, error: CommandError<E>) -> Answered<T, E, Self::Answer> {
        self.0(error).into_answer()
    }
}

/// A closure that owns all it needs, so that it can run before its caller's body has returned.
#[derive(Clone, Copy, Debug)]
pub struct Owned<G>(pub(crate) G);

impl<G> Sealed for Owned<G> {}

impl<T, E, G> Fallback<T, E> for Owned<G>
where
    G: FnOnce(CommandError<E>) -> Result<T, E>,
{
    fn form(&self) -> Form {
        Form::Code
    }

    fn answer(self, error: CommandError<E>) -> Result<T, CommandError<E>> {
        Ok(self.0(error)?)
    }
}

// ===== When =====

/// A fallback with a condition on the error.
#[derive(Clone, Copy, Debug)]
pub struct When<K, W>(pub(crate) K, pub(crate) W);

impl<K, W> Sealed for When<K, W> {}

impl<T, E, K, W> Fallback<T, E> for When<K, W>
where
    K: Fallback<T, E>,
    W: Fn(&CommandError<E>) -> bool,
{
    fn form(&self) -> Form {
        self.0.form()
    }

    fn wants(&self, error: &CommandError<E>) -> bool {
        self.1(error) && self.0.wants(error)
    }

    fn answer(self, error: CommandError<E>) -> Result<T, CommandError<E>> {
        self.0.answer(error)
    }
}

impl<T, E, K, W> AsyncFallback<T, E> for When<K, W>
where
    K: AsyncFallback<T, E>,
    W: Fn(&CommandError<E>) -> bool,
{
    type Answer = K::Answer;

    fn form(&self) -> Form {
        self.0.form()
    }

    fn wants(&self, error: &CommandError<E>) -> bool {
        self.1(error) && self.0.wants(error)
    }

    fn begin(self, error: CommandError<E>) -> Answered<T, E, Self::Answer> {
        self.0.begin(error)
    }
}

// ===== what a closure may return =====

/// Marks a closure that returns a result.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Marks a closure that returns a future.
#[derive(Clone, Copy, Debug)]
pub struct Later;

/// What an async command's fallback may return: `Result<T, E>`, or a future of it. Sealed by its marker.
#[diagnostic::on_unimplemented(
    message = "a fallback returns what its command returns, and this one returns `{Self}`",
    label = "must return `Result<{T}, {E}>`, or in an asynchronous call a future of it"
)]
pub trait IntoAnswer<T, E, M> {
    /// The answer to come.
    #[doc(hidden)]
    type Answer: Future<Output = Result<T, CommandError<E>>>;

    /// Makes it so.
    #[doc(hidden)]
    fn into_answer(self) -> Answered<T, E, Self::Answer>;
}

impl<T, E> IntoAnswer<T, E, Plain> for Result<T, E> {
    type Answer = Never<Result<T, CommandError<E>>>;

    fn into_answer(self) -> Answered<T, E, Self::Answer> {
        Answered::Now(self.map_err(CommandError::Inner))
    }
}

impl<T, E, F> IntoAnswer<T, E, Later> for F
where
    F: Future<Output = Result<T, E>>,
{
    type Answer = Lifted<F>;

    fn into_answer(self) -> Answered<T, E, Self::Answer> {
        Answered::Later(Lifted { future: self })
    }
}

pin_project! {
    /// A fallback's future, its error made the call's.
    #[derive(Debug)]
    pub struct Lifted<F> {
        #[pin]
        future: F,
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> Future for Lifted<F> {
    type Output = Result<T, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(self.project().future.poll(cx));
        Poll::Ready(result.map_err(CommandError::Inner))
    }
}
