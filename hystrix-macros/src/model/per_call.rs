//! What is evaluated at each call, beside the body: rules about results, the fallback, and the arguments that they name.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Type};

use crate::args::Value;

use super::{Call, Fallback, Judge, Kept, Mistakes, Rule, Use, bare, is_none, replace_self};
use crate::item::{Argument, Object, borrow_in, each_binding};
use crate::names::{mentions, names_a_parameter, uses};
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
        let (tokens, own) = (expr.to_token_stream(), own_names(expr));
        let borrowed =
            self.arguments.iter().filter(|arg| borrow_in(&arg.ty).is_some()).flat_map(Argument::texts);
        let object = matches!(self.function.object(), Some(Object::Borrowed | Object::Exclusive));
        let object = object.then(|| "self".to_owned());
        for name in borrowed.filter(|name| !own.contains(name)).chain(object) {
            if let Some(span) = uses(&tokens, &[&name]) {
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
        let own = own_names(expr);
        let (mut kept, mut taken): (Vec<Kept>, Vec<Kept>) = (Vec::new(), Vec::new());
        for arg in &self.arguments {
            for (name, text) in arg.names.iter().zip(arg.texts()) {
                let named = if own.contains(&text) { None } else { uses(&tokens, &[&text]) };
                let Some(span) = named else { continue };
                match &arg.ty {
                    Type::Reference(reference) if reference.mutability.is_some() => {
                        mistakes
                            .at(span, format!("`{name}` is lent to the body alone, because it is `&mut`"));
                    }
                    // A copy of the reference will do.
                    Type::Reference(_) if arg.simple.is_some() => {}
                    // Nobody else takes it.
                    _ if !self.is_taken(&text, expr) => {
                        taken.push(Kept { name: name.clone(), cfg: arg.cfg.clone() });
                    }
                    _ => kept.push(Kept { name: name.clone(), cfg: arg.cfg.clone() }),
                }
            }
        }
        let mut keeps_self = None;
        if let Some(span) = uses(&tokens, &["self"]) {
            match self.function.object() {
                Some(Object::Exclusive) => {
                    mistakes.at(span, "`self` is lent to the body alone, because it is `&mut`");
                }
                Some(Object::Owned) if self.is_taken("self", expr) => {
                    keeps_self = self.function.receiver().map(|receiver| receiver.self_token.span());
                    tokens = replace_self(tokens);
                }
                _ => {}
            }
        }
        Use { expr: tokens, span: expr.span(), kept, taken, keeps_self }
    }

    /// Whether the body takes an argument, or another option than this one.
    fn is_taken(&self, name: &str, but_for: &Expr) -> bool {
        let body = &self.body;
        let is_guard = self.options.has("thread_pool") && name.starts_with('_');
        let mut others = self.expressions().filter(|expr| !std::ptr::eq(*expr, but_for));
        let fallback = self.options.expr("fallback").filter(|expr| !std::ptr::eq(*expr, but_for));
        let is_function = fallback.is_some_and(|expr| matches!(bare(expr), Expr::Path(_)));
        is_guard
            || is_function
            || uses(body, &[name]).is_some()
            || others.any(|expr| uses(&expr.to_token_stream(), &[name]).is_some())
    }

    /// Whether an option names an argument, or is a function that gets them all.
    pub(super) fn is_named_by_an_option(&self, name: &str) -> bool {
        let is_function =
            self.options.expr("fallback").is_some_and(|expr| matches!(bare(expr), Expr::Path(_)));
        is_function || self.expressions().any(|expr| uses(&expr.to_token_stream(), &[name]).is_some())
    }

    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.options.written.iter().filter_map(|option| match &option.value {
            Value::Expr(expr) => Some(expr),
            _ => None,
        })
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
            let owned = self.owned(shape, expr, false);
            return Fallback::Called { how, owned };
        };
        if let Some(name) = path.path.get_ident()
            && self.arguments.iter().any(|arg| arg.names.contains(name))
        {
            let message =
                format!("an argument is called `{name}` too, and hides the function: write `self::{name}`");
            mistakes.at(name.span(), message);
        }
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
            args.push((quote!(#name), arg.cfg.clone()));
        }
        let list: Expr = syn::parse_quote!((#all));
        let mut used = self.per_call(&list, mistakes);
        let args = args.into_iter().map(|(arg, cfg)| {
            let arg = if used.keeps_self.is_some() { replace_self(arg) } else { arg };
            (arg, cfg)
        });
        let calls = cases(args.collect(), expr.span(), mistakes);
        used.expr = path.to_token_stream();
        used.span = path.span();
        let owned = self.owned(shape, &list, true);
        Fallback::Function { path: used, calls, owned }
    }

    /// Whether a fallback may outlive its caller's stay in the body, as far as can be seen: nothing that it names borrows, and the result does not
    /// either. Whether all of it can go to another thread the types say.
    fn owned(&self, shape: &Shape, expr: &Expr, is_function: bool) -> bool {
        let options = self.options;
        let timed = options.expr("timeout").is_some_and(|timeout| !is_none(timeout));
        let Shape::Sync { output, .. } = shape else { return false };
        if !timed || options.has("thread_pool") || options.has("fallback_here") {
            return false;
        }
        let generics = [self.function.generics(), options.parameters.clone()].concat();
        let lives = |ty: &Type| {
            let tokens = ty.to_token_stream();
            let bound = [generics.as_slice(), &["impl".into(), "Self".into()]].concat();
            borrow_in(ty).is_none() && mentions(&tokens, &bound).is_none() && !names_a_parameter(&tokens)
        };
        let (tokens, own) = (expr.to_token_stream(), own_names(expr));
        if mentions(&tokens, &["self", "Self"]).is_some() || !lives(output) {
            return false;
        }
        self.arguments.iter().all(|arg| {
            let named =
                arg.texts().iter().any(|name| !own.contains(name) && uses(&tokens, &[name]).is_some());
            !(named || is_function) || lives(&arg.ty)
        })
    }
}

/// The names that a closure's own parameters bind: within it they are not the function's arguments.
fn own_names(expr: &Expr) -> Vec<String> {
    let Expr::Closure(closure) = bare(expr) else { return Vec::new() };
    let mut names = Vec::new();
    for pat in &closure.inputs {
        each_binding(pat, &mut |pat| names.push(pat.ident.unraw().to_string()));
    }
    names
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
