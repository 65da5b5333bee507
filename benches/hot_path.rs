//! What a call costs, with the floor and the peers beside it in one run.
//!
//! Rows are timed in turn, round after round, so that a machine that slows down slows them all; the figures are minimum and
//! median over the rounds, in nanoseconds per call. The ratios at the end are between medians of the same run, except those of
//! the pool's round trip, which compare the best rounds. Allocations are counted in a run of their own.
//!
//! `cargo bench --bench hot_path`, or with `-- --quick` for fewer rounds.
//!
//! The counting allocator is the only unsafe code: it passes every call on to the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hystrix_core::{
    CircuitBreaker, Command, CommandConfig, PoolCommand, Registry, Rejection, ThreadPool, command,
};

// ===== allocations =====

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system allocator unchanged; counting touches thread-locals that need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as u64));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations per call, over many calls.
fn allocations(mut call: impl FnMut()) -> f64 {
    const CALLS: u64 = 1000;
    for _ in 0..CALLS {
        call();
    }
    let before = ALLOCATIONS.get();
    for _ in 0..CALLS {
        call();
    }
    (ALLOCATIONS.get() - before) as f64 / CALLS as f64
}

// ===== rounds =====

struct Row<'a> {
    name: &'static str,
    calls: u32,
    run: Box<dyn FnMut(u32) -> Duration + 'a>,
    rounds: Vec<f64>,
}

impl<'a> Row<'a> {
    fn new(name: &'static str, calls: u32, mut call: impl FnMut() + 'a) -> Self {
        Self::timed(name, calls, move |calls| {
            let begin = Instant::now();
            for _ in 0..calls {
                call();
            }
            begin.elapsed()
        })
    }

    fn timed(name: &'static str, calls: u32, run: impl FnMut(u32) -> Duration + 'a) -> Self {
        Self { name, calls, run: Box::new(run), rounds: Vec::new() }
    }

    fn round(&mut self) {
        let time = (self.run)(self.calls);
        self.rounds.push(time.as_nanos() as f64 / f64::from(self.calls));
    }

    fn sorted(&self) -> Vec<f64> {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        rounds
    }

    fn minimum(&self) -> f64 {
        self.sorted()[0]
    }

    fn median(&self) -> f64 {
        self.sorted()[self.rounds.len() / 2]
    }
}

struct Table<'a>(Vec<Row<'a>>);

impl Table<'_> {
    fn measure(&mut self, rounds: usize) {
        for row in &mut self.0 {
            (row.run)(row.calls / 10 + 1);
        }
        for _ in 0..rounds {
            for row in &mut self.0 {
                row.round();
            }
        }
        for row in &self.0 {
            println!("{:<44} {:>9.1} {:>9.1}", row.name, row.minimum(), row.median());
        }
    }

    fn median(&self, name: &str) -> f64 {
        self.row(name).median()
    }

    fn minimum(&self, name: &str) -> f64 {
        self.row(name).minimum()
    }

    fn row(&self, name: &str) -> &Row<'_> {
        self.0.iter().find(|row| row.name == name).expect("a row of that name is measured")
    }
}

fn budget(name: &str, ratio: f64, limit: f64) {
    let verdict = if ratio <= limit { "ok" } else { "over" };
    println!("budget {name} ratio={ratio:.2} limit={limit:.2} {verdict}");
}

// ===== floors =====

/// What no command can do without: two readings of the counter, a permit taken and given back, and ten counters.
struct Floor {
    clock: quanta::Clock,
    permits: AtomicI64,
    counters: [AtomicU64; 10],
}

