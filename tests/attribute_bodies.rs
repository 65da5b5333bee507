//! A body under the attribute means what it meant: what it declares, how it ends, what it captures, and who may call it.

#![deny(warnings)]

mod support;

use std::cell::RefCell;
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::executor::block_on;
use hystrix_core::{CommandError, Registry, RejectionKind, command, command_of};

use support::{Lab, counts, kind};

type Answer<T = u32> = Result<T, CommandError<String>>;

// ===== BC-008: bodies without an end =====

#[command]
async fn forever() -> Answer<()> {
    loop {
        pending::<()>().await
    }
}

#[command]
fn later() -> Result<u8, String> {
    todo!()
}

#[command]
async fn later_still() -> Result<u8, String> {
    panic!("not yet")
}

#[command(thread_pool = "bodies", timeout = "10s")]
fn elsewhere() -> Result<u8, String> {
    unimplemented!()
}

#[command(thread_pool = "bodies")]
async fn elsewhere_later() -> Result<u8, String> {
    loop {
        pending::<()>().await;
    }
}

#[command]
fn returns_on_every_way(yes: bool) -> Result<u8, String> {
    if yes {
        return Ok(1);
    } else {
        return Err("no".into());
    }
}

#[test]
fn bc_008_a_body_without_an_end_compiles_without_a_warning() {
    let mut never = pin!(forever());
    assert!(matches!(never.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    let _uncalled = (later, later_still, elsewhere, elsewhere_later);
    assert_eq!((returns_on_every_way(true), returns_on_every_way(false)), (Ok(1), Err("no".into())));
}

// ===== BC-012, BC-033: generics =====

#[derive(Clone, Debug, PartialEq)]
struct Pair<T, const N: usize>([T; N]);

impl<T: Copy + Default + Send + Sync + 'static, const N: usize> Pair<T, N> {
    const EMPTY: usize = 0;

    #[command(fallback = |_| Ok(Self([T::default(); N])))]
    fn whole(&self) -> Result<Self, String> {
        let Self(all) = self;
        if N == Self::EMPTY { Err("empty".into()) } else { Ok(Self(*all)) }
    }

    #[command(thread_pool = "bodies", to_owned(self))]
    fn last(&self) -> Result<(Self, T), String> {
        let last = self.0.last().ok_or("empty")?;
        Ok((Self(self.0), *last))
    }
}

#[test]
fn bc_012_the_type_and_its_parameters_are_there_in_body_and_options() {
    assert_eq!(Pair([1, 2]).whole(), Ok(Pair([1, 2])));
    assert_eq!(Pair::<u8, 0>([]).whole(), Ok(Pair([])));
    assert_eq!(Pair([1, 2]).last(), Ok((Pair([1, 2]), 2)));
}

fn zeros_again<T: Default + Copy, const N: usize>(
    _fail: bool,
    _error: CommandError<String>,
) -> Result<[T; N], String> {
    Ok([T::default(); N])
}

#[command(fallback = zeros_again::<T, N>, semaphore = 4)]
fn zeros<T, const N: usize>(fail: bool) -> Result<[T; N], String>
where
    T: Default + Copy + Send + 'static,
{
    if fail { Err("failed".into()) } else { Ok([T::default(); N]) }
}

#[command(thread_pool = "bodies", fallback = |_| Ok([T::default(); N]))]
fn zeros_on_a_pool<T, const N: usize>() -> Result<[T; N], String>
where
    T: Default + Copy + Send + 'static,
{
    Err("failed".into())
}

#[test]
fn bc_033_body_and_fallback_see_the_same_parameters_and_all_are_one_command() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((zeros::<u8, 2>(false), zeros::<u8, 2>(true)), (Ok([0, 0]), Ok([0, 0])));
    assert_eq!(zeros::<bool, 1>(true), Ok([false]));
    assert_eq!(zeros_on_a_pool::<i64, 3>(), Ok([0; 3]));
    assert_eq!(counts(&command_of!(zeros)), "ok=1 failure=2 fallback_ok=2");
}

// ===== BC-014, BC-016: what a body may borrow and hold =====

#[command(ignore = |error| error == b)]
async fn longer<'a>(a: Option<&'a str>, b: &str) -> Result<&'a str, String> {
    let borrowed = a.filter(|a| a.len() > b.len());
    ready(()).await;
    borrowed.ok_or_else(|| b.to_owned())
}

