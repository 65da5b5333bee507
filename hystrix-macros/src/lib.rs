//! The attributes of `hystrix-core`, which re-exports and documents them. Nobody depends on this crate directly.
//!
//! `args` spells what is written, `item` takes the function apart, `names` looks for names in what is not parsed, `options`, `result` and `model` judge, `expand`
//! prints. A
//! function whose attribute has a mistake is still printed as it stands, so that one mistake is one error.

mod args;
mod commands;
mod expand;
mod item;
mod model;
mod names;
mod options;
mod result;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{ExprPath, PathArguments};

/// Expanded by `hystrix-macros`.
#[proc_macro_attribute]
pub fn command(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    command_impl(args.into(), item.into()).into()
}

/// Expanded by `hystrix-macros`.
#[proc_macro_attribute]
pub fn commands(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    commands_impl(args.into(), item.into()).into()
}

/// Expanded by `hystrix-macros`.
#[proc_macro]
pub fn command_of(path: proc_macro::TokenStream) -> proc_macro::TokenStream {
    command_of_impl(path.into()).into()
}

fn command_impl(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<item::Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => return with_errors(item, &error),
    };
    let mut bare = expand::bare(&function, item);
    let (name, vis) = (function.name(), function.vis.clone());
    match model::Model::judge(args::Args::read(args), function) {
        Ok(model) => model.expand(),
        Err(refused) => {
            bare.extend(expand::bare_companion(&name, &vis, &refused));
            with_errors(bare, &refused.error)
        }
    }
}

fn commands_impl(args: TokenStream, item: TokenStream) -> TokenStream {
    commands::expand(args, item.clone()).unwrap_or_else(|error| with_errors(item, &error))
}

/// What was annotated, as it stands, and what is wrong.
fn with_errors(mut item: TokenStream, error: &syn::Error) -> TokenStream {
    item.extend(error.to_compile_error());
    item
}

fn command_of_impl(path: TokenStream) -> TokenStream {
    let parse = |input: ParseStream<'_>| {
        let message = "`command_of!` takes the path of an annotated function: `command_of!(users::get_user)`";
        input.parse::<ExprPath>().map_err(|error| syn::Error::new(error.span(), message))
    };
    match parse.parse2(path) {
        Ok(mut path) => {
            if let Some(last) = path.path.segments.last_mut() {
                let span = last.ident.span();
                last.ident = expand::companion_name(&last.ident.unraw().to_string(), span);
                last.arguments = PathArguments::None;
            }
            quote::quote!(#path())
        }
        Err(error) => error.to_compile_error(),
    }
}
