//! Registries: whose a command is, who finds it, and that each stands by itself.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};

use hystrix_core::{
    CircuitBreaker, CircuitState, Command, CommandConfig, CommandError, EventSink, Limit, Mode, ModeEvent,
    Origin, PoolCommand, PoolEventKind, Registry, RejectionKind, Select, Subscription, ThreadPool, compat,
};

use support::*;

fn layer() -> CommandConfig {
    CommandConfig::new()
}

fn ok(command: &Command) -> Result<(), CommandError<()>> {
    command.run(|| Ok(())).execute()
}

// ===== who a command is =====

#[test]
fn bc_120_kb_23_state_lives_with_group_and_key_however_often_they_are_built() {
    let lab = Lab::new();
    // Built inside each call, as people do.
    let fails = |group: &'static str| {
        let command = lab.command("count").group(group).circuit_breaker(touchy(3)).build().unwrap();
        command.run(|| Err::<(), _>(())).execute()
    };
    let four = [(); 4].map(|()| kind(&fails("Inventory")));
    assert_eq!(four, [None, None, None, Some(RejectionKind::ShortCircuited)]);
    assert_eq!(kind(&fails("Warehouse")), None, "the same key in another group");
    let made_at_run_time = Command::builder(String::from("count")).group(String::from("Inventory"));
    let made = made_at_run_time.circuit_breaker(touchy(3)).registry(&lab.registry).build().unwrap();
    assert_eq!(counts(&made), "failure=3 short_circuited=1 fallback_missing=4");
    assert_eq!((lab.registry.commands().len(), lab.registry.audit().len()), (2, 0));
}

#[test]
fn hc_277_kb_39_first_uses_at_once_make_each_command_once() {
    const THREADS: usize = 50;
    let (lab, barrier) = (Lab::new(), Arc::new(Barrier::new(THREADS)));
    let first_use = |number: usize| {
        let (registry, barrier) = (lab.registry.clone(), barrier.clone());
        aside(move || {
            let pool = ThreadPool::named("first").core_size(2).max_queue_size(THREADS);
            barrier.wait();
            let common = Command::builder("common").thread_pool(pool).registry(&registry).build().unwrap();
            common.run(|| Ok::<_, ()>(())).execute().unwrap();
            ok(&Command::builder(format!("own{number}")).registry(&registry).build().unwrap()).unwrap();
            assert!(registry.commands().len() >= 2 && registry.pool("first").is_some());
        })
    };
    let callers: Vec<_> = (0..THREADS).map(first_use).collect();
    callers.into_iter().for_each(joined);
    assert_eq!((lab.registry.commands().len(), lab.registry.pools().len()), (THREADS + 1, 1));
    assert_eq!(counts(&lab.registry.find("default", "common").unwrap()), "ok=50");
}

#[test]
fn hc_083_hc_300_what_there_is_can_be_found_and_listed_by_its_names() {
    let lab = Lab::new();
    for (group, key) in [("b", "y"), ("a", "z"), ("b", "x")] {
        lab.command(key).group(group).build().unwrap();
    }
    Command::builder("of_no_group").registry(&lab.registry).build().unwrap();
    lab.command("of_its_group").thread_pool(ThreadPool::of_the_group()).build().unwrap();
    lab.on_pool("wide", 3, 4).build().unwrap();
    let keys: Vec<_> = lab.registry.commands().iter().map(|command| command.key().to_string()).collect();
    assert_eq!(keys, ["a/z", "b/x", "b/y", "default/of_no_group", "lab/of_its_group", "lab/wide"]);
    assert_eq!(lab.registry.find("a", "z").unwrap().key().to_string(), "a/z");
    assert!(lab.registry.find("a", "x").is_none() && lab.registry.pool("nobody").is_none());
    let pools: Vec<_> = lab.registry.pools().into_iter().map(|pool| (pool.name, pool.size)).collect();
    assert_eq!(pools, [("lab".into(), 0), ("wide".into(), 0)]);
    assert_eq!(lab.registry.pool("wide").map(|pool| (pool.core_size, pool.max_queue_size)), Some((3, 4)));
}

