//! The function as it stands: its signature in parts, its body as tokens.

use std::iter::Peekable;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericParam, Meta, Pat, PatIdent, Path, Receiver, ReceiverKind, Signature, Token,
    Type, Visibility,
};

use crate::names::mentions;

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
    /// Those of them that are `mut`.
    pub(crate) changed: Vec<Ident>,
    /// Its pattern borrows: `ref name`.
    pub(crate) by_ref: bool,
    /// The condition under which there is such an argument.
    pub(crate) cfg: Option<TokenStream>,
    pub(crate) span: Span,
}

pub(crate) struct Simple {
    pub(crate) name: Ident,
    pub(crate) mutable: bool,
}

impl Argument {
    /// The names that its pattern binds, as texts, without `r#`.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.names.iter().map(|name| name.unraw().to_string()).collect()
    }
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
        let token = input.parse::<TokenTree>()?;
        let span = token.span();
        let body = braces(token).ok_or_else(|| syn::Error::new(span, "expected the function's body"))?;
        Ok(Self { attrs, vis, default, sig, body })
    }
}

/// The braces of a body. What a `macro_rules` hands on as `$body` is in a group without delimiters.
fn braces(token: TokenTree) -> Option<Group> {
    let TokenTree::Group(group) = token else { return None };
    match group.delimiter() {
        Delimiter::Brace => Some(group),
        Delimiter::None => {
            let mut inside = group.stream().into_iter();
            let only = inside.next().filter(|_| inside.next().is_none())?;
            braces(only)
        }
        _ => None,
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
                let (mut names, mut changed) = (Vec::new(), Vec::new());
                each_binding(&typed.pat, &mut |pat| {
                    names.push(pat.ident.clone());
                    changed.extend(pat.mutability.map(|_| pat.ident.clone()));
                });
                let simple = match &*typed.pat {
                    Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                        Some(Simple { name: pat.ident.clone(), mutable: pat.mutability.is_some() })
                    }
                    _ => None,
                };
                let cfgs: Vec<TokenStream> = typed.attrs.iter().flat_map(cfg_conditions).collect();
                let cfg = (!cfgs.is_empty()).then(|| quote::quote!(all(#(#cfgs),*)));
                let by_ref = mentions(&typed.pat.to_token_stream(), &["ref"]).is_some();
                Argument {
                    names,
                    changed,
                    simple,
                    ty: (*typed.ty).clone(),
                    by_ref,
                    cfg,
                    span: typed.pat.span(),
                }
            })
            .collect()
    }

    /// The names of its type and const parameters.
    pub(crate) fn generics(&self) -> Vec<String> {
        let named = self.sig.generics.params.iter().filter_map(|param| match param {
            GenericParam::Type(param) => Some(param.ident.unraw().to_string()),
            GenericParam::Const(param) => Some(param.ident.unraw().to_string()),
            _ => None,
        });
        named.collect()
    }

    /// Its `#[cfg(..)]` attributes: whatever stands beside the function exists under the same conditions.
    pub(crate) fn cfgs(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs.iter().filter(|attr| attr.path().is_ident("cfg"))
    }

    /// The lints that it allows or expects: its settings are written again beside it.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = &TokenStream> {
        self.attrs.iter().filter_map(|attr| match &attr.meta {
            Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => {
                Some(&list.tokens)
            }
            _ => None,
        })
    }

    /// Another `#[command]` under this one.
    pub(crate) fn attribute_again(&self) -> Option<Span> {
        let mut paths = self.attrs.iter().map(Attribute::path);
        paths.find(|path| is_ours(path, "command")).map(Spanned::span)
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

/// Crates that are known to have an attribute called `command`.
const OTHERS: [&str; 6] = ["clap", "poise", "serenity", "standard", "tauri", "structopt"];

/// `#[command]`, `#[hystrix_core::command]`, `#[renamed::command(crate = renamed)]`: other libraries have attributes of that name too.
pub(crate) fn is_ours(path: &Path, name: &str) -> bool {
    let mut segments = path.segments.iter().rev();
    let last = segments.next().is_some_and(|segment| segment.ident == name);
    last && segments.next().is_none_or(|krate| !OTHERS.iter().any(|other| krate.ident == other))
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

/// `#[cfg(p)]`, and the same within `#[cfg_attr(..)]`.
fn cfg_conditions(attr: &Attribute) -> Vec<TokenStream> {
    let Meta::List(list) = &attr.meta else { return Vec::new() };
    if list.path.is_ident("cfg") {
        return vec![list.tokens.clone()];
    }
    if !list.path.is_ident("cfg_attr") {
        return Vec::new();
    }
    let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(metas) = parse.parse2(list.tokens.clone()) else { return Vec::new() };
    let mut metas = metas.into_iter();
    let Some(when) = metas.next() else { return Vec::new() };
    let conditions = metas.filter_map(|meta| match meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens),
        _ => None,
    });
    conditions.map(|condition| quote::quote!(any(not(#when), #condition))).collect()
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

/// Visits the names that a pattern binds.
pub(crate) fn each_binding(pat: &Pat, visit: &mut dyn FnMut(&PatIdent)) {
    match pat {
        Pat::Ident(pat) => {
            visit(pat);
            if let Some((_, pat)) = &pat.subpat {
                each_binding(pat, visit);
            }
        }
        Pat::Tuple(pat) => pat.elems.iter().for_each(|pat| each_binding(pat, visit)),
        Pat::TupleStruct(pat) => pat.elems.iter().for_each(|pat| each_binding(pat, visit)),
        Pat::Slice(pat) => pat.elems.iter().for_each(|pat| each_binding(pat, visit)),
        Pat::Struct(pat) => pat.fields.iter().for_each(|field| each_binding(&field.pat, visit)),
        Pat::Reference(pat) => each_binding(&pat.pat, visit),
        Pat::Paren(pat) => each_binding(&pat.pat, visit),
        Pat::Type(pat) => each_binding(&pat.pat, visit),
        _ => {}
    }
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
                // `for<'a> Fn(&'a T) -> &'a T` and `Fn(&T) -> &T` borrow only while they are called.
                TokenTree::Ident(ident)
                    if ident == "Fn" || ident == "FnMut" || ident == "FnOnce" || ident == "fn" =>
                {
                    tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
                    if tokens.next_if(|next| is_punct(next, '-')).is_some() {
                        tokens.next();
                        skip_a_type(&mut tokens);
                    }
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

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Up to what ends a type that stands in another: `,`, `+`, or the `>` that closes the other's list.
fn skip_a_type(tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) {
    let mut depth = 0;
    while let Some(token) = tokens
        .next_if(|next| depth > 0 || !(is_punct(next, ',') || is_punct(next, '+') || is_punct(next, '>')))
    {
        depth += i32::from(is_punct(&token, '<')) - i32::from(is_punct(&token, '>'));
    }
}
