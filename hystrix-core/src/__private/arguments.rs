//! What a function's arguments, result and given command must be able to do. Each demand is a trait, so that a mistake is told in the
//! library's words, at the argument, and once.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::marker::PhantomData;

use crate::command::{Call, Command, PoolCommand};
use crate::error::CommandError;
use crate::execution::Blocking;
use crate::fallback::{Here, Owned, Plain};
use crate::sync::global::Arc;

// ===== the result =====

/// What an annotated function may return.
#[diagnostic::on_unimplemented(
    message = "a command returns a `Result`, and `{Self}` is none",
    label = "not a `Result<T, E>`",
    note = "the error says what a caller gets when the command is refused: `CommandError<E>`, or an error that is `From<Rejection>`"
)]
pub trait Output {
    /// Itself; unknown where it is no result, so that nothing that follows is reported.
    type Itself;
}

impl<T, E> Output for Result<T, E> {
    type Itself = Self;
}

/// What an annotated function may return whose body runs on a worker.
#[diagnostic::on_unimplemented(
    message = "the result `{Self}` cannot come back from a worker thread",
    label = "the body runs on a thread pool, so value and error must be `Send + 'static`",
    note = "make them `Send`, or use semaphore isolation, whose bodies stay on their caller's thread",
    note = "a function whose callers get a `Queued<T, E>` at once must name that type itself, not an alias of it"
)]
pub trait WorkerOutput {
    /// Itself.
    type Itself;
}

#[diagnostic::do_not_recommend]
impl<T: Send + 'static, E: Send + 'static> WorkerOutput for Result<T, E> {
    type Itself = Self;
}

/// A function's return type, checked.
pub type Checked<R> = <R as Output>::Itself;
/// The same of a body on a worker.
pub type WorkerChecked<R> = <R as WorkerOutput>::Itself;

/// Stands for a value that is never made: tells an async body its type.
#[must_use]
pub fn planted<T>() -> T {
    unreachable!("it stands behind a condition that is false")
}

// ===== arguments that move to a worker, or are needed twice =====

/// Asks what an argument can. Where it cannot, the second of two traits answers (a method is looked for on the value first, then on a reference to it),
/// with a demand that says so in our words, and a type that is unknown: nothing that follows is reported.
#[derive(Debug)]
pub struct Ask<T>(pub T);

/// The argument can move to a worker.
pub trait Moves {
    /// Itself.
    type Itself;
    /// Moves it.
    fn moved(self) -> Self::Itself;
}

impl<T: Send + 'static> Moves for Ask<T> {
    type Itself = T;

    #[inline]
    fn moved(self) -> T {
        self.0
    }
}

/// An argument that cannot move to a worker.
#[diagnostic::on_unimplemented(
    message = "the argument's type `{Self}` cannot move to a worker thread",
    label = "the body runs on a thread pool, so what it uses must be `Send + 'static`",
    note = "make the argument `Send`, or use semaphore isolation, whose bodies stay on their caller's thread"
)]
pub trait MovesToWorker {
    /// Nothing.
    type Itself;
}

/// Where an argument cannot.
pub trait MovesNot {
    /// The argument's type.
    type Of;
    /// Is never called: its demand is met by nothing.
    fn moved(self) -> <Self::Of as MovesToWorker>::Itself
    where
        Self::Of: MovesToWorker;
}

impl<T> MovesNot for &Ask<T> {
    type Of = T;

    fn moved(self) -> T::Itself
    where
        T: MovesToWorker,
    {
        unreachable!("nothing implements `MovesToWorker`")
    }
}

/// The argument can be kept for an option, beside the body that takes it.
pub trait Keeps {
    /// Another one.
    type Another;
    /// Makes it.
    fn kept(self) -> Self::Another;
}

impl<T: Clone> Keeps for Ask<&T> {
    type Another = T;

    #[inline]
    fn kept(self) -> T {
        self.0.clone()
    }
}

/// An argument that is needed twice and is there once.
#[diagnostic::on_unimplemented(
    message = "the argument's type `{Self}` is not `Clone`, and the argument is needed twice",
    label = "the body takes it, and an option of the attribute uses it too",
    note = "make it `Clone`, pass it by reference, or do not name it in the option"
)]
pub trait NeededTwice {
    /// Nothing.
    type Another;
}

/// Where an argument cannot.
pub trait KeepsNot {
    /// The argument's type.
    type Of;
    /// Is never called: its demand is met by nothing.
    fn kept(self) -> <Self::Of as NeededTwice>::Another
    where
        Self::Of: NeededTwice;
}

impl<T> KeepsNot for &Ask<&T> {
    type Of = T;