#[test]
fn the_isolation_of_an_identity_is_decided_once_and_the_error_names_both() {
    let lab = Lab::new();
    lab.command("here").build().unwrap();
    let on_pool = lab.on_pool("here", 1, 0).build().unwrap_err();
    assert!(lab.registry.pools().is_empty(), "nothing was made of it");
    lab.on_pool("there", 1, 0).build().unwrap();
    let in_place = lab.command("there").build().unwrap_err();
    for (error, identity) in [(on_pool.to_string(), "lab/here: "), (in_place.to_string(), "lab/there: ")] {
        assert!(error.starts_with(identity), "{error}");
        assert!(error.contains("semaphore") && error.contains("thread_pool"), "{error}");
    }
}

// ===== definitions that differ =====

fn sized(name: &'static str, workers: usize) -> ThreadPool {
    ThreadPool::named(name).core_size(workers)
}

fn live(lab: &Lab, breaker: CircuitBreaker) {
    lab.registry.apply(Select::all(), layer().circuit_breaker(breaker)).unwrap();
}

#[test]
fn kb_18_kb_33_every_difference_is_found_once_and_the_first_definition_stands() {
    let lab = Lab::new();
    let here = |key| lab.command(key);
    let on = |key, pool| lab.command(key).thread_pool(pool);
    let judged = |key, circuit| lab.command(key).circuit_breaker(CircuitBreaker::shared(circuit));
    for _ in 0..2 {
        here("timeout").timeout("1s").build().unwrap();
        here("timeout").timeout("2s").build().unwrap();
        here("release").build().unwrap();
        here("release").permit_release(compat::ReleaseAtTimeout).build().unwrap();
        on("pool", sized("p1", 2)).build().unwrap();
        on("pool", sized("p2", 2)).build().unwrap();
        on("sizes", sized("p3", 2)).build().unwrap();
        on("sizes", sized("p3", 3)).build().unwrap();
        on("of_two", sized("p4", 2)).build().unwrap();
        on("sizes_of_two", sized("p4", 3)).build().unwrap();
        judged("window", "c1").build().unwrap();
        judged("window_of_two", "c1").rolling_window(ms(20_000)).build().unwrap();
    }
    assert!(lab.registry.pools().iter().all(|pool| pool.core_size == 2 && &*pool.name != "p2"));
    let findings: Vec<_> = lab.registry.audit().into_iter().map(|finding| finding.about).collect();
    assert_eq!(findings.len(), 6, "{findings:?}");
}

#[test]
fn what_does_not_differ_in_code_is_no_finding() {
    let lab = Lab::new();
    let on = |key, pool| lab.command(key).group("g").thread_pool(pool).build().unwrap();
    let judged = |key| lab.command(key).circuit_breaker(CircuitBreaker::shared("c")).build().unwrap();
    on("defines", sized("g", 2));
    on("names", ThreadPool::named("g"));
    on("takes_its_groups", ThreadPool::of_the_group());
    on("defines_its_groups", ThreadPool::of_the_group().core_size(2));
    on("before_a_resize", sized("p", 2));
    lab.registry.resize(sized("p", 4)).unwrap();
    on("after_a_resize", sized("p", 2));
    judged("before_a_layer");
    live(&lab, CircuitBreaker::new().request_volume_threshold(3));
    judged("after_a_layer");
    let messages: Vec<_> = lab.registry.audit().into_iter().map(|finding| finding.message).collect();
    assert!(messages.is_empty(), "{messages:#?}");
}

#[test]
fn settings_on_a_shared_circuit_are_those_it_runs_by() {
    let lab = Lab::new();
    let command = lab.command("shares").circuit_breaker(CircuitBreaker::shared("host")).build().unwrap();
    live(&lab, CircuitBreaker::new().request_volume_threshold(3));
    let shown = command.settings().request_volume_threshold().value;
    let fails = || drop(command.run(|| Err::<(), _>(())).execute());
    (1..shown).for_each(|_| fails());
    assert_eq!(command.circuit_state(), CircuitState::Closed);
    fails();
    assert_eq!(command.circuit_state(), CircuitState::Open, "after {shown} failures");
}

