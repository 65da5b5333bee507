//! Scopes: which registry is current, where bodies and fallbacks run, and two tests that have opposite states of one command.

mod support;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use hystrix_core::{CircuitState, Command, CommandError, Registry, RejectionKind};

use support::*;

/// A registry that can be told from others.
fn named(name: &'static str) -> Registry {
    let registry = Registry::builder().build();
    Command::builder("mark").group(name).registry(&registry).build().unwrap();
    registry
}

/// The name of the current registry.
fn current() -> String {
    let commands = Registry::current().commands();
    let mark = commands.iter().find(|command| command.key().name() == "mark");
    mark.map_or("global".into(), |mark| mark.key().group().into())
}

fn ok(command: &Command) -> Result<(), CommandError<()>> {
    command.run(|| Ok(())).execute()
}

// ===== two tests on one key =====

fn price_command() -> Command {
    Command::builder("price").group("shop").build().unwrap()
}

/// Stands for an annotated function: it uses the command of the registry that is current where it is called.
fn price() -> Result<u32, CommandError<&'static str>> {
    price_command().run(|| Ok(7)).execute()
}

/// Says whether this is the process in which the two tests below run, on a thread each, however few threads the others
/// have. If not, both have run there, and passed.
fn as_a_pair() -> bool {
    const MARK: &str = "HYSTRIX_TEST_PAIR";
    const PAIR: [&str; 2] = [
        "bc_114_of_two_tests_at_once_this_one_holds_a_circuit_open",
        "bc_114_of_two_tests_at_once_this_one_holds_the_same_circuit_closed",
    ];
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.arg("--exact").args(PAIR).arg("--test-threads=2").env(MARK, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("2 passed"), "{text}");
    false
}

/// Waits until both tests are at this point.
fn meet(point: usize) {
    static CAME: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    CAME[point].fetch_add(1, SeqCst);
    until("the other test is there", || CAME[point].load(SeqCst) == 2);
}

/// Forces the command in a registry of its own, and looks at it while the other test has its own way with it.
fn one_of_two(force: fn(&Command), forced: CircuitState, refused: Option<RejectionKind>, counted: &str) {
    if !as_a_pair() {
        return;
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    force(&price_command());
    meet(0);
    assert_eq!(kind(&price()), refused);
    meet(1);
    assert_eq!((price_command().circuit_state(), &*counts(&price_command())), (forced, counted));
    assert_eq!((lab.events.calls().len(), lab.events.circuits().len()), (1, 1));
}

#[test]
fn bc_114_of_two_tests_at_once_this_one_holds_a_circuit_open() {
    let refused = Some(RejectionKind::ShortCircuited);
    let counted = "short_circuited=1 fallback_missing=1";
    one_of_two(|price| price.force_open(), CircuitState::ForcedOpen, refused, counted);
}

#[test]
fn bc_114_of_two_tests_at_once_this_one_holds_the_same_circuit_closed() {
    one_of_two(|price| price.force_closed(), CircuitState::ForcedClosed, None, "ok=1");
}

// ===== which one is current =====

#[test]
fn entering_nests_and_dropping_the_guard_restores() {
    let [one, two] = ["one", "two"].map(named);
    let outer = one.enter();
    let inner = two.enter();
    let innermost = one.enter();
    assert_eq!(current(), "one");
    drop(innermost);
    assert_eq!(current(), "two");
    drop(inner);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _inner = two.enter();
        panic!("inside");
    }));
    assert_eq!((caught.is_err(), current()), (true, "one".into()));
    drop(outer);
    assert_eq!(current(), "global");
}

#[test]
fn guards_that_go_in_another_order_end_their_own_scope_and_keep_no_registry() {
    let [one, two] = ["one", "two"].map(named);
    let command = Command::builder("ended").registry(&one).build().unwrap();
    let (outer, inner) = (one.enter(), two.enter());
    drop(outer);
    let between = current();
    drop((inner, one));
    let ended = kind(&ok(&command));
    assert_eq!((&*between, &*current(), ended), ("two", "global", Some(RejectionKind::ShutDown)));
}

