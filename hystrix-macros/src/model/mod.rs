//! Every rule about how options, signature and body go together, and every message. What comes out can be expanded.

mod moved;
mod per_call;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit, LitStr};

use crate::args::{Args, Block, Value, Written};
use crate::item::{Argument, Function, Object};
use crate::names::{self, mentions};
use crate::options::{self, Kind, bare};
use crate::result::{self, Shape};

/// Numbers the expansions, in the order in which the compiler asks for them.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// A function that is to be a command.
pub(crate) struct Model {
    pub(crate) function: Function,
    /// Of all that are expanded in this crate, which one it is.
    pub(crate) number: u32,
    /// The path of the library.
    pub(crate) krate: TokenStream,
    pub(crate) shape: Shape,
    pub(crate) command: Source,
    /// What moves to the worker, in the order of the arguments.
    pub(crate) moved: Vec<Moved>,
    /// What the body takes along as a whole, in the order of the arguments.
    pub(crate) whole: Vec<Kept>,
    /// What results mean, in the order in which it is asked.
    pub(crate) rules: Vec<Rule>,
    pub(crate) fallback: Fallback,
    pub(crate) rejected: Option<Use>,
    pub(crate) companion: Companion,
}

/// A function that cannot be a command as it is written.
pub(crate) struct Refused {
    pub(crate) error: syn::Error,
    pub(crate) krate: TokenStream,
    pub(crate) companion: Companion,
}

/// Where the command comes from.
pub(crate) enum Source {
    /// `command = ..`
    Given {
        expr: Expr,
        /// It stands in `&self`, which outlives the call: no clone is needed.
        borrowed: bool,
    },
    Defined(Definition),
}

pub(crate) struct Definition {
    pub(crate) on_pool: bool,
    pub(crate) key: Key,
    /// Builder methods and their arguments.
    pub(crate) settings: Vec<(Ident, TokenStream)>,
    pub(crate) of: Of,
}

/// What a function belongs to: its name is the default group.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// `Self`
    Itself,
    Module,
}

pub(crate) enum Key {
    /// The function's name.
    Default,
    Written(LitStr),
    PerCall(Expr),
}

/// What becomes of an argument whose body runs on a worker.
pub(crate) enum Moved {
    /// Checked at its own type, and moved.
    Checked { name: Ident, cfg: Option<TokenStream> },
    /// Made owned, and lent to the body there.
    Lent { name: Ident, mutable: bool, cfg: Option<TokenStream> },
    /// `self` behind a reference: cloned. It stands here.
    Object(Span),
}

/// An option's expression, with the arguments that it needs of its own.
pub(crate) struct Use {
    pub(crate) expr: TokenStream,
    /// Where a mistake in it is shown.
    pub(crate) span: Span,
    pub(crate) kept: Vec<Kept>,
    /// Arguments that it takes, for nobody else does.
    pub(crate) taken: Vec<Kept>,
    /// An owned `self` is named: it is kept too, under another name.
    pub(crate) keeps_self: Option<Span>,
}

/// An argument that an option has one of its own of.
pub(crate) struct Kept {
    pub(crate) name: Ident,
    /// The condition under which there is that argument.
    pub(crate) cfg: Option<TokenStream>,
}

pub(crate) struct Rule {
    pub(crate) name: Ident,
    pub(crate) rule: Use,
}

pub(crate) enum Fallback {
    None,
    Value(Use),
    /// A closure, or anything else that can be called with the error.
    Called {
        how: Use,
        owned: bool,
    },
    /// A function that gets the arguments. Under `cfg` some of them may be absent: a list for each case.
    Function {
        path: Use,
        calls: Vec<Call>,
        owned: bool,
    },
}

pub(crate) struct Call {
    /// Under which conditions.
    pub(crate) cfg: Option<TokenStream>,
    pub(crate) args: Vec<TokenStream>,
}

pub(crate) enum Companion {
    None,
    Beside(Announced),
}

/// How the command is announced to those that look for all of a program.
pub(crate) enum Announced {
    /// Its type has parameters: it is many.
    No,
    Free,
    /// `Self` is this type.
    Of(TokenStream),
}

/// Collects mistakes, so that all are reported at once.
#[derive(Default)]
struct Mistakes(Option<syn::Error>);

impl Mistakes {
    fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }
}

/// The options by name, after the rules about presence.
struct Options {
    written: Vec<Written>,
    /// How many of them the function itself has; the others stand around it.
    own: usize,
    block: Option<Block>,
    /// The type and const parameters of that block.
    parameters: Vec<String>,
}

impl Options {
    fn get(&self, name: &str) -> Option<&Written> {
        self.written.iter().find(|option| option.name == name)
    }

