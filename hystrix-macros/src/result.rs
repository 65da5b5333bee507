//! What a function returns, as far as its signature says: decides what kind of command it is.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{GenericArgument, GenericParam, Path, PathArguments, ReturnType, Type, TypeParamBound};

use crate::item::{Function, last_segment};
use crate::names::mentions;

/// The kinds of function.
pub(crate) enum Shape {
    /// Returns a result.
    Sync { output: Type },
    /// Returns a future of one: `async fn`.
    Async { output: Type },
    /// The same after another macro has made a boxed future of it: what the future's block holds.
    Boxed { output: Type, body: TokenStream },
    /// Returns at once, with a handle.
    Queued { value: Box<Type>, error: Box<Type>, at: Span },
}

/// Reads the signature; what cannot be is reported.
pub(crate) fn shape(function: &Function, wrong: &mut dyn FnMut(syn::Error)) -> Shape {
    let sig = &function.sig;
    let output = match &sig.output {
        ReturnType::Type(_, ty) => (**ty).clone(),
        ReturnType::Default => {
            let message = "a command returns a `Result`, and this function returns nothing: write `-> Result<(), CommandError<E>>`, or an error that is `From<Rejection>`";
            wrong(syn::Error::new(sig.ident.span(), message));
            return Shape::Sync { output: syn::parse_quote!(()) };
        }
    };
    if let Some(queued) = queued(&output) {
        if let Some(token) = &sig.asyncness {
            let message = "a `Queued` is a future already: drop the `async`, or return a `Result`";
            wrong(syn::Error::new(token.span(), message));
        }
        return queued;
    }
    if sig.asyncness.is_none()
        && let Some((output, body)) = boxed(function, &output)
    {
        return Shape::Boxed { output, body };
    }
    if let Some(error) = not_a_result(&output, sig.asyncness.is_some()) {
        wrong(error);
    }
    match sig.asyncness {
        Some(_) => Shape::Async { output },
        None => Shape::Sync { output },
    }
}

/// `Queued<T, E>`
fn queued(ty: &Type) -> Option<Shape> {
    let segment = last_segment(ty).filter(|segment| segment.ident == "Queued")?;
    match &types(&segment.arguments)[..] {
        [value, error] => Some(Shape::Queued {
            value: Box::new((*value).clone()),
            error: Box::new((*error).clone()),
            at: segment.ident.span(),
        }),
        _ => None,
    }
}

fn types(arguments: &PathArguments) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

/// What `#[async_trait]` leaves of an `async fn`: the lifetime of its name, a boxed future as the result, and
/// `Box::pin(async move { .. })` as the body.
fn boxed(function: &Function, output: &Type) -> Option<(Type, TokenStream)> {
    let marked =
        function.sig.generics.params.iter().any(
            |param| matches!(param, GenericParam::Lifetime(param) if param.lifetime.ident == "async_trait"),
        );
    let output = marked.then(|| future_output(output))??;
    let pinned = function.body.stream().into_iter().last()?;
    let TokenTree::Group(pinned) = pinned else { return None };
    let mut inside = pinned.stream().into_iter();
    let (keyword, moves, block) = (inside.next()?, inside.next()?, inside.next()?);
    match block {
        TokenTree::Group(block)
            if keyword.to_string() == "async" && moves.to_string() == "move" && inside.next().is_none() =>
        {
            Some((output, without_unused_self(block.stream())))
        }
        _ => None,
    }
}

/// That macro begins with `let __self = self;` whether the body has a use for it or not.
fn without_unused_self(body: TokenStream) -> TokenStream {
    fn count(tokens: TokenStream) -> usize {
        let counted = tokens.into_iter().map(|token| match token {
            TokenTree::Ident(ident) => usize::from(ident == "__self"),
            TokenTree::Group(group) => count(group.stream()),
            _ => 0,
        });
        counted.sum()
    }
    if count(body.clone()) != 1 {
        return body;
    }
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let is_binding = |window: &[TokenTree]| {
        let texts = ["let", "__self", "=", "self", ";"];
        window.iter().zip(texts).all(|(token, text)| token.to_string() == text)
    };
    let place = tokens.windows(5).position(is_binding);
    let skipped = |index: usize| place.is_some_and(|place| (place..place + 5).contains(&index));
    tokens.into_iter().enumerate().filter(|(index, _)| !skipped(*index)).map(|(_, token)| token).collect()
}

/// The `Output` of `Pin<Box<dyn Future<Output = ..>>>`.
fn future_output(ty: &Type) -> Option<Type> {
    let pin = last_segment(ty).filter(|segment| segment.ident == "Pin")?;
    let pointer = types(&pin.arguments).into_iter().next()?;
    let pointer = last_segment(pointer)?;
    let Type::TraitObject(object) = types(&pointer.arguments).into_iter().next()? else {
        return None;
    };
    object.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let segment = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(output.ty.clone()),
            _ => None,
        })
    })
}

