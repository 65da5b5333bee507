//! Who the command of an annotated function is: its names, what happens to two of one name, and whose it is in which registry.

#[path = "support/log.rs"]
mod log;
mod support;

use std::future::IntoFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::executor::block_on;
use hystrix_core::{
    Command, CommandError, Finding, Force, Registry, RejectionKind, ThreadPool, command, command_of, commands,
};

use log::lines;
use support::*;

type Answer<T = u32> = Result<T, CommandError<&'static str>>;

fn keys(registry: &Registry) -> Vec<String> {
    registry.commands().iter().map(|command| command.key().to_string()).collect()
}

fn about(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| &*finding.about).collect()
}

// ===== default names =====

#[command]
fn at_the_root() -> Answer {
    Ok(1)
}

mod users {
    pub(super) mod client {
        use crate::Answer;

        #[hystrix_core::command]
        pub(crate) fn get(number: u32) -> Answer {
            Ok(number)
        }
    }
}

mod orders {
    pub(super) mod client {
        use crate::Answer;

        #[hystrix_core::command(semaphore = 1)]
        pub(crate) async fn get(number: u32) -> Answer {
            Ok(number)
        }
    }
}

#[test]
fn hc_300_a_free_functions_group_is_its_module_and_at_the_root_its_crate() {
    #[command]
    fn within_a_function() -> Answer {
        Ok(1)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((at_the_root(), within_a_function()), (Ok(1), Ok(1)));
    assert_eq!((users::client::get(1), block_on(orders::client::get(2))), (Ok(1), Ok(2)));
    let expected = [
        "attribute_identity/at_the_root",
        "attribute_identity/within_a_function",
        "orders::client/get",
        "users::client/get",
    ];
    assert_eq!(keys(&lab.registry), expected);
}

#[test]
fn functions_of_one_name_in_two_modules_of_one_name_share_nothing() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    command_of!(users::client::get).force_open();
    assert_eq!(kind(&users::client::get(1)), Some(RejectionKind::ShortCircuited));
    assert_eq!(block_on(orders::client::get(1)), Ok(1));
    assert_eq!(command_of!(orders::client::get).settings().semaphore().value.get(), Some(1));
    assert_eq!(lab.registry.audit(), []);
}

struct Inventory<T>(T);

impl<T: Send + Sync> Inventory<T> {
    #[command]
    fn count(&self) -> Answer {
        Ok(1)
    }

    #[command]
    async fn take(self) -> Answer<T> {
        Ok(self.0)
    }

    #[command]
    fn shared(self: Arc<Self>) -> Answer {
        Ok(1)
    }

    #[command]
    fn make(value: T) -> Answer<Self> {
        Ok(Self(value))
    }

    /// Nothing in it says that it belongs to a type.
    #[command]
    fn parse(number: u32) -> Answer {
        Ok(number)
    }
}

#[test]
fn hc_300_hc_302_a_methods_group_is_its_type_without_path_and_generics() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (texts, numbers) = (Inventory("a"), Inventory(vec![1]));
    assert_eq!((texts.count(), numbers.count(), block_on(texts.take())), (Ok(1), Ok(1), Ok("a")));
    assert_eq!(Arc::new(Inventory::make(3u8).unwrap()).shared(), Ok(1));
    assert_eq!(Inventory::<u8>::parse(4), Ok(4));
    let expected = [
        "Inventory/count",
        "Inventory/make",
        "Inventory/shared",
        "Inventory/take",
        "attribute_identity/parse",
    ];
    assert_eq!(keys(&lab.registry), expected);
    assert_eq!(counts(&lab.registry.find("Inventory", "count").unwrap()), "ok=2");
}

trait Greets {
    #[command(semaphore = 4)]
    fn greet(&self) -> Answer<String> {
        Ok("hello".into())
    }

    #[command]
    async fn greet_later(&self) -> Answer<String> {
        std::future::ready(()).await;
        Ok("later".into())
    }
}

mod kinds {
    pub(super) struct English;
    pub(super) struct German<T>(pub(super) T);
}

impl Greets for kinds::English {}
impl<T> Greets for kinds::German<T> {}

#[test]
fn hc_302_a_traits_default_method_is_one_command_for_each_type_that_has_it() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (english, german) = (kinds::English, kinds::German(1));
    for _ in 0..2 {
        assert!(english.greet().is_ok() && german.greet().is_ok() && kinds::German("a").greet().is_ok());
        assert!(block_on(english.greet_later()).is_ok());
    }
    assert_eq!(keys(&lab.registry), ["English/greet", "English/greet_later", "German/greet"]);
    assert_eq!(counts(&lab.registry.find("German", "greet").unwrap()), "ok=4");
    assert_eq!(lab.registry.audit(), []);
}