    fn expr(&self, name: &str) -> Option<&Expr> {
        match &self.get(name)?.value {
            Value::Expr(expr) => Some(expr),
            _ => None,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The path of the library.
    fn krate(&self) -> TokenStream {
        match self.expr("crate") {
            Some(path) => path.to_token_stream(),
            None => quote!(::hystrix_core),
        }
    }

    /// An option without effect: a mistake where the function itself has it, and otherwise meant for other functions of the block.
    fn without_effect(&mut self, name: &str, message: &str, mistakes: &mut Mistakes) {
        let Some(place) = self.written.iter().position(|option| option.name == name) else { return };
        if place < self.own {
            mistakes.at(self.written[place].name.span(), message);
        } else {
            self.written.remove(place);
        }
    }
}

impl Model {
    /// Judges what was written about a function.
    pub(crate) fn judge(args: Args, function: Function) -> Result<Self, Refused> {
        let mut mistakes = Mistakes::default();
        let mut options = Options::gather(args, &mut mistakes);
        check_qualifiers(&function, &mut mistakes);
        let shape = result::shape(&function, &mut |error| mistakes.push(error));
        options.check_combinations(&function, &shape, &mut mistakes);
        let body = match &shape {
            Shape::Boxed { body, .. } => body.clone(),
            _ => function.body.stream(),
        };
        let judge = Judge { options: &options, function: &function, body, arguments: function.arguments() };
        judge.check_settings(&mut mistakes);
        let command = judge.source();
        let on_pool = options.has("thread_pool");
        let moved = judge.moved(on_pool, &mut mistakes);
        let whole = judge.whole(on_pool, &moved);
        let rules = judge.rules(on_pool, &mut mistakes);
        let fallback = judge.fallback(&shape, &mut mistakes);
        let rejected = options.expr("rejected").map(|expr| judge.per_call(expr, &mut mistakes));
        let companion = judge.companion();
        if let Some(error) = mistakes.0 {
            return Err(Refused { error, krate: options.krate(), companion });
        }
        let krate = options.krate();
        let number = NUMBER.fetch_add(1, Relaxed);
        Ok(Self {
            number,
            krate,
            shape,
            command,
            moved,
            whole,
            rules,
            fallback,
            rejected,
            companion,
            function,
        })
    }
}

// ===== which options there are =====

impl Options {
    fn gather(args: Args, mistakes: &mut Mistakes) -> Self {
        for error in args.errors {
            mistakes.push(error);
        }
        let mut written = options::gather(args.options, &mut |error| mistakes.push(error));
        let own = written.len();
        let around = args.around;
        let block = around.as_ref().map(|around| around.block.clone());
        let parameters = around.iter().flat_map(|around| &around.parameters).map(Ident::to_string).collect();
        for option in around.into_iter().flat_map(|around| around.options) {
            if !options::replaced(&written[..own], &option) {
                written.push(option);
            }
        }
        Self { written, own, block, parameters }
    }
}

// ===== what must not stand together =====

fn check_qualifiers(function: &Function, mistakes: &mut Mistakes) {
    let sig = &function.sig;
    if let Some(token) = &sig.constness {
        mistakes.at(
            token.span(),
            "a `const fn` cannot be a command: a command counts its calls, which a constant cannot",
        );
    }
    if let Some(abi) = &sig.abi {
        let message =
            "an `extern` function cannot be a command: a panic must not leave it; call a command from it";
        mistakes.at(abi.extern_token.span(), message);
    }
    if let Some(again) = function.attribute_again() {
        mistakes.at(again, "`#[command]` is given twice: write all options into one");
    }
    if let Some(variadic) = &sig.variadic {
        mistakes.at(variadic.dots.spans[0], "a variadic function cannot be a command");
    }
}

impl Options {
    fn check_combinations(&mut self, function: &Function, shape: &Shape, mistakes: &mut Mistakes) {
        let given = self.has("command");
        if given {
            let settings: Vec<String> = self.written.iter().map(|option| option.name.to_string()).collect();
            let settings = settings.iter().filter(|name| {
                let known = options::OPTIONS.iter().find(|known| known.name == **name);
                known.is_some_and(|known| matches!(known.kind, Kind::Name | Kind::Isolation | Kind::Setting))
            });
            for name in settings {
                let message = format!(
                    "`{name}` has no effect beside `command`: the command that is given has its own settings"
                );
                self.without_effect(name, &message, mistakes);
            }
        }
        let pooled = self.has("thread_pool") || given;
        if let Shape::Queued { at, .. } = shape {
            if !pooled {
                let message = "a queued call runs on a thread pool: add `thread_pool`, or return a `Result`";
                mistakes.at(*at, message);
            }
            let message = "`rejected` has no effect here: a `Queued<T, E>` answers with `CommandError<E>`";
            self.without_effect("rejected", message, mistakes);
        }
        if !pooled {
            let message = "`to_owned` has no effect without `thread_pool`: a body that stays on its caller's thread may borrow";
            self.without_effect("to_owned", message, mistakes);
        }
        self.check_fallback(function, mistakes);
    }

    fn check_fallback(&mut self, function: &Function, mistakes: &mut Mistakes) {
        let (code, value) = (self.has("fallback"), self.has("fallback_value"));
        for name in ["fallback_if", "fallback_semaphore", "fallback_here"] {
            if !code && !value {
                let message = format!("`{name}` has no effect without a `fallback`");
                self.without_effect(name, &message, mistakes);
            } else if value && name != "fallback_if" {
                let message = format!(
                    "`{name}` has no effect on a `fallback_value`, which takes no permit and runs no code"
                );
                self.without_effect(name, &message, mistakes);
            }
        }
        let given = self.has("command");
        let timed = given || self.expr("timeout").is_some_and(|timeout| !is_none(timeout));
        if code && (self.has("thread_pool") || function.sig.asyncness.is_some() || !timed) {
            let message = "`fallback_here` has no effect: only a synchronous command under a semaphore, with a timeout, has its fallback elsewhere";
            self.without_effect("fallback_here", message, mistakes);
        }
    }
}

fn is_none(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "None"))
}

