//! Names in tokens that are not parsed: whether they are mentioned, and how they are replaced.
//!
//! A name is mentioned by its token, and by a format string that captures it. A field, a path's first part, a lifetime and a
//! macro's label of that name are something else.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// The first token that means one of `names`.
pub(crate) fn mentions<S: AsRef<str>>(tokens: &TokenStream, names: &[S]) -> Option<Span> {
    look(tokens.clone(), &|name, _| names.iter().any(|other| other.as_ref() == name), Within::Type)
}

/// The first token of a body or an expression that means one of `names`, which are values: not what stands in items of its own.
pub(crate) fn uses<S: AsRef<str>>(tokens: &TokenStream, names: &[S]) -> Option<Span> {
    look(tokens.clone(), &|name, _| names.iter().any(|other| other.as_ref() == name), Within::Code)
}

/// The same, but for what is called as a function of that name.
pub(crate) fn uses_as_a_value<S: AsRef<str>>(tokens: &TokenStream, names: &[S]) -> Option<Span> {
    let called = |next: Option<&TokenTree>| matches!(next, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    let wanted = |name: &str, next: Option<&TokenTree>| {
        !called(next) && names.iter().any(|other| other.as_ref() == name)
    };
    look(tokens.clone(), &wanted, Within::Code)
}

/// Whether a name, and what stands behind it, is looked for.
type Wanted<'a> = dyn Fn(&str, Option<&TokenTree>) -> bool + 'a;

/// What tokens stand in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Type,
    Code,
    /// The arguments of a macro, where a text may be a format string.
    Macro,
}

