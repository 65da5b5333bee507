//! `#[commands(..)]`: hands its options to every `#[command]` inside a block, which expands by itself afterwards.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Generics, ImplItem, Item, ItemImpl, ItemMod, ItemTrait, Meta, Token, TraitItem};

use crate::args::{Args, Around, Block, Written};
use crate::item::is_ours;
use crate::options::{self, replaced};

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
    let own = options::gather(args.options, &mut note);
    for option in own.iter().filter(|option| option.name == "key" || option.name == "to_owned") {
        let message = format!("`{}` is one function's own: write it there", option.name);
        note(syn::Error::new(option.name.span(), message));
    }
    match mistakes {
        Some(error) => Err(error),
        None => {
            // What an outer block says goes behind, so that the inner one wins.
            let outer = args.around.into_iter().flat_map(|around| around.options);
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
