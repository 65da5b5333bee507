//! Prints a judged function. Nothing here can fail, and nothing decides.
//!
//! What stands in the function is only what needs its tokens: the body as a closure, and the options in the order of the call. Everything
//! else is a function of `__private`. Names of our own are hygienic; the static is not generic and lives inside the function.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::item::mentions;
use crate::model::{
    Call, Companion, Definition, Fallback, Kept, Key, Model, Moved, ObjectMove, Source, Use, kept_self,
    replace_self,
};
use crate::result::{Shape, inferable};

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
        let krate = &self.krate;
        quote_spanned!(Span::mixed_site()=> #krate::__private)
    }

    // ===== the steps of a call =====

    fn steps(&self, body: &Group) -> TokenStream {
        let (command, call, way) = (own("command"), own("call"), own("way"));
        let find = self.find(&command);
        let check = self.check_output();
        let keeps = self.keeps();
        let moves = self.moves();
        let prepare = self.prepare(body);
        let way_of = self.way(&call);
        let options = self.options(&call, &way);
        let finish = self.finish(&call, &way);
        quote! {
            #check
            #find
            #keeps
            #moves
            let #call = (*#command).#prepare;
            let #way = #way_of;
            #options
            #finish
        }
    }

    /// The command, as something that dereferences to it.
    fn find(&self, command: &Ident) -> TokenStream {
        let private = self.private();
        match &self.command {
            Source::Given { expr, borrowed: true } => {
                let given = quote_spanned!(expr.span()=> #private::given(&(#expr)));
                quote!(let #command = #given;)
            }
            Source::Given { expr, borrowed: false } => {
                let given = quote_spanned!(expr.span()=> #private::given(&(#expr)));
                let kept = own("kept");
                quote! {
                    let #kept = ::core::clone::Clone::clone(#given);
                    let #command = &#kept;
                }
            }
            Source::Defined(definition) => {
                let (kind, place) = (definition.kind(&private), self.place());
                let of = definition.of(&private);
                let define = self.define(definition);
                let find = quote!(__HYSTRIX_SITE.find(#of, #define));
                let found = match &definition.key {
                    Key::PerCall(key) => {
                        let (family, get) = (own("family"), quote_spanned!(key.span()=> get));
                        quote! {
                            let #family = #find;
                            let #command = &#family.#get(&(#key));
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

    /// Puts a wrong return type on the type.
    fn check_output(&self) -> TokenStream {
        let private = self.private();
        let output = match &self.shape {
            Shape::Sync { output } | Shape::Async { output } | Shape::Boxed { output, .. } => output,
            Shape::Queued { .. } => return TokenStream::new(),
        };
        if self.rejected.is_some() || mentions(&output.to_token_stream(), &["impl"]).is_some() {
            return TokenStream::new();
        }
        quote_spanned!(output.span()=> #private::assert_output::<#output, _>();)
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
        let private = self.private();
        let mut keeps = TokenStream::new();
        for (number, used) in self.uses().into_iter().enumerate() {
            for Kept { name, cfg } in &used.kept {
                let (kept, cfg) = (kept(name, number), condition(cfg));
                let keep = quote_spanned!(name.span()=> #private::keep(&#name));
                keeps.extend(quote!(#cfg let #kept = #keep;));
            }
            if let Some(span) = used.keeps_self {
                let (kept, token) = (kept_as("self", number), Ident::new("self", span));
                keeps.extend(quote!(let #kept = #private::keep(&#token);));
            }
        }
        keeps
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
        let private = self.private();
        let moves = self.moved.iter().map(|moved| match moved {
            Moved::Checked(simple) => {
                let name = &simple.name;
                let send = quote_spanned!(name.span()=> #private::send(#name));
                quote!(let #name = #send;)
            }
            Moved::Guard(_) => TokenStream::new(),
            Moved::Lent { name, .. } => {
                let owned = kept_as("owned", name);
                let own = quote_spanned!(name.span()=> #private::own(#name));
                quote!(let #owned = #own;)
            }
            Moved::Object(ObjectMove::Cloned(span)) => {
                let (object, token) = (own("object"), Ident::new("self", *span));
                let send = quote_spanned!(*span=> #private::send(#private::keep::<Self>(#token)));
                quote!(let #object = #send;)
            }
            Moved::Object(ObjectMove::Counted(span)) => {
                let (object, token) = (own("object"), Ident::new("self", *span));
                let send = quote_spanned!(*span=> #private::send(::core::clone::Clone::clone(#token)));
                quote!(let #object = #send;)
            }
        });
        moves.collect()
    }

    /// The statements before a body that has moved: what it was lent.
    fn lent(&self) -> TokenStream {
        let lent = self.moved.iter().map(|moved| match moved {
            Moved::Checked(_) => TokenStream::new(),
            Moved::Guard(name) => quote!(let #name = #name;),
            Moved::Lent { pattern, name } => {
                let owned = kept_as("owned", name);
                quote!(let #pattern = #owned.lend();)
            }
            Moved::Object(ObjectMove::Cloned(span) | ObjectMove::Counted(span)) => {
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

    /// `run(body)` or `call(body)`
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
        match &self.shape {
            Shape::Sync { output } => run(&inferable(output).to_token_stream(), &lent, &body),
            Shape::Queued { value, error, .. } => {
                run(&quote!(::core::result::Result<#value, #error>), &lent, &body)
            }
            Shape::Async { output } => {
                let planted = self.planted(output);
                quote!(call(move || async move { #lent #planted #body }))
            }
            // The other macro's own statements stand before its body, typed already.
            Shape::Boxed { body, .. } => quote!(call(move || async move { #body })),
        }
    }

    /// Tells an async body its type: behind a condition that is false, so that nothing is unreachable.
    fn planted(&self, output: &Type) -> TokenStream {
        let (private, output) = (self.private(), inferable(output));
        quote! {
            if false {
                return #private::planted::<#output>();
            }
        }
    }

    fn way(&self, call: &Ident) -> TokenStream {
        let private = self.private();
        match self.shape {
            Shape::Queued { .. } => quote!(#private::as_is(&#call)),
            _ if self.rejected.is_some() => quote!(#private::as_is(&#call)),
            _ => quote!(#private::way(&#call)),
        }
    }

    fn options(&self, call: &Ident, way: &Ident) -> TokenStream {
        let mut options = TokenStream::new();
        let mut condition = None;
        for (number, rule) in self.rules.iter().enumerate() {
            let (name, expr) = (&rule.name, self.used(&rule.rule, number, &rule.rule.expr));
            if name == "ignore" {
                options.extend(quote!(let #call = #call.#name(#way.error_rule(#expr));));
            } else if name == "fallback_if" {
                condition = Some(quote!(let #call = #call.#name(#way.condition(#expr));));
            } else {
                options.extend(quote!(let #call = #call.#name(#expr);));
            }
        }
        let number = self.rules.len();
        let is_async = matches!(self.shape, Shape::Async { .. } | Shape::Boxed { .. });
        let seen = if is_async { quote!(fallback_async) } else { quote!(fallback) };
        let method = |owned: bool| if owned { quote!(fallback_owned) } else { quote!(fallback) };
        match &self.fallback {
            Fallback::None => {}
            Fallback::Value(value) => {
                let expr = self.used(value, number, &value.expr);
                options.extend(quote!(let #call = #call.fallback_value(#expr);));
            }
            Fallback::Called { how, owned } => {
                let (expr, method) = (self.used(how, number, &how.expr), method(*owned));
                options.extend(quote!(let #call = #call.#method(#way.#seen(#expr));));
            }
            Fallback::Function { path, calls, owned } => {
                let method = method(*owned);
                let calls = calls.iter().map(|case| self.function_fallback(path, case, way));
                let function = self.used(path, number, &quote!(#(#calls)*));
                options.extend(quote!(let #call = #call.#method(#way.#seen(#function));));
            }
        }
        options.extend(condition);
        options
    }

    fn function_fallback(&self, path: &Use, call: &Call, way: &Ident) -> TokenStream {
        let (path, args) = (&path.expr, &call.args);
        let function = quote_spanned!(path.span()=> function);
        let fallback = quote!(#way.#function(#path, (#(#args,)*)));
        match &call.cfg {
            Some(cfg) => quote!(#[cfg(#cfg)] { #fallback }),
            None => fallback,
        }
    }

    fn finish(&self, call: &Ident, way: &Ident) -> TokenStream {
        let done = match &self.shape {
            Shape::Queued { .. } => return quote!(#call.queue()),
            Shape::Sync { .. } => quote!(#call.execute()),
            Shape::Async { .. } | Shape::Boxed { .. } => quote!(#call.await),
        };
        match &self.rejected {
            Some(rejected) => {
                let number = self.uses().len() - 1;
                let expr = self.used(rejected, number, &rejected.expr);
                quote!(#way.answer_with(#done, #expr))
            }
            None => quote!(#way.answer(#done)),
        }
    }

    // ===== what stands beside the function =====

    fn companion(&self) -> TokenStream {
        let (Companion::Beside, Source::Defined(definition)) = (&self.companion, &self.command) else {
            return TokenStream::new();
        };
        let (private, function) = (self.private(), &self.function);
        let name = companion_name(&function.name(), Span::call_site());
        let (cfgs, vis) = (function.cfgs(), &function.vis);
        let doc = format!("The command behind `{}`.", function.name());
        let of = definition.of(&private);
        let (place, define) = (self.place(), self.define(definition));
        let keyed = matches!(definition.key, Key::PerCall(_));
        quote! {
            #(#cfgs)*
            #[doc(hidden)]
            #[doc = #doc]
            #[allow(dead_code)]
            #[must_use]
            #vis fn #name() -> #private::Annotated {
                #private::Annotated::new(#place, #of, #keyed, #define)
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
    fn of(&self, _private: &TokenStream) -> TokenStream {
        if self.of_type { quote!(::core::any::type_name::<Self>()) } else { quote!("") }
    }
}

/// A synchronous body. Its own braces stay the closure's where nothing stands before it.
fn run(output: &TokenStream, lent: &TokenStream, body: &Group) -> TokenStream {
    if lent.is_empty() {
        quote!(run(move || -> #output #body))
    } else {
        quote!(run(move || -> #output { #lent #body }))
    }
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
