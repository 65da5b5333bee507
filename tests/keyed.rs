//! Families: a command for each key that calls come with, bounded, and dropped when nobody uses it.

mod support;

use std::fmt::{self, Display};
use std::future::{Future, IntoFuture, pending};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::call::KeyedKind;
use hystrix_core::{
    CircuitState, Command, CommandConfig, CommandError, Keyed, Limit, Mode, Origin, PoolCommand, Registry,
    RejectionKind, Select, ThreadPool,
};

use support::*;

const IDLE: Duration = Duration::from_secs(60);

/// A family called `quota` with one permit a key, a circuit that opens on two failures, and a short memory.
fn quota(lab: &Lab, limit: usize) -> Keyed<Command> {
    let builder = lab.command("quota").semaphore(1).circuit_breaker(touchy(2));
    sized(builder.build_keyed().unwrap(), limit)
}

fn sized<C: KeyedKind>(family: Keyed<C>, limit: usize) -> Keyed<C> {
    family.limit(NonZeroUsize::new(limit).unwrap()).idle(IDLE)
}

fn ok(command: &Command) -> Result<(), CommandError<()>> {
    command.run(|| Ok(())).execute()
}

fn fails(command: &Command) {
    assert!(command.run(|| Err::<(), _>(())).execute().is_err());
}

/// The names of the commands there are, without the group.
fn names(lab: &Lab) -> Vec<String> {
    lab.registry.commands().iter().map(|command| command.key().name().to_owned()).collect()
}

fn evicted(lab: &Lab) -> Vec<String> {
    lab.events.evicted().iter().map(|key| key.name().to_owned()).collect()
}

// ===== a command for each key =====

#[test]
fn each_key_has_a_circuit_and_permits_of_its_own() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    let [a, b] = ["a", "b"].map(|key| quota.get(key));
    let inside = a.run(|| Ok::<_, ()>((kind(&ok(&a)), ok(&b)))).execute();
    assert_eq!(inside, Ok((Some(RejectionKind::PermitsExhausted), Ok(()))));
    fails(&a);
    assert_eq!((a.circuit_state(), b.circuit_state()), (CircuitState::Open, CircuitState::Closed));
    let refused = ok(&quota.get("a")).unwrap_err();
    assert_eq!(refused.rejection().unwrap().command().to_string(), "lab/quota:a");
    assert_eq!(ok(&quota.get("b")), Ok(()));
    assert_eq!(names(&lab), ["quota:a", "quota:b"], "and none for the family itself");
}

#[test]
fn a_known_key_gives_the_same_command_however_it_is_written() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    assert!(quota.is_empty());
    let first = quota.get("7");
    ok(&first).unwrap();
    ok(&quota.get(&7)).unwrap();
    ok(&quota.get(&String::from("7"))).unwrap();
    ok(&quota.clone().get(&format_args!("{}", 6 + 1))).unwrap();
    assert_eq!(block_on(quota.get("7").call(|| async { Ok::<_, ()>(1) }).into_future()), Ok(1));
    assert_eq!((counts(&first).as_str(), quota.len()), ("ok=5", 1));
}

#[test]
fn odd_keys_are_keys_like_others() {
    let lab = Lab::new();
    let quota = quota(&lab, 100);
    let long = "x".repeat(100_000);
    let longer = format!("{long}y");
    let keys = [
        "",
        " ",
        "a",
        "A",
        "a ",
        "a/b",
        "/",
        "a:b",
        ":",
        "{}",
        "\0",
        "\n",
        "\u{e9}",
        "e\u{301}",
        "日本",
        "👩‍👩‍👧",
        &long,
        &longer,
        "Other",
        "quota",
    ];
    for key in keys {
        ok(&quota.get(key)).unwrap();
    }
    for key in keys {
        let found = lab.registry.find("lab", &format!("quota:{key}")).unwrap();
        assert_eq!(counts(&found), "ok=1", "{:.20?}", key);
        assert_eq!(counts(&quota.get(key)), "ok=1");
    }
    assert_eq!((quota.len(), lab.registry.commands().len()), (keys.len(), keys.len()));
}

#[test]
fn one_key_asked_for_by_many_threads_at_once_has_one_command() {
    const THREADS: usize = 16;
    let lab = Lab::new();
    let family = lab.command("same").semaphore(None).build_keyed().unwrap();
    for key in 0..20 {
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    ok(&family.get(&key)).unwrap();
                });
            }
        });
        assert_eq!(counts(&family.get(&key)), format!("ok={THREADS}"));
    }
    assert_eq!((family.len(), lab.registry.commands().len()), (20, 20));
}