#[test]
fn another_thread_sees_nothing_of_a_scope() {
    let [one, two] = ["one", "two"].map(named);
    let _here = one.enter();
    let there = aside(move || {
        let before = current();
        let _there = two.enter();
        [before, current()]
    });
    assert_eq!((joined(there), &*current()), (["global", "two"].map(String::from), "one"));
}

#[test]
fn a_scope_goes_with_its_future_and_stays_nowhere_between_polls() {
    let [one, two] = ["one", "two"].map(named);
    let twice = |name: &'static str| async move {
        assert_eq!(current(), name);
        tokio::task::yield_now().await;
        assert_eq!(current(), name);
    };
    let mut outer = pin!(one.scope(async {
        two.scope(twice("two")).await;
        assert_eq!(current(), "one");
    }));
    let mut other = pin!(two.scope(twice("two")));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(outer.as_mut().poll(&mut cx).is_pending());
    assert_eq!(current(), "global");
    let _here = one.enter();
    assert!(other.as_mut().poll(&mut cx).is_pending());
    assert_eq!(current(), "one");
    assert!(other.as_mut().poll(&mut cx).is_ready());
    assert!(outer.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn scopes_of_tasks_on_shared_threads_do_not_mix() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let task = |name: &'static str| {
        tokio::spawn(named(name).scope(async move {
            for _ in 0..200 {
                assert_eq!(current(), name);
                tokio::task::yield_now().await;
            }
        }))
    };
    runtime.block_on(async {
        for task in ["one", "two", "three", "four"].map(task) {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_spawned_task_is_in_no_scope_unless_it_is_given_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(named("one").scope(async {
        assert_eq!(tokio::spawn(async { current() }).await.unwrap(), "global");
        assert_eq!(tokio::task::spawn_blocking(current).await.unwrap(), "global");
        let given = Registry::current().scope(async { current() });
        assert_eq!(tokio::spawn(given).await.unwrap(), "one");
        assert_eq!(current(), "one");
    }));
}

#[test]
fn bodies_and_fallbacks_are_in_the_scope_wherever_they_run_and_workers_keep_none() {
    let seen = || (std::thread::current().name().unwrap_or_default().to_owned(), current());
    let on = |thread: &str| Ok::<_, CommandError<()>>((thread.to_owned(), "lab".to_owned()));
    let lab = Lab::new();
    lab.command("mark").build().unwrap();
    let pool = lab.on_pool("pool", 1, 1).build().unwrap();
    let here = lab.command("here").timeout("10ms").build().unwrap();
    let scope = lab.registry.enter();
    assert_eq!(pool.run(move || Ok(seen())).execute(), on("hystrix-pool-1"));
    assert_eq!(pool.call(move || async move { Ok(seen()) }).execute(), on("hystrix-pool-1"));
    assert_eq!(pool.run(|| Err(())).fallback(move |_| Ok(seen())).queue().wait(), on("hystrix-fallback-1"));
    // The timer decides this one, while its caller is still in the body.
    let late = here.run(|| {
        lab.clock.advance(ms(10));
        Ok(seen())
    });
    let (thread, registry) = late.fallback_owned(move |_: CommandError<()>| Ok(seen())).execute().unwrap();
    assert!(thread.starts_with("hystrix-fallback-"), "{thread}");
    assert_eq!(registry, "lab");
    drop(scope);
    assert_eq!(pool.run(|| Ok::<_, ()>(current())).execute(), Ok("global".into()));
}

#[test]
fn what_a_scope_holds_is_dropped_inside_of_it() {
    struct Sees(Arc<Mutex<String>>);
    impl Drop for Sees {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = current();
        }
    }
    let seen = Arc::new(Mutex::new(String::new()));
    let sees = Sees(seen.clone());
    drop(named("one").scope(async move { drop(sees) }));
    assert_eq!((&**seen.lock().unwrap(), &*current()), ("one", "global"));
}
