//! What the attribute says about the command itself has its effect: names, isolation and settings, evaluated once.

mod support;

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    CircuitBreaker, CircuitState, CommandConfig, CommandError, Mode, Origin, PoolReport, Registry,
    RejectionKind, Select, ThreadPool, command, command_of,
};

use support::*;

type Answer<T = u32> = Result<T, CommandError<&'static str>>;

/// The name of the thread that asks, without a worker's number: which of them is free is not told.
fn thread() -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}

/// The keys of the current registry's commands.
fn keys() -> Vec<String> {
    Registry::current().commands().iter().map(|command| command.key().to_string()).collect()
}

// ===== names =====

const GROUP: &str = "of a constant";

#[test]
fn hc_300_hc_301_key_and_group_that_are_written_take_the_place_of_the_defaults() {
    #[command(key = "count", group = "Inventory")]
    fn both() -> Answer {
        Ok(1)
    }
    #[command(key = "only the key")]
    async fn key() -> Answer {
        Ok(1)
    }
    #[command(group = GROUP)]
    fn of_a_constant() -> Answer {
        Ok(1)
    }
    #[command(group = ["a", "b"].concat())]
    fn of_an_expression() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let answers = [both(), block_on(key()), of_a_constant(), of_an_expression()];
    assert_eq!(answers, [1; 4].map(Ok));
    let expected = [
        "Inventory/count",
        "ab/of_an_expression",
        "attribute_options/only the key",
        "of a constant/of_a_constant",
    ];
    assert_eq!(keys(), expected);
}

