//! Names, strings and lines that look like something else to whoever sees tokens only: the attribute takes them for what they are.

#![deny(warnings)]

mod support;

use std::error::Error;
use std::fmt::Debug;
use std::rc::Rc;

use futures::executor::block_on;
use hystrix_core::{Registry, command, command_of, commands};

use support::Lab;

// ===== names =====

#[command(fallback = |_| Ok(r#type.len()))]
fn raw(r#type: String, r#in: u8) -> Result<usize, String> {
    drop(r#type);
    Err(format!("{in}"))
}

#[command(thread_pool = "words", to_owned(r#type), fallback = |_| Ok(format!("{type} {in}")))]
fn raw_on_a_pool(r#type: &str, r#in: String) -> Result<String, String> {
    Err(format!("{type}{in}"))
}

#[test]
fn bc_018_raw_names_of_arguments_are_found_in_options_and_strings() {
    assert_eq!(raw("abc".into(), 1), Ok(3));
    assert_eq!(raw_on_a_pool("a", "b".into()), Ok("a b".into()));
}

const LIMIT: usize = 4;

fn stale() -> Result<u8, String> {
    Ok(7)
}

#[derive(Clone)]
struct Path(u8);

impl Path {
    #[command(semaphore = self::LIMIT, fallback = |_| self::stale())]
    fn owned(self) -> Result<u8, String> {
        Err(self.0.to_string())
    }

    #[command(fallback = |_| self::stale())]
    fn changed(&mut self) -> Result<u8, String> {
        self.0 += 1;
        Err(self.0.to_string())
    }

    #[command(thread_pool = "words", to_owned(self))]
    fn moved(&self) -> Result<u8, String> {
        use self::LIMIT as ALL;
        Ok(self::stale()? + self.0 + ALL as u8)
    }

    #[command(thread_pool = "words")]
    fn unused(&self) -> Result<u8, String> {
        self::stale()
    }
}

#[test]
fn a_path_that_begins_with_self_is_a_path() {
    assert_eq!((Path(1).owned(), Path(1).changed()), (Ok(7), Ok(7)));
    assert_eq!((Path(1).moved(), Path(1).unused()), (Ok(12), Ok(7)));
}

struct NotClone;

#[command(fallback = |error| Ok(error.to_string()), ignore = |error| error.is_empty())]
fn named_like_a_parameter(error: NotClone) -> Result<String, String> {
    let NotClone = error;
    Err("failed".into())
}

#[command(ignore = |number| number == "1")]
fn named_like_a_parameter_and_lent(number: &mut u8) -> Result<u8, String> {
    *number += 1;
    Err(number.to_string())
}

#[command(fallback = |_| { let text = 1; Ok(text + 1) })]
fn named_like_a_local(text: NotClone) -> Result<u8, String> {
    let NotClone = text;
    Err("failed".into())
}

#[test]
fn what_an_option_binds_is_not_the_argument_of_that_name() {
    assert_eq!(named_like_a_parameter(NotClone), Ok("failed".into()));
    assert_eq!(named_like_a_parameter_and_lent(&mut 0), Err("1".into()));
    assert_eq!(named_like_a_local(NotClone), Ok(2));
}

// ===== strings =====

struct Texts;

impl Clone for Texts {
    fn clone(&self) -> Self {
        Self
    }
}

impl std::fmt::Display for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("me")
    }
}

impl Texts {
    #[command(thread_pool = "words", to_owned(self))]
    fn plain(&self) -> Result<String, String> {
        let template = "{self} and {self:";
        Ok(template.replace("{self}", &format!("{self}")))
    }

    #[command(thread_pool = "words", to_owned(self))]
    fn formatted(&self) -> Result<String, String> {
        let bytes = b"{self}".len();
        Ok(format!("{{{self}}} {{self}} {self:>3} {self } {bytes}"))
    }
}

#[command(fallback = |_| Ok(format!("{{{text}}} {{text}} {text:>width$} {text }", width = 4)))]
fn kept(text: String) -> Result<String, String> {
    drop(text);
    Err("failed".into())
}