impl Floor {
    fn new() -> Self {
        Self {
            clock: quanta::Clock::new(),
            permits: AtomicI64::new(0),
            counters: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn call(&self, body: impl FnOnce() -> Result<u64, ()>) -> Result<u64, ()> {
        let start = self.clock.raw();
        self.permits.fetch_add(1, Relaxed);
        let result = body();
        self.permits.fetch_sub(1, Relaxed);
        let nanos = self.clock.delta_as_nanos(start, self.clock.raw());
        for counter in &self.counters {
            counter.store(counter.load(Relaxed).wrapping_add(nanos), Relaxed);
        }
        result
    }
}

fn body() -> Result<u64, ()> {
    Ok(black_box(7))
}

/// What a caller sees of a refusal; the bench has none.
#[derive(Debug)]
struct Refused;

impl From<Rejection> for Refused {
    fn from(_rejection: Rejection) -> Self {
        Refused
    }
}

#[command(semaphore = 1000)]
fn annotated() -> Result<u64, Refused> {
    Ok(black_box(7))
}

#[command(semaphore = 1000)]
async fn annotated_later() -> Result<u64, Refused> {
    Ok(black_box(7))
}

/// Pending once, without waking by itself: polled by hand.
struct Once(bool);

impl Future for Once {
    type Output = Result<u64, ()>;

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(body()) } else { Poll::Pending }
    }
}

fn poll_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the body is ready at once"),
    }
}

fn poll_twice<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending());
    match future.poll(&mut cx) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the body is ready the second time"),
    }
}

/// Two threads that call at the same time; the time of the slower one.
fn together(calls: u32, call: &(dyn Fn() + Sync)) -> Duration {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            scope.spawn(|| {
                barrier.wait();
                let begin = Instant::now();
                for _ in 0..calls {
                    call();
                }
                begin.elapsed()
            })
        });
        threads.map(|thread| thread.join().expect("calls do not panic")).into_iter().max().expect("two")
    })
}

// ===== a hand-written pool of one =====

type Job = (Box<dyn FnOnce() -> u64 + Send>, Arc<Slot>);

struct Slot {
    state: AtomicU32,
    value: AtomicU64,
    caller: std::thread::Thread,
}

/// A channel and a parked caller: the least a round trip to another thread can be made of by hand.
fn hand_written(jobs: &crossbeam_channel::Sender<Job>) -> u64 {
    let slot =
        Arc::new(Slot { state: AtomicU32::new(0), value: AtomicU64::new(0), caller: std::thread::current() });
    let sent = jobs.send((Box::new(|| black_box(7)), slot.clone()));
    sent.expect("the worker lives as long as the bench");
    while slot.state.load(std::sync::atomic::Ordering::Acquire) == 0 {
        std::thread::park();
    }
    slot.value.load(Relaxed)
}

fn worker(jobs: &crossbeam_channel::Receiver<Job>) {
    for (job, slot) in jobs {
        slot.value.store(job(), Relaxed);
        slot.state.store(1, std::sync::atomic::Ordering::Release);
        slot.caller.unpark();
    }
}

// ===== the commands =====

struct Commands {
    plain: Command,
    timed: Command,
    open: Command,
    full: Command,
    pool: PoolCommand,
}