#[test]
fn a_circuit_shared_by_defaults_is_shared_or_refused() {
    let shared = layer().circuit_breaker(CircuitBreaker::shared("host"));
    let Ok(builder) = Registry::builder().group_defaults("billing", shared) else { return };
    let registry = builder.build();
    let command = Command::builder("bills").group("billing").registry(&registry).build().unwrap();
    assert_eq!(&*command.metrics().circuit.name, "host");
}

#[test]
fn strict_makes_a_clash_an_error_of_every_later_build() {
    let registry = Registry::builder().strict().build();
    let define = |timeout| Command::builder("strict").timeout(timeout).registry(&registry).build();
    let first = define("1s").unwrap();
    for round in ["the first time", "the second time"] {
        let error = define("2s").expect_err(round).to_string();
        assert!(error.starts_with("default/strict: definition = "), "{error}");
        define("1s").unwrap();
    }
    assert_eq!(first.settings().timeout().value.get(), Some(ms(1000)));
    assert_eq!(registry.audit().len(), 1);
}

#[test]
fn what_strict_refused_is_not_there() {
    let registry = Registry::builder().strict().build();
    let define = |key: &'static str| Command::builder(key).registry(&registry);
    define("first").thread_pool(sized("io", 1)).build().unwrap();
    assert!(define("second").thread_pool(sized("io", 2)).build().is_err());
    assert!(registry.find("default", "second").is_none());
}

// ===== what changes while it runs =====

#[test]
fn a_resize_is_seen_and_told_and_one_that_cannot_be_changes_nothing() {
    let lab = Lab::new();
    let io = lab.on_pool("io", 1, 0).build().unwrap();
    let sizes = || (io.pool().core_size, io.pool().maximum_size, io.pool().max_queue_size);
    lab.registry.resize(sized("io", 3).max_queue_size(5)).unwrap();
    assert_eq!(sizes(), (3, 3, 5));
    let error = lab.registry.resize(sized("io", 4).maximum_size(2)).unwrap_err();
    assert_eq!((error.field(), sizes()), ("maximum_size", (3, 3, 5)));
    let told: Vec<_> = lab.events.pools().iter().map(|event| event.kind.clone()).collect();
    assert_eq!(told, [PoolEventKind::Resized]);
}

#[test]
fn armed_counts_the_deadlines_of_its_own_calls() {
    let (lab, other, gate) = (Lab::new(), Lab::new(), Gate::new());
    let command = lab.on_pool("armed", 2, 0).timeout("1m").build().unwrap();
    let calls = [gate.clone(), gate.clone()].map(|at| command.run(move || Ok::<_, ()>(at.pass())).queue());
    until("two deadlines", || lab.registry.armed() == 2);
    assert_eq!((lab.clock.armed(), other.registry.armed()), (2, 0));
    gate.open();
    assert!(calls.into_iter().all(|call| call.wait().is_ok()));
    until("no deadline", || lab.registry.armed() == 0);
}

#[test]
fn armed_counts_no_workers_that_are_idle() {
    let lab = Lab::new();
    let command = lab.on_pool("idle", 1, 0).build().unwrap();
    assert_eq!(command.run(|| Err(())).fallback(|_| Ok(1)).queue().wait(), Ok(1));
    until("idle", || lab.registry.fallback_workers().idle == 1);
    // It is to end some day; a test that waits for a caller's deadline must not take that for one.
    assert_eq!(lab.clock.armed(), 0);
}