#[test]
fn a_key_may_ask_for_a_command_while_it_is_written() {
    struct Tenant<'f>(&'f Keyed<Command>);
    impl Display for Tenant<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("ten")?;
            ok(&self.0.get("directory")).map_err(|_| fmt::Error)?;
            f.write_str("ant")
        }
    }
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    assert_eq!(quota.get(&Tenant(&quota)).key().name(), "quota:tenant");
    assert_eq!(names(&lab), ["quota:directory", "quota:tenant"]);
}

#[test]
fn a_key_that_panics_breaks_nothing() {
    struct Panics;
    impl Display for Panics {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("begun")?;
            panic!("a key panics");
        }
    }
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    assert!(catch_unwind(AssertUnwindSafe(|| quota.get(&Panics))).is_err());
    assert_eq!((quota.len(), names(&lab).len()), (0, 0));
    assert_eq!(quota.get("a").key().name(), "quota:a");
}

#[test]
fn a_family_is_built_in_the_current_registry_and_keeps_it() {
    let registry = Registry::builder().build();
    let family = {
        let _here = registry.enter();
        Command::builder("quota").build_keyed().unwrap()
    };
    assert_eq!(registry.commands().len(), 0, "nothing is made before the first key");
    ok(&family.get("a")).unwrap();
    assert!(registry.find("default", "quota:a").is_some());
    drop(registry);
    ok(&family.get("b")).unwrap();
    let last = family.get("a");
    drop(family);
    assert_eq!(kind(&ok(&last)), Some(RejectionKind::ShutDown));
}

#[test]
fn pool_commands_of_a_family_share_their_pool() {
    let lab = Lab::new();
    let family = lab.on_pool("io", 2, 0).circuit_breaker(touchy(1)).build_keyed().unwrap();
    let gate = Gate::new();
    let calls = ["a", "b"].map(|key| {
        let gate = gate.clone();
        family.get(key).run(move || Ok::<_, ()>(gate.pass())).queue()
    });
    gate.until_came(2);
    let c: PoolCommand = family.get("c");
    let refused = c.run(|| Ok::<_, ()>(())).execute();
    assert_eq!(kind(&refused), Some(RejectionKind::PoolFull));
    assert_eq!((lab.registry.pools().len(), c.pool().active), (1, 2));
    let circuits = ["a", "b", "c"].map(|key| family.get(key).circuit_state());
    assert_eq!(circuits, [CircuitState::Closed, CircuitState::Closed, CircuitState::Open]);
    gate.open();
    assert!(calls.into_iter().all(|call| call.wait().is_ok()));
}

#[test]
fn layers_reach_a_key_before_it_is_there_and_after_it_came_back() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    let vip = Select::command("lab", "quota:vip");
    lab.registry.apply(vip.clone(), CommandConfig::new().semaphore(5)).unwrap();
    let permits = |key: &str| {
        let permits = quota.get(key).settings().semaphore();
        (permits.value, permits.origin)
    };
    let (vip_permits, own) = ((Limit::from(5), Origin::LiveCommand), (Limit::from(1), Origin::Code));
    assert_eq!((permits("vip"), permits("a")), (vip_permits, own));
    lab.clock.advance(IDLE);
    assert_eq!(quota.evict_idle(), 2);
    assert_eq!(permits("vip"), vip_permits);
    lab.registry.apply(Select::group("lab"), CommandConfig::new().semaphore(3)).unwrap();
    let group = (Limit::from(3), Origin::LiveGroup);
    assert_eq!((permits("vip"), permits("a")), (vip_permits, group));
    lab.registry.remove(&vip);
    assert_eq!(permits("vip"), group);
    lab.registry.remove(&Select::group("lab"));
    assert_eq!((permits("vip"), permits("a")), (own, own));
}

// ===== the bound =====

#[test]
fn u43_beyond_the_limit_calls_share_one_command_and_none_is_lost() {
    let lab = Lab::new();
    let quota = quota(&lab, 3);
    for _ in 0..2 {
        (0..10).for_each(|key| ok(&quota.get(&key)).unwrap());
    }
    assert_eq!(names(&lab), ["quota:0", "quota:1", "quota:2", "quota:other"]);
    let counted: Vec<_> = lab.registry.commands().iter().map(counts).collect();
    assert_eq!(counted, ["ok=2", "ok=2", "ok=2", "ok=14"]);
    assert_eq!((quota.len(), lab.events.calls().len()), (3, 20));
    assert_eq!(quota.get("new").key(), quota.get("newer").key());
}

