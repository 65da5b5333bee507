//! What is evaluated at each call, beside the body: rules about results, the fallback, and the arguments that they name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Expr, Type};

use super::{Call, Fallback, Judge, KEPT_SELF, Kept, Mistakes, Rule, Use, bare, is_none, replace_self};
use crate::item::{Object, borrow_in, mentions};
use crate::result::Shape;

impl Judge<'_> {
    pub(super) fn rules(&self, on_pool: bool, mistakes: &mut Mistakes) -> Vec<Rule> {
        let mut rules = Vec::new();
        for name in ["ignore", "failure", "classify", "fallback_if"] {
            let (Some(option), Some(expr)) = (self.options.get(name), self.options.expr(name)) else {
                continue;
            };
            if on_pool && name != "fallback_if" {
                self.check_goes_along(name, expr, mistakes);
            }
            rules.push(Rule { name: option.name.clone(), rule: self.per_call(expr, mistakes) });
        }
        rules
    }

    /// A rule of a pool's command judges on the worker.
    fn check_goes_along(&self, option: &str, expr: &Expr, mistakes: &mut Mistakes) {
        let tokens = expr.to_token_stream();
        let borrowed =
            self.arguments.iter().filter(|arg| borrow_in(&arg.ty).is_some()).flat_map(|arg| &arg.names);
        let object = matches!(self.function.object(), Some(Object::Borrowed | Object::Exclusive));
        let object = object.then(|| "self".to_owned());
        for name in borrowed.map(Ident::to_string).chain(object) {
            if let Some(span) = mentions(&tokens, &[&name]) {
                let message = format!(
                    "`{option}` judges on the worker, which cannot borrow `{name}`, because its caller may leave first"
                );
                mistakes.at(span, message);
            }
        }
    }

    /// An expression that is evaluated at each call, beside the body.
    pub(super) fn per_call(&self, expr: &Expr, mistakes: &mut Mistakes) -> Use {
        let mut tokens = moving(expr).into_token_stream();
        let mut kept = Vec::new();
        for arg in &self.arguments {
            for name in &arg.names {
                let Some(span) = mentions(&tokens, &[&name.to_string()]) else { continue };
                match &arg.ty {
                    Type::Reference(reference) if reference.mutability.is_some() => {
                        mistakes
                            .at(span, format!("`{name}` is lent to the body alone, because it is `&mut`"));
                    }
                    // A copy of the reference will do.
                    Type::Reference(_) if arg.simple.is_some() => {}
                    _ => kept.push(Kept { name: name.clone(), cfg: arg.cfgs.first().cloned() }),
                }
            }
        }
        let mut keeps_self = None;
        if let Some(span) = mentions(&tokens, &["self"]) {
            match self.function.object() {
                Some(Object::Exclusive) => {
                    mistakes.at(span, "`self` is lent to the body alone, because it is `&mut`");
                }
                Some(Object::Owned) => {
                    keeps_self = self.function.receiver().map(|receiver| receiver.self_token.span());
                    tokens = replace_self(tokens, KEPT_SELF);
                }
                Some(Object::Borrowed | Object::SharedCounted) | None => {}
            }
        }
        Use { expr: tokens, span: expr.span(), kept, keeps_self }
    }

    pub(super) fn fallback(&self, shape: &Shape, mistakes: &mut Mistakes) -> Fallback {
        if let Some(expr) = self.options.expr("fallback_value") {
            return Fallback::Value(self.per_call(expr, mistakes));
        }
        let Some(expr) = self.options.expr("fallback") else {
            return Fallback::None;
        };
        let Expr::Path(path) = bare(expr) else {
            let how = self.per_call(expr, mistakes);
            let owned = self.owned(shape, &expr.to_token_stream(), false);
            return Fallback::Called { how, owned };
        };
        let mut args = Vec::new();
        let mut all = TokenStream::new();
        if let Some(receiver) = self.function.receiver() {
            let token = &receiver.self_token;
            all.extend(quote!(#token,));
            args.push((quote!(#token), None));
        }
        for arg in &self.arguments {
            let Some(simple) = &arg.simple else {
                let message = "the fallback is a function, which gets this argument too: give it a name, or write a closure";
                mistakes.at(arg.span, message);
                continue;
            };
            let name = &simple.name;
            all.extend(quote!(#name,));
            args.push((quote!(#name), arg.cfgs.first().cloned()));
        }
        let list: Expr = syn::parse_quote!((#all));
        let mut used = self.per_call(&list, mistakes);
        let args = args.into_iter().map(|(arg, cfg)| {
            let arg = if used.keeps_self.is_some() { replace_self(arg, KEPT_SELF) } else { arg };
            (arg, cfg)
        });
        let calls = cases(args.collect(), expr.span(), mistakes);
        used.expr = path.to_token_stream();
        used.span = path.span();
        let owned = self.owned(shape, &list.to_token_stream(), true);
        Fallback::Function { path: used, calls, owned }
    }

    /// Whether a fallback can run on a worker while its caller is still in the body: nothing it names borrows, as far as can be
    /// seen, and the result does not either.
    fn owned(&self, shape: &Shape, tokens: &TokenStream, is_function: bool) -> bool {
        let options = self.options;
        let timed = options.expr("timeout").is_some_and(|timeout| !is_none(timeout));
        let Shape::Sync { output, .. } = shape else { return false };
        if !timed || options.has("thread_pool") || options.has("fallback_here") {
            return false;
        }
        let generics = self.function.generics();
        let generics: Vec<&str> = generics.iter().map(String::as_str).collect();
        let free = |ty: &Type| {
            let tokens = ty.to_token_stream();
            borrow_in(ty).is_none()
                && mentions(&tokens, &generics).is_none()
                && mentions(&tokens, &["impl", "Self"]).is_none()
        };
        let names_object = mentions(tokens, &["self", "Self"]).is_some();
        let object_borrows = !matches!(self.function.object(), None | Some(Object::Owned));
        if names_object && (object_borrows || self.function.receiver().is_some()) || !free(output) {
            return false;
        }
        self.arguments.iter().all(|arg| {
            let named = arg.names.iter().any(|name| mentions(tokens, &[&name.to_string()]).is_some());
            !(named || is_function) || free(&arg.ty)
        })
    }
}

/// A closure owns what it names: it outlives the expression it stands in.
fn moving(expr: &Expr) -> Expr {
    match bare(expr) {
        Expr::Closure(closure) => {
            let mut closure = closure.clone();
            closure.capture.get_or_insert_with(|| syn::Token![move](closure.inputs_begin.span()));
            Expr::Closure(closure)
        }
        _ => expr.clone(),
    }
}

/// The argument lists of a call whose arguments depend on conditions: one for each combination.
fn cases(args: Vec<(TokenStream, Option<TokenStream>)>, span: Span, mistakes: &mut Mistakes) -> Vec<Call> {
    let conditions: Vec<TokenStream> = args.iter().filter_map(|(_, cfg)| cfg.clone()).collect();
    if conditions.is_empty() {
        return vec![Call { cfg: None, args: args.into_iter().map(|(arg, _)| arg).collect() }];
    }
    if conditions.len() > 4 {
        mistakes.at(span, "a function cannot be the fallback where more than four arguments depend on `cfg`: write a closure");
        return Vec::new();
    }
    let case = |bits: usize| {
        let holds = |index: usize| bits >> index & 1 == 1;
        let mut index = 0;
        let args = args.iter().filter(|(_, cfg)| {
            let present = cfg.is_none() || holds(index);
            index += usize::from(cfg.is_some());
            present
        });
        let args = args.map(|(arg, _)| arg.clone()).collect();
        let conditions = conditions.iter().enumerate().map(|(index, condition)| match holds(index) {
            true => quote!(#condition),
            false => quote!(not(#condition)),
        });
        Call { cfg: Some(quote!(all(#(#conditions),*))), args }
    };
    (0..1 << conditions.len()).map(case).collect()
}