// ===== the parts =====

struct Judge<'a> {
    options: &'a Options,
    function: &'a Function,
    body: TokenStream,
    arguments: Vec<Argument>,
}

impl Judge<'_> {
    /// Settings are made once, before there are arguments.
    fn check_settings(&self, mistakes: &mut Mistakes) {
        let names: Vec<String> = self.arguments.iter().flat_map(Argument::texts).collect();
        let generics = [self.function.generics(), self.options.parameters.clone()].concat();
        for option in &self.options.written {
            let Value::Expr(expr) = &option.value else { continue };
            let kind = options::find(&option.name).map(|known| known.kind);
            let once = matches!(kind, Ok(Kind::Isolation | Kind::Setting)) || option.name == "group";
            if !once {
                continue;
            }
            let tokens = expr.to_token_stream();
            let named = names.iter().map(String::as_str).chain(["self"]);
            for name in named {
                if let Some(span) = names::uses_as_a_value(&tokens, &[name]) {
                    let what =
                        if name == "self" { "`self`".into() } else { format!("the argument `{name}`") };
                    let message = format!(
                        "`{}` is evaluated once, when the command is made, and cannot use {what}; what differs from call to call is `key`, or `command = ..`",
                        option.name
                    );
                    mistakes.at(span, message);
                }
            }
            for name in &generics {
                if let Some(span) = mentions(&tokens, &[name]) {
                    let message = format!(
                        "`{}` is evaluated once for all types, and cannot use the parameter `{name}`",
                        option.name
                    );
                    mistakes.at(span, message);
                }
            }
        }
    }

    fn source(&self) -> Source {
        let options = self.options;
        if let Some(expr) = options.expr("command") {
            let first = expr.to_token_stream().into_iter().find(|token| token.to_string() != "&");
            let of_self = first.is_some_and(|token| token.to_string() == "self");
            let borrowed =
                of_self && matches!(self.function.object(), Some(Object::Borrowed | Object::SharedCounted));
            return Source::Given { expr: expr.clone(), borrowed };
        }
        let key = match options.expr("key").map(bare) {
            None => Key::Default,
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Key::Written(text.clone()),
            Some(expr) => Key::PerCall(expr.clone()),
        };
        let mut settings = Vec::new();
        for option in &options.written {
            let name = option.name.to_string();
            let kind = options::find(&option.name).map(|known| known.kind);
            if !matches!(kind, Ok(Kind::Isolation | Kind::Setting)) && name != "group" {
                continue;
            }
            let value = match &option.value {
                Value::Expr(expr) => expr.to_token_stream(),
                _ => {
                    let krate = self.options.krate();
                    quote!(#krate::__private::ThreadPool::of_the_group())
                }
            };
            settings.push((option.name.clone(), value));
        }
        let in_block = matches!(options.block, Some(Block::Inherent(_) | Block::Trait));
        let of = if in_block || self.function.names_self_type() { Of::Itself } else { Of::Module };
        Source::Defined(Definition { on_pool: options.has("thread_pool"), key, settings, of })
    }

    fn companion(&self) -> Companion {
        let of_self = self.function.names_self_type();
        match &self.options.block {
            // The other attribute has one.
            _ if self.function.attribute_again().is_some() => Companion::None,
            _ if self.options.has("command") => Companion::None,
            Some(Block::Trait) => Companion::None,
            Some(Block::Inherent(Some(of))) => Companion::Beside(Announced::Of(of.to_token_stream())),
            Some(Block::Inherent(None)) => Companion::Beside(Announced::No),
            _ if of_self => Companion::None,
            _ => Companion::Beside(Announced::Free),
        }
    }
}

/// What `self` is called in a body that has moved, and in an option that has one of its own.
pub(crate) const OUR_SELF: &str = "__hystrix_self";

/// Replaces `self`, as the body of a function that has moved does.
pub(crate) fn replace_self(tokens: TokenStream) -> TokenStream {
    names::replace(tokens, "self", OUR_SELF)
}