#[test]
fn a_key_that_is_no_literal_is_each_calls_own_and_makes_a_command_for_each() {
    #[command(group = "quota", key = tenant)]
    fn by_text(tenant: &str) -> Answer {
        Ok(tenant.len() as u32)
    }
    #[command(group = "quota", key = tenant / 10)]
    async fn by_number(tenant: u64) -> Answer {
        Ok(tenant as u32)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for tenant in ["a", "b", "a", "a"] {
        assert_eq!(by_text(tenant), Ok(1));
    }
    for tenant in [17, 18, 23] {
        assert_eq!(block_on(by_number(tenant)), Ok(tenant as u32));
    }
    assert_eq!(keys(), ["quota/by_number:1", "quota/by_number:2", "quota/by_text:a", "quota/by_text:b"]);
    assert_eq!(command_of!(by_text).get("a").metrics().cumulative.success, 3);
    assert_eq!(command_of!(by_number).get(&1).metrics().cumulative.success, 2);
}

struct Shard(u8);

impl Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

#[test]
fn a_key_is_whatever_displays_and_stays_the_bodys_own_argument() {
    // Not `Clone`: the key is looked at by reference, before the body takes the argument.
    #[command(group = "g", key = shard, thread_pool)]
    fn by_type(shard: Shard) -> Answer<Shard> {
        Ok(shard)
    }
    #[command(group = "g", key = format_args!("{a}-{b}"))]
    fn by_two(a: u8, b: u8) -> Answer {
        Ok(u32::from(a + b))
    }
    struct Store {
        tenant: String,
    }
    impl Store {
        #[command(key = self.tenant)]
        fn get(&self) -> Answer {
            Ok(1)
        }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(by_type(Shard(3)).map(|shard| shard.0), Ok(3));
    assert_eq!(by_two(1, 2), Ok(3));
    assert_eq!(Store { tenant: "t".into() }.get(), Ok(1));
    assert_eq!(keys(), ["Store/get:t", "g/by_two:1-2", "g/by_type:shard 3"]);
}

#[test]
fn a_key_that_is_a_constant_is_the_callers_choice_all_the_same() {
    const NAME: &str = "eu";
    #[command(group = "g", key = NAME)]
    fn region() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((region(), keys()), (Ok(1), vec!["g/region:eu".to_owned()]));
}

#[test]
fn beyond_a_thousand_keys_calls_share_the_command_called_other() {
    #[command(group = "g", key = number)]
    fn many(number: usize) -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert!((0..1003).all(|number| many(number) == Ok(1)));
    let other = command_of!(many);
    assert_eq!((other.key().name(), other.metrics().cumulative.success), ("many:other", 3));
    assert_eq!(lab.registry.commands().len(), 1001);
    assert_eq!(command_of!(many).get(&999).metrics().cumulative.success, 1);
}

// ===== isolation =====

#[test]
fn a_thread_pool_without_a_name_is_the_groups() {
    #[command(thread_pool)]
    fn of_the_module() -> Answer<String> {
        Ok(thread())
    }
    #[command(thread_pool, group = "written")]
    async fn of_the_group() -> Answer<String> {
        std::future::ready(()).await;
        Ok(thread())
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(of_the_module().unwrap(), "hystrix-attribute_options-");
    assert_eq!(block_on(of_the_group()).unwrap(), "hystrix-written-");
}

#[test]
fn a_thread_pool_with_a_name_is_shared_by_all_that_name_it() {
    const POOL: &str = "billing";
    #[command(thread_pool = "billing")]
    fn one() -> Answer<String> {
        Ok(thread())
    }
    #[command(thread_pool = POOL)]
    async fn two() -> Answer<String> {
        Ok(thread())
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!([one().unwrap(), block_on(two()).unwrap()], ["hystrix-billing-"; 2]);
    assert_eq!((lab.registry.pools().len(), lab.registry.pool("billing").unwrap().core_size), (1, 10));
}

#[test]
fn hc_322_kb_32_a_pools_sizes_are_those_that_were_written_in_both_colours() {
    fn pool() -> ThreadPool {
        ThreadPool::named("hashing").core_size(20).max_queue_size(5)
    }
    #[command(thread_pool = pool())]
    async fn later() -> Answer<String> {
        Ok(thread())
    }
    #[command(thread_pool = ThreadPool::of_the_group().core_size(2).maximum_size(3), group = "small")]
    fn now() -> Answer<String> {
        Ok(thread())
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(block_on(later()).unwrap(), "hystrix-hashing-");
    assert_eq!(now().unwrap(), "hystrix-small-");
    let sizes =
        |name| lab.registry.pool(name).map(|pool| (pool.core_size, pool.maximum_size, pool.max_queue_size));
    assert_eq!((sizes("hashing"), sizes("small")), (Some((20, 20, 5)), Some((2, 3, 0))));
}

#[test]
fn a_full_pool_refuses_and_its_queue_is_as_long_as_was_written() {
    #[command(thread_pool = ThreadPool::named("narrow").core_size(1).max_queue_size(1), timeout = None)]
    fn waits(gate: Gate) -> Answer<()> {
        Ok(gate.pass())
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let gate = Gate::new();
    let call = || {
        let (gate, registry) = (gate.clone(), lab.registry.clone());
        aside(move || {
            let _here = registry.enter();
            waits(gate)
        })
    };
    let callers = [call(), call()];
    let full = |pool: PoolReport| pool.active == 1 && pool.queued == 1;
    until("one runs, one waits", || lab.registry.pool("narrow").is_some_and(full));
    assert_eq!(kind(&waits(gate.clone())), Some(RejectionKind::PoolFull));
    gate.open();
    assert_eq!(callers.map(joined), [Ok(()), Ok(())]);
}

#[test]
fn a_semaphore_admits_as_many_as_was_written() {
    #[command(semaphore = 3)]
    fn here(depth: u32) -> Answer {
        if depth == 0 { Ok(0) } else { Ok(1 + here(depth - 1)?) }
    }
    #[command(semaphore = 3)]
    async fn later(depth: u32) -> Answer {
        if depth == 0 { Ok(0) } else { Ok(1 + Box::pin(later(depth - 1)).await?) }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((here(2), block_on(later(2))), (Ok(2), Ok(2)));
    for refused in [here(3), block_on(later(3))] {
        let rejection = refused.unwrap_err().rejection().cloned().unwrap();
        assert_eq!((rejection.kind(), rejection.limit()), (RejectionKind::PermitsExhausted, Some(3)));
    }
    assert_at_rest(&command_of!(here));
    assert_at_rest(&command_of!(later));
}

#[test]
fn a_semaphore_is_a_number_a_constant_or_none_and_ten_by_default() {
    const PERMITS: usize = 7;
    #[command(semaphore = PERMITS * 2)]
    fn constant() -> Answer {
        Ok(1)
    }
    #[command(semaphore = None)]
    fn unlimited(depth: u32) -> Answer {
        if depth == 0 { Ok(0) } else { Ok(1 + unlimited(depth - 1)?) }
    }
    #[command]
    fn default() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let permits = |command: &hystrix_core::CommandHandle| {
        let semaphore = command.settings().semaphore();
        (semaphore.value.get(), semaphore.origin)
    };
    assert_eq!((constant(), default()), (Ok(1), Ok(1)));
    assert_eq!(permits(&command_of!(constant)), (Some(14), Origin::Code));
    assert_eq!(permits(&command_of!(unlimited)), (None, Origin::Code));
    assert_eq!(permits(&command_of!(default)), (Some(10), Origin::BuiltIn));
    assert_eq!(unlimited(50), Ok(50));
}

// ===== settings =====

#[test]
fn a_timeout_is_text_a_duration_or_none() {
    const LATER: Duration = Duration::from_millis(70);
    #[command(timeout = "250ms")]
    fn text() -> Answer {
        Ok(1)
    }
    #[command(timeout = LATER * 2)]
    async fn duration() -> Answer {
        Ok(1)
    }
    #[command(timeout = None, thread_pool)]
    fn none() -> Answer {
        Ok(1)
    }
    #[command]
    async fn default() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!([text(), block_on(duration()), none(), block_on(default())], [const { Ok(1) }; 4]);
    let all = [command_of!(text), command_of!(duration), command_of!(none), command_of!(default)];
    let seen = all.map(|command| command.settings().timeout()).map(|set| (set.value.get(), set.origin));
    let [code, built_in] = [Origin::Code, Origin::BuiltIn];
    let expected = [(Some(ms(250)), code), (Some(ms(140)), code), (None, code), (Some(ms(1000)), built_in)];
    assert_eq!(seen, expected);
}

#[test]
fn a_timeout_cuts_in_both_colours_and_isolations() {
    #[command(thread_pool, timeout = "20ms")]
    fn on_a_pool(gate: Gate) -> Answer<()> {
        Ok(gate.pass())
    }
    #[command(timeout = "20ms")]
    fn here(lab: &Lab) -> Answer<()> {
        Ok(lab.clock.advance(ms(20)))
    }
    #[command(timeout = "20ms")]
    async fn later(lab: &Lab) -> Answer<()> {
        let clock = lab.clock.clone();
        std::future::poll_fn(move |_| -> std::task::Poll<()> {
            // Armed at the first `Pending`, so the time passes on another thread.
            let clock = clock.clone();
            drop(aside(move || {
                until("armed", || clock.armed() == 1);
                clock.advance(ms(20));
            }));
            std::task::Poll::Pending
        })
        .await;
        Ok(())
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (gate, clock) = (Gate::new(), lab.clock.clone());
    let time = aside(move || {
        until("armed", || clock.armed() == 1);
        clock.advance(ms(20));
    });
    let on_a_pool = on_a_pool(gate.clone());
    joined(time);
    gate.open();
    for cut in [on_a_pool, here(&lab), block_on(later(&lab))] {
        assert_eq!(cut.unwrap_err().rejection().and_then(|cut| cut.timeout()), Some(ms(20)));
    }
}

#[test]
fn a_circuit_breaker_has_the_rules_that_were_written_is_shared_by_name_or_is_off() {
    #[command(circuit_breaker = CircuitBreaker::new().request_volume_threshold(2).error_threshold_percentage(100))]
    fn touchy() -> Answer {
        Err("E1")?
    }
    #[command(circuit_breaker = CircuitBreaker::shared("host").request_volume_threshold(2))]
    async fn one() -> Answer {
        Err("E1")?
    }
    #[command(circuit_breaker = CircuitBreaker::shared("host").request_volume_threshold(2))]
    fn two() -> Answer {
        Ok(1)
    }
    #[command(circuit_breaker = None)]
    fn off() -> Answer {
        Err("E1")?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let opens = [touchy(), touchy(), touchy()].map(|result| kind(&result));
    assert_eq!(opens, [None, None, Some(RejectionKind::ShortCircuited)]);
    assert_eq!(command_of!(touchy).settings().error_threshold_percentage().value, 100.0);
    let _ = [block_on(one()), block_on(one())];
    assert_eq!(kind(&two()), Some(RejectionKind::ShortCircuited));
    assert!((0..50).all(|_| kind(&off()).is_none()));
    assert_eq!(command_of!(off).circuit_state(), CircuitState::Closed);
}

#[test]
fn of_a_layer_and_a_single_option_the_single_option_wins_in_either_order() {
    const LAYER: CommandConfig = CommandConfig::new().fallback_enabled(false).latency_buckets(3);
    fn layer() -> CommandConfig {
        LAYER.timeout("1s").semaphore(3).circuit_breaker(CircuitBreaker::new().request_volume_threshold(5))
    }
    #[command(config = layer(), timeout = "2s", circuit_breaker = CircuitBreaker::new().sleep_window(ms(9)))]
    fn before() -> Answer {
        Ok(1)
    }
    #[command(timeout = "2s", circuit_breaker = CircuitBreaker::new().sleep_window(ms(9)), config = layer())]
    async fn after() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((before(), block_on(after())), (Ok(1), Ok(1)));
    for command in [command_of!(before), command_of!(after)] {
        let set = command.settings();
        assert_eq!((set.timeout().value.get(), set.semaphore().value.get()), (Some(ms(2000)), Some(3)));
        assert_eq!((set.fallback_enabled().value, set.latency_buckets().value), (false, 3));
        assert_eq!((set.request_volume_threshold().value, set.sleep_window().value), (5, ms(9)));
    }
}

#[test]
fn a_live_layer_wins_over_the_attribute_and_its_removal_restores_it() {
    #[command(group = "g", semaphore = 3)]
    fn limited() -> Answer {
        Ok(1)
    }
    let defaults = CommandConfig::new().semaphore(20).timeout("3s");
    let registry = Registry::builder().group_defaults("g", defaults).unwrap().build();
    let _here = registry.enter();
    let seen = || {
        let set = command_of!(limited).settings();
        (set.semaphore().value.get(), set.timeout().value.get())
    };
    assert_eq!((limited(), seen()), (Ok(1), (Some(3), Some(ms(3000)))));
    registry.apply(Select::command("g", "limited"), CommandConfig::new().semaphore(5)).unwrap();
    assert_eq!(seen(), (Some(5), Some(ms(3000))));
    registry.remove(&Select::command("g", "limited"));
    assert_eq!(seen(), (Some(3), Some(ms(3000))));
}

#[test]
fn a_mode_says_how_far_the_library_interferes() {
    #[command(mode = Mode::Shadow, semaphore = 1, fallback_value = 99)]
    fn watched(depth: u32) -> Answer {
        if depth == 0 { Err("E1")? } else { watched(depth - 1) }
    }
    #[command(mode = Mode::Off, timeout = "1ms")]
    async fn off() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(watched(1), Err(CommandError::Inner("E1")));
    assert_eq!(command_of!(watched).metrics().cumulative.would_have_semaphore_rejected, 1);
    assert_eq!((block_on(off()), &*counts(&command_of!(off))), (Ok(1), ""));
}

mod vendored {
    pub(crate) use hystrix_core as library;
}

#[test]
fn the_library_may_go_by_another_path() {
    use hystrix_core as renamed;
    #[command(crate = renamed, thread_pool, to_owned(text), ignore = |_| false, fallback = |_| Ok(0))]
    fn by_another_name(text: &str) -> Answer {
        Ok(text.len() as u32)
    }
    #[command(crate = crate::vendored::library, key = number, fallback_value = number)]
    async fn by_a_path(number: u32) -> Answer {
        Ok(number)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((by_another_name("abc"), block_on(by_a_path(4))), (Ok(3), Ok(4)));
    assert_eq!(command_of!(by_a_path).get(&4).metrics().cumulative.success, 1);
}

// ===== when options are evaluated =====

#[test]
fn settings_are_evaluated_once_for_each_registry_and_what_is_per_call_at_each_call() {
    static SETTINGS: AtomicUsize = AtomicUsize::new(0);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    fn once<T>(value: T) -> T {
        SETTINGS.fetch_add(1, SeqCst);
        value
    }
    fn each<T>(value: T) -> T {
        CALLS.fetch_add(1, SeqCst);
        value
    }
    #[command(group = once("g"), key = each("k"), semaphore = once(5), timeout = once("1s"), fallback_value = each(2))]
    fn counted() -> Answer {
        Ok(1)
    }
    for registry in [Lab::new().registry, Lab::new().registry] {
        let _here = registry.enter();
        assert_eq!([counted(), counted(), counted()], [const { Ok(1) }; 3]);
    }
    assert_eq!((SETTINGS.load(SeqCst), CALLS.load(SeqCst)), (2 * 3, 2 * 3 * 2));
}

#[test]
fn a_setting_may_use_the_registry_and_other_commands() {
    #[command(group = "inner")]
    fn limit() -> Answer {
        Ok(6)
    }
    #[command(group = "outer", semaphore = limit().unwrap() as usize + Registry::current().commands().len())]
    fn limited() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(limited(), Ok(1));
    assert_eq!(command_of!(limited).settings().semaphore().value.get(), Some(7));
}

#[test]
fn kb_53_threads_that_come_first_together_share_one_command_for_each_function() {
    const THREADS: usize = 16;
    #[command(group = "g", semaphore = 16)]
    fn first() -> Answer {
        Ok(1)
    }
    #[command(group = "g", key = number % 2)]
    async fn first_of_key(number: usize) -> Answer {
        Ok(1)
    }
    let (lab, barrier) = (Lab::new(), Arc::new(Barrier::new(THREADS)));
    let callers = (0..THREADS).map(|number| {
        let (registry, barrier) = (lab.registry.clone(), barrier.clone());
        aside(move || {
            let _here = registry.enter();
            barrier.wait();
            assert_eq!((first(), block_on(first_of_key(number))), (Ok(1), Ok(1)));
        })
    });
    callers.collect::<Vec<_>>().into_iter().for_each(joined);
    let counted =
        lab.registry.commands().iter().map(|one| one.metrics().cumulative.success).collect::<Vec<_>>();
    assert_eq!((counted, lab.registry.audit()), (vec![16, 8, 8], vec![]));
}