#[command(fallback = |_| Ok("{text}".len()))]
fn not_kept(text: NotClone) -> Result<usize, String> {
    let NotClone = text;
    Err("failed".into())
}

#[test]
fn only_a_format_string_captures_and_every_other_string_stays_what_it_is() {
    assert_eq!(Texts.plain(), Ok("me and {self:".into()));
    assert_eq!(Texts.formatted(), Ok("{me} {self}  me me 6".into()));
    assert_eq!(kept("ab".into()), Ok("{ab} {text}   ab ab".into()));
    assert_eq!(not_kept(NotClone), Ok(6));
}

// ===== parts from macros =====

macro_rules! with_body {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty $body:block) => {
        $(#[$attribute])*
        #[command]
        $visibility fn $name($($argument: $type),*) -> $output $body
    };
}

macro_rules! with_options {
    ($name:ident, $key:literal, $group:expr, $timeout:literal, $fallback:expr, $pattern:pat, $type:ty, $value:expr) => {
        #[command(key = $key, group = $group, timeout = $timeout, fallback = $fallback)]
        fn $name($pattern: $type) -> Result<u32, String> {
            $value
        }
    };
}

with_body! {
    /// Adds.
    #[inline]
    fn sum(one: u32, other: u32) -> Result<u32, String> {
        let sum = one + other;
        Ok(sum)
    }
}
with_options!(optional, "written", "words", "10s", |_| Ok(3), (one, _), (u32, u32), Err(one.to_string()));

macro_rules! called_alike {
    ($one:ident, $other:ident) => {
        struct $one;
        struct $other;
        impl $one {
            #[command]
            fn make(number: u32) -> Result<u32, String> {
                Ok(number)
            }
        }
        impl $other {
            #[command(key = number, thread_pool = "words")]
            fn make(number: u32) -> Result<u32, String> {
                Ok(number + 1)
            }
        }
    };
}
called_alike!(One, Other);

#[test]
fn bc_019_bodies_and_options_that_a_macro_passes_on() {
    assert_eq!((sum(1, 2), optional((1, 2))), (Ok(3), Ok(3)));
    assert_eq!(command_of!(optional).key().to_string(), "words/written");
}

#[test]
fn bc_019_functions_called_alike_that_one_macro_makes_are_different_commands() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    assert_eq!((One::make(1), Other::make(1)), (Ok(1), Ok(2)));
    assert_eq!(lab.registry.commands().len(), 2);
}

// ===== arguments under conditions =====

#[command(fallback = |_| Ok(port))]
fn conditions(
    #[cfg(not(any()))]
    #[cfg(any())]
    port: u16,
    #[cfg_attr(not(any()), cfg(any()))] port: u32,
    #[cfg(not(any()))] port: String,
) -> Result<String, String> {
    drop(port);
    Err("failed".into())
}

#[command(thread_pool = "words", to_owned(text))]
fn conditions_on_a_pool(
    #[cfg(any())] _guard: Absent,
    #[cfg(any())] text: &Absent,
    #[cfg(not(any()))] text: &str,
) -> Result<usize, String> {
    let length = text.len();
    Ok(length)
}

#[test]
fn bc_003_all_conditions_of_an_argument_count_wherever_it_is_used() {
    assert_eq!((conditions("a".into()), conditions_on_a_pool("ab")), (Ok("a".into()), Ok(2)));
}

// ===== results =====

#[command(timeout = "10s", fallback = |_| Ok(1))]
fn boxed_error(fail: bool) -> Result<u8, Box<dyn Error>> {
    if fail { Err("failed")? } else { Ok("2".parse()?) }
}

#[command(timeout = "10s", fallback = |_| Ok(shared))]
fn shared(shared: Rc<u8>) -> Result<Rc<u8>, String> {
    Err(shared.to_string())
}

#[command]
fn nameless_inside() -> Result<Box<dyn Iterator<Item = impl Debug>>, String> {
    Ok(Box::new([1_u8].into_iter()))
}

