//! Which command's body runs on this thread, and whether it should still.

use std::cell::Cell;
use std::fmt;

use crate::clock::{TimeSource, Timestamp};
use crate::identity::CommandKey;
use crate::sync::global::Arc;

thread_local! {
    static HERE: Here = const {
        Here { command: Cell::new(None), deadline: Cell::new(Timestamp::MAX), sign: Cell::new(None) }
    };
}

/// The body that runs on this thread.
struct Here {
    command: Cell<Option<CommandKey>>,
    /// When it should stop, on the system clock. The common case is a word, for it is written by every call in place.
    deadline: Cell<Timestamp>,
    /// Anything else that tells it to.
    sign: Cell<Option<Arc<dyn StopSign>>>,
}

/// What tells a body that nobody waits for it any more.
#[derive(Clone)]
struct Stop {
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
}

/// A body inside another one stops when either is to stop.
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

/// A body runs on this thread, until this is dropped: puts back what was there, on a panic too. Nests.
///
/// A guard and not a function around the body, so that nothing here is compiled anew for each body.
#[must_use]
pub(crate) struct Inside {
    command: Option<CommandKey>,
    deadline: Timestamp,
    /// The sign that was there, where the body has brought its own.
    sign: Option<Option<Arc<dyn StopSign>>>,
}

/// Begins the body of a command, with a deadline that tells it to stop.
#[inline(always)]
pub(crate) fn enter_until(command: &CommandKey, deadline: Timestamp, clock: &TimeSource) -> Inside {
    if clock.is_system() || deadline == Timestamp::MAX {
        return enter_as(command, deadline);
    }
    enter_on(command, deadline, clock)
}

#[cold]
fn enter_on(command: &CommandKey, deadline: Timestamp, clock: &TimeSource) -> Inside {
    enter(command, Arc::new(DeadlineOn { deadline, clock: clock.clone() }))
}

/// Begins the body of a command, with a sign that tells it to stop.
pub(crate) fn enter(command: &CommandKey, sign: Arc<dyn StopSign>) -> Inside {
    let outer = HERE.try_with(|here| here.sign.take()).unwrap_or(None);
    let both = match outer.clone() {
        Some(outer) => Arc::new(Either(sign, outer)),
        None => sign,
    };
    let _ = HERE.try_with(|here| here.sign.set(Some(both)));
    let mut inside = enter_as(command, Timestamp::MAX);
    inside.sign = Some(outer);
    inside
}

#[inline(always)]
fn enter_as(command: &CommandKey, deadline: Timestamp) -> Inside {
    // A thread that is ending knows no command; its bodies run all the same.
    let entered = HERE.try_with(|here| {
        let outer = here.deadline.get();
        here.deadline.set(outer.min(deadline));
        (here.command.replace(Some(command.clone())), outer)
    });
    let (command, deadline) = entered.unwrap_or((None, Timestamp::MAX));
    Inside { command, deadline, sign: None }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        let _ = HERE.try_with(|here| {
            here.deadline.set(self.deadline);
            here.command.set(self.command.take());
        });
        if let Some(outer) = self.sign.take() {
            put_back(outer);
        }
    }
}

#[cold]
fn put_back(outer: Option<Arc<dyn StopSign>>) {
    let own = HERE.try_with(|here| here.sign.replace(outer));
    drop(own);
}

/// Looks at a cell without keeping what is in it.
fn look<V: Clone>(cell: &Cell<Option<V>>) -> Option<V> {
    let value = cell.take();
    let copy = value.clone();
    cell.set(value);
    copy
}

/// Returns the command whose body runs here; `None` outside of bodies, and inside fallbacks.
///
/// In an async body it is known while the body is being polled.
#[must_use]
pub fn current_command() -> Option<CommandKey> {
    HERE.try_with(|here| look(&here.command)).unwrap_or(None)
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
    Cancellation(HERE.try_with(|here| Stop { deadline: here.deadline.get(), sign: look(&here.sign) }).ok())
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