#[command]
fn halves(all: &mut [u8]) -> Result<(&mut [u8], &mut [u8]), String> {
    let middle = all.len() / 2;
    Ok(all.split_at_mut(middle))
}

#[test]
fn bc_014_results_borrow_from_the_argument_that_they_name() {
    let long = String::from("long");
    let found = {
        let short = String::from("a");
        block_on(longer(Some(&long), &short))
    };
    assert_eq!(found, Ok("long"));
    let mut all = [1, 2, 3, 4];
    let (front, back) = halves(&mut all).unwrap();
    std::mem::swap(&mut front[0], &mut back[0]);
    assert_eq!(all, [3, 2, 1, 4]);
}

#[command(timeout = "10s", fallback = |_| Ok(shared.borrow().len()))]
async fn not_send(shared: Rc<RefCell<Vec<u8>>>) -> Result<usize, String> {
    shared.borrow_mut().push(1);
    let held = shared.clone();
    ready(()).await;
    let length = held.borrow().len();
    if length > 1 { Err("full".into()) } else { Ok(length) }
}

#[test]
fn bc_016_a_body_in_place_may_hold_what_is_not_send() {
    let shared = Rc::new(RefCell::new(Vec::new()));
    assert_eq!(block_on(not_send(shared.clone())), Ok(1));
    assert_eq!(block_on(not_send(shared.clone())), Ok(2));
    assert_eq!(Rc::strong_count(&shared), 1);
}

// ===== BC-015: recursion =====

#[command(semaphore = 3)]
fn down(level: u32) -> Answer {
    if level == 0 { Ok(0) } else { Ok(1 + down(level - 1)?) }
}

#[test]
fn bc_015_a_recursive_function_has_a_permit_for_each_level() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!(down(2).ok(), Some(2));
    assert_eq!(kind(&down(3)), Some(RejectionKind::PermitsExhausted));
    assert_eq!(command_of!(down).metrics().permits_in_use, 0);
}

// ===== BC-019: macros =====

macro_rules! with_parts {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($argument:ident: $type:ty) -> $output:ty, $value:expr) => {
        $(#[$attribute])*
        #[command]
        $visibility fn $name($argument: $type) -> $output {
            Ok($value)
        }
    };
}

macro_rules! with_self {
    ($self:ident, $name:ident, $receiver:ty, $value:expr) => {
        impl Named {
            #[command]
            fn $name($self: $receiver) -> Result<String, String> {
                Ok($value)
            }
        }
    };
}

macro_rules! whole {
    ($item:item) => {
        #[command(semaphore = 4)]
        $item
    };
}

#[derive(Clone)]
struct Named(String);

with_parts! {
    /// Adds one.
    #[inline]
    fn increased(number: u32) -> Result<u32, String>, number + 1
}
with_self!(self, pinned, Pin<&mut Self>, self.0.clone());
with_self!(self, counted, Arc<Self>, self.0.clone());
whole! {
    fn doubled(number: u32) -> Result<u32, String> {
        let number = number * 2;
        Ok(number)
    }
}

#[test]
fn bc_019_functions_whose_parts_come_from_macros() {
    assert_eq!((increased(1), doubled(2)), (Ok(2), Ok(4)));
    assert_eq!(Pin::new(&mut Named("a".into())).pinned(), Ok("a".into()));
    assert_eq!(Arc::new(Named("b".into())).counted(), Ok("b".into()));
}

// ===== BC-022: names of the standard library that mean something else =====

mod shadowed {
    #![allow(dead_code, unused_imports, non_camel_case_types, reason = "they only have to be in the way")]

    use ::hystrix_core::{CommandError as Refused, command};
    use ::std::{primitive::u8 as byte, result::Result as Outcome, string::String as Text};

    mod core {}
    mod std {}
    mod hystrix_core {}

    enum State {
        Ok,
        Err,
        Some,
        None,
    }
    use State::*;

    struct Box;
    struct String;
    struct Vec;
    struct Option;
    struct Result;
    struct Command;
    struct u8;
    struct str;
    trait Fn {}
    trait FnOnce {}
    trait Clone {}
    trait From {}

    fn instead(_number: byte, _text: Text, _error: Refused<Text>) -> Outcome<byte, Text> {
        Outcome::Ok(2)
    }

