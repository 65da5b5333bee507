//! A clock that follows a tokio runtime's time, a paused one included.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Alarm, Clock, Timestamp, Waking};

/// The time of a tokio runtime: in a paused runtime (`start_paused`) deadlines pass as that runtime's do.
///
/// Every ring is a short task on the runtime, so this is a clock for tests, not for traffic. Built inside the runtime
/// that it follows.
#[derive(Clone, Debug)]
pub struct TokioClock {
    runtime: Handle,
    /// What this clock calls one day.
    beginning: Instant,
}

impl TokioClock {
    const HEAD_START: Duration = Duration::from_secs(24 * 60 * 60);

    /// Follows the current runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new() -> Self {
        Self { runtime: Handle::current(), beginning: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        // A thread outside the runtime would read real time where the runtime's is paused.
        let _inside = self.runtime.enter();
        Timestamp::ZERO + Self::HEAD_START + self.beginning.elapsed()
    }

    fn wake_at(&self, when: Timestamp, alarm: &Alarm) -> Waking {
        let since_beginning = when.since(Timestamp::ZERO + Self::HEAD_START);
        let alarm = alarm.clone();
        // A time tokio cannot hold never comes.
        if let Some(at) = self.beginning.checked_add(since_beginning) {
            self.runtime.spawn(async move {
                tokio::time::sleep_until(at).await;
                alarm.ring();
            });
        }
        Waking::ByClock
    }
}
