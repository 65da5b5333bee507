//! The function as it stands: its signature in parts, its body as tokens.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericParam, Meta, Pat, Receiver, ReceiverKind, Signature, Token, Type, Visibility,
};

/// A function with its attribute taken off.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    /// `default`, in a specialising impl.
    default: Option<Ident>,
    pub(crate) sig: Signature,
    /// The braces of the body.
    pub(crate) body: Group,
}

/// An argument that is not the receiver.
pub(crate) struct Argument {
    /// The names that its pattern binds.
    pub(crate) names: Vec<Ident>,
    /// The one name that it is, where the pattern is no more than that.
    pub(crate) simple: Option<Simple>,
    pub(crate) ty: Type,
    /// `#[cfg(..)]` conditions on it.
    pub(crate) cfgs: Vec<TokenStream>,
    pub(crate) span: Span,
}

pub(crate) struct Simple {
    pub(crate) name: Ident,
    pub(crate) mutable: bool,
}

/// How the function has its object.
pub(crate) enum Object {
    /// `&self`
    Borrowed,
    /// `&mut self`, `self: Pin<&mut Self>`
    Exclusive,
    /// `self: &Arc<Self>`: as good as owned, for its clone is.
    SharedCounted,
    /// `self`, `self: Arc<Self>`, `self: Box<Self>`
    Owned,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let default = if input.peek(Ident::peek_any) && input.fork().call(Ident::parse_any)? == "default" {
            Some(input.call(Ident::parse_any)?)
        } else {
            None
        };
        let sig: Signature = input.parse().map_err(|error| {
            let message = "`#[command]` goes on a function; for an impl block or an inline module there is `#[commands]`";
            syn::Error::new(error.span(), message)
        })?;
        if input.peek(Token![;]) {
            return Err(
                input.error("a command needs a body: put the attribute where the function is implemented")
            );
        }
        let body = match input.parse::<TokenTree>()? {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => group,
            other => return Err(syn::Error::new(other.span(), "expected the function's body")),
        };
        Ok(Self { attrs, vis, default, sig, body })
    }
}

impl Function {
    /// Everything before the body.
    pub(crate) fn head(&self) -> TokenStream {
        let Self { attrs, vis, default, sig, .. } = self;
        quote::quote!(#(#attrs)* #vis #default #sig)
    }

    /// The name, without `r#`.
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    pub(crate) fn object(&self) -> Option<Object> {
        Some(match &self.receiver()?.kind {
            ReceiverKind::Reference(_, _, None) => Object::Borrowed,
            ReceiverKind::Reference(_, _, Some(_)) => Object::Exclusive,
            ReceiverKind::Typed(_, ty) => typed_object(ty),
            _ => Object::Owned,
        })
    }

    /// Whether the function's own words say that it belongs to a type.
    pub(crate) fn names_self_type(&self) -> bool {
        self.receiver().is_some() || mentions(&self.sig.to_token_stream(), &["Self"]).is_some()
    }

    pub(crate) fn arguments(&self) -> Vec<Argument> {
        let typed = self.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(typed),
            _ => None,
        });
        typed
            .map(|typed| {
                let mut names = Vec::new();
                bindings(&typed.pat, &mut names);
                let simple = match &*typed.pat {
                    Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                        Some(Simple { name: pat.ident.clone(), mutable: pat.mutability.is_some() })
                    }
                    _ => None,
                };
                let cfgs = typed.attrs.iter().filter_map(cfg_condition).collect();
                Argument { names, simple, ty: (*typed.ty).clone(), cfgs, span: typed.pat.span() }
            })
            .collect()
    }

    /// The names of its type and const parameters.
    pub(crate) fn generics(&self) -> Vec<String> {
        let named = self.sig.generics.params.iter().filter_map(|param| match param {
            GenericParam::Type(param) => Some(param.ident.to_string()),
            GenericParam::Const(param) => Some(param.ident.to_string()),
            _ => None,
        });
        named.collect()
    }

    /// Its `#[cfg(..)]` attributes: whatever stands beside the function exists under the same conditions.
    pub(crate) fn cfgs(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs.iter().filter(|attr| attr.path().is_ident("cfg"))
    }

    /// The body's inner attributes, and the body without them.
    pub(crate) fn split_body(&self) -> (TokenStream, Group) {
        let (mut inner, mut rest) = (TokenStream::new(), TokenStream::new());
        let mut tokens = self.body.stream().into_iter().peekable();
        while let Some(token) = tokens.next() {
            let is_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
            let bang = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
            if !(is_hash && bang) {
                rest.extend([token]);
                break;
            }
            inner.extend([token]);
            inner.extend(tokens.by_ref().take(2));
        }
        rest.extend(tokens);
        let mut body = Group::new(Delimiter::Brace, rest);
        body.set_span(self.body.span());
        (inner, body)
    }
}