#[test]
fn by_default_a_thousand_keys_have_their_own_for_ten_minutes() {
    let lab = Lab::new();
    let family = lab.command("many").build_keyed().unwrap();
    (0..1_200).for_each(|key| ok(&family.get(&key)).unwrap());
    assert_eq!((family.len(), names(&lab).len()), (1_000, 1_001));
    lab.clock.advance(Duration::from_secs(600) - ms(1));
    assert_eq!((family.evict_idle(), family.get(&5).key().name()), (0, "many:5"));
    lab.clock.advance(ms(1));
    assert_eq!((family.evict_idle(), family.len()), (999, 1));
    assert_eq!(names(&lab), ["many:5", "many:other"]);
    assert_eq!(counts(&lab.registry.find("lab", "many:other").unwrap()), "ok=200");
}

#[test]
fn u43_kb_22_keys_that_come_and_go_leave_nothing_behind() {
    let lab = Lab::new();
    let family = sized(lab.command("visitor").build_keyed().unwrap(), 100);
    for round in 0..50 {
        (0..200).for_each(|key| ok(&family.get(&(round * 200 + key))).unwrap());
        assert_eq!((family.len(), names(&lab).len()), (100, 101));
        lab.clock.advance(IDLE);
    }
    assert_eq!(family.evict_idle(), 100);
    assert_eq!((family.len(), names(&lab).len(), evicted(&lab).len()), (0, 1, 5_000));
    assert_eq!(counts(&lab.registry.commands()[0]), "ok=5000");
}

#[test]
fn threads_that_come_at_once_do_not_pass_the_limit() {
    let lab = Lab::new();
    for round in 0..200 {
        let family = sized(lab.command("race").group(format!("{round}")).build_keyed().unwrap(), 4);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for key in 0..8 {
                let (family, barrier) = (&family, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    ok(&family.get(&key)).unwrap();
                });
            }
        });
        assert_eq!(family.len(), 4, "round {round}");
    }
}

#[test]
fn bc_120_a_family_that_is_built_inside_each_call_is_bounded_all_the_same() {
    let lab = Lab::new();
    (0..50).for_each(|key| ok(&quota(&lab, 3).get(&key)).unwrap());
    assert_eq!(names(&lab), ["quota:0", "quota:1", "quota:2", "quota:other"]);
}

#[test]
fn a_name_that_somebody_else_has_is_served_by_the_shared_command() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    let elsewhere = Command::builder("quota:taken").group("lab").thread_pool("p").registry(&lab.registry);
    elsewhere.build().unwrap();
    assert_eq!(ok(&quota.get("taken")), Ok(()));
    assert_eq!(quota.get("taken").key().name(), "quota:other");
    assert_eq!((quota.get("a").key().name(), quota.len()), ("quota:a", 1));
}

#[test]
fn a_call_beyond_the_limit_does_not_panic_though_the_shared_name_is_taken() {
    let lab = Lab::new();
    let quota = quota(&lab, 1);
    let elsewhere = Command::builder("quota:other").group("lab").thread_pool("p").registry(&lab.registry);
    elsewhere.build().unwrap();
    ok(&quota.get("a")).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(ok(&quota.get("b"))))).is_ok());
}

#[test]
fn a_tenant_called_other_takes_nothing_from_the_shared_command() {
    let lab = Lab::new();
    let quota = quota(&lab, 1);
    ok(&quota.get("other")).unwrap();
    let shared = quota.get("beyond");
    lab.clock.advance(IDLE);
    quota.evict_idle();
    ok(&shared).unwrap();
    let found = lab.registry.find("lab", shared.key().name());
    assert_eq!(found.map(|found| counts(&found)), Some(counts(&shared)));
}

// ===== who goes =====

