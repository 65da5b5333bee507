//! Commands for Rust services in the line of Netflix Hystrix.
//!
//! A *command* is a call to something that may be slow or down. Each call is admitted by a circuit breaker, isolated by a
//! semaphore ([`Command`]) or on a bounded thread pool ([`PoolCommand`]), bounded in time, answered by a fallback when it
//! cannot succeed, followed by its caller's [context](mod@context), and counted.
//!
//! ```
//! use hystrix_core::{command, command_of};
//!
//! #[command(thread_pool, timeout = "200ms", fallback = |_error| Ok(0))]
//! fn stock(item: String) -> Result<u32, String> {
//!     item.parse().map_err(|_| format!("no stock of {item}"))
//! }
//!
//! assert_eq!(stock("7".into()), Ok(7));
//! assert_eq!(stock("seven".into()), Ok(0));
//! assert_eq!(command_of!(stock).metrics().cumulative.failure, 1);
//! ```
//!
//! [`#[command]`](macro@command) makes a function's calls commands. What it writes can be written by hand:
//!
//! ```
//! use hystrix_core::{Command, CommandError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stock = Command::builder("stock").group("shop").thread_pool("shop").timeout("200ms").build()?;
//! let pieces = stock.run(|| "7".parse::<u32>()).fallback(|_error| Ok(0)).execute()?;
//! assert_eq!(pieces, 7);
//!
//! let refused = stock.run(|| "seven".parse::<u32>()).execute();
//! assert!(matches!(refused, Err(CommandError::Inner(_))));
//! assert_eq!(stock.metrics().cumulative.failure, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a call
//!
//! 1. The **circuit** lets it pass, or short-circuits it: [`CircuitBreaker`].
//! 2. The **permit** of a semaphore, or a place in a [`ThreadPool`], is taken, or the call is rejected.
//! 3. The **body** runs, against the **timeout**. Time in a pool's queue counts.
//! 4. The attempt is **settled**, once, by whoever comes first: its end, its timeout, or a caller that leaves.
//! 5. Where there is no good result the **fallback** answers, under permits of its own.
//!
//! What a call is answered with is a `Result<T, CommandError<E>>`: the value, the body's own error, or a [`Rejection`] that says
//! which stage refused, with the numbers, and when to come back.
//!
//! # What a timeout does
//!
//! A thread cannot be stopped from outside. The timeout of a sync body on a pool frees its *caller*; the body runs on as
//! *abandoned*, is counted as that, and keeps its worker until it ends ([`cancellation()`] lets it ask). A sync body under
//! a semaphore runs on its caller's own thread, so that its timeout frees nobody. An async body is dropped.
//!
//! # Who owns what
//!
//! A [`Registry`] owns clock, timer, pools, circuits and commands; [`Registry::global`] is the one that everything uses which names
//! no other. A test has its own, on a [`ManualClock`]. A process that forks must do so before its first command.
//!
//! # Features
//!
//! | feature | default | what it is for |
//! |---|---|---|
//! | `macros` | yes | the attribute [`command`](macro@command) |
//! | `tokio` | yes | bodies and fallbacks on workers find their caller's tokio handle |
//! | `tracing` | yes | spans and subscribers go along; the warnings of circuits and refusals |
//! | `discover` | no | a registry finds all annotated functions of the program |
//! | `tokio-clock` | no | [`TokioClock`](https://docs.rs/hystrix-core/latest/hystrix_core/struct.TokioClock.html): a registry on tokio's clock, a paused one included |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod __private;
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
mod unwind;
mod window;
mod workers;

pub use self::admission::Force;
pub use self::circuit_breaker::CircuitBreaker;
#[cfg(feature = "tokio-clock")]
pub use self::clock::TokioClock;
pub use self::clock::{Alarm, Clock, ManualClock, SystemClock, Timestamp, Waking};
pub use self::command::{
    Annotated, Call, CircuitMetrics, CircuitSetting, Command, CommandBuilder, CommandConfig, CommandHandle,
    Counts, Keyed, Latency, Metrics, Origin, PoolCommand, Setting, Settings, Timeout,
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

#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
#[doc = include_str!("docs/command.md")]
pub use hystrix_macros::command;
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
#[doc = include_str!("docs/command_of.md")]
pub use hystrix_macros::command_of;
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
#[doc = include_str!("docs/commands.md")]
pub use hystrix_macros::commands;

/// The types of a call's parameters: what its options make of it. They are never written out.
pub mod call {
    pub use crate::command::{Buildable, InPlaceIsolation, IntoThreadPool, KeyedKind, PoolIsolation};
    pub use crate::execution::{
        Async, Blocking, Body, Classify, Given, InPlace, InPlaceCall, Judge, PoolCall, Unset,
    };
    pub use crate::fallback::{
        Answered, AsyncFallback, Fallback, Here, IntoAnswer, Later, Never, NoFallback, Owned, Plain, Value,
        When,
    };
}

/// Other systems' behaviour, for comparison.
pub mod compat {
    /// Hystrix's way with permits: see [`CommandBuilder::permit_release`](crate::CommandBuilder::permit_release).
    #[derive(Clone, Copy, Debug)]
    pub struct ReleaseAtTimeout;
}

/// The README's examples are documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
