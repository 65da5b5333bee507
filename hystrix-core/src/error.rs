//! What a caller gets instead of a value, and what a wrong setting is told.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::identity::CommandKey;
use crate::outcome::FallbackOutcome;

// ===== impl CommandError =====

/// The error of a call: the dependency's own, or the library's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError<E> {
    /// The body, or the fallback, returned this error.
    Inner(E),
    /// The library refused, cut short or contained the call.
    Rejected(Rejection),
}

impl<E> CommandError<E> {
    /// Returns the dependency's error, if it is one.
    #[must_use]
    pub fn inner(&self) -> Option<&E> {
        match self {
            CommandError::Inner(error) => Some(error),
            CommandError::Rejected(_) => None,
        }
    }

    /// Returns the dependency's error by value, if it is one.
    #[must_use]
    pub fn into_inner(self) -> Option<E> {
        match self {
            CommandError::Inner(error) => Some(error),
            CommandError::Rejected(_) => None,
        }
    }

    /// Returns the dependency's error, or the refusal as one.
    ///
    /// ```
    /// use hystrix_core::{Queued, command};
    ///
    /// #[command(thread_pool)]
    /// fn later(text: String) -> Queued<u32, String> {
    ///     text.parse().map_err(|_| format!("no number: {text}"))
    /// }
    ///
    /// fn twice(text: String) -> Result<u32, String> {
    ///     Ok(later(text).wait().map_err(|error| error.into_error())? * 2)
    /// }
    ///
    /// assert_eq!(twice("4".into()), Ok(8));
    /// assert_eq!(twice("four".into()).unwrap_err(), "no number: four");
    /// ```
    #[must_use]
    pub fn into_error(self) -> E
    where
        E: From<Rejection>,
    {
        match self {
            CommandError::Inner(error) => error,
            CommandError::Rejected(rejection) => rejection.into(),
        }
    }

    /// Returns the library's refusal, if it is one.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            CommandError::Inner(_) => None,
            CommandError::Rejected(rejection) => Some(rejection),
        }
    }

    /// Returns whether the call was cut by its timeout.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.has_kind(RejectionKind::TimedOut)
    }

    /// Returns whether the circuit refused the call.
    #[must_use]
    pub fn is_short_circuited(&self) -> bool {
        self.has_kind(RejectionKind::ShortCircuited)
    }

    fn has_kind(&self, kind: RejectionKind) -> bool {
        self.rejection().is_some_and(|rejection| rejection.kind == kind)
    }
}

impl<E> CommandError<CommandError<E>> {
    /// Merges the error of a body that itself returned a `CommandError`: the outer refusal, or whatever the body had.
    #[must_use]
    pub fn flatten(self) -> CommandError<E> {
        match self {
            CommandError::Inner(error) => error,
            CommandError::Rejected(rejection) => CommandError::Rejected(rejection),
        }
    }
}

/// So that `?` works on the dependency's errors in a function that returns a `CommandError`.
impl<E> From<E> for CommandError<E> {
    fn from(error: E) -> Self {
        CommandError::Inner(error)
    }
}

impl<E: fmt::Display> fmt::Display for CommandError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Inner(error) => error.fmt(f),
            CommandError::Rejected(rejection) => rejection.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for CommandError<E> {
    // Transparent: this level has the message of the error it holds, so the source is that error's.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CommandError::Inner(error) => error.source(),
            CommandError::Rejected(rejection) => rejection.source(),
        }
    }
}

// ===== impl Rejection =====

/// The library's own "no": why a call has no value of its own.
///
/// Four words long, and made without writing a line that other threads read, so that refusing stays cheap when
/// everybody is refused. Equality compares all it says.
#[derive(Clone, PartialEq, Eq)]
pub struct Rejection {
    command: CommandKey,
    /// A limit, or a time in `unit`.
    value: u32,
    kind: RejectionKind,
    unit: Unit,
    /// What became of the fallback; `None` while the fallback itself looks at this.
    fallback: Option<FallbackOutcome>,
    detail: Option<Box<Detail>>,
}

/// Why the library refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectionKind {
    /// The circuit is open.
    ShortCircuited,
    /// The thread pool has no place left.
    PoolFull,
    /// All permits are in use.
    PermitsExhausted,
    /// The deadline passed.
    TimedOut,
    /// The body, a predicate or the fallback panicked.
    Panicked,
    /// The system refused a thread: to the pool, or to the timer.
    NoThread,
    /// The registry was shut down.
    ShutDown,
    /// The body gave a value that `failure` or `classify` judged as a failure. Only a fallback sees this kind:
    /// without one the caller gets the value.
    FailedValue,
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Detail {
    in_use: Option<usize>,
    message: Option<Box<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    None,
    Count,
    Nanos,
    Micros,
    Millis,
    Seconds,
    Hours,
}