#[command]
async fn nameless_inside_later() -> Result<Box<dyn Iterator<Item = impl Debug>>, String> {
    Ok(Box::new([1_u8].into_iter()))
}

#[test]
fn bc_006_results_that_cannot_be_sent_or_named_come_back_all_the_same() {
    assert_eq!((boxed_error(false).ok(), boxed_error(true).ok()), (Some(2), Some(1)));
    assert_eq!(shared(Rc::new(3)), Ok(Rc::new(3)));
    assert_eq!(nameless_inside().unwrap().count() + block_on(nameless_inside_later()).unwrap().count(), 2);
}

// ===== lines =====

// What a lint says of a body depends on whether it stands on one line.
#[rustfmt::skip]
mod on_one_line {
    use super::*;

    #[command] pub(super) fn sync(text: &str) -> Result<usize, String> { Ok(text.len()) }
    #[command] pub(super) async fn later(text: &str) -> Result<usize, String> { Ok(text.len()) }
    #[command(thread_pool = "words", to_owned(text))] pub(super) fn lent(text: &str) -> Result<usize, String> { Ok(text.len()) }
    #[command(thread_pool = "words")] pub(super) fn guarded(_guard: String) -> Result<usize, String> { Ok(4) }
    #[command(thread_pool = "words")] pub(super) async fn later_on_a_pool() -> Result<usize, String> { Ok(5) }
}

#[test]
fn bc_024_a_body_on_one_line_is_not_reported() {
    let ran = (on_one_line::sync("a"), block_on(on_one_line::later("ab")), on_one_line::lent("abc"));
    assert_eq!(ran, (Ok(1), Ok(2), Ok(3)));
    assert_eq!(on_one_line::guarded("guard".into()), Ok(4));
    assert_eq!(block_on(on_one_line::later_on_a_pool()), Ok(5));
}

struct Half {
    number: u32,
    text: String,
}

impl Half {
    #[command]
    fn used(mut self) -> Result<String, String> {
        self.number += 1;
        self.text.push('!');
        Ok(self.text)
    }
}

#[command(thread_pool = "words", to_owned(text))]
fn shortened(mut text: &str, mut pair: (u8, String)) -> Result<String, String> {
    text = &text[1..];
    pair.0 = 1;
    pair.1.push_str(text);
    Ok(pair.1)
}

#[test]
fn bc_001_arguments_that_a_body_changes_in_part_are_not_reported() {
    let half = Half { number: 1, text: "half".into() };
    assert_eq!(half.used(), Ok("half!".into()));
    assert_eq!(shortened("abc", (0, "x".into())), Ok("xbc".into()));
}

#[test]
fn bc_029_a_function_that_nobody_calls_is_reported_as_without_the_attribute() {
    #[expect(dead_code, reason = "that is what is shown")]
    #[command]
    fn above() -> Result<u8, String> {
        Ok(1)
    }
    #[command]
    #[expect(dead_code, reason = "that is what is shown")]
    fn below() -> Result<u8, String> {
        Ok(1)
    }
}

struct Block;

#[commands(group = "block of words")]
impl Block {
    #[cfg_attr(not(any()), command(semaphore = 4))]
    fn conditional() -> Result<u8, String> {
        Ok(1)
    }
}

#[test]
fn a_block_gives_its_options_to_an_attribute_under_a_condition() {
    assert_eq!(Block::conditional(), Ok(1));
    assert!(Registry::global().find("block of words", "conditional").is_some());
}

// ===== paths, uses, fragments =====

struct Message;

impl Message {
    fn message() -> usize {
        7
    }
}

#[command(group = "words", fallback = |_| Ok(Message::message()))]
fn named_like_the_end_of_a_path(message: Message) -> Result<usize, String> {
    let Message = message;
    Err("failed".into())
}

#[derive(Clone)]
struct Writer(u8);

impl Writer {
    #[command(group = "words", thread_pool = "words", to_owned(self))]
    fn write(&self) -> Result<String, String> {
        use std::fmt::{self, Write};

        let mut text = String::new();
        write!(text, "{}", self.0).map_err(|fmt::Error| "full")?;
        Ok(text)
    }

