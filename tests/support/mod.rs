//! What the tests share: a registry on a clock that stands, gates that bodies wait at, and a listener that remembers.

#![allow(dead_code, reason = "every test file uses a part of this")]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hystrix_core::call::{InPlaceIsolation, PoolIsolation};
use hystrix_core::{
    AbandonedEvent, CallEvent, CircuitBreaker, CircuitEvent, Command, CommandBuilder, CommandError,
    CommandHandle, CommandKey, EventSink, ManualClock, ModeEvent, PoolEvent, Registry, ThreadPool,
};

/// How long a test waits for an event that must come.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits for something that other threads bring about.
pub fn until(what: &str, reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

// ===== Lab =====

/// A registry of its own, on a clock that the test moves, with a listener.
pub struct Lab {
    pub clock: ManualClock,
    pub registry: Registry,
    pub events: Events,
}

impl Lab {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        let events = Events::default();
        let registry = Registry::builder().clock(clock.clone()).sink(events.clone()).build();
        Self { clock, registry, events }
    }

    pub fn command(&self, key: &'static str) -> CommandBuilder<InPlaceIsolation> {
        Command::builder(key).group("lab").registry(&self.registry)
    }

    /// A command on a pool of its own, called like the command.
    pub fn on_pool(&self, key: &'static str, workers: usize, queue: usize) -> CommandBuilder<PoolIsolation> {
        let pool = ThreadPool::named(key).core_size(workers).max_queue_size(queue);
        self.command(key).thread_pool(pool)
    }

    /// Waits until so many deadlines are pending, then moves the clock.
    pub fn advance_when_armed(&self, armed: usize, by: Duration) {
        until("armed", || self.clock.armed() >= armed);
        self.clock.advance(by);
    }
}

/// A circuit that opens on the first failures, and stays so for 200 ms.
pub fn touchy(volume: u64) -> CircuitBreaker {
    CircuitBreaker::new().request_volume_threshold(volume).sleep_window(ms(200))
}

/// Runs `work` on a thread of its own.
pub fn aside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    std::thread::Builder::new().name("caller".into()).spawn(work).expect("a thread for the test")
}

pub fn joined<R>(handle: JoinHandle<R>) -> R {
    until("the other caller", || handle.is_finished());
    handle.join().expect("the other caller does not panic")
}

/// The counts that are not zero, in words.
pub fn counts(command: &CommandHandle) -> String {
    let counts = command.metrics().cumulative;
    let words = [
        ("ok", counts.success),
        ("failure", counts.failure),
        ("timeout", counts.timeout),
        ("bad_request", counts.bad_request),
        ("short_circuited", counts.short_circuited),
        ("pool_rejected", counts.thread_pool_rejected),
        ("semaphore_rejected", counts.semaphore_rejected),
        ("cancelled", counts.cancelled),
        ("fallback_ok", counts.fallback_success),
        ("fallback_failure", counts.fallback_failure),
        ("fallback_rejected", counts.fallback_rejection),
        ("fallback_missing", counts.fallback_missing),
        ("fallback_skipped", counts.fallback_skipped),
        ("fallback_cancelled", counts.fallback_cancelled),
    ];
    let there = words.iter().filter(|(_, count)| *count > 0);
    there.map(|(word, count)| format!("{word}={count}")).collect::<Vec<_>>().join(" ")
}

/// Waits until nothing is under way any more and everything was given back.
pub fn assert_at_rest(command: &CommandHandle) {
    // Together, for between a timeout and its fallback neither is under way.
    until("at rest", || {
        let seen = command.metrics();
        let under_way = seen.in_flight + seen.abandoned + seen.fallbacks_in_flight;
        (under_way, seen.permits_in_use, seen.fallback_permits_in_use) == (0, 0, 0)
    });
}

pub fn kind<T, E>(result: &Result<T, CommandError<E>>) -> Option<hystrix_core::RejectionKind> {
    match result {
        Err(CommandError::Rejected(rejection)) => Some(rejection.kind()),
        _ => None,
    }
}

// ===== Gate =====

