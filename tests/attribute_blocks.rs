//! `#[commands]` gives its options to every command in an impl block, a trait, or an inline module; what a function writes wins.

mod support;

use futures::executor::block_on;
use hystrix_core::{
    Command, CommandConfig, CommandError, CommandHandle, Force, Queued, Registry, RejectionKind, command,
    command_of, commands,
};

use support::*;

type Answer<T = u32> = Result<T, CommandError<&'static str>>;

/// The name of the thread that asks, without a worker's number: which of them is free is not told.
fn thread() -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}

fn timeout(command: &CommandHandle) -> Option<u128> {
    command.settings().timeout().value.get().map(|timeout| timeout.as_millis())
}

fn found(group: &str, key: &str) -> CommandHandle {
    Registry::current().find(group, key).unwrap_or_else(|| panic!("{:?}", Registry::current().commands()))
}

// ===== impl blocks =====

#[derive(Clone)]
struct Inventory {
    plain: Command,
}

#[commands(group = "Stock", thread_pool = "stock", timeout = "1s", ignore = |error| *error == "mine", fallback_value = Default::default())]
impl Inventory {
    #[command(to_owned(self))]
    fn count(&self, error: &'static str) -> Answer {
        if error.is_empty() { Ok(1) } else { Err(error)? }
    }

    #[command(key = "written", group = "Own", timeout = "2s")]
    async fn later(number: u32) -> Answer<String> {
        Ok(format!("{number} {}", thread()))
    }

    #[command(semaphore = 2)]
    fn here(&self) -> Answer<String> {
        Ok(thread())
    }

    #[command(fallback = |error| Ok(error.to_string()), ignore = |_| false)]
    fn falls_back(error: &'static str) -> Answer<String> {
        Err(error)?
    }

    #[command(command = self.plain)]
    fn given(&self) -> Answer<String> {
        Ok(thread())
    }

    /// Not a command: nothing is added to it.
    fn plain(&self) -> String {
        thread()
    }
}

fn inventory(lab: &Lab) -> Inventory {
    Inventory { plain: lab.command("plain").build().unwrap() }
}

#[test]
fn hc_320_the_options_of_an_impl_block_are_those_of_each_command_inside() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(inventory(&lab).count(""), Ok(1));
    let count = command_of!(Inventory::count);
    assert_eq!((count.key().to_string(), timeout(&count)), ("Stock/count".into(), Some(1000)));
    assert_eq!(lab.registry.pool("stock").map(|pool| pool.completed), Some(1));
    assert_eq!(inventory(&lab).plain(), thread());
}

#[test]
fn hc_320_what_a_function_writes_wins_over_the_block() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(block_on(Inventory::later(3)), Ok("3 hystrix-stock-".into()));
    let later = command_of!(Inventory::later);
    assert_eq!((later.key().to_string(), timeout(&later)), ("Own/written".into(), Some(2000)));
}

#[test]
fn a_semaphore_wins_over_the_blocks_thread_pool_and_a_fallback_over_its_value() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(inventory(&lab).here(), Ok(thread()));
    assert_eq!(command_of!(Inventory::here).settings().semaphore().value.get(), Some(2));
    assert_eq!(Inventory::falls_back("E1"), Ok("E1".into()));
}

#[test]
fn a_given_command_wins_over_every_setting_of_the_block() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(inventory(&lab).given(), Ok(thread()));
    assert_eq!((timeout(&found("lab", "plain")), &*counts(&found("lab", "plain"))), (Some(1000), "ok=1"));
    assert_eq!(lab.registry.commands().len(), 1);
}

#[test]
fn hc_319_an_ignore_rule_of_the_block_is_inherited_and_a_functions_own_replaces_it() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let inventory = inventory(&lab);
    let answers = [inventory.count("mine"), inventory.count("E1")];
    assert_eq!(answers, [Err(CommandError::Inner("mine")), Ok(0)]);
    assert_eq!(counts(&command_of!(Inventory::count)), "failure=1 bad_request=1 fallback_ok=1");
    assert_eq!(Inventory::falls_back("mine"), Ok("mine".into()));
    assert_eq!(counts(&command_of!(Inventory::falls_back)), "failure=1 fallback_ok=1");
}

struct Alternative;

#[commands(semaphore = 4, fallback = |_| Ok(Default::default()))]
impl Alternative {
    #[command(fallback_value = 7)]
    fn value(number: u32) -> Answer {
        Err(if number == 0 { "zero" } else { "E1" })?
    }

    #[command(thread_pool)]
    fn on_a_pool() -> Answer<String> {
        Err("E1")?
    }
}

#[test]
fn a_fallback_value_and_a_thread_pool_win_over_the_blocks_fallback_and_semaphore() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((Alternative::value(1), Alternative::on_a_pool()), (Ok(7), Ok(String::new())));
    assert_eq!(lab.registry.pool("Alternative").map(|pool| pool.completed), Some(1));
}

