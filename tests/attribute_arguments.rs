//! What the attribute does with a function's arguments and object: asked for the command, made owned for a worker, kept for options.

mod support;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures::executor::block_on;
use hystrix_core::{Command, CommandError, Keyed, PoolCommand, command, command_of};

use support::*;

type Answer<T = u32> = Result<T, CommandError<&'static str>>;

/// The name of the thread that asks, without a worker's number: which of them is free is not told.
fn thread() -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}

// ===== a command that is given =====

struct Client {
    plain: Command,
    pool: PoolCommand,
    shared: Arc<Command>,
    tenants: Keyed<Command>,
}

impl Client {
    fn new(lab: &Lab) -> Self {
        let shared = Arc::new(lab.command("shared").build().unwrap());
        let tenants = lab.command("tenants").build_keyed().unwrap();
        Self {
            plain: lab.command("plain").build().unwrap(),
            pool: lab.on_pool("pool", 1, 0).build().unwrap(),
            shared,
            tenants,
        }
    }

    #[command(command = self.plain, fallback = |_| Ok(self.two()))]
    fn by_field(&self, number: u32) -> Answer {
        if number == 0 { Err("E1")? } else { Ok(number) }
    }

    fn two(&self) -> u32 {
        2
    }

    #[command(command = self.shared)]
    fn by_counted(&self) -> Answer {
        Ok(1)
    }

    #[command(command = &self.shared)]
    async fn by_shared(&self) -> Answer {
        Ok(1)
    }

    #[command(command = self.tenants.get(tenant))]
    async fn by_tenant(&self, tenant: &str) -> Answer {
        Ok(tenant.len() as u32)
    }

    #[command(command = self.pool)]
    fn on_pool(&self, text: String) -> Answer<String> {
        Ok(format!("{text} {}", thread()))
    }

    #[command(command = self.pool)]
    async fn on_pool_later(self) -> Answer<String> {
        Ok(thread())
    }

    #[command(command = self.plain)]
    fn exclusive(&mut self) -> Answer {
        self.shared = Arc::new(self.plain.clone());
        Ok(1)
    }
}

#[test]
fn a_method_may_call_the_command_that_its_object_has() {
    let lab = Lab::new();
    let mut client = Client::new(&lab);
    assert_eq!((client.by_field(1), client.by_field(0), client.exclusive()), (Ok(1), Ok(2), Ok(1)));
    client = Client::new(&lab);
    assert_eq!((block_on(client.by_shared()), block_on(client.by_tenant("abc"))), (Ok(1), Ok(3)));
    assert_eq!(client.by_counted(), Ok(1));
    let keys: Vec<_> = lab.registry.commands().iter().map(|command| command.key().to_string()).collect();
    assert_eq!(keys, ["lab/plain", "lab/pool", "lab/shared", "lab/tenants:abc"]);
    assert_eq!(counts(&client.plain), "ok=2 failure=1 fallback_ok=1");
    assert_eq!((&*counts(&client.shared), &*counts(&client.tenants.get("abc"))), ("ok=2", "ok=1"));
}

#[test]
fn a_given_command_may_be_one_on_a_pool() {
    let lab = Lab::new();
    let client = Client::new(&lab);
    assert_eq!(client.on_pool("by".into()).unwrap(), "by hystrix-pool-");
    assert_eq!(block_on(client.on_pool_later()).unwrap(), "hystrix-pool-");
}

#[test]
fn a_given_command_may_be_an_argument_and_keeps_its_settings() {
    #[command(command = command, fallback = |error| Err(if error.is_timeout() { "late" } else { "?" }.into()))]
    fn on(command: &Command, lab: &Lab) -> Answer {
        lab.clock.advance(ms(30));
        Ok(1)
    }
    let lab = Lab::new();
    let short = lab.command("short").timeout("30ms").build().unwrap();
    let long = lab.command("long").timeout("31ms").build().unwrap();
    assert_eq!((on(&short, &lab), on(&long, &lab)), (Err("late".into()), Ok(1)));
}

// ===== made owned for a worker =====

#[derive(Clone, Debug, PartialEq)]
struct Row(u32);

