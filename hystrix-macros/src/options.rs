//! The options there are, and the rules about each by itself: its form, its value where that is literal.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit};

use crate::args::{Value, Written};

/// What an option is for; those of one kind are treated alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Half of the identity.
    Name,
    /// Where bodies run.
    Isolation,
    /// A method of the builder.
    Setting,
    /// What a result means, asked per call.
    Rule,
    /// What answers instead of the body.
    Fallback,
    /// Something about the expansion itself.
    Other,
}

pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Flag,
    Value,
    FlagOrValue,
    List,
}

const fn known(name: &'static str, kind: Kind, form: Form) -> Known {
    Known { name, kind, form }
}

/// Every option, in the order in which they are listed to the user.
pub(crate) const OPTIONS: &[Known] = &[
    known("key", Kind::Name, Form::Value),
    known("group", Kind::Name, Form::Value),
    known("thread_pool", Kind::Isolation, Form::FlagOrValue),
    known("semaphore", Kind::Isolation, Form::Value),
    known("timeout", Kind::Setting, Form::Value),
    known("circuit_breaker", Kind::Setting, Form::Value),
    known("classify", Kind::Rule, Form::Value),
    known("ignore", Kind::Rule, Form::Value),
    known("failure", Kind::Rule, Form::Value),
    known("fallback", Kind::Fallback, Form::Value),
    known("fallback_value", Kind::Fallback, Form::Value),
    known("fallback_if", Kind::Rule, Form::Value),
    known("fallback_here", Kind::Other, Form::Flag),
    known("fallback_semaphore", Kind::Setting, Form::Value),
    known("rejected", Kind::Rule, Form::Value),
    known("to_owned", Kind::Other, Form::List),
    known("command", Kind::Other, Form::Value),
    known("config", Kind::Setting, Form::Value),
    known("mode", Kind::Setting, Form::Value),
    known("crate", Kind::Other, Form::Value),
];

/// Finds an option by its name, or says which ones there are.
pub(crate) fn find(name: &Ident) -> syn::Result<&'static Known> {
    let text = name.to_string();
    if let Some(known) = OPTIONS.iter().find(|known| known.name == text) {
        return Ok(known);
    }
    let names = OPTIONS.iter().map(|known| known.name);
    let closest =
        names.clone().min_by_key(|known| distance(known, &text)).filter(|known| distance(known, &text) <= 3);
    let hint = closest.map(|closest| format!(", did you mean `{closest}`?")).unwrap_or_default();
    let all = names.collect::<Vec<_>>().join(", ");
    Err(syn::Error::new(name.span(), format!("unknown option `{text}`{hint}\nthe options are: {all}")))
}

/// Of these a function has one: what it writes takes the place of what the block around it says.
const EXCLUSIVE: [&[&str]; 2] = [&["thread_pool", "semaphore"], &["fallback", "fallback_value"]];

/// What may not stand beside an option.
fn rivals(name: &str) -> impl Iterator<Item = &'static str> {
    let names = EXCLUSIVE.iter().filter(move |names| names.contains(&name)).flat_map(|names| *names);
    names.copied().filter(move |rival| *rival != name)
}

/// The options of one attribute: those there are, each once. What is wrong with them is noted.
pub(crate) fn gather(written: Vec<Written>, note: &mut dyn FnMut(syn::Error)) -> Vec<Written> {
    let mut gathered: Vec<Written> = Vec::new();
    for option in written {
        let known = match find(&option.name) {
            Ok(known) => known,
            Err(error) => {
                note(error);
                continue;
            }
        };
        if let Err(error) = known.check(&option) {
            note(error);
        }
        let span = option.name.span();
        if gathered.iter().any(|other| other.name == option.name) {
            note(syn::Error::new(span, format!("`{}` is given twice", option.name)));
            continue;
        }
        for rival in rivals(known.name) {
            if gathered.iter().any(|other| other.name == rival) {
                let message = format!("`{}` and `{rival}` exclude each other", known.name);
                note(syn::Error::new(span, message));
            }
        }
        gathered.push(option);
    }
    gathered
}

/// Whether what a function or inner block itself writes takes the place of an option around it.
pub(crate) fn replaced(own: &[Written], around: &Written) -> bool {
    let is_own = |name: &str| own.iter().any(|option| option.name == name);
    let name = around.name.to_string();
    let kind = find(&around.name).map(|known| known.kind).ok();
    let given = is_own("command") && matches!(kind, Some(Kind::Name | Kind::Isolation | Kind::Setting));
    is_own(&name) || rivals(&name).any(is_own) || given
}

pub(crate) fn takes_names(name: &Ident) -> bool {
    OPTIONS.iter().any(|known| name == known.name && known.form == Form::List)
}