    fn kept(self) -> T::Another
    where
        T: NeededTwice,
    {
        unreachable!("nothing implements `NeededTwice`")
    }
}

// ===== where a fallback runs =====

/// What says whether a fallback can go to another thread: its call's types, and those of what it names.
#[inline]
pub fn parts<'c, C, B, T, E, P, G>(_call: &Call<'c, C, B, T, E, P>, _named: &G) -> PhantomData<(T, E, G)> {
    PhantomData
}

/// The type of something.
#[inline]
pub fn type_of<T>(_of: &T) -> PhantomData<T> {
    PhantomData
}

/// It can.
pub trait Leaves {
    /// Says so.
    fn place(self) -> OnAWorker;
}

/// It cannot, or need not be asked.
pub trait Stays {
    /// Says so.
    fn place(self) -> OnTheCaller;
}

impl<T: Send + 'static, E: Send + 'static, G: Send + 'static> Leaves for Ask<PhantomData<(T, E, G)>> {
    #[inline]
    fn place(self) -> OnAWorker {
        OnAWorker
    }
}

impl<X> Stays for &Ask<PhantomData<X>> {
    #[inline]
    fn place(self) -> OnTheCaller {
        OnTheCaller
    }
}

/// At the deadline, while the caller is still in its body.
#[derive(Clone, Copy, Debug)]
pub struct OnAWorker;

/// When the caller's body has ended.
#[derive(Clone, Copy, Debug)]
pub struct OnTheCaller;

impl OnAWorker {
    /// Sets the fallback.
    #[inline]
    pub fn fall_back<'c, F, T, E, P, G>(
        self,
        call: Call<'c, Command, Blocking<F>, T, E, P>,
        fallback: G,
    ) -> Call<'c, Command, Blocking<F>, T, E, P, Owned<G>>
    where
        G: FnOnce(CommandError<E>) -> Result<T, E> + Send + 'static,
    {
        call.fallback_owned(fallback)
    }
}

impl OnTheCaller {
    /// Sets the fallback.
    #[inline]
    pub fn fall_back<'c, C, B, T, E, P, G>(
        self,
        call: Call<'c, C, B, T, E, P>,
        fallback: G,
    ) -> Call<'c, C, B, T, E, P, Here<G, Plain>>
    where
        G: FnOnce(CommandError<E>) -> Result<T, E>,
    {
        call.fallback(fallback)
    }
}

// ===== arguments that are made owned and lent to the body =====

/// A borrowed argument that can be made owned, and lent again.
pub trait Owning {
    /// What the worker has. It knows how it is lent, and has no lifetime.
    type Owned: Lend;

    /// Makes it owned.
    fn own(self) -> Self::Owned;
}

/// What lends a body its argument. Called by the expansion as a method, under its inherent name.
pub trait Lend: Send + 'static {}

/// Lends `&B`.
pub struct Lent<B: ToOwned + ?Sized>(B::Owned);
/// Lends `Option<&B>`.
pub struct LentOption<B: ToOwned + ?Sized>(Option<B::Owned>);
/// Lends `Cow<B>`.
pub struct LentCow<B: ToOwned + ?Sized>(B::Owned);

macro_rules! lent {
    ($($borrowed:ty => $lent:ident: $argument:ident $own:expr, $owned:ident $lend:expr, $as:ty;)*) => {$(
        impl<B> Owning for $borrowed
        where
            B: ToOwned<Owned: Send + 'static> + ?Sized + 'static,
        {
            type Owned = $lent<B>;

            #[inline]
            fn own(self) -> $lent<B> {
                let $argument = self;
                $lent($own)
            }
        }

        impl<B: ToOwned<Owned: Send + 'static> + ?Sized + 'static> Lend for $lent<B> {}

        impl<B: ToOwned + ?Sized> $lent<B> {
            /// Lends it to the body.
            #[inline]
            pub fn lend(&self) -> $as {
                let $owned = &self.0;
                $lend
            }
        }

        impl<B: ToOwned + ?Sized> fmt::Debug for $lent<B> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($lent))
            }
        }
    )*};
}

lent! {
    &B => Lent: argument argument.to_owned(), owned owned.borrow(), &B;
    Option<&B> => LentOption: argument argument.map(ToOwned::to_owned), owned owned.as_ref().map(Borrow::borrow), Option<&B>;
    Cow<'_, B> => LentCow: argument argument.into_owned(), owned Cow::Borrowed(owned.borrow()), Cow<'_, B>;
}

/// The argument can be made owned.
pub trait Owns {
    /// What it becomes.
    type Owned;
    /// Makes it owned, for a worker.
    fn owned(self) -> Self::Owned;
}

