//! `#[commands(..)]`: hands its options to every `#[command]` inside a block, which expands by itself afterwards.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Generics, ImplItem, Item, ItemImpl, ItemMod, ItemTrait, Meta, Path, Token, TraitItem};

use crate::args::{Args, Around, Block, Written};
use crate::model::replaced;
use crate::options;

/// Adds the options to what stands inside.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let around = gather(Args::read(args))?;
    match syn::parse2::<Item>(item)? {
        Item::Impl(mut item) => {
            into_impl(&mut item, &around);
            Ok(item.into_token_stream())
        }
        Item::Trait(mut item) => {
            into_trait(&mut item, &around);
            Ok(item.into_token_stream())
        }
        Item::Mod(mut item) if item.content.is_some() => {
            into_module(&mut item, &around);
            Ok(item.into_token_stream())
        }
        other => {
            let message = "`#[commands]` goes on an impl block, a trait, or a module with its body; on one function it is `#[command]`";
            Err(syn::Error::new_spanned(other, message))
        }
    }
}

/// The options of a block, checked: what is wrong is told once, not at every function.
fn gather(args: Args) -> syn::Result<Vec<Written>> {
    let mut mistakes: Option<syn::Error> = None;
    let mut note = |error: syn::Error| match &mut mistakes {
        Some(first) => first.combine(error),
        None => mistakes = Some(error),
    };
    args.errors.into_iter().for_each(&mut note);
    let mut seen: Vec<String> = Vec::new();
    for option in &args.options {
        let name = option.name.to_string();
        match options::find(&option.name) {
            Ok(known) => {
                if let Err(error) = known.check(option) {
                    note(error);
                }
            }
            Err(error) => note(error),
        }
        if seen.contains(&name) {
            note(syn::Error::new(option.name.span(), format!("`{name}` is given twice")));
        }
        for (one, other) in [("thread_pool", "semaphore"), ("fallback", "fallback_value")] {
            let rivals = (name == one && seen.iter().any(|seen| seen == other))
                || (name == other && seen.iter().any(|seen| seen == one));
            if rivals {
                note(syn::Error::new(
                    option.name.span(),
                    format!("`{one}` and `{other}` exclude each other"),
                ));
            }
        }
        if ["key", "to_owned"].contains(&&*name) {
            let message = format!("`{name}` is one function's own: write it there");
            note(syn::Error::new(option.name.span(), message));
        }
        seen.push(name);
    }
    match mistakes {
        Some(error) => Err(error),
        None => {
            // What an outer block says goes behind, so that the inner one wins.
            let outer = args.around.into_iter().flat_map(|around| around.options);
            let own = args.options;
            let outer: Vec<_> = outer.filter(|option| !replaced(&own, option)).collect();
            Ok(own.into_iter().chain(outer).collect())
        }
    }
}

fn into_impl(item: &mut ItemImpl, options: &[Written]) {
    let of = item.generics.params.is_empty().then(|| item.self_ty.clone());
    let block = if item.trait_.is_some() { Block::Trait } else { Block::Inherent(of) };
    let around = Around { block, parameters: parameters(&item.generics), options: options.to_vec() };
    for item in &mut item.items {
        if let ImplItem::Fn(function) = item {
            add(&mut function.attrs, &around);
        }
    }
}

fn parameters(generics: &Generics) -> Vec<Ident> {
    let types = generics.type_params().map(|param| param.ident.clone());
    types.chain(generics.const_params().map(|param| param.ident.clone())).collect()
}

fn into_trait(item: &mut ItemTrait, options: &[Written]) {
    let parameters = parameters(&item.generics);
    let around = Around { block: Block::Trait, parameters, options: options.to_vec() };
    for item in &mut item.items {
        if let TraitItem::Fn(function) = item {
            add(&mut function.attrs, &around);
        }
    }
}

fn into_module(item: &mut ItemMod, options: &[Written]) {
    let around = Around { block: Block::Module, parameters: Vec::new(), options: options.to_vec() };
    let items = item.content.iter_mut().flat_map(|(_, items)| items);
    for item in items {
        match item {
            Item::Fn(function) => add(&mut function.attrs, &around),
            Item::Impl(item) if !is_commands(&item.attrs) => into_impl(item, options),
            Item::Impl(item) => add(&mut item.attrs, &around),
            Item::Trait(item) if !is_commands(&item.attrs) => into_trait(item, options),
            Item::Trait(item) => add(&mut item.attrs, &around),
            Item::Mod(item) if !is_commands(&item.attrs) => into_module(item, options),
            Item::Mod(item) => add(&mut item.attrs, &around),
            _ => {}
        }
    }
}

fn is_commands(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| names(attr, "commands"))
}

fn names(attr: &Attribute, name: &str) -> bool {
    is_ours(attr.path(), name)
}

/// `#[command]`, `#[hystrix_core::command]`, `#[renamed::command(crate = renamed)]`: other libraries have attributes of that name too.
fn is_ours(path: &Path, name: &str) -> bool {
    let mut segments = path.segments.iter().rev();
    let last = segments.next().is_some_and(|segment| segment.ident == name);
    last && segments.next().is_none_or(|krate| !OTHERS.iter().any(|other| krate.ident == other))
}

/// Crates that are known to have an attribute called `command`.
const OTHERS: [&str; 6] = ["clap", "poise", "serenity", "standard", "tauri", "structopt"];

/// Adds what surrounds a function to its attribute.
fn add(attrs: &mut [Attribute], around: &Around) {
    for attr in attrs {
        attr.meta = added(&attr.meta, around);
    }
}

fn added(meta: &Meta, around: &Around) -> Meta {
    let path = meta.path();
    if is_ours(path, "command") || is_ours(path, "commands") {
        return match meta {
            Meta::List(list) if !list.tokens.is_empty() => {
                let written = &list.tokens;
                syn::parse_quote!(#path(#around, #written))
            }
            _ => syn::parse_quote!(#path(#around)),
        };
    }
    let Meta::List(list) = meta else { return meta.clone() };
    if !path.is_ident("cfg_attr") {
        return meta.clone();
    }
    // `#[cfg_attr(condition, command(..))]`
    let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(metas) = parse.parse2(list.tokens.clone()) else { return meta.clone() };
    let mut metas = metas.into_iter();
    let condition = metas.next();
    let metas = metas.map(|meta| added(&meta, around));
    syn::parse_quote!(#path(#condition, #(#metas),*))
}
