//! Prints a judged function. Nothing here can fail, and nothing decides.
//!
//! What stands in the function is only what needs its tokens: the body as a closure, and the options in the order of the call. Everything
//! else is a function of `__private`. Names of our own are hygienic; the static is not generic and lives inside the function.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::item::Function;
use crate::model::{
    Announced, Call, Companion, Definition, Fallback, Kept, Key, Model, Moved, Source, Use, kept_self,
    replace_self,
};
use crate::names::{mentions, replace_all};
use crate::result::{self, Shape, inferable};

/// The name of what stands beside a function for `command_of!`.
pub(crate) fn companion_name(function: &str, span: Span) -> Ident {
    format_ident!("__hystrix_command_{function}", span = span)
}

/// What `self` is called in a body that has moved.
const MOVED_SELF: &str = "__hystrix_self";

/// A name of our own.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The place of a user's token, for tokens of our own: an error about them is shown there.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

fn own_at(name: &str, span: Span) -> Ident {
    Ident::new(name, at(span))
}

/// A function that is printed as it stands, because of a mistake elsewhere. The body of a queued one is written for another type, so it is left
/// out.
pub(crate) fn bare(function: &Function, item: TokenStream) -> TokenStream {
    match result::shape(function, &mut |_| ()) {
        Shape::Queued { .. } => {
            let head = function.head();
            quote!(#head { ::core::unreachable!() })
        }
        _ => item,
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
    ///              let way = way(&call);
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
        whole.set_span(Span::mixed_site());
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
        let (command, way) = (own("command"), own("way"));
        let find = self.find(&command);
        let keeps = self.keeps();
        let moves = self.moves();
        let prepare = self.prepare(body);
        let way_of = self.way("call");
        let options = self.options();
        let finish = self.finish();
        quote! {
            #find
            #keeps
            #moves
            #prepare
            let #way = #way_of;
            #options
            #finish
        }
    }

    /// The command, as something that dereferences to it.
    fn find(&self, command: &Ident) -> TokenStream {
        let private = self.private();
        match &self.command {
            Source::Given { expr, borrowed } => {
                let (span, given, kept) = (expr.span(), own("given"), own("kept"));
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
                let (kind, place) = (definition.kind(&private), self.place());
                let of = definition.of();
                let define = self.define(definition);
                let find = quote!(__HYSTRIX_SITE.find(#of, #define));
                let found = match &definition.key {
                    Key::PerCall(key) => {
                        let family = own_at("family", key.span());
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

    fn place(&self) -> TokenStream {
        let (private, name) = (self.private(), self.function.name());
        quote! {
            #private::Place::new(
                ::core::module_path!(),
                #name,
                ::core::file!(),
                ::core::line!(),
                ::core::column!(),
            )
        }
    }

    /// A function that captures nothing, so that what the settings say cannot be one caller's.
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
        let define = own("define");
        quote!({
            let #define: fn() -> #private::CommandBuilder<#isolation> = || #builder;
            #define
        })
    }

    /// A function's return type, checked where it can be named.
    fn checked(&self, output: &Type) -> TokenStream {
        if mentions(&output.to_token_stream(), &["impl"]).is_some() {
            return inferable(output).into_token_stream();
        }
        let span = output.span();
        let private = self.private_at(span);
        let checked = own_at(if self.is_on_pool() { "WorkerChecked" } else { "Checked" }, span);
        quote_spanned!(at(span)=> #private::#checked<#output>)
    }

    fn is_on_pool(&self) -> bool {
        matches!(&self.command, Source::Defined(Definition { on_pool: true, .. }))
    }

    // ===== arguments =====

    /// Every use that needs arguments of its own, numbered in this order.
    fn uses(&self) -> Vec<&Use> {
        let fallback = match &self.fallback {
            Fallback::None => None,
            Fallback::Value(value) => Some(value),
            Fallback::Called { how, .. } => Some(how),
            Fallback::Function { path, .. } => Some(path),
        };
        self.rules.iter().map(|rule| &rule.rule).chain(fallback).chain(&self.rejected).collect()
    }

    /// Keeps what options need, before the body takes it.
    fn keeps(&self) -> TokenStream {
        let mut keeps = TokenStream::new();
        for (number, used) in self.uses().into_iter().enumerate() {
            for Kept { name, cfg } in &used.kept {
                let (kept, cfg) = (kept(name, number), condition(cfg));
                let another = self.keep(&quote!(&#name), name.span());
                keeps.extend(quote!(#cfg let #kept = #another;));
            }
            if let Some(span) = used.keeps_self {
                let (kept, token) = (kept_as("self", number), Ident::new("self", span));
                let another = self.keep(&quote!(&#token), span);
                keeps.extend(quote!(let #kept = #another;));
            }
        }
        keeps
    }

    /// Another of what stands behind a reference.
    fn keep(&self, reference: &TokenStream, span: Span) -> TokenStream {
        let private = self.private_at(span);
        quote_spanned!(at(span)=> {
            use #private::{Keeps as _, KeepsNot as _};
            #private::Ask(#reference).kept()
        })
    }

    /// An argument, checked on its way to a worker.
    fn send(&self, argument: &TokenStream, span: Span) -> TokenStream {
        let private = self.private_at(span);
        quote_spanned!(at(span)=> {
            use #private::{Moves as _, MovesNot as _};
            #private::Ask(#argument).moved()
        })
    }

    /// An option's expression with what was kept for it under the names it uses.
    fn used(&self, used: &Use, number: usize, expr: &TokenStream) -> TokenStream {
        if used.kept.is_empty() && used.keeps_self.is_none() {
            return expr.clone();
        }
        let kept = used.kept.iter().map(|Kept { name, cfg }| {
            let (kept, cfg) = (kept(name, number), condition(cfg));
            quote!(#cfg let #name = #kept;)
        });
        let object = used.keeps_self.map(|span| {
            let (name, kept) = (kept_self(span), kept_as("self", number));
            quote!(let #name = #kept;)
        });
        quote!({ #(#kept)* #object #expr })
    }

    /// What the worker gets: each argument checked on its way, or made owned.
    fn moves(&self) -> TokenStream {
        let moves = self.moved.iter().map(|moved| match moved {
            Moved::Checked { name, cfg } => {
                let (cfg, send) = (condition(cfg), self.send(&quote!(#name), name.span()));
                quote!(#cfg let #name = #send;)
            }
            Moved::Guard { .. } => TokenStream::new(),
            Moved::Lent { name, mutable, cfg } => {
                let (cfg, owned, taken) = (condition(cfg), kept_as("owned", name), own("taken"));
                let private = self.private_at(name.span());
                // The body changes what it is lent; the signature's own `mut` is used here.
                let again = mutable.then(|| quote!(#cfg { let #taken = #name; #name = #taken; }));
                let own = quote_spanned!(at(name.span())=> {
                    use #private::{Owns as _, OwnsNot as _};
                    #private::Ask(#name).owned()
                });
                quote!(#again #cfg let #owned = #own;)
            }
            Moved::Object(span) => {
                let (name, span) = (own("object"), *span);
                let token = Ident::new("self", span);
                // Of `&self` the object, of `&Arc<Self>` the counter: what stands behind the reference.
                let another = self.keep(&quote!(#token), span);
                let send = self.send(&another, span);
                quote!(let #name = #send;)
            }
        });
        moves.collect()
    }

    /// The statements before a body that has moved: what it was lent.
    fn lent(&self) -> TokenStream {
        let lent = self.moved.iter().map(|moved| match moved {
            Moved::Checked { .. } => TokenStream::new(),
            Moved::Guard { name, cfg } => {
                let cfg = condition(cfg);
                quote!(#cfg let #name = #name;)
            }
            Moved::Lent { name, mutable, cfg } => {
                let (cfg, owned) = (condition(cfg), kept_as("owned", name));
                let mutable = mutable.then(|| quote!(mut));
                quote!(#cfg let #mutable #name = #owned.lend();)
            }
            Moved::Object(span) => {
                let (name, object) = (Ident::new(MOVED_SELF, *span), own("object"));
                quote!(let #name = &#object;)
            }
        });
        lent.collect()
    }

    fn moves_object(&self) -> bool {
        self.moved.iter().any(|moved| matches!(moved, Moved::Object(_)))
    }

    // ===== the call =====

    /// `let call = (*command).run(body);`, or `.call(body)`. A body that may not run there is a mistake of the function.
    fn prepare(&self, body: &Group) -> TokenStream {
        let body = match self.moves_object() {
            true => {
                let mut moved = Group::new(body.delimiter(), replace_self(body.stream(), MOVED_SELF));
                moved.set_span(body.span());
                moved
            }
            false => body.clone(),
        };
        let lent = self.lent();
        let span = self.function.sig.ident.span();
        let (call, command) = (own_at("call", span), own_at("command", span));
        let (method, body) = match &self.shape {
            Shape::Sync { output } => ("run", blocking(&self.checked(output), lent, &body, span)),
            Shape::Queued { value, error, .. } => {
                let output = quote!(::core::result::Result<#value, #error>);
                ("run", blocking(&output, lent, &body, span))
            }
            Shape::Async { output } => {
                let planted = self.planted(output);
                let body = before(quote!(#lent #planted), &body);
                ("call", quote_spanned!(at(span)=> move || async move #body))
            }
            // The other macro's own statements stand before its body, typed already.
            Shape::Boxed { body, .. } => ("call", quote_spanned!(at(span)=> move || async move { #body })),
        };
        let method = own_at(method, span);
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

    /// The way of the error. A mistake in it is one of the return type.
    fn way(&self, call: &str) -> TokenStream {
        let output = match &self.shape {
            Shape::Sync { output } | Shape::Async { output } | Shape::Boxed { output, .. }
                if self.rejected.is_none() =>
            {
                output
            }
            _ => {
                let (private, call) = (self.private(), own(call));
                return quote!(#private::as_is(&#call));
            }
        };
        let span = output.span();
        let (private, call) = (self.private_at(span), own_at(call, span));
        quote_spanned!(at(span)=> #private::way(&#call))
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
                return option(&own_at("fallback_value", value.span), value.span, None, &expr);
            }
            Fallback::Called { how, owned } => (how, owned, how.expr.clone()),
            Fallback::Function { path, calls, owned } => {
                let calls = calls.iter().map(|case| function_fallback(path, case, is_async));
                (path, owned, calls.collect())
            }
        };
        let (span, expr) = (used.span, self.used(used, number, &expr));
        if !*owned {
            return option(&own_at("fallback", span), span, Some(seen), &expr);
        }
        // Nothing in it borrows, as far as can be seen. Whether it can go to another thread the types say.
        let private = self.private_at(span);
        let (call, way, seen) = (own_at("call", span), own_at("way", span), own_at(seen, span));
        let (fallback, place) = (own_at("fallback", span), own_at("place", span));
        quote_spanned! {at(span)=>
            let #fallback = #way.#seen(#expr);
            let #place = {
                use #private::{Leaves as _, Stays as _};
                #private::Ask(#private::parts(&#call, &#fallback)).place()
            };
            let #call = #place.fall_back(#call, #fallback);
        }
    }

    fn finish(&self) -> TokenStream {
        let (call, way) = (own("call"), own("way"));
        let (done, output) = match &self.shape {
            Shape::Queued { .. } => return quote!(#call.queue()),
            Shape::Sync { output } => (quote!(#call.execute()), output),
            Shape::Async { output } | Shape::Boxed { output, .. } => (quote!(#call.await), output),
        };
        match &self.rejected {
            Some(rejected) => {
                let number = self.uses().len() - 1;
                let expr = self.used(rejected, number, &rejected.expr);
                quote!(#way.answer_with(#done, #expr))
            }
            None => {
                let span = output.span();
                let (way, done) = (own_at("way", span), located(&done, span));
                quote_spanned!(at(span)=> #way.answer(#done))
            }
        }
    }

    // ===== what stands beside the function =====

    fn companion(&self) -> TokenStream {
        let (Companion::Beside(announced), Source::Defined(definition)) = (&self.companion, &self.command)
        else {
            return TokenStream::new();
        };
        let (private, function) = (self.private(), &self.function);
        let name = companion_name(&function.name(), Span::call_site());
        let (cfgs, vis) = (function.cfgs(), &function.vis);
        let doc = format!("The command behind `{}`.", function.name());
        let of = definition.of();
        let (place, define) = (self.place(), self.define(definition));
        let keyed = matches!(definition.key, Key::PerCall(_));
        let annotated = quote!(#private::Annotated::new(#place, #of, #keyed, #define));
        let announced = match announced {
            Announced::No => None,
            // Of a function whose settings name `Self` the type is not known here.
            Announced::Free => mentions(&annotated, &["Self"]).is_none().then(|| annotated.clone()),
            Announced::Of(of) => Some(replace_all(annotated.clone(), "Self", of)),
        };
        let announced = announced.map(|annotated| quote!(#private::announce! { #annotated }));
        quote! {
            #(#cfgs)*
            #[doc(hidden)]
            #[doc = #doc]
            #[must_use]
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
    fn of(&self) -> TokenStream {
        if self.of_type { quote!(::core::any::type_name::<Self>()) } else { quote!("") }
    }
}

/// `let call = call.option(way.seen(expr));`
fn option(method: &Ident, span: Span, seen: Option<&str>, expr: &TokenStream) -> TokenStream {
    let (call, way) = (own_at("call", span), own_at("way", span));
    let method = own_at(&method.to_string(), span);
    let value = match seen {
        Some(seen) => {
            let seen = own_at(seen, span);
            quote_spanned!(at(span)=> #way.#seen(#expr))
        }
        None => expr.clone(),
    };
    quote_spanned!(at(span)=> let #call = #call.#method(#value);)
}

/// A function with the arguments it is to get.
fn function_fallback(path: &Use, call: &Call, is_async: bool) -> TokenStream {
    let (function, span) = (&path.expr, path.span);
    let way = own_at("way", span);
    let method = own_at(if is_async { "function_async" } else { "function" }, span);
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

/// A body with statements of ours at its beginning, in its own braces: others around them would be in excess, and a lint's business.
fn before(statements: TokenStream, body: &Group) -> Group {
    let mut whole = Group::new(body.delimiter(), statements.into_iter().chain(body.stream()).collect());
    whole.set_span(body.span());
    whole
}

/// The attribute of what is there under a condition.
fn condition(cfg: &Option<TokenStream>) -> Option<TokenStream> {
    cfg.as_ref().map(|cfg| quote!(#[cfg(#cfg)]))
}

/// The name under which an argument is kept for an option.
fn kept(name: &Ident, number: usize) -> Ident {
    kept_as(&format!("kept_{}", syn::ext::IdentExt::unraw(name)), number)
}

fn kept_as(what: &str, which: impl std::fmt::Display) -> Ident {
    own(&format!("{what}_{}", which.to_string().trim_start_matches("r#")))
}