#[test]
fn hc_302_in_the_global_registry_too_each_type_finds_its_own() {
    struct One;
    struct Two;
    impl Greets for One {}
    impl Greets for Two {}
    for _ in 0..3 {
        assert!(One.greet().is_ok() && Two.greet().is_ok() && Two.greet().is_ok());
    }
    let counted = ["One", "Two"].map(|group| counts(&Registry::global().find(group, "greet").unwrap()));
    assert_eq!(counted, ["ok=3", "ok=6"]);
}

trait Named {
    #[command]
    fn named(&self) -> Answer {
        Ok(1)
    }
}

impl<T: ?Sized> Named for T {}

#[test]
fn a_type_that_has_no_name_of_its_own_is_called_as_it_is_written() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let english = kinds::English;
    assert!(Named::named("text").is_ok() && Named::named(&[1u8][..]).is_ok());
    assert!(Named::named(&english).is_ok() && Named::named(&Box::new(kinds::German(1))).is_ok());
    assert!(Named::named(&(english, 7u8)).is_ok());
    let groups: Vec<_> =
        lab.registry.commands().iter().map(|command| command.key().group().to_owned()).collect();
    assert_eq!(groups, ["(English, u8)", "Box", "English", "[u8]", "str"]);
}

#[test]
fn of_two_types_of_one_name_with_one_default_method_the_later_one_is_told_by_its_own_module() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert!(Named::named(&first::Client).is_ok() && Named::named(&second::Client).is_ok());
    assert_eq!(keys(&lab.registry), ["Client/named", "second::Client/named"]);
    assert_eq!(about(&lab.registry.audit()), ["Client/named"]);
}

#[async_trait::async_trait]
trait Service {
    async fn get(&self, number: u32) -> Answer;
}

struct Remote;

#[async_trait::async_trait]
impl Service for Remote {
    #[command]
    async fn get(&self, number: u32) -> Answer {
        Ok(number)
    }
}

#[test]
fn hc_300_a_method_under_async_trait_has_its_types_name() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((block_on(Remote.get(3)), keys(&lab.registry)), (Ok(3), vec!["Remote/get".into()]));
}

#[test]
fn kb_31_calls_of_ones_own_private_functions_are_calls_of_commands() {
    struct Own;
    impl Own {
        #[command]
        fn outer(&self) -> Answer {
            Ok(self.inner()? + 1)
        }
        #[command]
        fn inner(&self) -> Answer {
            Ok(1)
        }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((Own.outer(), keys(&lab.registry).len()), (Ok(2), 2));
    assert_eq!(counts(&lab.registry.find("Own", "inner").unwrap()), "ok=1");
}

// ===== one name for two =====

mod first {
    pub(super) struct Client;

    #[hystrix_core::commands(semaphore = 1)]
    impl Client {
        #[hystrix_core::command]
        pub(crate) fn get(&self) -> crate::Answer<&'static str> {
            Ok("first")
        }
    }
}

mod second {
    pub(super) struct Client;

    #[hystrix_core::commands(semaphore = 2)]
    impl Client {
        #[hystrix_core::command]
        pub(crate) fn get(&self) -> crate::Answer<&'static str> {
            Ok("second")
        }
    }
}

#[test]
fn of_two_methods_of_one_name_the_later_one_takes_its_module_into_the_group() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..3 {
        assert_eq!((first::Client.get(), second::Client.get()), (Ok("first"), Ok("second")));
    }
    assert_eq!(keys(&lab.registry), ["Client/get", "second::Client/get"]);
    assert_eq!(command_of!(first::Client::get).settings().semaphore().value.get(), Some(1));
    assert_eq!(command_of!(second::Client::get).key().to_string(), "second::Client/get");
    let audit = lab.registry.audit();
    assert_eq!(about(&audit), ["Client/get"]);
    assert!(
        audit[0].message.contains("second::get") && audit[0].message.contains("second::Client/get"),
        "{audit:?}"
    );
}