#[test]
fn idle_commands_go_when_the_clock_has_moved_and_are_told() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    ["a", "b", "c"].iter().for_each(|key| ok(&quota.get(key)).unwrap());
    assert_eq!(quota.evict_idle(), 0);
    lab.clock.advance(IDLE / 2);
    quota.get("b");
    lab.clock.advance(IDLE / 2 - ms(1));
    assert_eq!(quota.evict_idle(), 0);
    lab.clock.advance(ms(1));
    assert_eq!(quota.evict_idle(), 2);
    assert_eq!((names(&lab), quota.len()), (vec!["quota:b".to_owned()], 1));
    let mut told = evicted(&lab);
    told.sort();
    assert_eq!(told, ["quota:a", "quota:c"]);
    assert_eq!(quota.evict_idle(), 0);
}

#[test]
fn room_is_made_by_the_one_unused_for_longest() {
    let lab = Lab::new();
    let quota = quota(&lab, 3);
    let own = |key: &str| quota.get(key).key().name() == format!("quota:{key}");
    for key in ["a", "b", "c"] {
        assert!(own(key));
        lab.clock.advance(IDLE / 4);
    }
    assert!(!own("d"), "none is idle");
    // Now `a` and `b` are.
    lab.clock.advance(IDLE / 2);
    assert!(own("d"));
    assert_eq!(evicted(&lab), ["quota:a"]);
    assert!(own("e") && !own("f"));
    assert_eq!(evicted(&lab), ["quota:a", "quota:b"]);
}

#[test]
fn a_large_family_makes_room_for_a_sixteenth_of_it_at_once() {
    let lab = Lab::new();
    let family = sized(lab.command("large").build_keyed().unwrap(), 64);
    for key in 0..64 {
        ok(&family.get(&key)).unwrap();
        lab.clock.advance(ms(1));
    }
    lab.clock.advance(IDLE);
    ok(&family.get(&64)).unwrap();
    assert_eq!((family.len(), evicted(&lab).len()), (61, 4));
    assert_eq!(family.get(&4).key().name(), "large:4", "the longest unused went");
    assert_eq!((family.len(), evicted(&lab).iter().any(|name| name == "large:4")), (61, false));
}

#[test]
fn what_was_evicted_begins_anew_and_its_old_handles_work_by_themselves() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    let old = quota.get("a");
    fails(&old);
    lab.clock.advance(IDLE);
    assert_eq!(quota.evict_idle(), 1);
    let new = quota.get("a");
    assert_eq!((new.key(), counts(&new)), (old.key(), String::new()));
    fails(&old);
    fails(&old);
    assert_eq!((old.circuit_state(), new.circuit_state()), (CircuitState::Open, CircuitState::Closed));
    assert_eq!(ok(&new), Ok(()));
    assert_eq!(counts(&lab.registry.find("lab", "quota:a").unwrap()), "ok=1");
}

/// Moves the clock by the idle time, and says whether the only command of a full family stays.
fn stays<C: KeyedKind>(lab: &Lab, family: &Keyed<C>) -> bool {
    lab.clock.advance(IDLE);
    drop(family.get("beyond"));
    family.evict_idle() == 0 && family.len() == 1 && evicted(lab).is_empty()
}

#[test]
fn u43_what_is_under_way_is_not_evicted() {
    let lab = Lab::new();
    let family = sized(lab.command("busy").timeout(None).build_keyed().unwrap(), 1);
    let a = family.get("a");
    assert_eq!(a.run(|| Ok::<_, ()>(stays(&lab, &family))).execute(), Ok(true), "a body");
    assert_eq!(a.run(|| Err(())).fallback(|_| Ok(stays(&lab, &family))).execute(), Ok(true), "a fallback");
    {
        let mut call = pin!(a.call(pending::<Result<(), ()>>).into_future());
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(stays(&lab, &family), "a task");
    }
    assert_eq!(family.evict_idle(), 1);
}

#[test]
fn u43_what_is_abandoned_is_not_evicted_before_it_has_ended() {
    let lab = Lab::new();
    let family = sized(lab.on_pool("io", 1, 1).timeout("10ms").build_keyed().unwrap(), 1);
    let a = family.get("a");
    let gate = Gate::new();
    let body = gate.clone();
    let call = a.run(move || Ok::<_, ()>(body.pass())).queue();
    gate.until_came(1);
    lab.clock.advance(ms(10));
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    assert!(stays(&lab, &family));
    gate.open();
    assert_at_rest(&a);
    assert_eq!((family.evict_idle(), evicted(&lab)), (1, vec!["io:a".to_owned()]));
}

