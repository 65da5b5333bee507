//! One command for each key that calls come with: a tenant, a host, a shard.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
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
/// The longest text that a thread keeps room for.
const KEPT_TEXT: usize = 1024;

/// A family of commands with one definition, one command for each key: made by
/// [`CommandBuilder::build_keyed`](super::CommandBuilder::build_keyed).
///
/// The registry has one family for a group and key, however often it is built; handles to it are cheap to clone.
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
    registry: Registry,
    family: Arc<Family>,
    kind: PhantomData<fn() -> C>,
}

/// A kind of command that a builder makes. Sealed.
pub trait KeyedKind: Clone + Sealed {
    /// Makes it of a handle.
    #[doc(hidden)]
    fn from_handle(handle: CommandHandle) -> Self;
}

impl Sealed for Command {}
impl Sealed for PoolCommand {}
impl Sealed for CommandHandle {}

impl KeyedKind for CommandHandle {
    fn from_handle(handle: CommandHandle) -> Self {
        handle
    }
}

impl KeyedKind for Command {
    fn from_handle(handle: CommandHandle) -> Self {
        Command(handle)
    }
}

impl KeyedKind for PoolCommand {
    fn from_handle(handle: CommandHandle) -> Self {
        PoolCommand(handle)
    }
}

impl<C> Clone for Keyed<C> {
    fn clone(&self) -> Self {
        Self { registry: self.registry.clone(), family: self.family.clone(), kind: PhantomData }
    }
}

impl<C: KeyedKind> Keyed<C> {
    pub(crate) fn new(registry: Registry, family: Arc<Family>) -> Self {
        Self { registry, family, kind: PhantomData }
    }

    /// Sets how many keys have a command of their own, for the whole family. What is beyond a lowered limit stays until it is
    /// idle.
    #[must_use]
    pub fn limit(self, keys: std::num::NonZeroUsize) -> Self {
        self.family.limit.store(keys.get(), Relaxed);
        self
    }

    /// Sets for how long a command must be unused before it may be dropped, for the whole family.
    #[must_use]
    pub fn idle(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.family.idle.store(nanos, Relaxed);
        self.family.look_at.store(0, Relaxed);
        self
    }

    /// Returns the command for a key, made if it is new. A key that is known costs no allocation.
    ///
    /// The command counts as used now; held for longer than the idle time, it may no longer be the one others get. A key that
    /// is called `other` has a command of its own too: its name is written in quotes.
    ///
    /// # Panics
    ///
    /// As the key's `Display` does. No lock is held then, and no permit.
    pub fn get<K: Display + ?Sized>(&self, key: &K) -> C {
        thread_local! {
            /// The text of the last key on this thread: its room is used again.
            static TEXT: Cell<String> = const { Cell::new(String::new()) };
        }
        // Taken out while user code writes into it: a `Display` may itself ask for a command.
        let mut text = TEXT.try_with(Cell::take).unwrap_or_default();
        text.clear();
        // Writing into a string does not fail by itself; a `Display` that fails has written what it could.
        let _ = write!(text, "{key}");
        let handle = self.family.get(&self.registry, &text);
        if text.capacity() <= KEPT_TEXT {
            let _ = TEXT.try_with(|kept| kept.set(text));
        }
        C::from_handle(handle)
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
        let now = self.registry.now();
        let evicted = {
            let _turn = self.family.turn.lock();
            self.family.evict(&self.registry, now, usize::MAX)
        };
        self.registry.tell_evicted(&evicted);
        evicted.len()
    }
}

// ===== impl Family =====

/// The members of a family; owned by its registry.
pub(crate) struct Family {
    pub(crate) definition: Definition,
    limit: AtomicUsize,
    /// In nanoseconds.
    idle: AtomicU64,
    hasher: RandomState,
    shards: [Mutex<HashMap<u64, Vec<Member>>>; SHARDS],
    /// Changed under the turn.
    size: AtomicUsize,
    /// Before this time nothing can have become idle: no need to look.
    look_at: AtomicU64,
    /// Held by whoever adds members or drops them, so that the limit is kept, and a name is one command's.
    turn: Mutex<()>,
    other: OnceLock<CommandHandle>,
}

struct Member {
    key: Box<str>,
    command: CommandHandle,
    used: AtomicU64,
}

impl Family {
    pub(crate) fn new(definition: Definition) -> Self {
        Self {
            definition,
            limit: AtomicUsize::new(1000),
            idle: AtomicU64::new(600_000_000_000),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
            size: AtomicUsize::new(0),
            look_at: AtomicU64::new(0),
            turn: Mutex::new(()),
            other: OnceLock::new(),
        }
    }