impl Rejection {
    pub(crate) fn new(command: CommandKey, kind: RejectionKind) -> Self {
        Self { command, value: 0, kind, unit: Unit::None, fallback: None, detail: None }
    }

    pub(crate) fn with_limit(mut self, limit: usize) -> Self {
        self.value = u32::try_from(limit).unwrap_or(u32::MAX);
        self.unit = Unit::Count;
        self
    }

    /// Keeps the number in use where it is not the limit itself.
    pub(crate) fn with_in_use(mut self, in_use: usize) -> Self {
        if self.limit() != Some(in_use) {
            self.detail.get_or_insert_default().in_use = Some(in_use);
        }
        self
    }

    /// Keeps a time, rounded up where it does not fit: a caller that waits so long has waited long enough.
    pub(crate) fn with_time(mut self, time: Duration) -> Self {
        // In 64 bits, for a division of 128 costs more than all the rest of a refusal.
        let nanos =
            time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()));
        let units = [
            (Unit::Nanos, nanos),
            (Unit::Micros, nanos.div_ceil(1_000)),
            (Unit::Millis, nanos.div_ceil(1_000_000)),
        ];
        let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
        let long = [(Unit::Seconds, seconds), (Unit::Hours, seconds.div_ceil(3600))];
        let fits = |(unit, value): (Unit, u64)| Some((unit, u32::try_from(value).ok()?));
        let kept = units.into_iter().chain(long).find_map(fits);
        (self.unit, self.value) = kept.unwrap_or((Unit::Hours, u32::MAX));
        self
    }

    pub(crate) fn with_message(mut self, message: impl Into<Box<str>>) -> Self {
        self.detail.get_or_insert_default().message = Some(message.into());
        self
    }

    pub(crate) fn set_fallback(&mut self, fallback: FallbackOutcome) {
        self.fallback = Some(fallback);
    }

    /// Returns why the call was refused.
    #[must_use]
    pub fn kind(&self) -> RejectionKind {
        self.kind
    }

    /// Returns the command that refused.
    #[must_use]
    pub fn command(&self) -> &CommandKey {
        &self.command
    }

    /// Returns the limit that was met: the permits, or the places of the pool.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        (self.unit == Unit::Count).then_some(self.value as usize)
    }

    /// Returns how much of the limit was in use at that moment.
    #[must_use]
    pub fn in_use(&self) -> Option<usize> {
        let detailed = self.detail.as_ref().and_then(|detail| detail.in_use);
        detailed.or_else(|| self.limit())
    }

    /// Returns how long the circuit still refuses, rounded up. `None` where no time is known: a circuit held
    /// open by hand, or one whose trial is under way.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.kind == RejectionKind::ShortCircuited).then(|| self.time())?
    }

    /// Returns the timeout that passed.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        (self.kind == RejectionKind::TimedOut).then(|| self.time())?
    }

    /// Returns what became of the fallback, or `None` inside the fallback itself.
    #[must_use]
    pub fn fallback(&self) -> Option<FallbackOutcome> {
        self.fallback
    }

    /// Returns the panic's message, or the cause of a refused thread.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.detail.as_ref()?.message.as_deref()
    }

    /// Returns the HTTP status that says the same: 504 for a timeout, 429 for a limit, 503 for the rest.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self.kind {
            RejectionKind::TimedOut => 504,
            RejectionKind::PoolFull | RejectionKind::PermitsExhausted => 429,
            _ => 503,
        }
    }

    /// Returns the gRPC code that says the same: 4 (deadline exceeded), 8 (resource exhausted), 13 (internal) for
    /// a panic, 14 (unavailable) for the rest.
    #[must_use]
    pub fn grpc_code(&self) -> u32 {
        match self.kind {
            RejectionKind::TimedOut => 4,
            RejectionKind::PoolFull | RejectionKind::PermitsExhausted => 8,
            RejectionKind::Panicked => 13,
            _ => 14,
        }
    }

    fn time(&self) -> Option<Duration> {
        let value = u64::from(self.value);
        match self.unit {
            Unit::None | Unit::Count => None,
            Unit::Nanos => Some(Duration::from_nanos(value)),
            Unit::Micros => Some(Duration::from_micros(value)),
            Unit::Millis => Some(Duration::from_millis(value)),
            Unit::Seconds => Some(Duration::from_secs(value)),
            Unit::Hours => Some(Duration::from_secs(3600 * value)),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.command)?;
        let (limit, in_use) = (self.limit(), self.in_use());
        match (self.kind, limit, in_use) {
            (RejectionKind::ShortCircuited, ..) => f.write_str("was short-circuited")?,
            (RejectionKind::PoolFull, Some(limit), Some(in_use)) => {
                write!(f, "found its thread pool full ({in_use} of {limit} places in use)")?;
            }
            (RejectionKind::PoolFull, ..) => f.write_str("found its thread pool full")?,
            (RejectionKind::PermitsExhausted, Some(limit), Some(in_use)) => {
                write!(f, "found no permit ({in_use} of {limit} in use)")?;
            }
            (RejectionKind::PermitsExhausted, ..) => f.write_str("found no permit")?,
            (RejectionKind::TimedOut, ..) => f.write_str("timed out")?,
            (RejectionKind::Panicked, ..) => f.write_str("panicked")?,
            (RejectionKind::NoThread, ..) => f.write_str("was refused a thread by the system")?,
            (RejectionKind::ShutDown, ..) => f.write_str("was refused because of a shutdown")?,
            (RejectionKind::FailedValue, ..) => f.write_str("gave a value judged as a failure")?,
        }
        if let Some(after) = self.retry_after() {
            // Up to the millisecond: who comes back then is not too early, and the text is short.
            let millis = after.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX);
            write!(f, ", retry after {:?}", Duration::from_millis(millis))?;
        }
        if let Some(timeout) = self.timeout() {
            write!(f, " after {timeout:?}")?;
        }
        if let Some(message) = self.message() {
            write!(f, ": {message}")?;
        }
        match self.fallback {
            Some(FallbackOutcome::Failure) => f.write_str("; its fallback failed"),
            Some(FallbackOutcome::Rejection) => f.write_str("; its fallback was refused"),
            Some(FallbackOutcome::Skipped) => f.write_str("; its fallback was skipped"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Rejection");
        debug.field("command", &self.command).field("kind", &self.kind);
        if let (Some(limit), Some(in_use)) = (self.limit(), self.in_use()) {
            debug.field("limit", &limit).field("in_use", &in_use);
        }
        if let Some(time) = self.time() {
            debug.field("time", &time);
        }
        if let Some(message) = self.message() {
            debug.field("message", &message);
        }
        debug.field("fallback", &self.fallback).finish()
    }
}

