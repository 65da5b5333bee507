//! A call and its options: what the result means, and what answers when there is none.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;

use super::{Command, PoolCommand};
use crate::error::CommandError;
use crate::execution::{
    Async, Blocking, Body, Classify, Given, InPlace, InPlaceCall, Judge, PoolCall, Queued, Unset, in_place,
    on_pool, queue,
};
use crate::fallback::{AsyncFallback, Fallback, Here, IntoAnswer, NoFallback, Owned, Value, When};
use crate::outcome::Class;

/// A call that has not begun: made by a command, given its options, then executed, awaited or queued.
///
/// | made by | then |
/// |---|---|
/// | [`Command::run`] | [`execute`](#method.execute): on this thread |
/// | [`Command::call`] | `.await`: in this task |
/// | [`PoolCommand::run`], [`PoolCommand::call`] | `execute`: wait on this thread; `.await`: wait in this task; `queue`: do not wait |
///
/// The parameters are the command, the body, the result's types, the rules about results, and the fallback; they are
/// never written out.
///
/// A call is executed once; a command is called as often as one likes:
///
/// ```compile_fail,E0382
/// # use hystrix_core::Command;
/// # let command = Command::builder("once").group("doc_call").build().unwrap();
/// let call = command.run(|| Ok::<_, ()>(1));
/// call.execute();
/// call.execute(); // HC-002: used after it was moved
/// ```
#[must_use = "a call does nothing until it is executed, awaited or queued"]
pub struct Call<'c, C, B, T, E, P = Judge, K = NoFallback> {
    command: &'c C,
    body: B,
    judge: P,
    fallback: K,
    result: PhantomData<fn() -> (T, E)>,
}

impl Command {
    /// Prepares a synchronous call: the body will run on this thread, and may borrow.
    pub fn run<T, E, F>(&self, body: F) -> Call<'_, Command, Blocking<F>, T, E>
    where
        F: FnOnce() -> Result<T, E>,
    {
        Call::new(self, Blocking(body))
    }

    /// Prepares an asynchronous call: the body will run in this task, may borrow, and need not be `Send`.
    ///
    /// ```
    /// # use hystrix_core::Command;
    /// # async fn fetch(id: u32) -> Result<String, std::io::Error> { Ok(format!("user {id}")) }
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let users = Command::builder("get_user").group("doc_call").semaphore(64).timeout("300ms").build()?;
    /// let user = users.call(|| fetch(7)).fallback(|_| Ok("somebody".into())).await?;
    /// assert_eq!(user, "user 7");
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(demo()).unwrap();
    /// ```
    pub fn call<T, E, F, Fut>(&self, body: F) -> Call<'_, Command, Async<F>, T, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        Call::new(self, Async(body))
    }
}

impl PoolCommand {
    /// Prepares a call whose synchronous body will run on a worker.
    pub fn run<T, E, F>(&self, body: F) -> Call<'_, PoolCommand, Blocking<F>, T, E>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        Call::new(self, Blocking(body))
    }

    /// Prepares a call whose asynchronous body will be made and polled on one worker, which it holds while it waits. Only the
    /// closure crosses threads.
    pub fn call<T, E, F, Fut>(&self, body: F) -> Call<'_, PoolCommand, Async<F>, T, E>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>>,
    {
        Call::new(self, Async(body))
    }
}

impl<'c, C, B, T, E> Call<'c, C, B, T, E> {
    fn new(command: &'c C, body: B) -> Self {
        Self {
            command,
            body,
            judge: Judge { classify: Unset, ignore: Unset, failure: Unset },
            fallback: NoFallback,
            result: PhantomData,
        }
    }
}

// ===== what a result means =====

#[expect(clippy::type_complexity, reason = "a call's type is never written out")]
impl<'c, Co, B, T, E, C, I, F, K> Call<'c, Co, B, T, E, Judge<C, I, F>, K> {
    /// Says which errors are ignored: the caller's own mistakes. They are returned as they are, without a fallback, and are neutral
    /// for the circuit. Wins over the other rules.
    pub fn ignore<N>(self, ignored: N) -> Call<'c, Co, B, T, E, Judge<C, Given<N>, F>, K>
    where
        N: Fn(&E) -> bool,
    {
        self.judged_by(|judge| Judge {
            classify: judge.classify,
            ignore: Given(ignored),
            failure: judge.failure,
        })
    }

    /// Says which values are failures. They count as such, and the fallback is asked; without one the value is returned.
    pub fn failure<N>(self, failed: N) -> Call<'c, Co, B, T, E, Judge<C, I, Given<N>>, K>
    where
        N: Fn(&T) -> bool,
    {
        self.judged_by(|judge| Judge {
            classify: judge.classify,
            ignore: judge.ignore,
            failure: Given(failed),
        })
    }

    /// Says what a result means, where `ignore` and `failure` say nothing. Default: values are successes, errors are failures.
    pub fn classify<N>(self, classify: N) -> Call<'c, Co, B, T, E, Judge<Given<N>, I, F>, K>
    where
        N: Fn(&Result<T, E>) -> Class,
    {
        self.judged_by(|judge| Judge {
            classify: Given(classify),
            ignore: judge.ignore,
            failure: judge.failure,
        })
    }
}