    #[command(semaphore = 4, timeout = "10s", fallback = instead, ignore = |_| true, failure = |_| false)]
    pub(super) fn in_place(number: byte, text: Text) -> Outcome<byte, Text> {
        drop(text);
        Outcome::Ok(number)
    }

    #[command(thread_pool = "bodies", key = number, fallback = |_| Outcome::Ok(number), to_owned(text))]
    pub(super) async fn on_a_pool(number: byte, text: &::std::primitive::str) -> Outcome<byte, Text> {
        Outcome::Err(text.repeat(2))
    }
}

#[test]
fn bc_022_nothing_of_the_expansion_is_looked_up_where_the_function_stands() {
    assert_eq!(shadowed::in_place(1, String::new()), Ok(1));
    assert_eq!(block_on(shadowed::on_a_pool(3, "x")), Ok(3));
}

#[command(semaphore = 4, fallback = |_| Ok(call + way + define))]
fn run(call: u32, way: u32, command: u32, define: u32, family: u32, kept: u32, object: u32) -> Answer {
    let self_ = command + family + kept + object;
    if self_ > 10 { Err("many".to_owned())? } else { Ok(self_ + call) }
}

#[command(key = find, thread_pool = "bodies", to_owned(find, command))]
fn find(find: &str, command: &str, owned: String) -> Answer<String> {
    let definition = owned;
    Ok(format!("{find} {command} {definition}"))
}

#[test]
fn bc_022_arguments_may_have_the_names_that_the_expansion_uses() {
    assert_eq!(run(1, 2, 3, 4, 1, 1, 1).unwrap(), 7);
    assert_eq!(run(1, 2, 30, 4, 1, 1, 1).unwrap(), 7);
    assert_eq!(find("a", "b", "c".into()).unwrap(), "a b c");
}

// ===== BC-026: when temporaries are dropped =====

struct Noted<'a>(&'a Mutex<Vec<&'static str>>, &'static str);