#[derive(Clone)]
struct Typed<T>(T);

#[commands(timeout = "3s", thread_pool)]
impl<T: Clone + Send + Sync + std::fmt::Display + 'static> Typed<T> {
    #[command(to_owned(self))]
    fn show(&self) -> Answer<String> {
        Ok(format!("{} {}", self.0, thread()))
    }
}

#[test]
fn hc_302_a_generic_block_has_one_command_a_function_and_it_is_found() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(Typed(1).show(), Ok("1 hystrix-Typed-".into()));
    assert_eq!(Typed("a").show(), Ok("a hystrix-Typed-".into()));
    assert_eq!((timeout(&found("Typed", "show")), &*counts(&found("Typed", "show"))), (Some(3000), "ok=2"));
    assert_eq!(command_of!(Typed::<u8>::show).metrics().cumulative.success, 2);
}

// ===== traits =====

trait Count {
    fn count(&self, number: u32) -> Answer;

    async fn count_later(&self) -> Answer<String>;
}

#[derive(Clone)]
struct Shelf;

#[commands(timeout = "4s", group = "Shelves", semaphore = 3)]
impl Count for Shelf {
    #[command]
    fn count(&self, number: u32) -> Answer {
        Ok(number)
    }

    #[command(thread_pool, to_owned(self))]
    async fn count_later(&self) -> Answer<String> {
        let _: &Self = self;
        Ok(thread())
    }
}

#[test]
fn the_options_of_a_trait_impl_are_those_of_each_command_inside() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((Shelf.count(3), block_on(Shelf.count_later())), (Ok(3), Ok("hystrix-Shelves-".into())));
    for key in ["count", "count_later"] {
        assert_eq!(timeout(&found("Shelves", key)), Some(4000));
    }
}

#[commands(timeout = "5s")]
trait Greets {
    fn name(&self) -> String;

    #[command]
    fn greet(&self) -> Answer<String> {
        Ok(format!("hello {}", self.name()))
    }

    #[command(timeout = "6s")]
    async fn greet_later(&self) -> Answer<String> {
        Ok(format!("later {}", self.name()))
    }
}

impl Greets for Shelf {
    fn name(&self) -> String {
        "shelf".into()
    }
}

#[test]
fn the_options_of_a_trait_are_those_of_its_default_methods() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(Shelf.greet(), Ok("hello shelf".into()));
    assert_eq!(block_on(Shelf.greet_later()), Ok("later shelf".into()));
    let timeouts = ["greet", "greet_later"].map(|key| timeout(&found("Shelf", key)));
    assert_eq!(timeouts, [Some(5000), Some(6000)]);
}

// ===== modules =====

#[commands(thread_pool = "outer", timeout = "1s", config = crate::layer())]
mod outer {
    use hystrix_core::{command, commands};

    use super::{Answer, thread};

    #[command]
    pub(super) fn free() -> Answer<String> {
        Ok(thread())
    }

    #[derive(Clone)]
    pub(super) struct Thing;

    impl Thing {
        #[command(timeout = "2s", to_owned(self))]
        pub(super) fn method(&self) -> Answer<String> {
            let _: &Self = self;
            Ok(thread())
        }
    }

    #[commands(thread_pool = "of the block", timeout = "3s")]
    impl Thing {
        #[command]
        pub(super) fn inner() -> Answer<String> {
            Ok(thread())
        }

        #[command(semaphore = 6)]
        pub(super) async fn here() -> Answer<String> {
            Ok(thread())
        }
    }

    pub(super) mod inherits {
        #[hystrix_core::command]
        pub(crate) fn free() -> crate::Answer<String> {
            Ok(crate::thread())
        }
    }

    #[commands(timeout = "4s", group = "deep")]
    pub(super) mod nested {
        use super::super::{Answer, thread};

        #[hystrix_core::commands(timeout = "5s")]
        pub(crate) mod deeper {
            use super::{Answer, thread};

            #[hystrix_core::command]
            pub(crate) async fn free() -> Answer<String> {
                Ok(thread())
            }
        }

        #[hystrix_core::command(thread_pool = "own")]
        pub(crate) fn free() -> Answer<String> {
            Ok(thread())
        }
    }
}

fn layer() -> CommandConfig {
    CommandConfig::new().latency_buckets(3).timeout("9s")
}

#[test]
fn the_options_of_a_module_reach_its_functions_methods_and_inner_modules() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let answers = [outer::free(), outer::Thing.method(), outer::inherits::free()];
    assert_eq!(answers, ["hystrix-outer-"; 3].map(|name| Ok(name.to_owned())));
    assert_eq!(timeout(&command_of!(outer::free)), Some(1000));
    assert_eq!(timeout(&found("Thing", "method")), Some(2000));
    assert_eq!(timeout(&found("outer::inherits", "free")), Some(1000));
    assert_eq!(command_of!(outer::free).settings().latency_buckets().value, 3);
}

