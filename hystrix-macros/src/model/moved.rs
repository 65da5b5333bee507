//! What a body on a worker needs: arguments that move, are made owned, or cannot.

use proc_macro2::{Ident, TokenStream};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::{Judge, Kept, Mistakes, Moved};
use crate::args::Value;
use crate::item::{Argument, Object, Simple, borrow_in};
use crate::names::uses;

impl Judge<'_> {
    /// On a pool everything that the body uses; on a command that is given, which may be of either kind, what is to be owned.
    pub(super) fn moved(&self, on_pool: bool, mistakes: &mut Mistakes) -> Vec<Moved> {
        let body = &self.body;
        let owned: Vec<Ident> = match self.options.get("to_owned").map(|option| &option.value) {
            Some(Value::List(names)) => names.clone(),
            _ => Vec::new(),
        };
        for name in &owned {
            let known = name == "self" && self.function.receiver().is_some()
                || self
                    .arguments
                    .iter()
                    .any(|arg| arg.simple.as_ref().is_some_and(|simple| simple.name == *name));
            if !known {
                let what = if name == "self" {
                    "there is no receiver".into()
                } else {
                    format!("there is no argument called `{name}`")
                };
                mistakes.at(name.span(), format!("`to_owned` names `{name}`, but {what}"));
            }
        }
        if !on_pool && owned.is_empty() {
            return Vec::new();
        }
        let mut moved: Vec<Moved> = self.moved_object(&owned, on_pool, body, mistakes).into_iter().collect();
        for arg in &self.arguments {
            let cfg = arg.cfg.clone();
            let used = uses(body, &arg.texts()).is_some();
            match &arg.simple {
                Some(Simple { name, mutable }) if owned.contains(name) => {
                    if matches!(&arg.ty, Type::Reference(reference) if reference.mutability.is_some()) {
                        let message =
                            "what a body changes through `&mut` would be lost on a worker: return it instead";
                        mistakes.at(arg.ty.span(), message);
                    }
                    moved.push(Moved::Lent { name: name.clone(), mutable: *mutable, cfg });
                }
                _ if !on_pool => {}
                _ if !used => {}
                simple => {
                    if borrow_in(&arg.ty).is_some() {
                        self.borrowed(arg, simple.as_ref(), mistakes);
                    } else if arg.by_ref {
                        let message = "a worker cannot borrow this argument, because its caller may leave first; take it without `ref`";
                        mistakes.at(arg.span, message);
                    }
                    let names = arg.names.iter().filter(|name| !arg.by_ref && !arg.changed.contains(name));
                    moved.extend(names.map(|name| Moved::Checked { name: name.clone(), cfg: cfg.clone() }));
                }
            }
        }
        moved
    }

    /// What the body has by value, or is to hold while it runs: what it names, and what is called `_guard`. In the order of the arguments.
    pub(super) fn whole(&self, on_pool: bool, moved: &[Moved]) -> Vec<Kept> {
        let lent = |name: &Ident| {
            moved.iter().any(|moved| matches!(moved, Moved::Lent { name: lent, .. } if lent == name))
        };
        let held = |name: &Ident, ty: &Type| {
            let may_be = match on_pool {
                true => borrow_in(ty).is_none(),
                false => !self.is_named_by_an_option(&name.unraw().to_string()),
            };
            name.to_string().starts_with('_') && may_be
        };
        let arguments = self.arguments.iter().flat_map(|arg| {
            let names = arg.names.iter().filter(|name| !lent(name));
            let names = names.filter(|name| {
                uses(&self.body, &[name.unraw().to_string()]).is_some() || held(name, &arg.ty)
            });
            names.map(|name| Kept { name: name.clone(), cfg: arg.cfg.clone() })
        });
        let owned = matches!(self.function.object(), Some(Object::Owned));
        let used = owned && uses(&self.body, &["self"]).is_some();
        let object = self.function.receiver().filter(|_| used);
        let object = object.map(|receiver| Kept { name: receiver.self_token.into(), cfg: None });
        object.into_iter().chain(arguments).collect()
    }

    fn borrowed(&self, arg: &Argument, simple: Option<&Simple>, mistakes: &mut Mistakes) {
        let exclusive = matches!(&arg.ty, Type::Reference(reference) if reference.mutability.is_some());
        let message = match simple {
            Some(simple) if !exclusive => format!(
                "a worker cannot borrow `{0}`, because its caller may leave first; take it by value, or add `to_owned({0})`",
                simple.name
            ),
            _ => "a worker cannot borrow this argument, because its caller may leave first; take it by value"
                .into(),
        };
        mistakes.at(arg.ty.span(), message);
    }

    fn moved_object(
        &self,
        owned: &[Ident],
        on_pool: bool,
        body: &TokenStream,
        mistakes: &mut Mistakes,
    ) -> Option<Moved> {
        let (receiver, object) = (self.function.receiver()?, self.function.object()?);
        let span = receiver.self_token.span();
        let used = uses(body, &["self"]).is_some();
        let listed = owned.iter().any(|name| name == "self");
        match object {
            Object::SharedCounted if on_pool || listed => Some(Moved::Object(span)),
            Object::Borrowed if listed => Some(Moved::Object(span)),
            Object::Borrowed if used && on_pool => {
                let message = "a worker cannot borrow `self`, because its caller may leave first; add `to_owned(self)`, which clones it, or take `self: Arc<Self>` or `self: &Arc<Self>`";
                mistakes.at(receiver.span(), message);
                None
            }
            Object::Exclusive if (used && on_pool) || listed => {
                let message = "a worker cannot have `&mut self`, because its caller may leave first; use semaphore isolation, or take `self` by value";
                mistakes.at(receiver.span(), message);
                None
            }
            Object::Owned if listed => {
                mistakes.at(span, "`to_owned(self)` has no effect: `self` is owned already");
                None
            }
            _ => None,
        }
    }
}