impl Noted<'_> {
    fn length(&self) -> Result<usize, String> {
        Ok(self.1.len())
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

#[command]
fn tail() -> Result<usize, String> {
    let all = RefCell::new(vec![1]);
    Ok(all.borrow().len())
}

#[command]
fn noted(seen: &Mutex<Vec<&'static str>>) -> Result<usize, String> {
    let _local = Noted(seen, "local");
    Noted(seen, "temporary").length()
}

#[command]
async fn noted_later(seen: &Mutex<Vec<&'static str>>) -> Result<usize, String> {
    let _local = Noted(seen, "local");
    ready(()).await;
    Noted(seen, "temporary").length()
}

#[test]
fn bc_026_temporaries_of_the_last_expression_go_first_in_this_edition() {
    assert_eq!(tail(), Ok(1));
    let seen = Mutex::default();
    assert_eq!((noted(&seen), block_on(noted_later(&seen))), (Ok(9), Ok(9)));
    assert_eq!(*seen.lock().unwrap(), ["temporary", "local", "temporary", "local"]);
}

// ===== BC-027: unsafe functions =====

/// # Safety
///
/// The pointer is valid for reads.
#[command(fallback = |_| Ok(0))]
unsafe fn peek(byte: *const u8) -> Result<u8, String> {
    // SAFETY: the caller promises it.
    Ok(unsafe { *byte })
}

#[test]
fn bc_027_an_unsafe_function_is_called_in_an_unsafe_block() {
    let pointer: unsafe fn(*const u8) -> Result<u8, String> = peek;
    // SAFETY: the byte lives on.
    assert_eq!(unsafe { (peek(&3), pointer(&4)) }, (Ok(3), Ok(4)));
}

// ===== BC-029: attributes of the function =====

#[command]
#[deprecated(note = "there is another")]
fn deprecated_below(level: u32) -> Answer {
    Ok(level)
}

#[deprecated(note = "there is another")]
#[command]
async fn deprecated_above(level: u32) -> Answer {
    Ok(level)
}

#[test]
fn bc_029_a_deprecated_function_is_deprecated_where_it_is_called_and_nowhere_else() {
    #[expect(deprecated, reason = "that is what is shown")]
    let below = deprecated_below(1);
    #[expect(deprecated, reason = "that is what is shown")]
    let above = block_on(deprecated_above(2));
    assert_eq!((below.unwrap(), above.unwrap()), (1, 2));
}

#[test]
fn bc_029_lints_on_the_function_and_on_its_arguments_reach_the_body() {
    #[command]
    #[expect(unused_variables, reason = "below")]
    fn below(unused: u8) -> Result<u8, String> {
        Ok(1)
    }
    #[expect(unused_variables, reason = "above")]
    #[command(thread_pool = "bodies")]
    fn above(unused: u8) -> Result<u8, String> {
        Ok(2)
    }
    #[command(fallback = |_| Ok(used))]
    fn inside(
        #[allow(unused_mut)] mut used: u8,
        #[allow(unused_variables)] unused: u8,
    ) -> Result<u8, String> {
        #![expect(unused_assignments, unused_variables, reason = "within")]
        let mut twice = used;
        twice = used + 1;
        Err("failed".into())
    }
    assert_eq!((below(0), above(0), inside(3, 0)), (Ok(1), Ok(2), Ok(3)));
}

// ===== BC-031: conditions in the body =====

struct K {
    f: u8,
}

#[command]
fn conditional() -> Result<u8, String> {
    #[cfg(any())]
    let k = NoSuchThing;
    #[cfg_attr(all(), allow(unused_mut))]
    let mut k = K {
        #[cfg(not(any()))]
        f: 1,
        #[cfg(any())]
        f: 2,
    };
    match k.f {
        #[cfg(any())]
        9 => Err("x".into()),
        n => Ok(n),
    }
}

#[command(thread_pool = "bodies", to_owned(text))]
async fn conditional_on_a_pool(text: &str, #[cfg(any())] absent: Absent) -> Result<usize, String> {
    #[cfg(any())]
    absent.go();
    let parts = (
        #[cfg(any())]
        0,
        #[cfg(not(any()))]
        text.len(),
    );
    Ok(parts.0)
}

#[test]
fn bc_031_conditions_on_fields_arms_and_statements_hold() {
    assert_eq!((conditional(), block_on(conditional_on_a_pool("abc"))), (Ok(1), Ok(3)));
}

// ===== what a body declares =====

#[derive(Clone)]
struct Row(u8);

impl Row {
    #[command(thread_pool = "bodies", to_owned(self))]
    fn sum(&self) -> Result<u8, String> {
        use std::fmt;
        const ONE: u8 = 1;
        struct Inner(u8);
        impl Inner {
            fn get(&self) -> u8 {
                self.0
            }
        }
        impl fmt::Display for Inner {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self_}", self_ = self.0)
            }
        }
        trait Twice {
            fn twice(self) -> u8;
        }
        impl Twice for u8 {
            fn twice(self) -> u8 {
                self * 2
            }
        }
        macro_rules! plus {
            ($number:expr) => {
                self.0 + $number
            };
        }
        let add = |number: u8| self.0 + number;
        let Self(own) = *self;
        let text = format!("{}{}", Inner(7), self.0);
        Ok(plus!(ONE) + add(1) + own.twice() + Inner(3).get() + text.len() as u8)
    }

    #[command]
    async fn first_above(&self, limit: u8) -> Result<u8, String> {
        static STEP: u8 = 1;
        async fn step<T: From<u8>>() -> T {
            T::from(STEP)
        }
        let mut value = self.0;
        let found = 'search: loop {
            for _ in 0..3 {
                value += step::<u8>().await;
                if value == limit {
                    continue;
                }
                if value > limit {
                    break 'search value;
                }
            }
            if value > 100 {
                return Err("too far".into());
            }
        };
        let checked: Result<u8, String> =
            async { u8::try_from(300_u16).map_err(|error| error.to_string()) }.await;
        Ok(found + checked.unwrap_or(0))
    }
}

#[test]
fn items_loops_and_blocks_inside_a_body_are_its_own() {
    assert_eq!(Row(2).sum(), Ok(3 + 3 + 4 + 3 + 2));
    assert_eq!(block_on(Row(2).first_above(4)), Ok(5));
    assert_eq!(block_on(Row(102).first_above(200)), Err("too far".into()));
}

#[test]
fn functions_called_alike_in_different_functions_are_different_commands() {
    fn one() -> Answer {
        #[command]
        fn inner() -> Answer {
            Ok(1)
        }
        inner()
    }
    fn two() -> Answer {
        #[command(thread_pool = "bodies")]
        fn inner() -> Answer {
            Ok(2)
        }
        inner()
    }
    let registry = Registry::builder().build();
    let _here = registry.enter();
    assert_eq!((one().unwrap(), two().unwrap(), registry.commands().len()), (1, 2, 2));
}