    #[command(group = "words", thread_pool = "words")]
    fn nothing_of_itself(&self) -> Result<usize, String> {
        use std::fmt::{self, Write};

        let mut text = String::new();
        text.write_str("ab").map_err(|fmt::Error| "full")?;
        Ok(text.len())
    }
}

/// As a schema does that a query builder makes.
mod columns {
    #![allow(non_camel_case_types, dead_code)]

    pub(super) struct command;
    pub(super) struct call;
    pub(super) struct way;
    pub(super) struct place;
    pub(super) struct define;
}

mod among_columns {
    #[allow(unused_imports)]
    use super::columns::{call, command as columns_command, define, place, way};
    use hystrix_core::command;

    #[command(group = "words", timeout = "1s", fallback = |_| Ok(name.len()))]
    pub(super) fn name(name: String) -> Result<usize, String> {
        Err(name)
    }
}

macro_rules! tells {
    ($name:ident, $what:ident, $text:literal) => {
        #[command(group = "words", fallback = |_| Ok(format!($text)))]
        fn $name($what: String) -> Result<String, String> {
            Err($what)
        }
    };
}

tells!(told, what, "no {what}");

macro_rules! joins {
    ($first:ident) => {
        #[command(group = "words", thread_pool = "words", to_owned($first, id))]
        fn joined($first: &str, id: &str) -> Result<String, String> {
            Ok(format!("{}-{}", $first, id))
        }
    };
}

joins!(id);

#[command(group = "words", thread_pool = "words")]
fn by_a_function(shorten: fn(&str) -> &str, text: String) -> Result<usize, String> {
    Ok(shorten(&text).len())
}

#[deprecated(note = "there is another")]
fn old_limit() -> usize {
    3
}

/// Its settings are written beside it once more, where the same lints are allowed.
#[allow(deprecated, reason = "that is what is shown")]
#[command(group = "words", semaphore = old_limit())]
fn limited() -> Result<usize, String> {
    Ok(1)
}

#[test]
fn a_lint_that_a_function_allows_is_allowed_for_its_settings() {
    assert_eq!(limited(), Ok(1));
    assert_eq!(command_of!(limited).settings().semaphore().value, 3.into());
}

#[test]
fn the_end_of_a_path_a_use_and_a_hidden_group_are_taken_for_what_they_are() {
    assert_eq!(named_like_the_end_of_a_path(Message), Ok(7));
    assert_eq!((Writer(3).write(), Writer(3).nothing_of_itself()), (Ok("3".into()), Ok(2)));
    assert_eq!(among_columns::name("abc".into()), Ok(3));
    assert_eq!(told("bread".into()), Ok("no bread".into()));
    assert_eq!(joined("user", "mac"), Ok("user-mac".into()));
    assert_eq!(by_a_function(str::trim, " ab ".into()), Ok(2));
}

// ===== what stands on one line =====

struct Client<T>(std::marker::PhantomData<T>);
struct Read;
struct Write;

macro_rules! clients {
    ($($kind:ty = $timeout:literal),*) => {$(
        impl Client<$kind> {
            #[command(timeout = $timeout)]
            async fn get(&self) -> Result<u8, String> {
                Ok(1)
            }
        }
    )*};
}

clients!(Read = "1s", Write = "9s");

#[test]
fn what_one_macro_makes_on_one_line_is_many_functions_with_settings_of_their_own() {
    let lab = Lab::new();
    let _here = lab.registry.enter();
    let (read, write) = (Client(std::marker::PhantomData::<Read>), Client(std::marker::PhantomData::<Write>));
    assert_eq!((block_on(read.get()), block_on(write.get())), (Ok(1), Ok(1)));
    let timeouts: Vec<_> =
        lab.registry.commands().iter().map(|command| command.settings().timeout().value).collect();
    assert_eq!(timeouts, ["1s".into(), "9s".into()]);
    assert_eq!(lab.registry.audit().len(), 1);
}