impl Commands {
    fn new(registry: &Registry) -> Self {
        let of = |key: &'static str| Command::builder(key).group("bench").registry(registry);
        let commands = Self {
            plain: of("plain").semaphore(1000).build().expect("valid"),
            timed: of("timed").semaphore(1000).timeout("1s").build().expect("valid"),
            open: of("open").circuit_breaker(CircuitBreaker::new()).build().expect("valid"),
            full: of("full").semaphore(1).build().expect("valid"),
            pool: of("pool").thread_pool(ThreadPool::named("bench").core_size(1)).build().expect("valid"),
        };
        for _ in 0..40 {
            let _ = commands.open.run(|| Err::<u64, ()>(())).execute();
        }
        assert!(commands.open.run(body).execute().is_err_and(|error| error.is_short_circuited()));
        commands
    }
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 5 } else { 21 };
    // The sleep window must outlast the bench.
    let open = CircuitBreaker::new().sleep_window(Duration::from_secs(3600));
    let registry =
        Registry::builder().defaults(CommandConfig::new().circuit_breaker(open)).expect("valid").build();
    let commands = Commands::new(&registry);
    let floor = Floor::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let breaker = recloser::Recloser::custom().open_wait(Duration::from_secs(3600)).build();
    for _ in 0..1000 {
        let _ = breaker.call(|| Err::<(), ()>(()));
    }

    println!("{:<44} {:>9} {:>9}", "ns per call", "minimum", "median");
    println!("\n-- one thread");
    let mut one = Table(vec![
        Row::new("floor", 100_000, || {
            let _ = black_box(floor.call(body));
        }),
        Row::new("sync", 100_000, || {
            let _ = black_box(commands.plain.run(body).execute());
        }),
        Row::new("sync, annotated", 100_000, || {
            let _ = black_box(annotated());
        }),
        Row::new("sync, timeout, no fallback", 100_000, || {
            let _ = black_box(commands.timed.run(body).execute());
        }),
        Row::new("sync, timeout, fallback", 50_000, || {
            let _ = black_box(commands.timed.run(body).fallback(|_| Ok(0)).execute());
        }),
        Row::new("sync, timeout, owning fallback", 50_000, || {
            let _ = black_box(commands.timed.run(body).fallback_owned(|_| Ok(0)).execute());
        }),
        Row::new("async, ready at once", 100_000, || {
            let _ = black_box(poll_once(std::future::IntoFuture::into_future(
                commands.plain.call(|| std::future::ready(body())),
            )));
        }),
        Row::new("async, ready at once, annotated", 100_000, || {
            let _ = black_box(poll_once(annotated_later()));
        }),
        Row::new("open circuit", 100_000, || {
            let _ = black_box(commands.open.run(body).execute());
        }),
        Row::new("open circuit, recloser 1.4", 100_000, || {
            let _ = black_box(breaker.call(body));
        }),
    ]);
    one.measure(rounds);

    println!("\n-- async, pending once, polled by hand");
    let _entered = runtime.enter();
    let mut pending = Table(vec![
        Row::new("async, pending once", 20_000, || {
            let _ = black_box(poll_twice(std::future::IntoFuture::into_future(
                commands.timed.call(|| Once(false)),
            )));
        }),
        Row::new("tokio timeout, pending once", 20_000, || {
            let _ = black_box(poll_twice(tokio::time::timeout(Duration::from_secs(1), Once(false))));
        }),
    ]);
    pending.measure(rounds);
    // With a nearer deadline pending tokio need not wake its driver.
    let mut nearer = Box::pin(tokio::time::sleep(Duration::from_millis(900)));
    let _ = nearer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let mut nearer_pending = Table(vec![
        Row::new("async, pending once (nearer deadline)", 20_000, || {
            let _ = black_box(poll_twice(std::future::IntoFuture::into_future(
                commands.timed.call(|| Once(false)),
            )));
        }),
        Row::new("tokio timeout (nearer deadline)", 20_000, || {
            let _ = black_box(poll_twice(tokio::time::timeout(Duration::from_secs(1), Once(false))));
        }),
    ]);
    nearer_pending.measure(rounds);
    drop(nearer);

    println!("\n-- two threads on one command");
    let mut two = Table(vec![
        Row::new("one thread", 200_000, || {
            let _ = black_box(commands.plain.run(body).execute());
        }),
        Row::timed("two threads", 200_000, |calls| {
            together(calls, &|| {
                let _ = black_box(commands.plain.run(body).execute());
            })
        }),
        Row::timed("two threads, floor", 200_000, |calls| {
            together(calls, &|| {
                let _ = black_box(floor.call(body));
            })
        }),
    ]);
    two.measure(rounds);

    println!("\n-- a full semaphore, the permit held by another call");
    let mut refused = Vec::new();
    let full = &commands.full;
    let _ = full
        .run(|| {
            let mut table = Table(vec![Row::new("full semaphore", 100_000, || {
                let _ = black_box(full.run(body).execute());
            })]);
            table.measure(rounds);
            refused.push(table.median("full semaphore"));
            body()
        })
        .execute();

    println!("\n-- a pool of one, the caller parked");
    let (jobs, taken) = crossbeam_channel::unbounded::<Job>();
    let _worker = std::thread::spawn(move || worker(&taken));
    let mut pool = Table(vec![
        Row::new("hand-written", 2_000, || {
            black_box(hand_written(&jobs));
        }),
        Row::new("pool", 2_000, || {
            let _ = black_box(commands.pool.run(body).execute());
        }),
        Row::new("spawn_blocking", 2_000, || {
            let _ = black_box(runtime.block_on(runtime.spawn_blocking(body)));
        }),
    ]);
    drop(_entered);
    pool.measure(rounds);

    println!("\n-- allocations per call");
    let sync = allocations(|| {
        let _ = black_box(commands.plain.run(body).execute());
    });
    let ready = allocations(|| {
        let _ = black_box(poll_once(std::future::IntoFuture::into_future(
            commands.plain.call(|| std::future::ready(body())),
        )));
    });
    let attribute = allocations(|| {
        let _ = black_box((annotated(), poll_once(annotated_later())));
    });
    let armed = allocations(|| {
        let _ =
            black_box(poll_twice(std::future::IntoFuture::into_future(commands.timed.call(|| Once(false)))));
    });
    let here = allocations(|| {
        let _ = black_box(commands.timed.run(body).fallback(|_| Ok(0)).execute());
    });
    let owned = allocations(|| {
        let _ = black_box(commands.timed.run(body).fallback_owned(|_| Ok(0)).execute());
    });
    let rejected = allocations(|| {
        let _ = black_box(commands.open.run(body).execute());
    });
    for (name, count) in [
        ("sync", sync),
        ("async, ready at once", ready),
        ("annotated, sync and async", attribute),
        ("async, pending once", armed),
        ("sync, timeout, fallback", here),
        ("sync, timeout, owning fallback", owned),
        ("open circuit", rejected),
    ] {
        println!("{name:<44} {count:>9.3}");
    }
    let before = BYTES.get();
    let idle = Command::builder("idle").group("bench").registry(&registry).build().expect("valid");
    let bytes = BYTES.get() - before;
    println!("{:<44} {bytes:>9}", "bytes of a command never called");
    drop(idle);

    println!();
    let unit = one.median("floor");
    budget("sync", one.median("sync") / unit, 1.5);
    budget("sync_timeout", one.median("sync, timeout, fallback") / unit, 2.5);
    budget("sync_timeout_owned", one.median("sync, timeout, owning fallback") / unit, 3.6);
    budget("async_ready", one.median("async, ready at once") / unit, 1.8);
    // What a site, a closure and the way of the error add to the call that they stand for.
    budget("annotated", one.median("sync, annotated") / one.median("sync"), 1.2);
    let (by_hand, by_attribute) = ("async, ready at once", "async, ready at once, annotated");
    budget("annotated_async", one.median(by_attribute) / one.median(by_hand), 1.2);
    budget(
        "async_pending",
        pending.median("async, pending once") / pending.median("tokio timeout, pending once"),
        1.0,
    );
    budget(
        "async_pending_nearer",
        nearer_pending.median("async, pending once (nearer deadline)")
            / nearer_pending.median("tokio timeout (nearer deadline)"),
        1.0,
    );
    budget("two_threads", two.median("two threads") / two.median("one thread"), 1.5);
    budget("open_circuit", one.median("open circuit") / one.median("open circuit, recloser 1.4"), 0.8);
    budget("full_semaphore", refused[0] / one.median("open circuit, recloser 1.4"), 1.0);
    // Wake-ups have two speeds; the best rounds compare the work.
    budget("pool_round_trip", pool.minimum("pool") / pool.minimum("hand-written"), 1.2);
    budget("pool_below_spawn_blocking", pool.minimum("pool") / pool.minimum("spawn_blocking"), 1.0);
    budget("sync_allocations", sync, 0.0);
    budget("async_ready_allocations", ready, 0.0);
    budget("annotated_allocations", attribute, 0.0);
    budget("async_pending_allocations", armed, 0.0);
    budget("sync_timeout_allocations", here, 1.0);
    budget("sync_timeout_owned_allocations", owned, 1.0);
    budget("open_circuit_allocations", rejected, 0.0);
    budget("idle_command_bytes", bytes as f64 / 4096.0, 1.0);
    registry.shutdown(Duration::from_secs(1));
}