#[test]
fn of_two_methods_of_one_name_the_log_tells_once() {
    // Alone: a line that another test writes first, with no log there, may be switched off for good.
    if !in_a_child("of_two_methods_of_one_name_the_log_tells_once") {
        return;
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let lines = lines(|| {
        for _ in 0..5 {
            let _ = (first::Client.get(), second::Client.get());
        }
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("WARN") && line.contains("second::Client/get"), "{line}");
}

#[test]
fn the_order_in_which_they_are_registered_decides_who_keeps_the_name() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let order = [command_of!(second::Client::get), command_of!(first::Client::get)];
    lab.registry.register(order).unwrap();
    assert_eq!((first::Client.get(), second::Client.get()), (Ok("first"), Ok("second")));
    assert_eq!(keys(&lab.registry), ["Client/get", "first::Client/get"]);
    assert_eq!(command_of!(second::Client::get).key().to_string(), "Client/get");
    assert_eq!(lab.registry.audit().len(), 1);
}

#[test]
fn a_third_of_one_name_in_one_module_is_numbered() {
    #[command(group = "g")]
    fn get() -> Answer {
        Ok(1)
    }
    let second = {
        #[command(group = "g")]
        fn get() -> Answer {
            Ok(2)
        }
        (get, command_of!(get))
    };
    let third = {
        #[command(group = "g")]
        fn get() -> Answer {
            Ok(3)
        }
        get
    };
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!([get(), second.0(), third()], [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(keys(&lab.registry), ["attribute_identity::g/get", "attribute_identity::g/get#2", "g/get"]);
    assert_eq!(
        (second.1.key().to_string(), lab.registry.audit().len()),
        ("attribute_identity::g/get".into(), 2)
    );
}

#[command(group = "shared", key = "one", semaphore = 3)]
fn shared_here() -> Answer {
    Err("E1")?
}

#[command(group = "shared", key = "one", semaphore = 3)]
async fn shared_later() -> Answer {
    Ok(1)
}

#[command(group = "shared", key = "one", semaphore = 5)]
fn shared_differently() -> Answer {
    Ok(1)
}

#[command(group = "shared", key = "one", thread_pool)]
fn shared_on_a_pool() -> Answer {
    Ok(1)
}

#[test]
fn functions_that_both_write_group_and_key_share_a_command() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let _ = (shared_here(), block_on(shared_later()));
    assert_eq!(counts(&command_of!(shared_here)), "ok=1 failure=1 fallback_missing=1");
    assert_eq!((keys(&lab.registry), lab.registry.audit()), (vec!["shared/one".into()], vec![]));
    assert!(Command::builder("one").group("shared").semaphore(3).build().is_ok(), "so may the library layer");
    assert_eq!((keys(&lab.registry).len(), lab.registry.audit().len()), (1, 0));
}

#[test]
fn of_two_written_definitions_that_differ_the_first_stands_and_the_difference_is_a_finding() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..3 {
        let _ = (shared_here(), shared_differently());
    }
    assert_eq!(command_of!(shared_differently).settings().semaphore().value.get(), Some(3));
    assert_eq!(about(&lab.registry.audit()), ["shared/one"]);
}

#[test]
fn of_two_written_definitions_on_other_isolations_the_later_one_is_an_error_and_a_call_has_a_name_of_its_own()
{
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let pair = || [command_of!(shared_here), command_of!(shared_on_a_pool)];
    let error = lab.registry.register(pair()).unwrap_err();
    assert_eq!((error.field(), error.value()), ("isolation", "\"thread_pool\""));
    assert_eq!(shared_on_a_pool(), Ok(1));
    assert_eq!(keys(&lab.registry), ["attribute_identity::shared/one", "shared/one"]);
    assert!(!lab.registry.audit().is_empty());
    assert_eq!(lab.registry.pool("shared").map(|pool| pool.completed), None);
}

#[test]
fn a_name_that_only_one_of_them_wrote_whole_is_not_shared() {
    #[command(key = "one", group = "half")]
    fn whole() -> Answer {
        Ok(1)
    }
    #[command(group = "half")]
    fn one() -> Answer {
        Ok(2)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((whole(), one()), (Ok(1), Ok(2)));
    assert_eq!(keys(&lab.registry), ["attribute_identity::half/one", "half/one"]);
    let other = Lab::new();
    let _here = other.registry.enter();
    assert_eq!((one(), whole()), (Ok(2), Ok(1)));
    assert_eq!(keys(&other.registry), ["attribute_identity::half/one", "half/one"]);
    assert_eq!(command_of!(whole).key().group(), "attribute_identity::half");
}

// ===== definitions that cannot be =====

const NO_PERMITS: usize = 0;

#[command(group = "bad", semaphore = NO_PERMITS, timeout = "5s")]
fn without_permits() -> Answer {
    Ok(1)
}

#[command(group = "bad", thread_pool = ThreadPool::named("bad").core_size(NO_PERMITS))]
async fn without_workers() -> Answer {
    Ok(1)
}

#[test]
fn registering_validates_and_the_error_names_field_value_and_what_is_allowed() {
    let lab = Lab::new();
    let error = lab.registry.register([command_of!(at_the_root), command_of!(without_permits)]).unwrap_err();
    assert_eq!((error.field(), error.value()), ("semaphore", "0"));
    assert_eq!(
        error.to_string(),
        "bad/without_permits: semaphore = 0, but allowed is 1 to 16777215, or None"
    );
    let error = lab.registry.register([command_of!(without_workers)]).unwrap_err();
    assert_eq!((error.field(), error.value(), error.allowed()), ("core_size", "0", "1 to 65536"));
    assert_eq!(keys(&lab.registry), ["attribute_identity/at_the_root"], "what came before is registered");
}

#[test]
fn a_bad_definition_that_a_first_call_meets_runs_on_defaults_with_one_finding() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    for _ in 0..3 {
        assert_eq!((without_permits(), block_on(without_workers())), (Ok(1), Ok(1)));
    }
    let settings = command_of!(without_permits).settings();
    assert_eq!(
        (settings.semaphore().value.get(), lab.registry.pool("bad").unwrap().core_size),
        (Some(10), 10)
    );
    let audit = lab.registry.audit();
    assert_eq!(about(&audit), ["bad/without_permits", "bad/without_workers"]);
    assert!(audit[0].message.contains("semaphore = 0"), "{audit:?}");
}

#[test]
fn a_strict_registry_refuses_what_clashes_and_what_cannot_be() {
    let registry = Registry::builder().strict().build();
    let _here = registry.enter();
    let clash = registry.register([command_of!(first::Client::get), command_of!(second::Client::get)]);
    assert_eq!(clash.unwrap_err().field(), "definition");
    let called = catch_unwind(AssertUnwindSafe(without_permits)).unwrap_err();
    let message = called.downcast_ref::<String>().unwrap();
    assert!(message.contains("semaphore = 0"), "{message}");
    assert_eq!((first::Client.get(), keys(&registry)), (Ok("first"), vec!["Client/get".into()]));
}

// ===== whose it is =====

#[test]
fn each_registry_has_a_command_of_its_own_for_a_function() {
    let labs = [Lab::new(), Lab::new()];
    let command = |lab: &Lab| {
        let _here = lab.registry.enter();
        command_of!(at_the_root).clone()
    };
    command(&labs[0]).force(Force::Timeout);
    let call = |lab: &Lab| {
        let _here = lab.registry.enter();
        kind(&at_the_root())
    };
    assert_eq!([call(&labs[0]), call(&labs[1])], [Some(RejectionKind::TimedOut), None]);
    let scoped = block_on(labs[1].registry.scope(async { (at_the_root(), orders::client::get(5).await) }));
    assert_eq!(scoped, (Ok(1), Ok(5)));
    assert_eq!(labs.each_ref().map(|lab| counts(&command(lab))), ["timeout=1 fallback_missing=1", "ok=2"]);
}

#[command(group = "quota", key = tenant, semaphore = 1)]
fn quota(tenant: &str, nested: u32) -> Answer {
    if nested == 0 { Ok(1) } else { quota(if nested == 2 { "other tenant" } else { tenant }, 0) }
}

#[test]
fn the_command_of_a_key_is_found_by_it() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((quota("a", 2), kind(&quota("a", 1))), (Ok(1), Some(RejectionKind::PermitsExhausted)));
    let of = |tenant| counts(&command_of!(quota).get(tenant));
    assert_eq!(of("a"), "ok=1 failure=1 semaphore_rejected=1 fallback_missing=2");
    assert_eq!(of("other tenant"), "ok=1");
    command_of!(quota).get("b").force_open();
    assert_eq!((kind(&quota("b", 0)), quota("a", 0)), (Some(RejectionKind::ShortCircuited), Ok(1)));
    assert_eq!(command_of!(quota).get(&'a').key().to_string(), "quota/quota:a");
}

