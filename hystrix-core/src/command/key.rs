//! One command for each key that calls come with: a tenant, a host, a shard.

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::{Command, CommandHandle, PoolCommand};
use crate::clock::Timestamp;
use crate::identity::CommandKey;
use crate::outcome::CircuitState;
use crate::registry::{Definition, Registry};
use crate::sealed::Sealed;
use crate::sync::global::{Arc, AtomicU64, AtomicUsize, Mutex, OnceLock, Relaxed};

/// The key of the command that serves what is beyond the limit.
const OTHER: &str = "other";
const SHARDS: usize = 16;

/// A family of commands with one definition, one command for each key: made by
/// [`CommandBuilder::build_keyed`](super::CommandBuilder::build_keyed).
///
/// Bounded: beyond the limit (1000), and when no idle command can make room, calls share one command called `other`. A command that nobody has
/// used for a while (10 minutes) is dropped when room is needed, and at [`evict_idle`](Self::evict_idle); never one with calls under way, or whose circuit is not closed.
///
/// ```
/// use hystrix_core::Command;
///
/// let quota = Command::builder("quota").group("doc_keyed").semaphore(4).build_keyed()?;
/// let answer = quota.get("tenant-7").run(|| Ok::<_, String>(3)).execute();
/// assert_eq!(answer, Ok(3));
/// assert_eq!(quota.get("tenant-7").key().name(), "quota:tenant-7");
/// # Ok::<(), hystrix_core::ConfigError>(())
/// ```
pub struct Keyed<C> {
    family: Arc<Family<C>>,
}

struct Family<C> {
    registry: Registry,
    definition: Definition,
    limit: usize,
    idle: Duration,
    hasher: RandomState,
    shards: [Mutex<HashMap<u64, Vec<Member<C>>>>; SHARDS],
    size: AtomicUsize,
    /// Before this time nothing can have become idle: no need to look.
    look_at: AtomicU64,
    other: OnceLock<C>,
}

struct Member<C> {
    key: Box<str>,
    command: C,
    used: AtomicU64,
}

/// A kind of command that a builder makes. Sealed.
pub trait KeyedKind: Clone + Sealed {
    /// Makes it of a handle.
    #[doc(hidden)]
    fn from_handle(handle: CommandHandle) -> Self;
    /// Its handle.
    #[doc(hidden)]
    fn handle(&self) -> &CommandHandle;
}

impl Sealed for Command {}
impl Sealed for PoolCommand {}

impl KeyedKind for Command {
    fn from_handle(handle: CommandHandle) -> Self {
        Command(handle)
    }

    fn handle(&self) -> &CommandHandle {
        &self.0
    }
}

impl KeyedKind for PoolCommand {
    fn from_handle(handle: CommandHandle) -> Self {
        PoolCommand(handle)
    }

    fn handle(&self) -> &CommandHandle {
        &self.0
    }
}

impl<C> Clone for Keyed<C> {
    fn clone(&self) -> Self {
        Self { family: self.family.clone() }
    }
}

impl<C: KeyedKind> Keyed<C> {
    pub(super) fn new(registry: Registry, definition: Definition) -> Self {
        Self::with(registry, definition, 1000, Duration::from_secs(600))
    }

    fn with(registry: Registry, definition: Definition, limit: usize, idle: Duration) -> Self {
        let family = Family {
            registry,
            definition,
            limit,
            idle,
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
            size: AtomicUsize::new(0),
            look_at: AtomicU64::new(0),
            other: OnceLock::new(),
        };
        Self { family: Arc::new(family) }
    }

    /// Sets how many keys have a command of their own. For a family nobody has used yet.
    #[must_use]
    pub fn limit(self, keys: std::num::NonZeroUsize) -> Self {
        let family = &self.family;
        Self::with(family.registry.clone(), family.definition.clone(), keys.get(), family.idle)
    }

    /// Sets for how long a command must be unused before it may be dropped. For a family nobody has used yet.
    #[must_use]
    pub fn idle(self, duration: Duration) -> Self {
        let family = &self.family;
        Self::with(family.registry.clone(), family.definition.clone(), family.limit, duration)
    }

    /// Returns the command for a key, made if it is new. A key that is known costs no allocation.
    ///
    /// The command counts as used now; held for longer than the idle time, it may no longer be the one others get.
    ///
    /// # Panics
    ///
    /// As the key's `Display` does. No lock is held then, and no permit.
    pub fn get<K: Display + ?Sized>(&self, key: &K) -> C {
        thread_local! {
            /// The text of the last key on this thread: its room is used again.
            static TEXT: std::cell::Cell<String> = const { std::cell::Cell::new(String::new()) };
        }
        // Taken out while user code writes into it: a `Display` may itself ask for a command.
        let mut text = TEXT.take();
        text.clear();
        // Writing into a string does not fail by itself; a `Display` that fails has written what it could.
        let _ = write!(text, "{key}");
        let command = self.family.get(&text);
        TEXT.set(text);
        command
    }

