//! The three ways in which a function's error can say the library's "no", told apart by a marker that is inferred.
//!
//! With `CommandError<E>` ([`Flat`]) rules and fallbacks see `E`, and one flat `CommandError<E>`. With an error that is made
//! `From<Rejection>` ([`Own`]) they see that error. Where the attribute has `rejected` ([`AsIs`]) any error will do.

use std::fmt;
use std::marker::PhantomData;

use super::arguments::{Answers, TakesThenError};
use crate::command::Call;
use crate::error::{CommandError, Rejection};

/// The error is `CommandError<E>`.
#[derive(Clone, Copy, Debug)]
pub struct Flat;

/// The error is made from a rejection.
#[derive(Clone, Copy, Debug)]
pub struct Own;

/// A function's error, by the marker of its way.
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` cannot say that a command was refused",
    label = "a command can be short-circuited, rejected or timed out, and this error has no room for that",
    note = "make it `CommandError<{Self}>`, implement `From<Rejection>` for it, or write `rejected = |rejection| ..` in the attribute"
)]
pub trait ErrorOf<M>: Sized {
    /// What rules and fallbacks see of it.
    type Seen;

    /// The error that rules see; none where a command inside was refused.
    fn seen(&self) -> Option<&Self::Seen>;

    /// Asks about the error of a call.
    fn ask(error: &CommandError<Self>, ask: impl FnOnce(&CommandError<Self::Seen>) -> bool) -> bool;

    /// What a fallback sees of the error of a call.
    fn shown(error: CommandError<Self>) -> CommandError<Self::Seen>;

    /// The function's error for that of its call.
    fn answer(error: CommandError<Self>) -> Self;
}

impl<E> ErrorOf<Flat> for CommandError<E> {
    type Seen = E;

    fn seen(&self) -> Option<&E> {
        self.inner()
    }

    fn ask(error: &CommandError<Self>, ask: impl FnOnce(&CommandError<E>) -> bool) -> bool {
        match error {
            CommandError::Inner(error) => ask(error),
            CommandError::Rejected(rejection) => ask(&CommandError::Rejected(rejection.clone())),
        }
    }

    fn shown(error: CommandError<Self>) -> CommandError<E> {
        error.flatten()
    }

    fn answer(error: CommandError<Self>) -> Self {
        error.flatten()
    }
}

#[diagnostic::do_not_recommend]
impl<E: From<Rejection>> ErrorOf<Own> for E {
    type Seen = E;

    fn seen(&self) -> Option<&E> {
        Some(self)
    }

    fn ask(error: &CommandError<E>, ask: impl FnOnce(&CommandError<E>) -> bool) -> bool {
        ask(error)
    }

    fn shown(error: CommandError<E>) -> CommandError<E> {
        error
    }

    fn answer(error: CommandError<E>) -> E {
        error.into_error()
    }
}

/// Makes a call's options of a function's, by the way of its error.
#[expect(clippy::type_complexity, reason = "a function's type, so that nothing is asked of what it names")]
pub struct Way<T, E, M>(PhantomData<fn() -> (T, E, M)>);

/// The same where the function says how itself, or has no error of its own: options are the call's.
pub struct AsIs<T, E>(PhantomData<fn() -> (T, E)>);

/// Finds the way of a call's error. The call goes through: a reference to it would keep its place in a future, though it moves on.
#[inline]
#[expect(clippy::type_complexity, reason = "a call's type is never written out")]
pub fn way<'c, C, B, T, E, P, K, M>(
    call: Call<'c, C, B, T, E, P, K>,
) -> (Call<'c, C, B, T, E, P, K>, Way<T, E, M>)
where
    E: ErrorOf<M>,
{
    (call, Way(PhantomData))
}

/// Takes a call's error as it is.
#[inline]
#[expect(clippy::type_complexity, reason = "a call's type is never written out")]
pub fn as_is<'c, C, B, T, E, P, K>(
    call: Call<'c, C, B, T, E, P, K>,
) -> (Call<'c, C, B, T, E, P, K>, AsIs<T, E>) {
    (call, AsIs(PhantomData))
}

// The bound is each method's own, so that a mistake in it is told as such and not as a missing method.
impl<T, E, M> Way<T, E, M> {
    /// A rule about errors.
    #[inline]
    pub fn error_rule<N>(self, rule: N) -> impl Fn(&E) -> bool + use<T, E, M, N>
    where
        E: ErrorOf<M>,
        N: Fn(&E::Seen) -> bool,
    {
        move |error| error.seen().is_some_and(&rule)
    }

    /// A condition on the error of the call.
    #[inline]
    pub fn condition<N>(self, wants: N) -> impl Fn(&CommandError<E>) -> bool + use<T, E, M, N>
    where
        E: ErrorOf<M>,
        N: Fn(&CommandError<E::Seen>) -> bool,
    {
        move |error| E::ask(error, &wants)
    }

    /// A fallback of a synchronous function.
    #[inline]
    pub fn fallback<G>(self, fallback: G) -> impl FnOnce(CommandError<E>) -> Result<T, E> + use<T, E, M, G>
    where
        E: ErrorOf<M>,
        G: FnOnce(CommandError<E::Seen>) -> Result<T, E>,
    {
        move |error| fallback(E::shown(error))
    }

    /// A fallback of an asynchronous function: returns a result, or a future of one.
    #[inline]
    pub fn fallback_async<G, A>(self, fallback: G) -> impl FnOnce(CommandError<E>) -> A + use<T, E, M, G, A>
    where
        E: ErrorOf<M>,
        G: FnOnce(CommandError<E::Seen>) -> A,
    {
        move |error| fallback(E::shown(error))
    }

    /// A function that is the fallback of a synchronous one: takes the arguments, then the error.
    #[inline]
    pub fn function<G, Args, A>(
        self,
        function: G,
        args: Args,
    ) -> impl FnOnce(CommandError<E::Seen>) -> Result<T, E> + use<T, E, M, G, Args, A>
    where
        E: ErrorOf<M>,
        G: TakesThenError<Args, CommandError<E::Seen>, A>,
        A: Answers<T, E>,
    {
        move |error| function.call(args, error).result()
    }

    /// The same of an asynchronous one.
    #[inline]
    pub fn function_async<G, Args, A>(
        self,
        function: G,
        args: Args,
    ) -> impl FnOnce(CommandError<E::Seen>) -> A + use<T, E, M, G, Args, A>
    where
        E: ErrorOf<M>,
        G: TakesThenError<Args, CommandError<E::Seen>, A>,
    {
        move |error| function.call(args, error)
    }

    /// The function's answer.
    ///
    /// # Errors
    ///
    /// The call's, as the function's own.
    #[inline]
    pub fn answer(self, result: Result<T, CommandError<E>>) -> Result<T, E>
    where
        E: ErrorOf<M>,
    {
        result.map_err(E::answer)
    }
}

impl<T, E> AsIs<T, E> {
    /// A rule about errors.
    #[inline]
    pub fn error_rule<N: Fn(&E) -> bool>(self, rule: N) -> N {
        rule
    }

    /// A condition on the error of the call.
    #[inline]
    pub fn condition<N: Fn(&CommandError<E>) -> bool>(self, wants: N) -> N {
        wants
    }

    /// A fallback of a synchronous function.
    #[inline]
    pub fn fallback<G: FnOnce(CommandError<E>) -> Result<T, E>>(self, fallback: G) -> G {
        fallback
    }

    /// A fallback of an asynchronous function: returns a result, or a future of one.
    #[inline]
    pub fn fallback_async<G: FnOnce(CommandError<E>) -> A, A>(self, fallback: G) -> G {
        fallback
    }

    /// A function that is the fallback of a synchronous one: takes the arguments, then the error.
    #[inline]
    pub fn function<G, Args, A>(
        self,
        function: G,
        args: Args,
    ) -> impl FnOnce(CommandError<E>) -> Result<T, E> + use<T, E, G, Args, A>
    where
        G: TakesThenError<Args, CommandError<E>, A>,
        A: Answers<T, E>,
    {
        move |error| function.call(args, error).result()
    }

    /// The same of an asynchronous one.
    #[inline]
    pub fn function_async<G, Args, A>(
        self,
        function: G,
        args: Args,
    ) -> impl FnOnce(CommandError<E>) -> A + use<T, E, G, Args, A>
    where
        G: TakesThenError<Args, CommandError<E>, A>,
    {
        move |error| function.call(args, error)
    }

    /// The function's answer.
    ///
    /// # Errors
    ///
    /// The body's, the fallback's, or what `rejected` makes of a rejection.
    #[inline]
    pub fn answer_with<R>(self, result: Result<T, CommandError<E>>, rejected: R) -> Result<T, E>
    where
        R: FnOnce(Rejection) -> E,
    {
        result.map_err(|error| match error {
            CommandError::Inner(error) => error,
            CommandError::Rejected(rejection) => rejected(rejection),
        })
    }
}

impl<T, E, M> Copy for Way<T, E, M> {}
impl<T, E> Copy for AsIs<T, E> {}

impl<T, E, M> Clone for Way<T, E, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E> Clone for AsIs<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E, M> fmt::Debug for Way<T, E, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Way")
    }
}

impl<T, E> fmt::Debug for AsIs<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsIs")
    }
}