#[test]
fn text_slices_options_and_values_are_made_owned_and_lent_to_the_body() {
    #[command(thread_pool = "lent", to_owned(text, rows, note, cow, row, name))]
    fn all(
        text: &str,
        rows: &[Row],
        note: Option<&str>,
        cow: Cow<'_, str>,
        row: &Row,
        name: &String,
    ) -> Answer<String> {
        // Each has the type that the signature says.
        let (_, _, _): (&str, &[Row], Option<&str>) = (text, rows, note);
        let (_, _): (&Cow<'_, str>, &Row) = (&cow, row);
        Ok(format!("{text} {} {note:?} {cow} {} {name} {}", rows.len(), row.0, thread()))
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (text, rows, row) = (String::from("a"), vec![Row(1), Row(2)], Row(3));
    let answer = all(&text, &rows, Some(&text), Cow::Borrowed(&text), &row, &text);
    assert_eq!(answer.unwrap(), "a 2 Some(\"a\") a 3 a hystrix-lent-");
    assert_eq!(
        all("", &[], None, Cow::Owned(text), &row, &"n".into()).unwrap(),
        " 0 None a 3 n hystrix-lent-"
    );
}

#[test]
fn an_async_body_on_a_worker_is_lent_what_it_borrows_too() {
    #[command(thread_pool = "lent", to_owned(text, rows))]
    async fn both(text: &str, rows: &[Row], last: u32) -> Answer<String> {
        std::future::ready(()).await;
        Ok(format!("{text} {} {last} {}", rows.len(), thread()))
    }
    let lab = Lab::new();
    let answer = lab.registry.scope(both("a", &[Row(1)], 7));
    assert_eq!(block_on(answer).unwrap(), "a 1 7 hystrix-lent-");
}

struct Store {
    name: String,
    cloned: Arc<AtomicUsize>,
}

impl Clone for Store {
    fn clone(&self) -> Self {
        self.cloned.fetch_add(1, SeqCst);
        Self { name: self.name.clone(), cloned: self.cloned.clone() }
    }
}

impl Store {
    fn new() -> Self {
        Self { name: "store".into(), cloned: zero() }
    }

    #[command(thread_pool, to_owned(self, item))]
    fn count(&self, item: &str) -> Answer<String> {
        let name = &self.name;
        Ok(format!("{name} {item} {}", thread()))
    }

    #[command(thread_pool, to_owned(self))]
    async fn count_later(&self) -> Answer<String> {
        Ok(format!("{} {}", self.name, thread()))
    }

    #[command(thread_pool)]
    fn shared(self: &Arc<Self>, item: String) -> Answer<String> {
        Ok(format!("{} {item}", self.name))
    }
}

#[test]
fn an_object_is_cloned_once_a_call_where_it_is_asked_for_and_a_shared_one_not_at_all() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let store = Arc::new(Store::new());
    let answers = [store.count("a"), block_on(store.count_later()), store.shared("b".into())];
    let answers = answers.map(Result::unwrap);
    assert_eq!(answers, ["store a hystrix-Store-", "store hystrix-Store-", "store b"]);
    assert_eq!(store.cloned.load(SeqCst), 2);
}

#[test]
fn an_argument_that_the_body_does_not_name_stays_on_its_callers_thread() {
    #[command(thread_pool)]
    fn unnamed(number: u32, _here: &std::cell::Cell<u32>) -> Answer {
        Ok(number)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(unnamed(3, &std::cell::Cell::new(1)), Ok(3));
}

#[test]
fn a_guard_moves_with_the_body_although_it_is_not_named() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    #[command(thread_pool)]
    fn guarded(gate: Gate, dropped: Arc<AtomicUsize>, _guard: Guard) -> Answer<usize> {
        gate.pass();
        Ok(dropped.load(SeqCst))
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (gate, dropped) = (Gate::new(), zero());
    gate.open();
    let guard = Guard(dropped.clone());
    assert_eq!(guarded(gate, dropped.clone(), guard), Ok(0));
    assert_eq!(dropped.load(SeqCst), 1);
}

// ===== kept for options =====

/// Counts how often it is cloned.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, SeqCst);
        Self(self.0.clone())
    }
}