/// How many letters have to be changed, added, dropped or swapped.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, against) in other.iter().enumerate() {
            let changed = rows[i][j] + usize::from(letter != against);
            let mut best = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *against {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

impl Known {
    /// Checks the form of an option, and its value where it is literal.
    pub(crate) fn check(&self, written: &Written) -> syn::Result<()> {
        let span = written.name.span();
        let wrong = |message: String| Err(syn::Error::new(span, message));
        let name = self.name;
        match (&written.value, self.form) {
            (Value::Nothing, Form::Flag | Form::FlagOrValue) | (Value::List(_), Form::List) => Ok(()),
            (Value::Expr(expr), Form::Value | Form::FlagOrValue) => self.check_value(expr),
            (Value::Nothing, Form::Value) => {
                wrong(format!("`{name}` needs a value: `{name} = {}`", self.example()))
            }
            (_, Form::Flag) => wrong(format!("`{name}` takes no value")),
            (_, Form::List) => wrong(format!("`{name}` takes names: `{name}(self, argument)`")),
            (Value::List(_), _) => wrong(format!("write `{name} = {}`", self.example())),
        }
    }

    fn example(&self) -> &'static str {
        match self.name {
            "key" => "\"get_user\"",
            "group" => "\"users\"",
            "thread_pool" => "\"users\"",
            "semaphore" | "fallback_semaphore" => "64",
            "timeout" => "\"250ms\"",
            "circuit_breaker" => "CircuitBreaker::new()",
            "classify" => "|result| Class::SUCCESS",
            "ignore" => "|error| error.is_not_found()",
            "failure" => "|value| value.is_empty()",
            "fallback" => "|error| Ok(0)",
            "fallback_value" => "0",
            "fallback_if" => "|error| error.is_timeout()",
            "rejected" => "|rejection| Error::from(rejection)",
            "command" => "self.command",
            "config" => "CommandConfig::new()",
            "mode" => "Mode::Shadow",
            _ => "my_crate::hystrix_core",
        }
    }

    fn check_value(&self, expr: &Expr) -> syn::Result<()> {
        let Some((lit, span)) = literal(expr) else {
            return Ok(());
        };
        let wrong = |message: String| Err(syn::Error::new(span, message));
        let (name, example) = (self.name, self.example());
        match (name, lit) {
            ("timeout", Lit::Str(text)) => check_duration(&text.value(), text.span()),
            ("timeout", _) => {
                wrong(format!("a timeout has a unit: `timeout = {example}`, a `Duration`, or `None`"))
            }
            ("semaphore" | "fallback_semaphore", Lit::Int(number)) if matches!(bare(expr), Expr::Lit(_)) => {
                let permits: u64 = number.base10_parse()?;
                if (1..=MOST_PERMITS).contains(&permits) {
                    return Ok(());
                }
                wrong(format!(
                    "`{name} = {permits}`, but allowed is 1 to {MOST_PERMITS}, or `None` for no limit"
                ))
            }
            ("semaphore" | "fallback_semaphore", _) => {
                wrong(format!("`{name}` takes a number of permits, or `None` for no limit"))
            }
            ("key" | "group" | "thread_pool", Lit::Str(text)) if text.value().is_empty() => {
                wrong(format!("`{name}` is empty: write `{name} = {example}`"))
            }
            ("key" | "group" | "thread_pool", Lit::Str(text)) if text.value().contains('\0') => {
                wrong(format!("`{name}` has a NUL in it"))
            }
            ("group" | "thread_pool", other) if !matches!(other, Lit::Str(_)) => {
                wrong(format!("`{name}` is a name: write `{name} = {example}`"))
            }
            (
                "circuit_breaker" | "classify" | "ignore" | "failure" | "fallback" | "fallback_if"
                | "rejected" | "command" | "config" | "mode",
                _,
            ) => wrong(format!("expected `{name} = {example}`")),
            _ => Ok(()),
        }
    }
}

/// The library's own bound.
const MOST_PERMITS: u64 = 16_777_215;

/// An expression without parentheses, braces and invisible groups around it.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        Expr::Block(inner) if inner.label.is_none() && inner.attrs.is_empty() => match &inner.block.stmts[..]
        {
            [syn::Stmt::Expr(only, None)] => bare(only),
            _ => expr,
        },
        other => other,
    }
}

/// A literal, minus sign included in its span.
fn literal(expr: &Expr) -> Option<(&Lit, Span)> {
    match expr {
        Expr::Lit(ExprLit { lit, .. }) => Some((lit, lit.span())),
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::Group(inner) => literal(&inner.expr),
        Expr::Unary(inner) => literal(&inner.expr).map(|(lit, _)| (lit, inner.span())),
        _ => None,
    }
}

/// The durations that the library reads from text.
fn check_duration(text: &str, span: Span) -> syn::Result<()> {
    let wrong = |why: &str| {
        let message = format!(
            "`{text}` {why}; a duration is a whole number and a unit (ns, us, ms, s, m, h): \"250ms\""
        );
        Err(syn::Error::new(span, message))
    };
    let (digits, unit) =
        text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let seconds: Option<u64> = match unit {
        "ns" | "us" | "ms" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    let Some(seconds) = seconds else {
        return wrong(if unit.is_empty() { "has no unit" } else { "has no unit that is known" });
    };
    match digits.parse::<u64>() {
        Ok(0) => wrong("is no time at all, and every call would be late; `None` switches the timeout off"),
        Ok(number) if number.checked_mul(seconds).is_some() => Ok(()),
        Ok(_) => wrong("is too long"),
        Err(_) if digits.is_empty() => wrong("has no number"),
        Err(_) => wrong("is too long"),
    }
}
