//! Who a command is: group and key.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::sync::global::{Arc, Mutex};

/// The identity of a command: its group and its key, shown as `group/key`.
///
/// Names written in code are kept once for the process, so a key made of `&'static str` is copied without touching
/// a shared reference count: a rejection can carry its command's name for nothing. Names made at run time
/// (`String`) are shared and freed with their last user.
#[derive(Clone)]
pub struct CommandKey(Names);

#[derive(Clone)]
enum Names {
    Written(&'static Pair<&'static str>),
    Made(Arc<Pair<Box<str>>>),
}

#[derive(PartialEq, Eq, Hash)]
struct Pair<S> {
    group: S,
    name: S,
}

/// Pairs of names that stand in code: as many as the program has, so they are never freed.
static WRITTEN: Mutex<Option<HashSet<&'static Pair<&'static str>>>> = Mutex::new(None);

impl CommandKey {
    /// Makes an identity from a group and a key.
    pub fn new(group: impl Into<Cow<'static, str>>, name: impl Into<Cow<'static, str>>) -> Self {
        match (group.into(), name.into()) {
            (Cow::Borrowed(group), Cow::Borrowed(name)) => Self(Names::Written(written(group, name))),
            (group, name) => Self(Names::Made(Arc::new(Pair {
                group: group.into_owned().into_boxed_str(),
                name: name.into_owned().into_boxed_str(),
            }))),
        }
    }

    /// Returns the group.
    #[must_use]
    pub fn group(&self) -> &str {
        match &self.0 {
            Names::Written(pair) => pair.group,
            Names::Made(pair) => &pair.group,
        }
    }

    /// Returns the key within the group.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.0 {
            Names::Written(pair) => pair.name,
            Names::Made(pair) => &pair.name,
        }
    }
}

fn written(group: &'static str, name: &'static str) -> &'static Pair<&'static str> {
    let mut known = WRITTEN.lock();
    let known = known.get_or_insert_with(HashSet::new);
    let pair = Pair { group, name };
    if let Some(found) = known.get(&pair) {
        return found;
    }
    let kept: &'static _ = Box::leak(Box::new(pair));
    known.insert(kept);
    kept
}

impl PartialEq for CommandKey {
    fn eq(&self, other: &Self) -> bool {
        self.group() == other.group() && self.name() == other.name()
    }
}

impl Eq for CommandKey {}

impl Hash for CommandKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.group().hash(state);
        self.name().hash(state);
    }
}

impl PartialOrd for CommandKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CommandKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.group(), self.name()).cmp(&(other.group(), other.name()))
    }
}

impl fmt::Display for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group(), self.name())
    }
}

impl fmt::Debug for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