#[test]
fn of_nested_blocks_the_inner_one_wins_and_the_outer_one_fills_in() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(outer::Thing::inner(), Ok("hystrix-of the block-".into()));
    assert_eq!(block_on(outer::Thing::here()), Ok(thread()));
    let inner = [command_of!(outer::Thing::inner), command_of!(outer::Thing::here)];
    assert_eq!(inner.map(|command| timeout(&command)), [Some(3000); 2]);
    assert_eq!(block_on(outer::nested::deeper::free()), Ok("hystrix-outer-".into()));
    assert_eq!(outer::nested::free(), Ok("hystrix-own-".into()));
    let nested = [command_of!(outer::nested::deeper::free), command_of!(outer::nested::free)];
    assert_eq!(nested.map(|command| timeout(&command)), [Some(5000), Some(4000)]);
    // Both wrote `deep`, neither a key.
    assert!(found("deep", "free").key().group() == "deep" && lab.registry.audit().len() == 1);
}

#[commands(semaphore = 3, fallback = |_| Ok("outer".into()), timeout = "1s")]
mod rivals {
    #[hystrix_core::commands(thread_pool = "inner", fallback_value = "inner".into())]
    pub(crate) mod inner {
        #[hystrix_core::command]
        pub(crate) fn fails(fails: bool) -> crate::Answer<String> {
            if fails { Err("E1")? } else { Ok(crate::thread()) }
        }
    }

    pub(crate) struct Given(pub(crate) hystrix_core::Command);

    #[hystrix_core::commands(command = self.0)]
    impl Given {
        #[hystrix_core::command]
        pub(crate) fn here(&self, fails: bool) -> crate::Answer<String> {
            if fails { Err("E1")? } else { Ok(crate::thread()) }
        }
    }
}

#[test]
fn of_nested_blocks_what_the_inner_one_says_replaces_what_excludes_it() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(rivals::inner::fails(false), Ok("hystrix-inner-".into()));
    assert_eq!(rivals::inner::fails(true), Ok("inner".into()));
    let given = rivals::Given(lab.command("given").build().unwrap());
    assert_eq!((given.here(false), given.here(true)), (Ok(thread()), Ok("outer".into())));
    assert_eq!(counts(&given.0), "ok=1 failure=1 fallback_ok=1");
    assert_eq!(lab.registry.commands().len(), 2);
}

struct Mixed;

#[commands(
    thread_pool, fallback_semaphore = 3, fallback_if = |error| error.inner().is_some(),
    rejected = |rejection| CommandError::Rejected(rejection.clone()),
)]
impl Mixed {
    #[command]
    fn without(fails: bool) -> Answer {
        if fails { Err("E1")? } else { Ok(1) }
    }

    #[command(fallback_value = 7)]
    async fn valued(fails: bool) -> Answer {
        if fails { Err("E1")? } else { Ok(1) }
    }

    #[command(fallback = |_| Ok(8))]
    fn queued(fails: bool) -> Queued<u32, &'static str> {
        if fails { Err("E1") } else { Ok(1) }
    }

    #[cfg_attr(all(), command(key = "of a condition", fallback = |_| Ok(9)))]
    fn under_a_condition(fails: bool) -> Answer {
        if fails { Err("E1")? } else { Ok(1) }
    }
}

#[test]
fn hc_320_an_option_of_the_block_is_left_out_where_it_has_no_use() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(Mixed::without(true), Err(CommandError::Inner("E1")));
    assert_eq!((block_on(Mixed::valued(true)), Mixed::queued(true).wait()), (Ok(7), Ok(8)));
    assert_eq!(Mixed::under_a_condition(true), Ok(9));
    assert_eq!(lab.registry.pool("Mixed").map(|pool| pool.completed), Some(4));
    for key in ["queued", "of a condition"] {
        assert_eq!(found("Mixed", key).settings().fallback_semaphore().value.get(), Some(3));
    }
    command_of!(Mixed::valued).force_open();
    assert_eq!(kind(&block_on(Mixed::valued(true))), Some(RejectionKind::ShortCircuited), "skipped");
}

// ===== queued =====

struct Jobs;

#[commands(thread_pool = "jobs", fallback_value = 7)]
impl Jobs {
    #[command]
    fn queued(number: u32) -> Queued<u32, &'static str> {
        if number == 0 { Err("zero") } else { Ok(number) }
    }
}

#[test]
fn a_queued_function_has_the_options_of_its_block_too() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((Jobs::queued(3).wait(), Jobs::queued(0).wait()), (Ok(3), Ok(7)));
    command_of!(Jobs::queued).force(Force::ShortCircuited);
    assert_eq!(Jobs::queued(3).wait(), Ok(7));
    assert_eq!(lab.events.last_call().rejection, Some(RejectionKind::ShortCircuited));
}