/// Says what a return type is that is surely no result; of an alias only the compiler knows.
fn not_a_result(ty: &Type, is_async: bool) -> Option<syn::Error> {
    let tokens = ty.to_token_stream();
    let error = |what: &str| {
        let message = format!(
            "a command returns a `Result`, and this is {what}: the error says what a caller gets when the command is refused"
        );
        Some(syn::Error::new(ty.span(), message))
    };
    let future = |what: &str| {
        let message = format!(
            "this function returns {what} without being `async`: it would be counted before it has begun; write `async fn`, and return the `Result`"
        );
        Some(syn::Error::new(ty.span(), message))
    };
    let stream = "this function returns a stream, which ends long after the command would have been counted; make commands of what opens the stream (`-> Result<S, E>`) or reads an item";
    let is_future = |ty: &Type| {
        let tokens = ty.to_token_stream();
        let lazy = matches!(ty, Type::ImplTrait(_)) || last_segment(ty).is_some();
        lazy && mentions(&tokens, &["Future", "IntoFuture", "BoxFuture", "LocalBoxFuture"]).is_some()
            && !is_callable(ty)
    };
    let is_stream = |ty: &Type| {
        let named = matches!(ty, Type::ImplTrait(_))
            || last_segment(ty).is_some_and(|segment| {
                ["Pin", "Box", "BoxStream", "LocalBoxStream"].iter().any(|name| segment.ident == name)
            });
        named
            && mentions(&tokens, &["Stream", "TryStream", "BoxStream", "LocalBoxStream", "AsyncIterator"])
                .is_some()
    };
    match ty {
        _ if is_stream(ty) => Some(syn::Error::new(ty.span(), stream)),
        _ if !is_async && is_lazy(ty) && is_future(ty) => future("a future"),
        Type::ImplTrait(_) => error("something else"),
        Type::Tuple(tuple) if tuple.elems.is_empty() => error("`()`"),
        Type::Never(_) => error("`!`"),
        Type::Tuple(_) | Type::Array(_) | Type::Slice(_) => error("none"),
        Type::Reference(_) | Type::Ptr(_) | Type::FnPtr(_) | Type::TraitObject(_) => error("none"),
        _ => {
            let segment = last_segment(ty)?;
            let name = segment.ident.to_string();
            const PLAIN: [&str; 22] = [
                "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64",
                "i128", "isize", "f32", "f64", "String", "Option", "Vec", "Box", "Arc",
            ];
            if PLAIN.contains(&&*name) {
                return error(&format!("`{}`", as_written(ty)));
            }
            let value = (name == "Result").then(|| types(&segment.arguments).into_iter().next())??;
            (!is_async && is_lazy(value) && is_future(value)).then(|| future("a future in a result"))?
        }
    }
}

/// A type without the spaces that tokens have between them.
fn as_written(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    let tight = [(" < ", "<"), (" >", ">"), (" :: ", "::"), (" ,", ","), ("& ", "&")];
    tight.iter().fold(text, |text, (loose, tight)| text.replace(loose, tight))
}

/// A type that is a future itself, not one that holds or makes one.
fn is_lazy(ty: &Type) -> bool {
    let named = ["Pin", "Box", "BoxFuture", "LocalBoxFuture", "Ready"];
    matches!(ty, Type::ImplTrait(_))
        || last_segment(ty).is_some_and(|segment| named.iter().any(|name| segment.ident == name))
}

fn is_callable(ty: &Type) -> bool {
    mentions(&ty.to_token_stream(), &["Fn", "FnMut", "FnOnce", "fn"]).is_some()
}

/// The type with `_` in the place of each `impl Trait`, which an expression cannot name.
pub(crate) fn inferable(ty: &Type) -> Type {
    let mut ty = ty.clone();
    blank_impls(&mut ty);
    ty
}

fn blank_impls(ty: &mut Type) {
    match ty {
        Type::ImplTrait(_) => *ty = syn::parse_quote!(_),
        Type::Path(path) => {
            if let Some(qself) = &mut path.qself {
                blank_impls(&mut qself.ty);
            }
            blank_path(&mut path.path);
        }
        Type::TraitObject(object) => {
            for bound in &mut object.bounds {
                if let TypeParamBound::Trait(bound) = bound {
                    blank_path(&mut bound.path);
                }
            }
        }
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(blank_impls),
        Type::Array(array) => blank_impls(&mut array.elem),
        Type::Slice(slice) => blank_impls(&mut slice.elem),
        Type::Reference(reference) => blank_impls(&mut reference.elem),
        Type::Paren(inner) => blank_impls(&mut inner.elem),
        Type::Group(inner) => blank_impls(&mut inner.elem),
        _ => {}
    }
}

fn blank_path(path: &mut Path) {
    for segment in &mut path.segments {
        match &mut segment.arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(arguments) => {
                for argument in &mut arguments.args {
                    match argument {
                        GenericArgument::Type(ty) => blank_impls(ty),
                        GenericArgument::AssocType(assoc) => blank_impls(&mut assoc.ty),
                        _ => {}
                    }
                }
            }
            PathArguments::Parenthesized(arguments) => {
                if let ReturnType::Type(_, ty) = &mut arguments.output {
                    blank_impls(ty);
                }
            }
        }
    }
}
