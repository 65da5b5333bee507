//! Which command's body runs on this thread, and whether it should still.

use std::cell::Cell;
use std::fmt;

use crate::clock::{TimeSource, Timestamp};
use crate::identity::CommandKey;
use crate::sync::global::Arc;

thread_local! {
    static CURRENT: Cell<Option<Frame>> = const { Cell::new(None) };
}

/// The command whose body runs.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) command: CommandKey,
    pub(crate) stop: Stop,
}

/// What tells a body that nobody waits for it any more.
#[derive(Clone)]
pub(crate) enum Stop {
    Never,
    /// Its deadline has passed.
    At(Timestamp, TimeSource),
    /// Its attempt was decided without it.
    Sign(Arc<dyn StopSign>),
}

pub(crate) trait StopSign: Send + Sync {
    fn is_over(&self) -> bool;
}

/// Runs `body` as the body of a command. Nests, and puts back what was there, on a panic too.
#[inline]
pub(crate) fn enter<R>(frame: Frame, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<Frame>);

    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = CURRENT.try_with(|current| current.set(self.0.take()));
        }
    }

    // A thread that is ending has no frame; its bodies run all the same.
    let before = CURRENT
        .try_with(|current| current.replace(Some(frame)))
        .unwrap_or(None);
    let _restore = Restore(before);
    body()
}

fn look<R>(read: impl FnOnce(&Frame) -> R) -> Option<R> {
    CURRENT
        .try_with(|current| {
            let frame = current.take();
            let result = frame.as_ref().map(read);
            current.set(frame);
            result
        })
        .ok()?
}

/// Returns the command whose body runs here; `None` outside of bodies, and inside fallbacks.
///
/// In an async body it is known while the body is being polled.
#[must_use]
pub fn current_command() -> Option<CommandKey> {
    look(|frame| frame.command.clone())
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
    Cancellation(look(|frame| frame.stop.clone()).unwrap_or(Stop::Never))
}

/// Tells a body whether anybody still waits for it: see [`cancellation`]. May be kept and sent to other threads.
#[derive(Clone)]
pub struct Cancellation(Stop);

impl Cancellation {
    /// Returns whether the attempt has been decided without this body: timed out, cancelled by its caller, or shut down.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            Stop::Never => false,
            Stop::At(deadline, clock) => clock.now() >= *deadline,
            Stop::Sign(sign) => sign.is_over(),
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}