impl<A: Owning> Owns for Ask<A> {
    type Owned = A::Owned;

    #[inline]
    fn owned(self) -> A::Owned {
        self.0.own()
    }
}

/// A borrowed argument that cannot be made owned.
#[diagnostic::on_unimplemented(
    message = "the argument's type `{Self}` cannot be made owned for a worker",
    label = "`to_owned` takes `&T` where `T: ToOwned`, such as `&str`, `&[T]` or `&T` with `T: Clone`, `Option` of those, and `Cow`",
    note = "what it makes must be `Send + 'static`"
)]
pub trait OwnedByWorker {
    /// Nothing.
    type Owned;
}

/// Where an argument cannot.
pub trait OwnsNot {
    /// The argument's type.
    type Of;
    /// Is never called: its demand is met by nothing.
    fn owned(self) -> <Self::Of as OwnedByWorker>::Owned
    where
        Self::Of: OwnedByWorker;
}

impl<A> OwnsNot for &Ask<A> {
    type Of = A;

    fn owned(self) -> A::Owned
    where
        A: OwnedByWorker,
    {
        unreachable!("nothing implements `OwnedByWorker`")
    }
}

// ===== a function that is a fallback =====

/// What a function returns that is the fallback of a synchronous one.
#[diagnostic::on_unimplemented(
    message = "a fallback returns what its command returns, and this one returns `{Self}`",
    label = "must return `Result<{T}, {E}>`",
    note = "an `async fn` can be the fallback of an `async fn` only"
)]
pub trait Answers<T, E> {
    /// Itself.
    fn result(self) -> Result<T, E>;
}

impl<T, E> Answers<T, E> for Result<T, E> {
    fn result(self) -> Self {
        self
    }
}

/// A function that takes the arguments of a command, and then the error.
#[diagnostic::on_unimplemented(
    message = "this function cannot be the fallback: it must take the command's arguments, then the error",
    label = "must take `{Args}`, then `{X}`",
    note = "a receiver comes first; arguments are passed as the command has them; it returns what the command returns, or in an async command a future of it"
)]
pub trait TakesThenError<Args, X, A> {
    /// Calls it.
    fn call(self, args: Args, error: X) -> A;
}

macro_rules! takes_then_error {
    ($($arg:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<G, X, A, $($arg),*> TakesThenError<($($arg,)*), X, A> for G
        where
            G: FnOnce($($arg,)* X) -> A,
        {
            #[inline]
            #[allow(non_snake_case, clippy::allow_attributes, reason = "one name for a type and its value")]
            fn call(self, ($($arg,)*): ($($arg,)*), error: X) -> A {
                self($($arg,)* error)
            }
        }
    };
}

takes_then_error!();
takes_then_error!(A1);
takes_then_error!(A1 A2);
takes_then_error!(A1 A2 A3);
takes_then_error!(A1 A2 A3 A4);
takes_then_error!(A1 A2 A3 A4 A5);
takes_then_error!(A1 A2 A3 A4 A5 A6);
takes_then_error!(A1 A2 A3 A4 A5 A6 A7);
takes_then_error!(A1 A2 A3 A4 A5 A6 A7 A8);
takes_then_error!(A1 A2 A3 A4 A5 A6 A7 A8 A9);
takes_then_error!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10);
takes_then_error!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11);
takes_then_error!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12);

// ===== a given command =====

/// What `command = ..` may name.
#[diagnostic::on_unimplemented(
    message = "`command` takes a `Command` or a `PoolCommand`, and `{Self}` is neither",
    label = "not a command",
    note = "build one with `Command::builder(..)`; one of many keys with `build_keyed()` and `.get(&key)`"
)]
pub trait AsCommand {
    /// The kind of command.
    type Command: Clone;

    /// The command.
    fn as_command(&self) -> &Self::Command;
}

macro_rules! as_command {
    ($($command:ident),*) => {$(
        impl AsCommand for $command {
            type Command = $command;

            #[inline]
            fn as_command(&self) -> &$command {
                self
            }
        }
    )*};
}

as_command!(Command, PoolCommand);

impl<C: AsCommand + ?Sized> AsCommand for &C {
    type Command = C::Command;

    #[inline]
    fn as_command(&self) -> &C::Command {
        (**self).as_command()
    }
}

impl<C: AsCommand + ?Sized> AsCommand for Arc<C> {
    type Command = C::Command;

    #[inline]
    fn as_command(&self) -> &C::Command {
        (**self).as_command()
    }
}

/// The command that an attribute names.
#[inline]
pub fn given<C: AsCommand + ?Sized>(command: &C) -> &C::Command {
    command.as_command()
}