fn typed_object(ty: &Type) -> Object {
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => Object::Exclusive,
        Type::Reference(reference) => match last_segment(&reference.elem) {
            Some(segment) if segment.ident == "Arc" => Object::SharedCounted,
            _ => Object::Borrowed,
        },
        Type::Path(_) if mentions_mutable_reference(ty) => Object::Exclusive,
        Type::Path(_) if borrow_in(ty).is_some() => Object::Borrowed,
        _ => Object::Owned,
    }
}

fn mentions_mutable_reference(ty: &Type) -> bool {
    let mut previous = None;
    for token in ty.to_token_stream() {
        let text = token.to_string();
        if text == "mut" && previous.as_deref() == Some("&") {
            return true;
        }
        previous = Some(text);
    }
    false
}

fn cfg_condition(attr: &Attribute) -> Option<TokenStream> {
    match &attr.meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.clone()),
        _ => None,
    }
}

/// The last part of a path type.
pub(crate) fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        Type::Paren(inner) => last_segment(&inner.elem),
        Type::Group(inner) => last_segment(&inner.elem),
        _ => None,
    }
}

fn bindings(pat: &Pat, names: &mut Vec<Ident>) {
    let all = |pats: &mut dyn Iterator<Item = &Pat>, names: &mut Vec<Ident>| {
        for pat in pats {
            bindings(pat, names);
        }
    };
    match pat {
        Pat::Ident(pat) => {
            names.push(pat.ident.clone());
            if let Some((_, pat)) = &pat.subpat {
                bindings(pat, names);
            }
        }
        Pat::Tuple(pat) => all(&mut pat.elems.iter(), names),
        Pat::TupleStruct(pat) => all(&mut pat.elems.iter(), names),
        Pat::Slice(pat) => all(&mut pat.elems.iter(), names),
        Pat::Struct(pat) => all(&mut pat.fields.iter().map(|field| &*field.pat), names),
        Pat::Reference(pat) => bindings(&pat.pat, names),
        Pat::Paren(pat) => bindings(&pat.pat, names),
        Pat::Type(pat) => bindings(&pat.pat, names),
        _ => {}
    }
}

// ===== looking for names in tokens =====

/// The first token that means one of `names`: the identifier itself, or a format string that captures it.
pub(crate) fn mentions(tokens: &TokenStream, names: &[&str]) -> Option<Span> {
    let mut previous = ' ';
    let mut tokens = tokens.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Ident(ident) => {
                // `.name` is a field, `name:` one of a struct literal, `name::` a module.
                let colon = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
                let text = ident.unraw().to_string();
                // Of `self` and types there are no fields.
                let is_type = text == "self" || text.starts_with(char::is_uppercase);
                if names.contains(&&*text) && previous != '.' && (!colon || is_type) {
                    return Some(ident.span());
                }
            }
            TokenTree::Group(group) => {
                if let Some(found) = mentions(&group.stream(), names) {
                    return Some(found);
                }
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') && names.iter().any(|name| captures(&text, name)) {
                    return Some(literal.span());
                }
            }
            TokenTree::Punct(_) => {}
        }
        previous = match &token {
            // `..name` is the rest of a struct, or a range.
            TokenTree::Punct(punct) if punct.as_char() == '.' && previous != '.' => '.',
            _ => ' ',
        };
    }
    None
}

