//! Prints a judged function. Nothing here can fail, and nothing decides.
//!
//! What stands in the function is only what needs its tokens: the body as a closure, and the options in the order of the call. Everything
//! else is a function of `__private`. Names of our own are hygienic; the static is not generic and lives inside the function.

mod arguments;
mod site;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Type, Visibility};

use crate::item::Function;
use crate::model::{Call, Companion, Definition, Fallback, Model, Refused, Source, Use, replace_self};
use crate::names::mentions;
use crate::result::{self, Shape, inferable};

/// The name of what stands beside a function for `command_of!`.
pub(crate) fn companion_name(function: &str, span: Span) -> Ident {
    format_ident!("__hystrix_command_{function}", span = span)
}

/// A variable of ours. Hygiene keeps it from the user's variables, and the prefix from constants and unit structs, which a pattern would mean.
fn local(name: &str) -> Ident {
    local_at(name, Span::mixed_site())
}

fn local_at(name: &str, span: Span) -> Ident {
    format_ident!("__hystrix_{name}", span = at(span))
}

/// The place of a user's token, for tokens of our own: an error about them is shown there.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// A method or type of ours, about what stands there.
fn ours_at(name: &str, span: Span) -> Ident {
    Ident::new(name, at(span))
}

/// A function that is printed as it stands, because of a mistake in its attribute. The body of a queued one is written for another type, so it is
/// left out.
pub(crate) fn bare(function: &Function, item: TokenStream) -> TokenStream {
    match result::shape(function, &mut |_| ()) {
        Shape::Queued { .. } => {
            let head = function.head();
            quote!(#head { ::core::unreachable!() })
        }
        _ => item,
    }
}

/// What stands beside such a function, so that who asks for its command is not told of a second mistake.
pub(crate) fn bare_companion(name: &str, vis: &Visibility, refused: &Refused) -> TokenStream {
    if matches!(refused.companion, Companion::None) {
        return TokenStream::new();
    }
    let (name, krate) = (companion_name(name, Span::call_site()), &refused.krate);
    quote! {
        #[doc(hidden)]
        #vis fn #name() -> #krate::__private::Annotated {
            ::core::unreachable!()
        }
    }
}