#[test]
fn layers_wait_for_their_commands_and_give_back_what_lay_below() {
    let lab = Lab::new();
    let selections = [Select::group("lab"), Select::command("lab", "io")];
    lab.registry.apply(selections[0].clone(), layer().timeout("2s").mode(Mode::Shadow)).unwrap();
    let io: PoolCommand = lab.on_pool("io", 2, 5).timeout("1s").build().unwrap();
    let namesake = lab.command("io").group("other").build().unwrap();
    lab.registry.apply(selections[1].clone(), layer().timeout("3s").fallback_semaphore(4)).unwrap();
    let timeout = || (io.settings().timeout().value.get().unwrap(), io.mode());
    let permits = || (io.settings().fallback_semaphore().value, io.settings().fallback_semaphore().origin);
    assert_eq!((timeout(), permits().0), ((ms(3000), Mode::Shadow), Limit::from(4)));
    assert_eq!((namesake.settings().timeout().origin, namesake.mode()), (Origin::BuiltIn, Mode::Enforce));
    assert!(lab.registry.remove(&selections[1]));
    assert_eq!((timeout(), permits()), ((ms(2000), Mode::Shadow), (Limit::from(7), Origin::BuiltIn)));
    assert!(lab.registry.remove(&selections[0]));
    assert_eq!(timeout(), (ms(1000), Mode::Enforce));
}

#[test]
fn u45_a_thousand_swaps_under_sixty_four_callers_lose_no_permit() {
    let lab = Lab::new();
    let command = lab.command("swapped").circuit_breaker(None).build().unwrap();
    let swap = |permits: usize| lab.registry.apply(Select::all(), layer().semaphore(permits)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| (0..100).for_each(|_| drop(ok(&command))));
        }
        (0..1000).for_each(|round| swap(1 + round % 20));
    });
    assert_at_rest(&command);
    swap(2);
    let third = || Ok::<_, ()>(kind(&ok(&command)));
    let second = command.run(|| Ok::<_, ()>(command.run(third).execute()));
    assert_eq!(second.execute(), Ok(Ok(Some(RejectionKind::PermitsExhausted))));
}

// ===== who listens =====

/// Does something at every change of a mode.
struct OnMode<F>(F);

impl<F: Fn() + Send + Sync + 'static> EventSink for OnMode<F> {
    fn mode_changed(&self, _event: &ModeEvent) {
        (self.0)();
    }
}

fn change_modes(lab: &Lab) {
    lab.command("moded").build().unwrap();
    for mode in [Mode::Shadow, Mode::Off, Mode::Enforce] {
        lab.registry.apply(Select::all(), layer().mode(mode)).unwrap();
    }
    assert_eq!(lab.events.modes().len(), 3);
}

#[test]
fn a_listener_that_panics_between_calls_is_switched_off_and_the_others_hear_on() {
    let (lab, told) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let telling = told.clone();
    let _panics = lab.registry.subscribe(OnMode(move || panic!("told {}", telling.fetch_add(1, SeqCst))));
    let later = Events::default();
    let _later = lab.registry.subscribe(later.clone());
    change_modes(&lab);
    assert_eq!((told.load(SeqCst), later.modes().len()), (1, 3));
}

#[test]
fn a_listener_may_end_its_own_subscription() {
    let (lab, told) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let (telling, ending) = (told.clone(), own.clone());
    let once = OnMode(move || {
        telling.fetch_add(1, SeqCst);
        drop(ending.lock().unwrap().take());
    });
    *own.lock().unwrap() = Some(lab.registry.subscribe(once));
    change_modes(&lab);
    assert_eq!(told.load(SeqCst), 1);
}

#[test]
fn u44_kb_35_ten_thousand_subscriptions_leave_nothing_behind() {
    let (lab, told) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let subscribe = || {
        let told = told.clone();
        lab.registry.subscribe(OnMode(move || _ = told.fetch_add(1, SeqCst)))
    };
    let kept = subscribe();
    (0..10_000).for_each(|_| drop(subscribe()));
    change_modes(&lab);
    assert_eq!((told.load(SeqCst), Arc::strong_count(&told)), (3, 2));
    drop((lab, kept));
    assert_eq!(Arc::strong_count(&told), 1);
}

