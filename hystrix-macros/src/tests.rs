//! Whatever is written in an attribute, or under one, gives an expansion that parses or an error at a token: never a panic.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use proptest::prelude::*;
use quote::quote;

use crate::{command_impl, command_of_impl, commands_impl};

// ===== token streams =====

/// Words that mean something here, and some that do not.
const WORDS: [&str; 36] = [
    "key",
    "group",
    "thread_pool",
    "semaphore",
    "timeout",
    "circuit_breaker",
    "ignore",
    "failure",
    "classify",
    "fallback",
    "fallback_value",
    "fallback_if",
    "fallback_here",
    "fallback_semaphore",
    "rejected",
    "to_owned",
    "command",
    "config",
    "mode",
    "crate",
    "self",
    "Self",
    "fn",
    "async",
    "move",
    "impl",
    "dyn",
    "None",
    "Result",
    "Queued",
    "id",
    "name",
    "_",
    "timout",
    "__around",
    "inherent",
];
const MARKS: [char; 12] = ['=', ',', '|', '&', ':', '.', '<', '>', '!', '#', ';', '?'];
const LITERALS: [&str; 12] = [
    "\"250ms\"",
    "\"0s\"",
    "\"\"",
    "\"{id} {name:?}\"",
    "0",
    "64",
    "99999999999999999999",
    "1.5",
    "'c'",
    "b\"x\"",
    "r#\"{self}\"#",
    "\"99999999999999999999999h\"",
];

fn tree() -> impl Strategy<Value = TokenTree> {
    let word =
        prop::sample::select(WORDS.as_slice()).prop_map(|word| Ident::new(word, Span::call_site()).into());
    let mark = (prop::sample::select(MARKS.as_slice()), any::<bool>()).prop_map(|(mark, joint)| {
        Punct::new(mark, if joint { Spacing::Joint } else { Spacing::Alone }).into()
    });
    let literal = prop::sample::select(LITERALS.as_slice())
        .prop_map(|text| text.parse::<Literal>().expect("it is a literal").into());
    let leaf = prop_oneof![4 => word, 4 => mark, 1 => literal];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let delimiter = prop::sample::select(
            [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None].as_slice(),
        );
        (delimiter, prop::collection::vec(inner, 0..6))
            .prop_map(|(delimiter, trees)| Group::new(delimiter, trees.into_iter().collect()).into())
    })
}

fn any_tokens() -> impl Strategy<Value = TokenStream> {
    prop::collection::vec(tree(), 0..14).prop_map(|trees| trees.into_iter().collect())
}