impl<'c, C, B, T, E, P, K> Call<'c, C, B, T, E, P, K> {
    fn judged_by<Q>(self, change: impl FnOnce(P) -> Q) -> Call<'c, C, B, T, E, Q, K> {
        Call {
            command: self.command,
            body: self.body,
            judge: change(self.judge),
            fallback: self.fallback,
            result: PhantomData,
        }
    }

    fn answered_by<L>(self, change: impl FnOnce(K) -> L) -> Call<'c, C, B, T, E, P, L> {
        Call {
            command: self.command,
            body: self.body,
            judge: self.judge,
            fallback: change(self.fallback),
            result: PhantomData,
        }
    }
}

// ===== the fallback =====

impl<'c, C, B, T, E, P> Call<'c, C, B, T, E, P, NoFallback> {
    /// Sets the fallback: gets the error, returns `Result<T, E>`, or in a call that is awaited a future of it.
    ///
    /// Runs where the caller waits, under a fallback permit; for a queued call on a `hystrix-fallback` worker. Its own error is
    /// the call's. A panic in it is contained.
    pub fn fallback<G, A, M>(self, fallback: G) -> Call<'c, C, B, T, E, P, Here<G, M>>
    where
        G: FnOnce(CommandError<E>) -> A,
        A: IntoAnswer<T, E, M>,
    {
        self.answered_by(|_| Here(fallback, PhantomData))
    }

    /// Sets a value that stands in: takes no permit, and is never refused.
    pub fn fallback_value(self, value: T) -> Call<'c, C, B, T, E, P, Value<T>> {
        self.answered_by(|_| Value(value))
    }
}

impl<'c, T, E, P, F> Call<'c, Command, Blocking<F>, T, E, P, NoFallback> {
    /// Sets a fallback that owns what it needs, for a synchronous call in place with a timeout: it runs on a `hystrix-fallback` worker at
    /// the deadline, with the caller's context, while the caller's thread is still in the body.
    ///
    /// The caller returns when the body does, with the fallback's answer; the late value is dropped.
    pub fn fallback_owned<G>(self, fallback: G) -> Call<'c, Command, Blocking<F>, T, E, P, Owned<G>>
    where
        G: FnOnce(CommandError<E>) -> Result<T, E> + Send + 'static,
    {
        self.answered_by(|_| Owned(fallback))
    }
}

impl<'c, C, B, T, E, P, K> Call<'c, C, B, T, E, P, K> {
    /// Asks a condition before the fallback; where it says no, the call has its original error.
    pub fn fallback_if<W>(self, wants: W) -> Call<'c, C, B, T, E, P, When<K, W>>
    where
        W: Fn(&CommandError<E>) -> bool,
    {
        self.answered_by(|fallback| When(fallback, wants))
    }
}

// ===== execution =====

impl<T, E, F, P, K> Call<'_, Command, Blocking<F>, T, E, P, K>
where
    F: FnOnce() -> Result<T, E>,
    P: Classify<T, E>,
    K: InPlace<T, E>,
{
    /// Runs the body on this thread.
    ///
    /// # Errors
    ///
    /// The body's error, the fallback's, or the rejection.
    #[inline]
    pub fn execute(self) -> Result<T, CommandError<E>> {
        in_place(&self.command.0.core, self.body.0, self.judge, self.fallback)
    }
}

impl<T, E, B, P, K> Call<'_, PoolCommand, B, T, E, P, K>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
{
    /// Runs the body on a worker and waits for it on this thread, until the timeout at most.
    ///
    /// Works from async code too, where it blocks the thread.
    ///
    /// # Errors
    ///
    /// The body's error, the fallback's, or the rejection.
    pub fn execute(self) -> Result<T, CommandError<E>>
    where
        K: Fallback<T, E>,
    {
        on_pool(&self.command.0.core, self.body, self.judge, self.fallback)
    }

    /// Queues the body and returns at once, with a handle: a future of the answer, or something to wait for.
    ///
    /// Runs neither body nor fallback here: the fallback of a refused call, too, runs on a `hystrix-fallback` worker.
    pub fn queue(self) -> Queued<T, E>
    where
        K: Fallback<T, E> + Send + 'static,
    {
        queue(&self.command.0.core, self.body, self.judge, self.fallback)
    }
}

impl<'c, T, E, F, Fut, P, K> IntoFuture for Call<'c, Command, Async<F>, T, E, P, K>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: Classify<T, E>,
    K: AsyncFallback<T, E>,
{
    type Output = Result<T, CommandError<E>>;
    type IntoFuture = InPlaceCall<'c, T, E, F, Fut, P, K, K::Answer>;

    fn into_future(self) -> Self::IntoFuture {
        InPlaceCall::new(&self.command.0.core, self.body.0, self.judge, self.fallback)
    }
}

impl<'c, T, E, B, P, K> IntoFuture for Call<'c, PoolCommand, B, T, E, P, K>
where
    T: Send + 'static,
    E: Send + 'static,
    B: Body<T, E>,
    P: Classify<T, E> + Send + 'static,
    K: AsyncFallback<T, E>,
{
    type Output = Result<T, CommandError<E>>;
    type IntoFuture = PoolCall<'c, T, E, B, P, K, K::Answer>;

    fn into_future(self) -> Self::IntoFuture {
        PoolCall::new(&self.command.0.core, self.body, self.judge, self.fallback)
    }
}

impl<C: fmt::Debug, B, T, E, P, K> fmt::Debug for Call<'_, C, B, T, E, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("command", self.command).finish_non_exhaustive()
    }
}