impl Error for Rejection {}

/// So that a function whose errors are plain text can be a command.
impl From<Rejection> for String {
    fn from(rejection: Rejection) -> Self {
        rejection.to_string()
    }
}

/// So that a function with I/O errors can be a command. The kind is `TimedOut` for a timeout, `WouldBlock` where a limit was met, `Other`
/// for the rest; the source is the rejection.
impl From<Rejection> for io::Error {
    fn from(rejection: Rejection) -> Self {
        let kind = match rejection.kind {
            RejectionKind::TimedOut => io::ErrorKind::TimedOut,
            RejectionKind::PoolFull | RejectionKind::PermitsExhausted => io::ErrorKind::WouldBlock,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, rejection)
    }
}

// ===== impl ConfigError =====

/// A setting that cannot be: names the field, the value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    of: Option<Box<str>>,
    field: &'static str,
    value: Box<str>,
    allowed: Box<str>,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, value: impl fmt::Debug, allowed: impl Into<Box<str>>) -> Self {
        Self { of: None, field, value: format!("{value:?}").into(), allowed: allowed.into() }
    }

    /// Says whose setting it is; the innermost name stands.
    pub(crate) fn of(mut self, owner: impl fmt::Display) -> Self {
        self.of.get_or_insert_with(|| owner.to_string().into());
        self
    }

    /// Returns the setting's name, as the builder spells it.
    #[must_use]
    pub fn field(&self) -> &str {
        self.field
    }

    /// Returns the refused value, as text.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns what is allowed, in words.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(of) = &self.of {
            write!(f, "{of}: ")?;
        }
        write!(f, "{} = {}, but allowed is {}", self.field, self.value, self.allowed)
    }
}

impl Error for ConfigError {}

#[cfg(all(test, not(hystrix_loom)))]
mod tests {
    use super::*;

    #[test]
    fn rejection_is_at_most_four_words() {
        assert!(size_of::<Rejection>() <= 4 * size_of::<usize>());
        assert!(size_of::<CommandError<()>>() <= 4 * size_of::<usize>());
    }

    #[test]
    fn times_are_kept_rounded_up_and_never_shorter() {
        let key = || CommandKey::new("g", "k");
        for nanos in [0, 1, 999, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 45, u64::MAX] {
            let time = Duration::from_nanos(nanos);
            let rejection = Rejection::new(key(), RejectionKind::TimedOut).with_time(time);
            let kept = rejection.timeout().expect("a timeout has its time");
            assert!(kept >= time && kept <= time + time / 1000 + Duration::from_nanos(1));
        }
        let rejection = Rejection::new(key(), RejectionKind::TimedOut).with_time(Duration::MAX);
        assert_eq!(rejection.timeout(), Some(Duration::from_secs(3600 * u64::from(u32::MAX))));
    }
}