fn look(tokens: TokenStream, wanted: &Wanted<'_>, within: Within) -> Option<Span> {
    let mut tokens = tokens.into_iter().peekable();
    let mut before = Before::default();
    // Within the head of an item, up to its braces or semicolon.
    let mut in_item = false;
    // Names that a `let` has bound: behind its semicolon they are others.
    let (mut bound, mut binding): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    while let Some(token) = tokens.next() {
        let found = match &token {
            TokenTree::Ident(ident) => {
                let text = ident.unraw().to_string();
                in_item |= within != Within::Type && begins_an_item(ident, tokens.peek());
                if before.binds() {
                    binding.push(text);
                    None
                } else {
                    let is_name = before.may_precede_a_name() && !is_path_or_field(ident, tokens.peek());
                    let is_label = within == Within::Macro && is_label(tokens.peek());
                    let is_ours = is_name && !is_label && !in_item && !bound.contains(&text);
                    (is_ours && wanted(&text, tokens.peek())).then(|| ident.span())
                }
            }
            TokenTree::Group(group) if in_item => {
                in_item = group.delimiter() != Delimiter::Brace;
                None
            }
            TokenTree::Group(_) if before.is_visibility() => None,
            TokenTree::Group(group) => {
                let wanted = |name: &str, next: Option<&TokenTree>| {
                    !bound.iter().any(|bound| bound == name) && wanted(name, next)
                };
                let inside = match within {
                    Within::Type => Within::Type,
                    _ if before.calls_a_macro() => Within::Macro,
                    // Around what a `macro_rules` was given, such as a format string.
                    _ if group.delimiter() == Delimiter::None => within,
                    _ => Within::Code,
                };
                look(group.stream(), &wanted, inside)
            }
            TokenTree::Literal(literal) if within == Within::Macro => {
                let text = literal.to_string();
                let captured = captures(&text).into_iter().map(|name| &text[name]);
                let mut captured = captured.filter(|name| !bound.iter().any(|bound| bound == name));
                captured.any(|name| wanted(name, None)).then(|| literal.span())
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => {
                in_item = false;
                bound.append(&mut binding);
                None
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        before.push(&token);
    }
    None
}

/// Replaces a name, but not within items of their own, whose names are others.
pub(crate) fn replace(tokens: TokenStream, name: &str, by: &str) -> TokenStream {
    replace_in(tokens, name, by, false)
}

fn replace_in(tokens: TokenStream, name: &str, by: &str, formats: bool) -> TokenStream {
    let mut replaced = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    let mut before = Before::default();
    // Within the head of a nested item, up to its braces or semicolon.
    let mut in_item = false;
    while let Some(token) = tokens.next() {
        let new = match &token {
            TokenTree::Ident(ident) if ident == name && !in_item => {
                if before.may_precede_a_name() && !is_path_or_field(ident, tokens.peek()) {
                    TokenTree::Ident(Ident::new(by, ident.span()))
                } else {
                    token.clone()
                }
            }
            TokenTree::Ident(ident) => {
                in_item |= begins_an_item(ident, tokens.peek());
                token.clone()
            }
            TokenTree::Group(group) if in_item => {
                in_item = group.delimiter() != Delimiter::Brace;
                token.clone()
            }
            TokenTree::Group(_) if before.is_visibility() => token.clone(),
            TokenTree::Group(group) => {
                let invisible = group.delimiter() == Delimiter::None;
                let formats = before.calls_a_macro() || (invisible && formats);
                let inside = replace_in(group.stream(), name, by, formats);
                let mut new = Group::new(group.delimiter(), inside);
                new.set_span(group.span());
                TokenTree::Group(new)
            }
            TokenTree::Punct(punct) => {
                in_item &= punct.as_char() != ';';
                token.clone()
            }
            TokenTree::Literal(literal) if formats => TokenTree::Literal(renamed(literal, name, by)),
            TokenTree::Literal(_) => token.clone(),
        };
        before.push(&token);
        replaced.extend([new]);
    }
    replaced
}

/// Whether there is what is by its letters a type parameter (`T`, `T1`): of an impl block, perhaps, whose parameters are not seen.
pub(crate) fn names_a_parameter(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => {
            let text = ident.to_string();
            let mut letters = text.chars();
            letters.next().is_some_and(|letter| letter.is_ascii_uppercase())
                && letters.all(|letter| letter.is_ascii_digit())
        }
        TokenTree::Group(group) => names_a_parameter(&group.stream()),
        _ => false,
    })
}

// ===== what stands around a token =====

/// The two tokens before one.
#[derive(Default)]
struct Before {
    last: Option<TokenTree>,
    one_before: Option<TokenTree>,
}

impl Before {
    fn push(&mut self, token: &TokenTree) {
        self.one_before = self.last.replace(token.clone());
    }

    fn is(token: &Option<TokenTree>, mark: char) -> bool {
        matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
    }

    /// Not behind a dot, unless it is one of two (`..name`), not behind a path's `::`, and not a lifetime.
    fn may_precede_a_name(&self) -> bool {
        let dot = Self::is(&self.last, '.') && !Self::is(&self.one_before, '.');
        let path = Self::is(&self.last, ':') && Self::is(&self.one_before, ':');
        !dot && !path && !Self::is(&self.last, '\'')
    }

    /// `let name`, `let mut name`. What such a name is bound to stands behind it, and may still mention it.
    fn binds(&self) -> bool {
        let is = |token: &Option<TokenTree>, word: &str| matches!(token, Some(TokenTree::Ident(ident)) if ident == word);
        is(&self.last, "let") || (is(&self.one_before, "let") && is(&self.last, "mut"))
    }

    /// `name!`
    fn calls_a_macro(&self) -> bool {
        Self::is(&self.last, '!') && matches!(self.one_before, Some(TokenTree::Ident(_)))
    }

    fn is_visibility(&self) -> bool {
        matches!(&self.last, Some(TokenTree::Ident(ident)) if ident == "pub")
    }
}

/// `name::` is a path's first part, `name:` a field. Types have no fields.
fn is_path_or_field(ident: &Ident, next: Option<&TokenTree>) -> bool {
    let colon = matches!(next, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon && !ident.unraw().to_string().starts_with(char::is_uppercase)
}

/// `name =` among the arguments of a macro: what a format string or an event calls a value.
fn is_label(next: Option<&TokenTree>) -> bool {
    matches!(next, Some(TokenTree::Punct(punct)) if punct.as_char() == '=' && punct.spacing() == Spacing::Alone)
}

fn begins_an_item(ident: &Ident, next: Option<&TokenTree>) -> bool {
    let named = matches!(next, Some(TokenTree::Ident(_)));
    let opened = matches!(next, Some(TokenTree::Punct(punct)) if punct.as_char() == '<');
    match &*ident.to_string() {
        "fn" | "trait" | "mod" => named,
        "impl" => named || opened,
        // Not the `use<..>` of a bound.
        "use" => !opened,
        _ => false,
    }
}

// ===== format strings =====

/// The names that a text captures, if it is a format string, as parts of the literal: `{name}`, `{name:?}`, `{:name$}`.
fn captures(literal: &str) -> Vec<Range<usize>> {
    let begins = literal.strip_prefix('r').map_or(literal, |rest| rest.trim_start_matches('#'));
    let mut names = Vec::new();
    if !begins.starts_with('"') {
        return names;
    }
    let mut rest = literal.char_indices().peekable();
    while let Some((at, letter)) = rest.next() {
        // `{{` stands for a brace, and so does `\u{..}` for a letter.
        if letter != '{' || rest.next_if(|(_, next)| *next == '{').is_some() || literal[..at].ends_with("\\u")
        {
            continue;
        }
        let Some(length) = literal[at..].find('}') else { break };
        let (argument, format) = match literal[at + 1..at + length].split_once(':') {
            Some((argument, format)) => (argument, format),
            None => (&literal[at + 1..at + length], ""),
        };
        let start = at + 1 + (argument.len() - argument.trim_start().len());
        names.push(start..start + argument.trim().len());
        let format_at = at + 1 + argument.len() + 1;
        for (dollar, _) in format.match_indices('$') {
            let word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let name = format[..dollar].rsplit(|letter| !word(letter)).next().unwrap_or_default();
            names.push(format_at + dollar - name.len()..format_at + dollar);
        }
    }
    names
}

/// A format string that captures another name.
fn renamed(literal: &Literal, name: &str, by: &str) -> Literal {
    let mut text = literal.to_string();
    let captured = captures(&text);
    for place in captured.into_iter().rev() {
        if &text[place.clone()] == name {
            text.replace_range(place, by);
        }
    }
    let new: Option<Literal> = text.parse().ok();
    let mut new = new.unwrap_or_else(|| literal.clone());
    new.set_span(literal.span());
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn captured(literal: &str) -> Vec<&str> {
        captures(literal).into_iter().map(|name| &literal[name]).collect()
    }

    #[test]
    fn captures_are_what_the_formatter_captures() {
        assert_eq!(captured(r#""{a} {b:?} {c:>width$.precision$}""#), ["a", "b", "c", "width", "precision"]);
        assert_eq!(captured(r#""{{a}} {{{b}}} { c } {0} {}""#), ["b", "c", "0", ""]);
        assert_eq!(captured(r##"r#"{a}"#"##), ["a"]);
        assert_eq!(captured(r#""\u{61} {a}""#), ["a"]);
        assert_eq!(captured("b\"{a}\""), [""; 0]);
        assert_eq!(captured("c\"{a}\""), [""; 0]);
        assert_eq!(captured("'{'"), [""; 0]);
    }

    #[test]
    fn fields_paths_lifetimes_and_plain_texts_are_no_mentions() {
        let names = ["name"];
        for tokens in [
            quote!(self.name),
            quote!(name::get()),
            quote!(Stock { name: 1 }),
            quote!(loop {
                break 'name;
            }),
            quote!("{name}".len()),
            quote!(b"{name}"),
            quote!(info!(name = 1, "told")),
            quote!(Message::name()),
            quote!(crate::name(3)),
            quote!({
                use crate::fmt::{Write, name};
                pub(in name) fn other() {}
            }),
            quote!({
                let mut name = 1;
                name + 1
            }),
            quote!({
                fn inner(name: u8) -> u8 {
                    name
                }
                inner(1)
            }),
        ] {
            assert!(uses(&tokens, &names).is_none(), "{tokens}");
        }
        for tokens in [
            quote!(name.len()),
            quote!(0..name),
            quote!(Stock { name }),
            quote!(format!("{name}")),
            quote!(r#name),
            quote!(assert!(name == 1)),
            quote!(info!(other = name)),
            quote!(Stock { ..name }),
            quote!({
                let name = name.clone();
                1
            }),
        ] {
            assert!(uses(&tokens, &names).is_some(), "{tokens}");
        }
    }

    #[test]
    fn self_is_replaced_where_it_is_the_object() {
        let body = quote! {
            self.a + self::b() + format!("{self} {{self}}").len() + "{self}".len();
            fn own(self) { self.c }
            impl X for Y { fn z(&self) { self.d } }
            pub(self) use self::e;
            use std::fmt::{self, Write};
            self.f
        };
        let expected = quote! {
            me.a + self::b() + format!("{me} {{self}}").len() + "{self}".len();
            fn own(self) { self.c }
            impl X for Y { fn z(&self) { self.d } }
            pub(self) use self::e;
            use std::fmt::{self, Write};
            me.f
        };
        assert_eq!(replace(body, "self", "me").to_string(), expected.to_string());
    }
}