#[test]
fn u43_what_has_a_circuit_that_is_not_closed_is_not_evicted() {
    let lab = Lab::new();
    let quota = quota(&lab, 1);
    let a = quota.get("a");
    a.force_closed();
    assert!(stays(&lab, &quota), "held closed");
    a.force_open();
    assert!(stays(&lab, &quota), "held open");
    a.clear_forced();
    fails(&a);
    fails(&a);
    assert!(stays(&lab, &quota), "open");
    // A trial that decides nothing leaves it half open.
    assert!(a.run(|| Err::<(), _>(())).ignore(|_| true).execute().is_err());
    assert_eq!(a.circuit_state(), CircuitState::HalfOpen);
    assert!(stays(&lab, &quota), "half open");
    ok(&a).unwrap();
    lab.clock.advance(IDLE);
    assert_eq!(quota.evict_idle(), 1);
}

#[test]
fn looking_for_idle_ones_in_an_empty_family_does_not_end_the_making_of_room() {
    let lab = Lab::new();
    let quota = quota(&lab, 1);
    assert_eq!(quota.evict_idle(), 0);
    quota.get("a");
    lab.clock.advance(IDLE);
    assert_eq!(quota.get("b").key().name(), "quota:b");
}

#[test]
fn of_two_families_with_one_name_neither_evicts_what_the_other_uses() {
    let lab = Lab::new();
    let [one, two] = [quota(&lab, 10), quota(&lab, 10)];
    one.get("a");
    lab.clock.advance(IDLE);
    let used = two.get("a");
    one.evict_idle();
    let again = one.get("a");
    let inside = used.run(|| Ok::<_, ()>(kind(&ok(&again)))).execute();
    assert_eq!(inside, Ok(Some(RejectionKind::PermitsExhausted)), "one permit for one name");
}

#[test]
fn a_shutdown_waits_for_calls_of_commands_that_were_evicted() {
    let lab = Lab::new();
    let quota = quota(&lab, 10);
    let held = quota.get("a");
    lab.clock.advance(IDLE);
    assert_eq!(quota.evict_idle(), 1);
    let report = held.run(|| Ok::<_, ()>(lab.registry.shutdown(ms(1)))).execute().unwrap();
    assert_eq!(report.left.len(), 1);
}

#[test]
fn callers_and_evictions_at_once_lose_no_call() {
    const CALLERS: usize = 4;
    const CALLS: usize = 2_000;
    let (lab, ended, ran) = (Lab::new(), AtomicBool::new(false), AtomicUsize::new(0));
    let family = sized(lab.command("busy").semaphore(None).build_keyed().unwrap(), 3).idle(ms(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(SeqCst) {
                lab.clock.advance(ms(1));
                family.evict_idle();
            }
        });
        let call = || {
            let body = || Ok::<_, ()>(ran.fetch_add(1, SeqCst));
            (0..CALLS).filter(|key| family.get(&(key % 5)).run(body).execute().is_err()).count()
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(call)).collect();
        let refused: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
        ended.store(true, SeqCst);
        assert!(refused.iter().all(|refused| matches!(refused, Ok(0))), "{refused:?}");
    });
    assert_eq!((ran.load(SeqCst), lab.events.calls().len()), (CALLERS * CALLS, CALLERS * CALLS));
    lab.clock.advance(ms(1));
    family.evict_idle();
    assert_eq!((family.len(), names(&lab).iter().filter(|name| *name != "busy:other").count()), (0, 0));
}

#[test]
fn what_a_family_defines_differently_is_found_once_for_all_its_keys() {
    let lab = Lab::new();
    let on = |key, workers| lab.command(key).thread_pool(ThreadPool::named("p").core_size(workers));
    on("first", 2).build().unwrap();
    let family = on("tenant", 3).build_keyed().unwrap();
    (0..100).for_each(|key| drop(family.get(&key)));
    assert_eq!((family.len(), lab.registry.audit().len()), (100, 1));
}

#[test]
fn live_layers_reach_a_shared_command_that_is_not_listed() {
    let lab = Lab::new();
    let elsewhere = Command::builder("quota:other").group("lab").thread_pool("p").registry(&lab.registry);
    elsewhere.build().unwrap();
    let quota = quota(&lab, 1);
    ok(&quota.get("a")).unwrap();
    let other = quota.get("b");
    lab.registry.apply(Select::all(), CommandConfig::new().mode(Mode::Off)).unwrap();
    assert_eq!((other.key().name(), other.mode()), ("quota:other", Mode::Off));
}
