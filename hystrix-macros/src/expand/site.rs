//! The command of a function: how it is found, how it is defined, and what stands beside the function for `command_of!`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::{at, companion_name, local, local_at};
use crate::model::{Announced, Companion, Definition, Key, Model, Of, Source};
use crate::names::mentions;

impl Model {
    /// The command, as something that dereferences to it.
    pub(super) fn find(&self, command: &Ident) -> TokenStream {
        let private = self.private();
        match &self.command {
            Source::Given { expr, borrowed } => {
                let (span, given, kept) = (expr.span(), local("given"), local("kept"));
                let private = self.private_at(span);
                // Named, so that a command which the expression makes lives as long as the call.
                let found =
                    quote_spanned!(at(span)=> let #given = &(#expr); let #command = #private::given(#given););
                if *borrowed {
                    return found;
                }
                quote! {
                    let #kept = { #found ::core::clone::Clone::clone(#command) };
                    let #command = &#kept;
                }
            }
            Source::Defined(definition) => {
                let (kind, place) = (definition.kind(&private), self.place(definition.of));
                let of = definition.name_of();
                let define = self.define(definition);
                let find = quote!(__HYSTRIX_SITE.find(#of, #define));
                let found = match &definition.key {
                    Key::PerCall(key) => {
                        let family = local_at("family", key.span());
                        let member = quote_spanned!(at(key.span())=> #family.get(&(#key)));
                        quote! {
                            let #family = #find;
                            let #command = &#member;
                        }
                    }
                    _ => quote!(let #command = #find;),
                };
                quote! {
                    static __HYSTRIX_SITE: #private::Site<#kind> = #private::Site::new(#place);
                    #found
                }
            }
        }
    }

    fn place(&self, of: Of) -> TokenStream {
        let (private, name, number) = (self.private(), self.function.name(), self.number);
        let new = match of {
            Of::Itself => quote!(method),
            Of::Module => quote!(function),
        };
        quote! {
            #private::Place::#new(
                ::core::module_path!(),
                #name,
                ::core::file!(),
                ::core::line!(),
                ::core::column!(),
                #number,
            )
        }
    }

    /// A function that captures nothing, so that what the settings say cannot be one caller's; and where they do not name `Self`, an item, so that they
    /// cannot be one type's either.
    fn define(&self, definition: &Definition) -> TokenStream {
        let private = self.private();
        let mut builder = quote!(#private::definition());
        if let Key::Written(key) = &definition.key {
            builder = quote!(#private::keyed_by(#builder, #key));
        }
        for (method, value) in &definition.settings {
            builder = quote!(#builder.#method(#value));
        }
        let isolation = definition.isolation(&private);
        let define = local("define");
        let returned = quote!(#private::CommandBuilder<#isolation>);
        match mentions(&builder, &["Self"]) {
            None => quote!({
                fn #define() -> #returned { #builder }
                #define
            }),
            Some(_) => quote!({
                let #define: fn() -> #returned = || #builder;
                #define
            }),
        }
    }

    pub(super) fn companion(&self) -> TokenStream {
        let (Companion::Beside(announced), Source::Defined(definition)) = (&self.companion, &self.command)
        else {
            return TokenStream::new();
        };
        let (private, function) = (self.private(), &self.function);
        let name = companion_name(&function.name(), Span::call_site());
        let (cfgs, vis, allowed) = (function.cfgs(), &function.vis, function.allowed());
        let doc = format!("The command behind `{}`.", function.name());
        let of = definition.name_of();
        let (place, define) = (self.place(definition.of), self.define(definition));
        let keyed = matches!(definition.key, Key::PerCall(_));
        let annotated = quote!(#private::Annotated::new(#place, #of, #keyed, #define));
        let announced = match announced {
            Announced::No => None,
            // Within a function of its own, where `Self` is not known.
            Announced::Free => mentions(&annotated, &["Self"]).is_none().then(|| annotated.clone()),
            Announced::Of(of) => Some(quote!(<#of>::#name())),
        };
        let announced = announced.map(|annotated| quote!(#private::announce! { #annotated }));
        quote! {
            #(#cfgs)*
            #[doc(hidden)]
            #[doc = #doc]
            #[must_use]
            #(#[allow(#allowed)])*
            #vis fn #name() -> #private::Annotated {
                #announced
                #annotated
            }
        }
    }
}

impl Definition {
    fn kind(&self, private: &TokenStream) -> TokenStream {
        let command = if self.on_pool { quote!(#private::PoolCommand) } else { quote!(#private::Command) };
        match self.key {
            Key::PerCall(_) => quote!(#private::Keyed<#command>),
            _ => command,
        }
    }

    fn isolation(&self, private: &TokenStream) -> TokenStream {
        if self.on_pool { quote!(#private::PoolIsolation) } else { quote!(#private::InPlaceIsolation) }
    }

    /// The name of the type that the function belongs to.
    fn name_of(&self) -> TokenStream {
        match self.of {
            Of::Itself => quote!(::core::any::type_name::<Self>()),
            Of::Module => quote!(""),
        }
    }
}
