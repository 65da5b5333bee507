//! Arguments on their way: kept for options, moved to a worker, lent to the body there.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{at, local, local_at};
use crate::model::{Fallback, Kept, Model, Moved, OUR_SELF, Use};

impl Model {
    /// Every use that needs arguments of its own, numbered in this order.
    pub(super) fn uses(&self) -> Vec<&Use> {
        let fallback = match &self.fallback {
            Fallback::None => None,
            Fallback::Value(value) => Some(value),
            Fallback::Called { how, .. } => Some(how),
            Fallback::Function { path, .. } => Some(path),
        };
        self.rules.iter().map(|rule| &rule.rule).chain(fallback).chain(&self.rejected).collect()
    }

    /// Keeps what options need, before the body takes it.
    pub(super) fn keeps(&self) -> TokenStream {
        let mut keeps = TokenStream::new();
        for (number, used) in self.uses().into_iter().enumerate() {
            for (which, Kept { name, cfg }) in used.kept.iter().enumerate() {
                let (kept, cfg) = (kept_for(number, which), condition(cfg));
                let another = self.keep(&quote!(&#name), name.span());
                keeps.extend(quote!(#cfg let #kept = #another;));
            }
            if let Some(span) = used.keeps_self {
                let (kept, token) = (kept_self(number), Ident::new("self", span));
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
    pub(super) fn used(&self, used: &Use, number: usize, expr: &TokenStream) -> TokenStream {
        if used.kept.is_empty() && used.keeps_self.is_none() {
            return expr.clone();
        }
        let kept = used.kept.iter().enumerate().map(|(which, Kept { name, cfg })| {
            let (kept, cfg) = (kept_for(number, which), condition(cfg));
            let allow = shadows();
            quote!(#cfg #allow let #name = #kept;)
        });
        let object = used.keeps_self.map(|span| {
            let (name, kept) = (Ident::new(OUR_SELF, span), kept_self(number));
            quote!(let #name = #kept;)
        });
        quote!({ #(#kept)* #object #expr })
    }

    /// The arguments that an option names, where it has them from. Those that depend on a condition are left to the compiler.
    pub(super) fn named(&self, used: &Use, number: usize) -> Vec<Ident> {
        let kept = used.kept.iter().enumerate().filter(|(_, kept)| kept.cfg.is_none());
        let kept = kept.map(|(which, _)| kept_for(number, which));
        let taken = used.taken.iter().filter(|taken| taken.cfg.is_none());
        kept.chain(taken.map(|taken| taken.name.clone())).collect()
    }

    /// What the worker gets: each argument checked on its way, or made owned.
    pub(super) fn moves(&self) -> TokenStream {
        let moves = self.moved.iter().enumerate().map(|(which, moved)| match moved {
            Moved::Checked { name, cfg } => {
                let (cfg, send) = (condition(cfg), self.send(&quote!(#name), name.span()));
                let allow = shadows();
                quote!(#cfg #allow let #name = #send;)
            }
            Moved::Lent { name, mutable, cfg } => {
                let (cfg, owned, taken) = (condition(cfg), owned(which), local("taken"));
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
                let (name, span) = (local_at("object", *span), *span);
                let token = Ident::new("self", span);
                // Of `&self` the object, of `&Arc<Self>` the counter: what stands behind the reference.
                let another = self.keep(&quote!(#token), span);
                let send = self.send(&another, span);
                quote!(let #name = #send;)
            }
        });
        moves.collect()
    }

    /// Takes along as a whole what the body has by value: a closure would take the fields it names one by one, and leave the others where they are. The last
    /// argument first, for that is the order in which a function's own are dropped.
    pub(super) fn whole(&self) -> TokenStream {
        let whole = self.whole.iter().rev().map(|Kept { name, cfg }| {
            let cfg = condition(cfg);
            quote!(#cfg let _ = &#name;)
        });
        whole.collect()
    }

    /// The statements before a body that has moved: what it was lent.
    pub(super) fn lent(&self) -> TokenStream {
        let lent = self.moved.iter().enumerate().map(|(which, moved)| match moved {
            Moved::Checked { .. } => TokenStream::new(),
            Moved::Lent { name, mutable, cfg } => {
                let (cfg, owned) = (condition(cfg), owned(which));
                let mutable = mutable.then(|| quote!(mut));
                let allow = shadows();
                quote!(#cfg #allow let #mutable #name = #owned.lend();)
            }
            Moved::Object(span) => {
                let (name, object) = (Ident::new(OUR_SELF, *span), local_at("object", *span));
                quote!(let #name = &#object;)
            }
        });
        lent.collect()
    }

    pub(super) fn moves_object(&self) -> bool {
        self.moved.iter().any(|moved| matches!(moved, Moved::Object(_)))
    }
}

/// An argument takes another's place under its own name, which the user sees nothing of.
fn shadows() -> TokenStream {
    quote!(#[allow(clippy::shadow_reuse, clippy::shadow_same, clippy::shadow_unrelated)])
}

/// The attribute of what is there under a condition.
fn condition(cfg: &Option<TokenStream>) -> Option<TokenStream> {
    cfg.as_ref().map(|cfg| quote!(#[cfg(#cfg)]))
}

/// What is kept for an option. By number, for two arguments may have one name, of which a `macro_rules` knows the one and its user the other.
fn kept_for(number: usize, which: usize) -> Ident {
    local(&format!("kept_{number}_{which}"))
}

fn kept_self(number: usize) -> Ident {
    local(&format!("kept_{number}_self"))
}

/// What was made owned for the worker.
fn owned(which: usize) -> Ident {
    local(&format!("owned_{which}"))
}