// ===== each by itself =====

#[test]
fn there_is_one_global_registry_and_it_is_current_unless_another_is_entered() {
    assert!(std::ptr::eq(Registry::global(), Registry::global()));
    ok(&Command::builder("global").group("of_all").build().unwrap()).unwrap();
    let there = Registry::global().find("of_all", "global").unwrap();
    let elsewhere = joined(aside(|| Registry::current().find("of_all", "global").unwrap()));
    assert_eq!((counts(&there), counts(&elsewhere)), ("ok=1".into(), "ok=1".into()));
}

#[test]
fn a_registry_of_its_own_leaves_no_trace_in_the_global_one() {
    let (lab, gate) = (Lab::new(), Gate::new());
    let _here = lab.registry.enter();
    let pool = Command::builder("pool").group("traces").thread_pool("traces").build().unwrap();
    let body = gate.clone();
    let call = pool.run(move || Ok::<_, ()>(body.pass())).queue();
    until("a deadline", || lab.registry.armed() == 1);
    assert_eq!(pool.run(|| Err(())).fallback(|_| Ok(1)).queue().wait(), Ok(1));
    let global = Registry::global();
    assert!(global.find("traces", "pool").is_none() && global.pool("traces").is_none());
    assert_eq!((global.armed(), global.fallback_workers().largest, global.audit().len()), (0, 0, 0));
    gate.open();
    assert_eq!(call.wait(), Ok(()));
}

#[test]
fn hc_274_registries_share_no_identity_no_pool_no_circuit_and_no_layer() {
    let labs = [Lab::new(), Lab::new()];
    let [one, two] = [(&labs[0], 1), (&labs[1], 2)].map(|(lab, number)| {
        let shared = CircuitBreaker::shared("host").request_volume_threshold(number);
        let same = lab.command("same").thread_pool(sized("io", number as usize)).circuit_breaker(shared);
        same.timeout(ms(number * 1000)).build().unwrap()
    });
    labs[0].registry.apply(Select::all(), layer().fallback_enabled(false)).unwrap();
    assert!(one.run(|| Err::<(), _>(())).execute().is_err());
    assert_eq!((one.circuit_state(), two.circuit_state()), (CircuitState::Open, CircuitState::Closed));
    assert_eq!((one.pool().core_size, two.pool().core_size, two.pool().submitted), (1, 2, 0));
    assert_eq!(two.settings().timeout().value.get(), Some(ms(2000)));
    assert!(two.settings().fallback_enabled().value && labs[1].events.calls().is_empty());
    assert!(labs.iter().all(|lab| lab.registry.audit().is_empty()));
}

#[test]
fn commands_outlive_their_registry_refuse_and_can_still_be_looked_at() {
    let lab = Lab::new();
    let command = lab.command("outlives").circuit_breaker(touchy(1)).build().unwrap();
    let _subscription = lab.registry.subscribe(Events::default());
    ok(&command).unwrap();
    drop(lab);
    assert_eq!(kind(&ok(&command)), Some(RejectionKind::ShutDown));
    assert_eq!(command.run(|| Err(())).fallback(|_| Ok(1)).execute(), Ok(1));
    command.force_open();
    assert_eq!(command.circuit_state(), CircuitState::ForcedOpen);
    assert_eq!(command.settings().request_volume_threshold().value, 1);
    assert_eq!(command.metrics().cumulative.success, 1);
}

#[test]
fn the_last_handle_may_go_on_one_of_its_own_workers() {
    let (registry, gate) = (Registry::builder().build(), Gate::new());
    let command = Command::builder("last").registry(&registry).thread_pool("last").build().unwrap();
    let (here, body) = (registry.enter(), gate.clone());
    command.run(move || Ok::<_, ()>(body.pass())).queue().detach();
    gate.until_came(1);
    // From here on only the scope that the worker wears holds the registry.
    drop((here, registry));
    gate.open();
    until("the worker has ended", || command.pool().size == 0);
    assert!(command.pool().is_shut_down);
}
