//! One value per thread, made when the thread first needs it.

use crate::sync::global::{Mutex, OnceLock};
use crate::sync::{CachePadded, Home};

/// The shards that fit into the first table; the second is made for the first thread beyond.
const NEAR: usize = 8;
/// Threads beyond these share one shard, and its lock.
const ALL: usize = 256;

type Slot<T> = OnceLock<Box<CachePadded<T>>>;

/// A `T` for each thread that writes.
///
/// [`with`](Self::with) makes the caller the only writer of the shard it gets: its own, or for threads without a
/// number, and those beyond the table, the shared one under a lock.
pub(crate) struct Shards<T> {
    near: [Slot<T>; NEAR],
    far: OnceLock<Box<[Slot<T>]>>,
    shared: OnceLock<Box<(CachePadded<T>, Mutex<()>)>>,
}

impl<T> Shards<T> {
    pub(crate) fn new() -> Self {
        Self { near: [const { OnceLock::new() }; NEAR], far: OnceLock::new(), shared: OnceLock::new() }
    }

    /// The shard at `home`, the calling thread's own, if it was made already and is one of the first few.
    #[inline]
    pub(crate) fn near(&self, home: Home) -> Option<&T> {
        self.near.get(home.index())?.get().map(|shard| -> &T { shard })
    }

    /// Runs `write` on the shard at `home`, which must be the calling thread's own.
    #[inline]
    pub(crate) fn with<R>(&self, home: Home, make: impl FnOnce() -> T, write: impl FnOnce(&T) -> R) -> R {
        match self.near(home) {
            Some(shard) => write(shard),
            None => self.with_rare(home, make, write),
        }
    }

    #[cold]
    fn with_rare<R>(&self, home: Home, make: impl FnOnce() -> T, write: impl FnOnce(&T) -> R) -> R {
        let index = home.index();
        if index >= ALL {
            let shared = self.shared.get_or_init(|| Box::new((CachePadded::new(make()), Mutex::new(()))));
            let _writer = shared.1.lock();
            return write(&shared.0);
        }
        let slot = match self.near.get(index) {
            Some(slot) => slot,
            None => {
                let far = self.far.get_or_init(|| (NEAR..ALL).map(|_| OnceLock::new()).collect());
                &far[index - NEAR]
            }
        };
        write(slot.get_or_init(|| Box::new(CachePadded::new(make()))))
    }

    /// Visits every shard there is.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        let far = self.far.get().map(|far| &far[..]).unwrap_or_default();
        let own = self.near.iter().chain(far).filter_map(OnceLock::get);
        let own = own.map(|shard| -> &T { shard });
        own.chain(self.shared.get().map(|shared| -> &T { &shared.0 }))
    }
}