struct Client {
    command: Command,
}

impl Client {
    #[command(command = self.command)]
    async fn get(&self, nested: u32) -> Answer {
        if nested == 0 { Ok(0) } else { Ok(1 + Box::pin(self.get(nested - 1)).await?) }
    }
}

#[test]
fn two_objects_with_limits_of_their_own_share_no_permit() {
    let lab = Lab::new();
    let client = |key, permits| Client { command: lab.command(key).semaphore(permits).build().unwrap() };
    let (narrow, wide) = (client("narrow", 1), client("wide", 3));
    assert_eq!((block_on(narrow.get(0)), block_on(wide.get(2))), (Ok(0), Ok(2)));
    assert_eq!(kind(&block_on(narrow.get(1))), Some(RejectionKind::PermitsExhausted));
    assert_eq!(kind(&block_on(wide.get(3))), Some(RejectionKind::PermitsExhausted));
    let inside = narrow.command.call(|| wide.get(1)).into_future();
    assert_eq!(block_on(inside), Ok(1));
}

#[commands(group = "methods")]
impl Client {
    #[command]
    fn associated(number: u32) -> Answer {
        Ok(number)
    }
}

#[test]
fn the_command_of_a_method_in_a_commands_block_is_found_by_its_path() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(Client::associated(2), Ok(2));
    let command = command_of!(Client::associated);
    assert_eq!((command.key().to_string(), &*counts(&command)), ("methods/associated".into(), "ok=1"));
}
