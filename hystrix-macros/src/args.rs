//! The grammar of the attribute, as written: options, each with a value, a list, or nothing. What they mean is `model`'s.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Path, Token, Type};

use crate::options;

/// What stands in the parentheses of an attribute.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) options: Vec<Written>,
    /// What the attribute of the surrounding block adds; it comes with the block's own expansion.
    pub(crate) around: Option<Around>,
    /// What could not be read.
    pub(crate) errors: Vec<syn::Error>,
}

/// An option.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

#[derive(Clone)]
pub(crate) enum Value {
    /// `name`
    Nothing,
    /// `name = expression`
    Expr(Expr),
    /// `name(this, that)`
    List(Vec<Ident>),
}

/// What a function has from the block it stands in.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) block: Block,
    /// The block's own type and const parameters.
    pub(crate) parameters: Vec<Ident>,
    pub(crate) options: Vec<Written>,
}

/// The kinds of block that `#[commands]` goes on.
#[derive(Clone)]
pub(crate) enum Block {
    /// `impl Type { .. }`: items may be added to it. The type, where the block has no parameters.
    Inherent(Option<Box<Type>>),
    /// `impl Trait for Type { .. }`, `trait Trait { .. }`: nothing may be added.
    Trait,
    /// `mod name { .. }`
    Module,
}

/// The option under which a block hands on what it has. Not a name that anybody writes.
const AROUND: &str = "__around";

impl Args {
    /// Reads everything; what cannot be read is an error, and reading goes on behind the next comma.
    pub(crate) fn read(tokens: TokenStream) -> Self {
        let read = |input: ParseStream<'_>| {
            let mut args = Self::default();
            while !input.is_empty() {
                if let Err(error) = args.read_one(input) {
                    args.errors.push(error);
                    skip_to_comma(input)?;
                }
                if !input.is_empty()
                    && let Err(error) = input.parse::<Token![,]>()
                {
                    let message = "expected `,` between options";
                    args.errors.push(syn::Error::new(error.span(), message));
                    skip_to_comma(input)?;
                    input.parse::<Option<Token![,]>>()?;
                }
            }
            Ok(args)
        };
        read.parse2(tokens).unwrap_or_else(|error| Self { errors: vec![error], ..Self::default() })
    }

    fn read_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            let message = "expected an option: `timeout = \"250ms\"`, `thread_pool`, `to_owned(self)`";
            syn::Error::new(error.span(), message)
        })?;
        if name == AROUND {
            let content;
            syn::parenthesized!(content in input);
            self.around = Some(content.parse()?);
            return Ok(());
        }
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            if input.is_empty() || input.peek(Token![,]) {
                let message = format!("`{name} =` needs a value");
                return Err(syn::Error::new(name.span(), message));
            }
            Value::Expr(if name == "crate" { a_path(input)? } else { input.parse()? })
        } else if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            let inside = content.parse::<TokenStream>()?;
            let names = Punctuated::<Ident, Token![,]>::parse_terminated_with;
            match (|input: ParseStream<'_>| names(input, Ident::parse_any)).parse2(inside) {
                Ok(names) => Value::List(names.into_iter().collect()),
                // Of an option that takes no names the form is the mistake.
                Err(_) if !options::takes_names(&name) => Value::List(Vec::new()),
                Err(error) => {
                    let message = format!("expected names: `{name}(self, argument)`");
                    return Err(syn::Error::new(error.span(), message));
                }
            }
        } else if input.is_empty() || input.peek(Token![,]) {
            Value::Nothing
        } else {
            let message = format!("expected `=` after `{name}`");
            return Err(syn::Error::new(input.span(), message));
        };
        self.options.push(Written { name, value });
        Ok(())
    }
}

/// A path that may begin with `crate`, or be a crate's name alone.
fn a_path(input: ParseStream<'_>) -> syn::Result<Expr> {
    let path = input.call(Path::parse_mod_style).map_err(|error| {
        syn::Error::new(
            error.span(),
            "`crate` takes the path of the library: `crate = my_crate::hystrix_core`",
        )
    })?;
    Ok(syn::parse_quote!(#path))
}

fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

impl Parse for Around {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let block: Ident = input.parse()?;
        let block = match &*block.to_string() {
            "inherent" => {
                let of;
                syn::bracketed!(of in input);
                Block::Inherent(if of.is_empty() { None } else { Some(of.parse()?) })
            }
            "module" => Block::Module,
            _ => Block::Trait,
        };
        let mut parameters = Vec::new();
        while !input.peek(Token![;]) {
            parameters.push(input.parse()?);
        }
        input.parse::<Token![;]>()?;
        let args = Args::read(input.parse()?);
        match args.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(Self { block, parameters, options: args.options }),
        }
    }
}

impl ToTokens for Around {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let block = match &self.block {
            Block::Inherent(of) => quote::quote!(inherent[#of]),
            Block::Trait => quote::quote!(with_trait),
            Block::Module => quote::quote!(module),
        };
        let name = Ident::new(AROUND, Span::call_site());
        let (parameters, options) = (&self.parameters, &self.options);
        tokens.extend(quote::quote!(#name(#block #(#parameters)*; #(#options),*)));
    }
}

impl ToTokens for Written {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.name.to_tokens(tokens);
        match &self.value {
            Value::Nothing => {}
            Value::Expr(expr) => tokens.extend(quote::quote!(= #expr)),
            Value::List(names) => tokens.extend(quote::quote!((#(#names),*))),
        }
    }
}