/// Something that bodies wait at until the test opens it. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<(bool, usize)>, Condvar)>);

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().expect("no test panics in here");
        state.1 += 1;
        changed.notify_all();
        while !state.0 {
            let (next, waited) = changed.wait_timeout(state, PATIENCE).expect("no test panics in here");
            assert!(!waited.timed_out() || next.0, "the gate never opened");
            state = next;
        }
    }

    pub fn open(&self) {
        self.state().0 = true;
        self.0.1.notify_all();
    }

    pub fn close(&self) {
        self.state().0 = false;
    }

    /// How many have come so far.
    pub fn came(&self) -> usize {
        self.state().1
    }

    pub fn until_came(&self, count: usize) {
        until("came to the gate", || self.came() >= count);
    }

    fn state(&self) -> MutexGuard<'_, (bool, usize)> {
        self.0.0.lock().expect("no test panics in here")
    }
}

/// A body that waits at a gate, and gives a value.
pub fn at_gate(gate: &Gate) -> impl FnOnce() -> Result<u32, String> + Send + use<> {
    waits(gate, &zero())
}

/// A body that waits at a gate, says that it ended, and gives a value.
pub fn waits(gate: &Gate, ended: &Arc<AtomicUsize>) -> impl FnOnce() -> Result<u32, String> + Send + use<> {
    let (gate, ended) = (gate.clone(), ended.clone());
    move || {
        gate.pass();
        ended.fetch_add(1, SeqCst);
        Ok(1)
    }
}

pub fn zero() -> Arc<AtomicUsize> {
    Arc::default()
}

/// For futures that are polled by hand.
pub fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

// ===== Events =====

/// A listener that remembers everything. Clones share their memory.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    calls: Vec<CallEvent>,
    circuits: Vec<CircuitEvent>,
    modes: Vec<ModeEvent>,
    evicted: Vec<CommandKey>,
    pools: Vec<PoolEvent>,
    abandoned: Vec<AbandonedEvent>,
}

impl Events {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().expect("no listener panics in here")
    }

    pub fn calls(&self) -> Vec<CallEvent> {
        self.memory().calls.clone()
    }

    pub fn last_call(&self) -> CallEvent {
        self.memory().calls.last().cloned().expect("a call has ended")
    }

    /// Forgets everything, and the room it took.
    pub fn forget(&self) {
        *self.memory() = Memory::default();
    }

    pub fn circuits(&self) -> Vec<CircuitEvent> {
        self.memory().circuits.clone()
    }

    pub fn modes(&self) -> Vec<ModeEvent> {
        self.memory().modes.clone()
    }

    pub fn evicted(&self) -> Vec<CommandKey> {
        self.memory().evicted.clone()
    }

    pub fn pools(&self) -> Vec<PoolEvent> {
        self.memory().pools.clone()
    }

    pub fn abandoned(&self) -> Vec<AbandonedEvent> {
        self.memory().abandoned.clone()
    }
}

impl EventSink for Events {
    fn call(&self, event: &CallEvent) {
        self.memory().calls.push(event.clone());
    }

    fn circuit_changed(&self, event: &CircuitEvent) {
        self.memory().circuits.push(event.clone());
    }

    fn mode_changed(&self, event: &ModeEvent) {
        self.memory().modes.push(event.clone());
    }

    fn evicted(&self, command: &CommandKey) {
        self.memory().evicted.push(command.clone());
    }

    fn pool(&self, event: &PoolEvent) {
        self.memory().pools.push(event.clone());
    }

    fn abandoned_ended(&self, event: &AbandonedEvent) {
        self.memory().abandoned.push(event.clone());
    }
}

// ===== a process of its own =====

/// Says whether this is the process in which the test called `name` runs alone. If not, it has run there, and passed.
pub fn in_a_child(name: &str) -> bool {
    in_a_child_of(std::process::Command::new(std::env::current_exe().expect("a test has a file")), name)
}

/// The same, with the process started through `command`; the test's own file and arguments are added.
pub fn in_a_child_of(mut command: std::process::Command, name: &str) -> bool {
    const MARK: &str = "HYSTRIX_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let command = command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(MARK, "1");
    let output = command.output().expect("a process for the test");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}