#[test]
fn an_argument_is_cloned_only_where_an_option_names_it() {
    #[command(fallback = |_| Ok(number))]
    fn names_another(counted: Counted, number: usize) -> Answer<usize> {
        Ok(counted.0.load(SeqCst) + number)
    }
    #[command(fallback = |_| Ok(counted.0.load(SeqCst)), thread_pool)]
    fn names_it(counted: Counted) -> Answer<usize> {
        Ok(counted.0.load(SeqCst) + 10)
    }
    #[command(fallback = |_| Ok(counted.0.load(SeqCst)))]
    fn names_a_reference(counted: &Counted) -> Answer<usize> {
        Ok(counted.0.load(SeqCst) + 10)
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(names_another(Counted(zero()), 7), Ok(7));
    assert_eq!(names_it(Counted(zero())), Ok(11));
    assert_eq!(names_a_reference(&Counted(zero())), Ok(10));
}

#[test]
fn a_type_that_cannot_be_cloned_is_no_trouble_while_the_options_do_not_name_it() {
    #[derive(Debug)]
    struct Once(u32);
    #[command(fallback = |_| Ok(4), ignore = |error| error.len() == 9)]
    async fn takes(once: Once, other: u32) -> Answer {
        if other == 0 { Err("E1")? } else { Ok(once.0) }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    #[command(fallback_value = other)]
    async fn takes_too(once: Once, other: u32) -> Answer {
        if other == 0 { Err("E1")? } else { Ok(once.0) }
    }
    assert_eq!((block_on(takes(Once(3), 1)), block_on(takes(Once(3), 0))), (Ok(3), Ok(4)));
    assert_eq!(block_on(takes_too(Once(3), 0)), Ok(0));
}

#[test]
fn a_name_that_an_option_binds_itself_is_not_the_arguments() {
    #[derive(Debug)]
    struct Once(u32);
    #[command(fallback = |error| Ok(error.to_string().len() as u32), ignore = |error| error.len() == 9)]
    fn reports(error: Once) -> Answer {
        if error.0 == 0 { Err("E1")? } else { Ok(error.0) }
    }
    #[command(thread_pool, failure = |value| *value == 9, fallback = |_| { let counted = 4; Ok(counted) })]
    fn counts_none(counted: Counted, value: u32) -> Answer {
        assert_eq!(counted.0.load(SeqCst), 0, "it was not cloned for an option");
        if value == 0 { Err("E1")? } else { Ok(value) }
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((reports(Once(3)), reports(Once(0))), (Ok(3), Ok(2)));
    assert_eq!((counts_none(Counted(zero()), 3), counts_none(Counted(zero()), 9)), (Ok(3), Ok(4)));
}

#[test]
fn the_body_may_change_its_argument_and_the_fallback_sees_what_was_passed() {
    #[command(fallback = |_| Ok(list.len()))]
    fn drains(mut list: Vec<u32>) -> Answer<usize> {
        list.clear();
        Err("E1")?
    }
    #[command(thread_pool, fallback = |_| Ok(first + rest.len() as u32))]
    fn patterns((first, rest): (u32, Vec<u32>)) -> Answer {
        drop(rest);
        Err(if first == 9 { "nine" } else { "E1" })?
    }
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(drains(vec![1, 2, 3]), Ok(3));
    assert_eq!(patterns((9, vec![1, 2])), Ok(11));
    assert_eq!(counts(&command_of!(patterns)), "failure=1 fallback_ok=1");
}

// ===== behind another macro =====

#[async_trait::async_trait]
trait Warehouse {
    async fn shelf(&self, number: u32) -> Answer<String>;
    async fn label(&self, sku: &str) -> Answer<String>;
}

#[derive(Clone)]
struct North(u8);

#[async_trait::async_trait]
impl Warehouse for North {
    #[command(thread_pool, to_owned(self))]
    async fn shelf(&self, number: u32) -> Answer<String> {
        Ok(format!("{} {number}", self.0))
    }

    #[command(thread_pool, to_owned(sku))]
    async fn label(&self, sku: &str) -> Answer<String> {
        Ok(format!("<{sku}>"))
    }
}

#[test]
fn bc_030_what_async_trait_has_boxed_runs_on_a_pool_too() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(block_on(North(3).shelf(4)).unwrap(), "3 4");
    assert_eq!(block_on(North(3).label("apple")).unwrap(), "<apple>");
    assert_eq!(lab.registry.find("North", "shelf").unwrap().metrics().cumulative.success, 1);
}
