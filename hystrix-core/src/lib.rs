//! Commands for Rust services in the line of Netflix Hystrix.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod circuit_breaker;
mod clock;
mod command;
pub mod context;
mod error;
mod event;
mod execution;
mod fallback;
mod identity;
mod isolation;
mod log;
mod outcome;
mod permits;
mod registry;
mod runtime;
mod sealed;
mod sinks;
mod sync;
mod timer;
mod window;
mod workers;

pub use self::admission::Force;
pub use self::circuit_breaker::CircuitBreaker;
#[cfg(feature = "tokio-clock")]
pub use self::clock::TokioClock;
pub use self::clock::{Alarm, Clock, ManualClock, SystemClock, Timestamp, Waking};
pub use self::command::{
    Call, CircuitMetrics, CircuitSetting, Command, CommandBuilder, CommandConfig, CommandHandle, Counts,
    Keyed, Latency, Metrics, Origin, PoolCommand, Setting, Settings, Timeout,
};
pub use self::context::{Cancellation, cancellation, current_command};
pub use self::error::{CommandError, ConfigError, Rejection, RejectionKind};
pub use self::event::{
    AbandonedEvent, CallEvent, CircuitCause, CircuitEvent, EventSink, ModeEvent, PoolEvent, PoolEventKind,
};
pub use self::execution::Queued;
pub use self::identity::CommandKey;
pub use self::isolation::thread_pool::{PoolReport, RunningTask, ThreadPool};
pub use self::outcome::{CircuitState, Class, FallbackOutcome, Mode, Outcome};
pub use self::permits::Limit;
pub use self::registry::{
    Entered, Finding, InRegistry, LeftOver, Registry, RegistryBuilder, Select, Shutdown, ShutdownReport,
    Subscription,
};

/// The types of a call's parameters: what its options make of it. They are never written out.
pub mod call {
    pub use crate::command::{Buildable, InPlaceIsolation, IntoThreadPool, KeyedKind, PoolIsolation};
    pub use crate::execution::{
        Async, Blocking, Body, Classify, Given, InPlace, InPlaceCall, Judge, PoolCall, Unset,
    };
    pub use crate::fallback::{
        AsyncFallback, Fallback, Here, IntoAnswer, Later, NoFallback, Owned, Plain, Value, When,
    };
}

/// Other systems' behaviour, for comparison.
pub mod compat {
    /// Hystrix's way with permits: see [`CommandBuilder::permit_release`](crate::CommandBuilder::permit_release).
    #[derive(Clone, Copy, Debug)]
    pub struct ReleaseAtTimeout;
}