/// Options as people write them, good and bad.
fn option() -> impl Strategy<Value = TokenStream> {
    let name = prop::sample::select(&WORDS[..22]).prop_map(|word| Ident::new(word, Span::call_site()));
    let values = [
        "\"250ms\"",
        "\"1 s\"",
        "64",
        "0",
        "None",
        "Some(3)",
        "|error| Ok(id)",
        "|_| Ok(format!(\"{name}\"))",
        "cached",
        "Self::cached::<u8>",
        "self.command",
        "ThreadPool::named(\"a\").core_size(2)",
        "move |error: CommandError<E>| async move { Ok(name) }",
        "async |e| Ok(1)",
        "&id",
        "{ let id = 1; id }",
        "name.len()",
        "id::LIMIT",
        "T::LIMIT",
        "(self, id)",
        "",
    ];
    let value = prop::sample::select(values.to_vec())
        .prop_map(|text| text.parse::<TokenStream>().expect("it is tokens"));
    (name, 0..4u8, value).prop_map(|(name, form, value)| match form {
        0 => quote!(#name),
        1 => quote!(#name(self, id)),
        _ => quote!(#name = #value),
    })
}

fn options() -> impl Strategy<Value = TokenStream> {
    prop::collection::vec(option(), 0..5).prop_map(|options| quote!(#(#options),*))
}

/// Functions of every kind.
fn function() -> impl Strategy<Value = TokenStream> {
    let functions = [
        "fn get(id: u32) -> Result<u8, String> { Ok(1) }",
        "pub(crate) async fn get<T: Clone>(id: &str, mut name: T) -> Result<T, CommandError<E>> { #![allow(x)] Ok(name) }",
        "fn get(&self, id: &mut Vec<u8>, (a, b): (u8, u8)) -> Result<impl Iterator<Item = u8>, E> { self.x }",
        "async fn get(self: Arc<Self>, #[cfg(a)] id: u8, #[cfg(b)] id: u16) -> Answer { Ok(format!(\"{self:?}\")) }",
        "unsafe fn get(mut self, name: Option<&'static str>) -> Result<(), Box<dyn Error + 'a>> { fn f(self) {} self.y }",
        "fn get(id: u32, name: String) -> Queued<u8, String> { Ok(1) }",
        "const fn get() -> u8 { 1 }",
        "extern \"C\" fn get(...) {}",
        "fn get() -> Pin<Box<dyn Future<Output = Result<u8, E>> + Send + 'a>> { Box::pin(async {}) }",
        "fn get<'async_trait>(&self) -> Pin<Box<dyn Future<Output = Result<u8, E>> + 'async_trait>> { Box::pin(async move { Ok(1) }) }",
        "fn get(&self);",
        "struct Get;",
        "impl Get { #[command(timeout = \"1s\")] fn get(&self) -> Result<u8, E> { Ok(1) } #[x::command] fn b() {} }",
        "mod get { #[command] fn get() -> R { Ok(1) } impl X for Y { #[command()] fn z() {} } #[commands(group = \"b\")] mod c {} }",
        "#[command] fn get(r#id: u32, _: u8, name @ .. : [u8; 3]) -> Result<[u8; N], !> { loop {} }",
    ];
    prop::sample::select(functions.to_vec())
        .prop_map(|text| text.parse::<TokenStream>().expect("it is tokens"))
}

// ===== what comes out =====

/// An expansion that parses, or one with an error in it.
fn is_sound(output: &TokenStream) -> bool {
    output.to_string().contains("compile_error") || syn::parse2::<syn::File>(output.clone()).is_ok()
}

/// More in the long proofs.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(2048)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn options_on_functions_expand_or_are_refused(args in options(), item in function()) {
        let output = command_impl(args.clone(), item.clone());
        prop_assert!(is_sound(&output), "{args}\n{item}\n{output}");
        let output = commands_impl(args, item);
        prop_assert!(is_sound(&output), "{output}");
    }

    #[test]
    fn any_tokens_in_the_attribute_expand_or_are_refused(args in any_tokens(), item in function()) {
        let output = command_impl(args.clone(), item.clone());
        prop_assert!(is_sound(&output), "{args}\n{item}\n{output}");
        let output = commands_impl(args, item);
        prop_assert!(is_sound(&output), "{output}");
    }

    #[test]
    fn any_tokens_under_the_attribute_expand_or_are_refused(args in options(), item in any_tokens()) {
        let output = command_impl(args.clone(), item.clone());
        prop_assert!(is_sound(&output), "{item}\n{output}");
        let output = commands_impl(args, item.clone());
        prop_assert!(is_sound(&output), "{item}\n{output}");
        let output = command_of_impl(item.clone());
        prop_assert!(output.to_string().contains("compile_error") || syn::parse2::<syn::Expr>(output.clone()).is_ok(), "{item}\n{output}");
    }
}

#[test]
fn an_expansion_without_mistakes_has_no_errors_in_it() {
    let args = quote!(timeout = "1s", fallback = cached, ignore = |error| error == name, group = "a");
    let item = quote!(
        pub async fn get(name: String, id: &str) -> Result<u8, String> {
            Ok(1)
        }
    );
    let output = command_impl(args, item).to_string();
    assert!(!output.contains("compile_error"), "{output}");
    assert_eq!(output.matches("Ok (1)").count(), 1, "the body stands once: {output}");
}