/// Whether a format string captures a name: `{name}`, `{name:?}`, `{:name$}`.
pub(crate) fn captures(text: &str, name: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let opened = before.ends_with('{') && !before.ends_with("{{");
        let closed = after.starts_with('}') || after.starts_with(':');
        let width = after.starts_with('$') && !before.ends_with(is_word);
        (opened && closed) || width
    })
}

/// Where a type borrows something that need not live for ever: a reference or lifetime other than `'static`.
pub(crate) fn borrow_in(ty: &Type) -> Option<Span> {
    fn look(tokens: TokenStream) -> Option<Span> {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == '&' => {
                    let next = tokens.peek();
                    let lifetime = matches!(next, Some(TokenTree::Punct(punct)) if punct.as_char() == '\'');
                    if !lifetime {
                        return Some(token.span());
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                    let name = tokens.next();
                    let is_static = matches!(&name, Some(TokenTree::Ident(name)) if name == "static");
                    if !is_static {
                        return Some(token.span());
                    }
                }
                TokenTree::Group(group) => {
                    if let Some(found) = look(group.stream()) {
                        return Some(found);
                    }
                }
                // `for<'a> Fn(&'a T)` and `Fn(&T)` borrow only while they are called.
                TokenTree::Ident(ident)
                    if ident == "Fn" || ident == "FnMut" || ident == "FnOnce" || ident == "fn" =>
                {
                    tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
                }
                TokenTree::Ident(ident) if ident == "for" => {
                    while tokens
                        .next_if(|next| !matches!(next, TokenTree::Punct(punct) if punct.as_char() == '>'))
                        .is_some()
                    {}
                    tokens.next();
                }
                _ => {}
            }
        }
        None
    }
    look(ty.to_token_stream())
}

// ===== replacing a name =====

/// Replaces a name, in format strings too, but not within items of their own, whose names are others.
pub(crate) fn replace(tokens: TokenStream, name: &str, by: &str) -> TokenStream {
    let mut replaced = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    // Within the head of a nested item, up to its braces or semicolon.
    let mut in_item = false;
    while let Some(token) = tokens.next() {
        let new = match token {
            TokenTree::Ident(ident) if ident == name && !in_item => {
                let mut new = Ident::new(by, ident.span());
                new.set_span(ident.span());
                TokenTree::Ident(new)
            }
            TokenTree::Ident(ident) => {
                let next_is_name = matches!(tokens.peek(), Some(TokenTree::Ident(_)));
                let next_opens =
                    matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '<');
                in_item |= (ident == "fn" || ident == "trait" || ident == "mod") && next_is_name;
                in_item |= ident == "impl" && (next_is_name || next_opens);
                TokenTree::Ident(ident)
            }
            TokenTree::Group(group) if in_item => {
                in_item = group.delimiter() != Delimiter::Brace;
                TokenTree::Group(group)
            }
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), replace(group.stream(), name, by));
                new.set_span(group.span());
                TokenTree::Group(new)
            }
            TokenTree::Punct(punct) => {
                in_item &= punct.as_char() != ';';
                TokenTree::Punct(punct)
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') && !in_item && captures(&text, name) {
                    TokenTree::Literal(renamed(&text, name, by, literal.span()))
                } else {
                    TokenTree::Literal(literal)
                }
            }
        };
        replaced.extend([new]);
    }
    replaced
}

/// Replaces every token that is a name by others.
pub(crate) fn replace_all(tokens: TokenStream, name: &str, by: &TokenStream) -> TokenStream {
    let replaced = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident == name => by.clone(),
        TokenTree::Group(group) => {
            let mut new = Group::new(group.delimiter(), replace_all(group.stream(), name, by));
            new.set_span(group.span());
            TokenTree::Group(new).into()
        }
        other => other.into(),
    });
    replaced.collect()
}

/// A format string that captures another name.
fn renamed(text: &str, name: &str, by: &str, span: Span) -> proc_macro2::Literal {
    let mut new = text.to_owned();
    for end in ["}", ":"] {
        new = new.replace(&format!("{{{name}{end}"), &format!("{{{by}{end}"));
    }
    let literal: proc_macro2::Literal = new.parse().expect("only letters of a name were changed");
    let mut literal = literal;
    literal.set_span(span);
    literal
}
