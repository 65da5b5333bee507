//! Which command's body runs on this thread, and whether it should still.

use std::cell::Cell;
use std::fmt;

use crate::clock::{TimeSource, Timestamp};
use crate::identity::CommandKey;
use crate::sync::global::Arc;

thread_local! {
    static COMMAND: Cell<Option<CommandKey>> = const { Cell::new(None) };
    static STOP: Cell<Option<Stop>> = const { Cell::new(None) };
}

/// What tells a body that nobody waits for it any more.
#[derive(Clone)]
struct Stop {
    /// On the system clock; never, if the deadline is on another clock.
    deadline: Timestamp,
    sign: Option<Arc<dyn StopSign>>,
}

pub(crate) trait StopSign: Send + Sync {
    fn is_over(&self) -> bool;
}

impl Stop {
    fn is_over(&self) -> bool {
        let passed = self.deadline < Timestamp::MAX && TimeSource::System.now() >= self.deadline;
        passed || self.sign.as_ref().is_some_and(|sign| sign.is_over())
    }

    /// A body inside another one stops when either is to stop.
    fn or(self, outer: Stop) -> Stop {
        let sign = match (self.sign, outer.sign) {
            (Some(own), Some(outer)) => Some(Arc::new(Either(own, outer)) as _),
            (own, outer) => own.or(outer),
        };
        let deadline = self.deadline.min(outer.deadline);
        Stop { deadline, sign }
    }
}

struct Either(Arc<dyn StopSign>, Arc<dyn StopSign>);

impl StopSign for Either {
    fn is_over(&self) -> bool {
        self.0.is_over() || self.1.is_over()
    }
}

struct DeadlineOn {
    deadline: Timestamp,
    clock: TimeSource,
}

impl StopSign for DeadlineOn {
    fn is_over(&self) -> bool {
        self.clock.now() >= self.deadline
    }
}

/// Runs `body` as the body of a command, with a deadline that tells it to stop.
#[inline]
pub(crate) fn enter_until<R>(
    command: &CommandKey,
    deadline: Timestamp,
    clock: &TimeSource,
    body: impl FnOnce() -> R,
) -> R {
    let _stop = (deadline < Timestamp::MAX).then(|| stop_at(deadline, clock));
    enter_as(command, body)
}

/// Runs `body` as the body of a command, with a sign that tells it to stop.
pub(crate) fn enter<R>(command: &CommandKey, sign: Arc<dyn StopSign>, body: impl FnOnce() -> R) -> R {
    let _stop = stop_by(Stop { deadline: Timestamp::MAX, sign: Some(sign) });
    enter_as(command, body)
}

/// Nests, and puts back what was there, on a panic too.
#[inline]
fn enter_as<R>(command: &CommandKey, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<CommandKey>);

    impl Drop for Restore {
        #[inline(always)]
        fn drop(&mut self) {
            let _ = COMMAND.try_with(|current| current.set(self.0.take()));
        }
    }

    // A thread that is ending knows no command; its bodies run all the same.
    let entered = COMMAND.try_with(|current| current.replace(Some(command.clone())));
    let _restore = entered.ok().map(Restore);
    body()
}

struct RestoreStop(Option<Stop>);

impl Drop for RestoreStop {
    fn drop(&mut self) {
        let outer = self.0.take();
        let _ = STOP.try_with(|stop| stop.set(outer));
    }
}

fn stop_at(deadline: Timestamp, clock: &TimeSource) -> RestoreStop {
    if clock.is_system() {
        return stop_by(Stop { deadline, sign: None });
    }
    let clock = clock.clone();
    let sign: Arc<dyn StopSign> = Arc::new(DeadlineOn { deadline, clock });
    stop_by(Stop { deadline: Timestamp::MAX, sign: Some(sign) })
}

fn stop_by(stop: Stop) -> RestoreStop {
    let outer = STOP.try_with(Cell::take).unwrap_or(None);
    let stop = match outer.clone() {
        Some(outer) => stop.or(outer),
        None => stop,
    };
    let _ = STOP.try_with(|current| current.set(Some(stop)));
    RestoreStop(outer)
}

fn look<V: Clone>(cell: &'static std::thread::LocalKey<Cell<Option<V>>>) -> Option<V> {
    cell.try_with(|cell| {
        let value = cell.take();
        let copy = value.clone();
        cell.set(value);
        copy
    })
    .ok()?
}

/// Returns the command whose body runs here; `None` outside of bodies, and inside fallbacks.
///
/// In an async body it is known while the body is being polled.
#[must_use]
pub fn current_command() -> Option<CommandKey> {
    look(&COMMAND)
}

/// Returns the cancellation of the body that runs here. Outside of bodies it is never cancelled.
///
/// A thread cannot be stopped from outside: a synchronous body that may run for long asks now and then.
///
/// ```
/// use hystrix_core::cancellation;
///
/// fn sum_up(rows: &[u64]) -> Result<u64, String> {
///     let cancellation = cancellation();
///     let mut sum = 0;
///     for chunk in rows.chunks(1024) {
///         if cancellation.is_cancelled() {
///             return Err("nobody waits any more".into());
///         }
///         sum += chunk.iter().sum::<u64>();
///     }
///     Ok(sum)
/// }
/// # assert_eq!(sum_up(&[1, 2, 3]), Ok(6));
/// ```
#[must_use]
pub fn cancellation() -> Cancellation {
    Cancellation(look(&STOP))
}

/// Tells a body whether anybody still waits for it: see [`cancellation`]. May be kept and sent to other threads.
#[derive(Clone)]
pub struct Cancellation(Option<Stop>);

impl Cancellation {
    /// Returns whether the attempt has been decided without this body: timed out, cancelled by its caller, or shut down.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(Stop::is_over)
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("is_cancelled", &self.is_cancelled()).finish()
    }
}
