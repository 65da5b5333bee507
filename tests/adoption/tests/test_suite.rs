//! The tests of a checkout that has adopted the library: what its author wants to know is what a customer sees when something is slow, down or
//! busy. Each test has a registry of its own, forces what it needs, moves the time by hand, and waits for nothing.

mod support;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use hystrix_core::{
    CircuitState, CommandError, Force, ManualClock, Mode, Registry, ThreadPool, command, command_of,
};

use support::counts;

// ===== the service =====

#[derive(Debug, Clone, PartialEq)]
enum Payment {
    Taken(u32),
    /// Will be taken when the provider is back.
    Noted(u32),
}

#[derive(Default)]
struct Provider {
    asked: AtomicU32,
    is_down: bool,
    hangs: bool,
}

#[command(
    group = "checkout",
    timeout = "800ms",
    fallback = |_| Ok(Payment::Noted(cents)),
    fallback_if = |error| error.rejection().is_some()
)]
async fn pay(provider: &Provider, cents: u32) -> Result<Payment, CommandError<&'static str>> {
    provider.asked.fetch_add(1, SeqCst);
    if provider.hangs {
        std::future::pending::<()>().await;
    }
    if provider.is_down { Err("no connection")? } else { Ok(Payment::Taken(cents)) }
}

#[command(group = "checkout", thread_pool = ThreadPool::named("mail").core_size(1).max_queue_size(1), timeout = "5s")]
fn send_receipt(to: String) -> Result<usize, String> {
    Ok(to.len())
}

// ===== its tests =====

struct Bench {
    clock: ManualClock,
    registry: Registry,
    _entered: hystrix_core::Entered,
}

fn bench() -> Bench {
    let clock = ManualClock::new();
    let registry = Registry::builder().clock(clock.clone()).strict().build();
    let entered = registry.enter();
    Bench { clock, registry, _entered: entered }
}

#[tokio::test]
async fn a_customer_is_not_told_that_the_provider_is_slow() {
    let bench = bench();
    let provider = Provider { hangs: true, ..Provider::default() };
    let customer = pay(&provider, 500);
    let time = async {
        support::until_async("the payment is under way", || bench.clock.armed() == 1).await;
        bench.clock.advance(Duration::from_millis(799));
        assert_eq!(command_of!(pay).metrics().in_flight, 1);
        bench.clock.advance(Duration::from_millis(1));
    };
    let (seen, ()) = tokio::join!(customer, time);
    assert_eq!(seen, Ok(Payment::Noted(500)));
    assert_eq!(counts(&command_of!(pay)), "timeout=1 fallback_ok=1");
}

#[tokio::test]
async fn what_is_forced_reaches_the_customer_and_not_the_provider() {
    let _bench = bench();
    let (provider, command) = (Provider::default(), command_of!(pay));
    for force in [Force::Timeout, Force::ShortCircuited, Force::Rejected, Force::Panic] {
        command.force(force);
        assert_eq!(pay(&provider, 1).await, Ok(Payment::Noted(1)), "{force:?}");
    }
    assert_eq!(provider.asked.load(SeqCst), 0);
    command.force(None);
    assert_eq!(pay(&provider, 1).await, Ok(Payment::Taken(1)));
    assert_eq!(
        counts(&command),
        "ok=1 failure=1 timeout=1 short_circuited=1 semaphore_rejected=1 fallback_ok=4"
    );
}

#[tokio::test]
async fn a_provider_that_is_down_is_left_alone_and_then_tried_once() {
    let bench = bench();
    let (down, up) = (Provider { is_down: true, ..Provider::default() }, Provider::default());
    for _ in 0..20 {
        assert_eq!(pay(&down, 9).await, Err(CommandError::Inner("no connection")));
    }
    assert_eq!(command_of!(pay).circuit_state(), CircuitState::Open);
    assert_eq!(pay(&down, 9).await, Ok(Payment::Noted(9)));
    assert_eq!(down.asked.load(SeqCst), 20);

    bench.clock.advance(Duration::from_secs(5));
    assert_eq!(pay(&up, 9).await, Ok(Payment::Taken(9)));
    assert_eq!(command_of!(pay).circuit_state(), CircuitState::Closed);
}

#[tokio::test]
async fn a_slow_start_is_time_of_the_calls_own() {
    let bench = bench();
    command_of!(pay).force(Force::Latency(Duration::from_millis(300)));
    let provider = Provider::default();
    let time = async {
        support::until_async("it waits", || bench.clock.armed() > 0).await;
        bench.clock.advance(Duration::from_millis(300));
    };
    let (seen, ()) = tokio::join!(pay(&provider, 2), time);
    assert_eq!(seen, Ok(Payment::Taken(2)));
    assert_eq!(command_of!(pay).metrics().total.max(), Duration::from_millis(300));
}

#[test]
fn a_receipt_that_finds_no_worker_says_so() {
    let bench = bench();
    let command = command_of!(send_receipt);
    command.force(Force::Rejected);
    let refused = send_receipt("anna@example.org".into()).unwrap_err();
    assert!(refused.contains("checkout/send_receipt"), "{refused}");
    command.force(None);
    assert_eq!(send_receipt("anna@example.org".into()), Ok(16));
    assert_eq!(bench.registry.pool("mail").unwrap().submitted, 1);
    assert_eq!(counts(&command), "ok=1 pool_rejected=1 fallback_missing=1");
}

/// Before a limit is enforced it can be watched: what would have been refused is counted, and nothing is.
#[tokio::test]
async fn a_new_limit_is_tried_in_the_shadow() {
    #[command(group = "checkout", mode = Mode::Shadow, semaphore = 1)]
    async fn recommend() -> Result<u8, CommandError<String>> {
        tokio::task::yield_now().await;
        Ok(1)
    }

    let _bench = bench();
    assert_eq!(tokio::join!(recommend(), recommend()), (Ok(1), Ok(1)));
    let counts = command_of!(recommend).metrics().cumulative;
    assert_eq!((counts.success, counts.would_have_semaphore_rejected), (2, 1));
}

#[tokio::test]
async fn two_tests_at_once_do_not_see_each_other() {
    let first = Registry::builder().build();
    let second = Registry::builder().build();
    let provider = Provider::default();
    first.scope(async { command_of!(pay).force_open() }).await;
    let seen = second.scope(pay(&provider, 3)).await;
    assert_eq!(seen, Ok(Payment::Taken(3)));
    let refused = first.scope(async { command_of!(pay).circuit_state() }).await;
    assert_eq!(refused, CircuitState::ForcedOpen);
}