    /// Returns how many keys have a command of their own.
    #[must_use]
    pub fn len(&self) -> usize {
        self.family.size.load(Relaxed)
    }

    /// Returns whether no key has a command yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every command that has been unused for the idle time and is at rest, and returns how many.
    pub fn evict_idle(&self) -> usize {
        self.family.evict(usize::MAX)
    }
}

impl<C: KeyedKind> Family<C> {
    fn get(&self, key: &str) -> C {
        let now = self.registry.now();
        let hash = self.hasher.hash_one(key);
        if let Some(command) = self.find(hash, key, now) {
            return command;
        }
        if self.size.load(Relaxed) >= self.limit && self.evict(1) == 0 {
            return self.other();
        }
        self.add(hash, key, now)
    }

    fn shard(&self, hash: u64) -> &Mutex<HashMap<u64, Vec<Member<C>>>> {
        &self.shards[hash as usize % SHARDS]
    }

    fn find(&self, hash: u64, key: &str, now: Timestamp) -> Option<C> {
        let shard = self.shard(hash).lock();
        let member = shard.get(&hash)?.iter().find(|member| *member.key == *key)?;
        member.used.store(now.as_nanos(), Relaxed);
        Some(member.command.clone())
    }

    fn add(&self, hash: u64, key: &str, now: Timestamp) -> C {
        let Some(command) = self.define(key) else {
            return self.other();
        };
        let mut shard = self.shard(hash).lock();
        let members = shard.entry(hash).or_default();
        if let Some(member) = members.iter().find(|member| *member.key == *key) {
            // Somebody was faster; the registry gave both the same command.
            return member.command.clone();
        }
        members.push(Member {
            key: key.into(),
            command: command.clone(),
            used: AtomicU64::new(now.as_nanos()),
        });
        self.size.fetch_add(1, Relaxed);
        command
    }

    fn other(&self) -> C {
        let make = || self.define(OTHER).expect("a definition that was checked defines");
        self.other.get_or_init(make).clone()
    }

    /// The command of a key; none only if something else has taken its name.
    fn define(&self, key: &str) -> Option<C> {
        let base = &self.definition.key;
        let name = format!("{}:{key}", base.name());
        let key = CommandKey::new(base.group().to_owned(), name);
        let definition = Definition { key, ..self.definition.clone() };
        self.registry.define(definition).ok().map(C::from_handle)
    }

    /// Drops up to `count` commands, the longest unused first, and returns how many.
    fn evict(&self, count: usize) -> usize {
        let now = self.registry.now();
        if now.as_nanos() < self.look_at.load(Relaxed) && count != usize::MAX {
            return 0;
        }
        let before = (now - self.idle).as_nanos();
        let mut idle: Vec<(u64, u64, Box<str>)> = Vec::new();
        let mut oldest = u64::MAX;
        for shard in &self.shards {
            for (hash, members) in shard.lock().iter() {
                for member in members {
                    let used = member.used.load(Relaxed);
                    oldest = oldest.min(used);
                    if used <= before && may_go(member.command.handle()) {
                        idle.push((used, *hash, member.key.clone()));
                    }
                }
            }
        }
        if idle.is_empty() {
            // Nothing can be idle before the longest unused one is; look again then, or a little later if it is busy.
            let next = (Timestamp::from_nanos(oldest) + self.idle).max(now + self.idle / 16);
            self.look_at.store(next.as_nanos(), Relaxed);
            return 0;
        }
        idle.sort_unstable();
        let mut evicted = 0;
        for (used, hash, key) in idle.into_iter().take(count) {
            evicted += usize::from(self.drop_member(hash, &key, used));
        }
        evicted
    }

    fn drop_member(&self, hash: u64, key: &str, used: u64) -> bool {
        let mut shard = self.shard(hash).lock();
        let Some(members) = shard.get_mut(&hash) else {
            return false;
        };
        let unused = |member: &Member<C>| *member.key == *key && member.used.load(Relaxed) == used;
        let Some(position) = members.iter().position(unused) else {
            return false;
        };
        let member = members.swap_remove(position);
        if members.is_empty() {
            shard.remove(&hash);
        }
        self.size.fetch_sub(1, Relaxed);
        drop(shard);
        self.registry.forget(member.command.handle());
        true
    }
}

/// Nobody calls it, nothing of it runs, and its circuit has nothing to remember.
fn may_go(handle: &CommandHandle) -> bool {
    handle.core.stats.is_at_rest() && handle.core.circuit.state() == CircuitState::Closed
}

impl<C> fmt::Debug for Keyed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("of", &self.family.definition.key)
            .field("len", &self.family.size.load(Relaxed))
            .finish_non_exhaustive()
    }
}