    fn get(&self, registry: &Registry, key: &str) -> CommandHandle {
        let now = registry.now();
        let hash = self.hasher.hash_one(key);
        if let Some(command) = self.find(hash, key, now) {
            return command;
        }
        if self.is_full()
            && now.as_nanos() < self.look_at.load(Relaxed)
            && let Some(other) = self.other.get()
        {
            return other.clone();
        }
        let (command, evicted) = {
            let _turn = self.turn.lock();
            if let Some(command) = self.find(hash, key, now) {
                return command;
            }
            let evicted = if self.is_full() { self.evict(registry, now, self.batch()) } else { Vec::new() };
            let added = if self.is_full() { None } else { self.add(registry, hash, key, now) };
            (added.unwrap_or_else(|| self.other(registry, now)), evicted)
        };
        // Without the turn: listeners are user code.
        registry.tell_evicted(&evicted);
        command
    }

    /// How many make room at once: looking for them visits every member, so large families make room for several keys.
    fn batch(&self) -> usize {
        (self.limit.load(Relaxed) / 16).max(1)
    }

    fn is_full(&self) -> bool {
        self.size.load(Relaxed) >= self.limit.load(Relaxed)
    }

    fn shard(&self, hash: u64) -> &Mutex<HashMap<u64, Vec<Member>>> {
        &self.shards[hash as usize % SHARDS]
    }

    fn find(&self, hash: u64, key: &str, now: Timestamp) -> Option<CommandHandle> {
        let shard = self.shard(hash).lock();
        let member = shard.get(&hash)?.iter().find(|member| *member.key == *key)?;
        member.used.store(now.as_nanos(), Relaxed);
        Some(member.command.clone())
    }

    /// Makes the command of a key; none if something else has its name.
    fn add(&self, registry: &Registry, hash: u64, key: &str, now: Timestamp) -> Option<CommandHandle> {
        // So that no key's command has the name of the shared one.
        let quoted = (key == OTHER || key.starts_with('"')).then(|| format!("\"{key}\""));
        let definition = self.definition_of(quoted.as_deref().unwrap_or(key));
        let command = registry.define_member(&definition, now).ok()?;
        let member =
            Member { key: key.into(), command: command.clone(), used: AtomicU64::new(now.as_nanos()) };
        self.shard(hash).lock().entry(hash).or_default().push(member);
        self.size.fetch_add(1, Relaxed);
        Some(command)
    }

    pub(super) fn other(&self, registry: &Registry, now: Timestamp) -> CommandHandle {
        let make = || {
            let definition = self.definition_of(OTHER);
            let listed = registry.define_member(&definition, now);
            listed.unwrap_or_else(|_| registry.define_apart(&definition, now))
        };
        self.other.get_or_init(make).clone()
    }

    fn definition_of(&self, key: &str) -> Definition {
        let base = &self.definition.key;
        let name = format!("{}:{key}", base.name());
        Definition { key: CommandKey::new(base.group().to_owned(), name), ..self.definition.clone() }
    }

    /// Takes out up to `count` commands, the longest unused first. Under the turn.
    fn evict(&self, registry: &Registry, now: Timestamp, count: usize) -> Vec<CommandHandle> {
        if now.as_nanos() < self.look_at.load(Relaxed) && count != usize::MAX {
            return Vec::new();
        }
        let time = Duration::from_nanos(self.idle.load(Relaxed));
        let before = (now - time).as_nanos();
        let mut idle: Vec<(u64, u64, Box<str>)> = Vec::new();
        let mut oldest = None;
        for shard in &self.shards {
            for (hash, members) in shard.lock().iter() {
                for member in members {
                    let used = member.used.load(Relaxed);
                    oldest = Some(oldest.map_or(used, |oldest: u64| oldest.min(used)));
                    if used <= before && may_go(&member.command) {
                        idle.push((used, *hash, member.key.clone()));
                    }
                }
            }
        }
        if let (true, Some(oldest)) = (idle.is_empty(), oldest) {
            // Nothing can be idle before the longest unused one is; look again then, or a little later if it is busy.
            let next = (Timestamp::from_nanos(oldest) + time).max(now + time / 16);
            self.look_at.store(next.as_nanos(), Relaxed);
        }
        if count < idle.len() {
            idle.select_nth_unstable(count);
        }
        let gone = idle.into_iter().take(count).filter_map(|(used, hash, key)| self.take(hash, &key, used));
        gone.inspect(|command| registry.unlist(command)).collect()
    }

    /// Takes a member out, unless it was used meanwhile.
    fn take(&self, hash: u64, key: &str, used: u64) -> Option<CommandHandle> {
        let mut shard = self.shard(hash).lock();
        let members = shard.get_mut(&hash)?;
        let unused = |member: &Member| *member.key == *key && member.used.load(Relaxed) == used;
        let member = members.swap_remove(members.iter().position(unused)?);
        if members.is_empty() {
            shard.remove(&hash);
        }
        self.size.fetch_sub(1, Relaxed);
        Some(member.command)
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