impl Model {
    /// ```text
    /// Input:   #[command(timeout = "1s", fallback = |_| Ok(0))]
    ///          fn count(sku: &str) -> Result<u64, ApiError> { .. }
    ///
    /// Output:  fn count(sku: &str) -> Result<u64, ApiError> {
    ///              static __HYSTRIX_SITE: Site<Command> = Site::new(Place::new(..));
    ///              let command = __HYSTRIX_SITE.find("", { let define: fn() -> _ = || definition().timeout("1s"); define });
    ///              let call = (*command).run(move || -> Result<u64, ApiError> { .. });
    ///              let (call, way) = way(call);
    ///              let call = call.fallback(way.fallback(move |_| Ok(0)));
    ///              way.answer(call.execute())
    ///          }
    ///          fn __hystrix_command_count() -> Annotated { .. }
    /// ```
    pub(crate) fn expand(&self) -> TokenStream {
        let head = self.function.head();
        let (inner, body) = self.function.split_body();
        let steps = self.steps(&body);
        let steps = match &self.shape {
            Shape::Boxed { .. } => {
                let pin = quote_spanned!(Span::mixed_site()=> ::std::boxed::Box::pin);
                quote!(#pin(async move { #steps }))
            }
            _ => steps,
        };
        let mut whole = Group::new(proc_macro2::Delimiter::Brace, quote!(#inner #steps));
        // The function ends where its body does, so that lints and messages see the user's own.
        whole.set_span(self.function.body.span());
        let companion = self.companion();
        quote!(#head #whole #companion)
    }

    fn private(&self) -> TokenStream {
        self.private_at(Span::call_site())
    }

    /// The same for an error that is to be shown at a user's token.
    fn private_at(&self, span: Span) -> TokenStream {
        let krate = &self.krate;
        let private = quote_spanned!(at(span)=> #krate::__private);
        located(&private, span)
    }

    // ===== the steps of a call =====

    fn steps(&self, body: &Group) -> TokenStream {
        let command = local("command");
        let find = self.find(&command);
        let keeps = self.keeps();
        let moves = self.moves();
        let prepare = self.prepare(body);
        let way_of = self.way();
        let options = self.options();
        let finish = self.finish();
        quote! {
            #find
            #keeps
            #moves
            #prepare
            #way_of
            #options
            #finish
        }
    }

    /// A function's return type, checked where it can be named.
    fn checked(&self, output: &Type) -> TokenStream {
        if mentions(&output.to_token_stream(), &["impl"]).is_some() {
            return inferable(output).into_token_stream();
        }
        let span = output.span();
        let private = self.private_at(span);
        let checked = ours_at(if self.is_on_pool() { "WorkerChecked" } else { "Checked" }, span);
        quote_spanned!(at(span)=> #private::#checked<#output>)
    }

    fn is_on_pool(&self) -> bool {
        matches!(&self.command, Source::Defined(Definition { on_pool: true, .. }))
    }

    // ===== the call =====

    /// `let call = (*command).run(body);`, or `.call(body)`. A body that may not run there is a mistake of the function.
    fn prepare(&self, body: &Group) -> TokenStream {
        let body = match &self.shape {
            // The other macro's own statements stand before its body, typed already.
            Shape::Boxed { body, .. } => Group::new(proc_macro2::Delimiter::Brace, body.clone()),
            _ => body.clone(),
        };
        let body = match self.moves_object() {
            true => {
                let mut moved = Group::new(body.delimiter(), replace_self(body.stream()));
                moved.set_span(body.span());
                moved
            }
            false => body,
        };
        let (lent, whole) = (self.lent(), self.whole());
        let span = self.function.sig.ident.span();
        let (call, command) = (local_at("call", span), local_at("command", span));
        let (method, body) = match &self.shape {
            Shape::Sync { output } => {
                ("run", blocking(&self.checked(output), quote!(#whole #lent), &body, span))
            }
            Shape::Queued { value, error, .. } => {
                let output = quote!(::core::result::Result<#value, #error>);
                ("run", blocking(&output, quote!(#whole #lent), &body, span))
            }
            Shape::Async { output } => {
                let planted = self.planted(output);
                let body = before(quote!(#whole #lent #planted), &body);
                ("call", quote_spanned!(at(span)=> move || async move #body))
            }
            Shape::Boxed { .. } => {
                let body = before(quote!(#whole #lent), &body);
                ("call", quote_spanned!(at(span)=> move || async move #body))
            }
        };
        let method = ours_at(method, span);
        quote_spanned!(at(span)=> let #call = (*#command).#method(#body);)
    }

    /// Tells an async body its type: behind a condition that is false, so that nothing is unreachable.
    fn planted(&self, output: &Type) -> TokenStream {
        let (private, output) = (self.private(), self.checked(output));
        quote! {
            if false {
                return #private::planted::<#output>();
            }
        }
    }

    /// `let (call, way) = way(call);`. A mistake in the error is one of the return type.
    fn way(&self) -> TokenStream {
        let (span, find) = match &self.shape {
            Shape::Sync { output } | Shape::Async { output } | Shape::Boxed { output, .. }
                if self.rejected.is_none() =>
            {
                (output.span(), "way")
            }
            _ => (Span::call_site(), "as_is"),
        };
        let (private, find) = (self.private_at(span), ours_at(find, span));
        let (call, way) = (local_at("call", span), local_at("way", span));
        quote_spanned!(at(span)=> let (#call, #way) = #private::#find(#call);)
    }

    fn options(&self) -> TokenStream {
        let mut options = TokenStream::new();
        let mut last = None;
        for (number, rule) in self.rules.iter().enumerate() {
            let (name, expr) = (&rule.name, self.used(&rule.rule, number, &rule.rule.expr));
            match &*name.to_string() {
                "ignore" => options.extend(option(name, rule.rule.span, Some("error_rule"), &expr)),
                // Asked about the error of the call, so it goes behind the fallback.
                "fallback_if" => last = Some(option(name, rule.rule.span, Some("condition"), &expr)),
                _ => options.extend(option(name, rule.rule.span, None, &expr)),
            }
        }
        options.extend(self.fallback(self.rules.len()));
        options.extend(last);
        options
    }

    fn fallback(&self, number: usize) -> TokenStream {
        let is_async = matches!(self.shape, Shape::Async { .. } | Shape::Boxed { .. });
        let seen = if is_async { "fallback_async" } else { "fallback" };
        let (used, owned, expr) = match &self.fallback {
            Fallback::None => return TokenStream::new(),
            Fallback::Value(value) => {
                let expr = self.used(value, number, &value.expr);
                return option(&ours_at("fallback_value", value.span), value.span, None, &expr);
            }
            Fallback::Called { how, owned } => (how, owned, how.expr.clone()),
            Fallback::Function { path, calls, owned } => {
                let calls = calls.iter().map(|case| function_fallback(path, case, is_async));
                (path, owned, calls.collect())
            }
        };
        let (span, expr) = (used.span, self.used(used, number, &expr));
        if !*owned {
            return option(&ours_at("fallback", span), span, Some(seen), &expr);
        }
        // Nothing in it borrows, as far as can be seen. Whether it can go to another thread the types say: those of what it names, for its own is not known
        // before the whole function is.
        let private = self.private_at(span);
        let (call, way, seen) = (local_at("call", span), local_at("way", span), ours_at(seen, span));
        let (fallback, place) = (local_at("fallback", span), local_at("place", span));
        let named = self.named(used, number);
        quote_spanned! {at(span)=>
            let #place = {
                use #private::{Leaves as _, Stays as _};
                #private::Ask(#private::parts(&#call, &(#(#private::type_of(&#named),)*))).place()
            };
            let #fallback = #way.#seen(#expr);
            let #call = #place.fall_back(#call, #fallback);
        }
    }

    /// A statement, for a tail would be looked at as the user's, and its temporaries live longer in older editions.
    fn finish(&self) -> TokenStream {
        let (call, way) = (local("call"), local("way"));
        let (done, output) = match &self.shape {
            Shape::Queued { .. } => return quote!(return #call.queue();),
            Shape::Sync { output } => (quote!(#call.execute()), output),
            Shape::Async { output } | Shape::Boxed { output, .. } => (quote!(#call.await), output),
        };
        match &self.rejected {
            Some(rejected) => {
                let number = self.uses().len() - 1;
                let expr = self.used(rejected, number, &rejected.expr);
                quote!(return #way.answer_with(#done, #expr);)
            }
            None => {
                let span = output.span();
                let (way, done) = (local_at("way", span), located(&done, span));
                quote_spanned!(at(span)=> return #way.answer(#done);)
            }
        }
    }
}

/// `let call = call.option(way.seen(expr));`
fn option(method: &Ident, span: Span, seen: Option<&str>, expr: &TokenStream) -> TokenStream {
    let (call, way) = (local_at("call", span), local_at("way", span));
    let method = ours_at(&method.to_string(), span);
    let value = match seen {
        Some(seen) => {
            let seen = ours_at(seen, span);
            quote_spanned!(at(span)=> #way.#seen(#expr))
        }
        None => expr.clone(),
    };
    quote_spanned!(at(span)=> let #call = #call.#method(#value);)
}

/// A function with the arguments it is to get.
fn function_fallback(path: &Use, call: &Call, is_async: bool) -> TokenStream {
    let (function, span) = (&path.expr, path.span);
    let way = local_at("way", span);
    let method = ours_at(if is_async { "function_async" } else { "function" }, span);
    // What does not fit is a mistake of the fallback, not of the argument.
    let args = call.args.iter().map(|arg| located(arg, span));
    let fallback = quote_spanned!(at(span)=> #way.#method(#function, (#(#args,)*)));
    match &call.cfg {
        Some(cfg) => quote!(#[cfg(#cfg)] { #fallback }),
        None => fallback,
    }
}

/// Tokens that mean the same and stand elsewhere.
fn located(tokens: &TokenStream, span: Span) -> TokenStream {
    let moved = tokens.clone().into_iter().map(|mut token| {
        token.set_span(token.span().located_at(span));
        token
    });
    moved.collect()
}

/// A synchronous body.
fn blocking(output: &TokenStream, lent: TokenStream, body: &Group, span: Span) -> TokenStream {
    let body = before(lent, body);
    quote_spanned!(at(span)=> move || -> #output #body)
}

/// A body with statements of ours before it. Its own braces stay around it, for within them our statements would be its: a lint may ask for items
/// first. An item of ours keeps the braces around a single expression from being called superfluous.
fn before(statements: TokenStream, body: &Group) -> Group {
    if statements.is_empty() {
        return body.clone();
    }
    let is_end = |token: TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';');
    let item = if body.stream().into_iter().any(is_end) {
        TokenStream::new()
    } else {
        quote_spanned!(Span::mixed_site()=> const _: () = ();)
    };
    let mut inner = Group::new(body.delimiter(), item.into_iter().chain(body.stream()).collect());
    inner.set_span(body.span());
    let mut whole = Group::new(body.delimiter(), quote!(#statements #inner));
    whole.set_span(Span::mixed_site());
    whole
}
