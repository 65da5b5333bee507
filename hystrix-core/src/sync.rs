//! The only file that names `std::sync`: threads, locks and atomics, from std or from loom.
//!
//! State machines that a loom model runs take their primitives from here. [`global`] is std under both
//! configurations: it serves statics, thread-locals, `OnceLock` and reference counts that a model need not see.
//!
//! Locks here do not poison: no user code runs while one of ours is held, so a panic under a lock is a bug of
//! this crate, and hiding every later call behind it would only widen the damage.

#[cfg(not(hystrix_loom))]
mod imp {
    pub(crate) use atomic_waker::AtomicWaker;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub(crate) use std::sync::{Mutex as RawMutex, MutexGuard};
    pub(crate) use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout};

    pub(crate) fn is_finished<T>(thread: &JoinHandle<T>) -> bool {
        thread.is_finished()
    }
}

#[cfg(hystrix_loom)]
mod imp {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub(crate) use loom::sync::{Mutex as RawMutex, MutexGuard};
    pub(crate) use loom::thread::{Builder, JoinHandle, Thread, current, park};
    use std::task::Waker;

    /// Loom cannot tell; its threads are joined.
    pub(crate) fn is_finished<T>(_thread: &JoinHandle<T>) -> bool {
        false
    }

    /// Loom knows no time: a wait with a limit is a wait.
    pub(crate) fn park_timeout(_limit: std::time::Duration) {
        park();
    }

    /// Loom's own `AtomicWaker` prints on every step; a lock around the waker has the same guarantees.
    pub(crate) struct AtomicWaker(super::Mutex<Option<Waker>>);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self(super::Mutex::new(None))
        }

        pub(crate) fn register(&self, waker: &Waker) {
            *self.0.lock() = Some(waker.clone());
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            self.0.lock().take()
        }

        pub(crate) fn wake(&self) {
            if let Some(waker) = self.take() {
                waker.wake();
            }
        }
    }
}

pub(crate) use imp::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, AtomicWaker, Builder, JoinHandle, MutexGuard,
    Thread, current, fence, is_finished, park, park_timeout,
};
pub(crate) use std::sync::atomic::Ordering;

/// Std's primitives under both configurations.
pub(crate) mod global {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
    pub(crate) use std::sync::{Arc, MutexGuard, OnceLock, Weak};
    use std::sync::{Condvar as RawCondvar, Mutex as RawMutex, PoisonError};
    use std::time::Duration;

    /// A std lock that does not poison.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(RawMutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(RawMutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A std condition variable for [`Mutex`].
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(RawCondvar);

    impl Condvar {
        /// Waits for a notification, or for `patience` to pass; may return early.
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>, patience: Duration) -> MutexGuard<'a, T> {
            let waited = self.0.wait_timeout(guard, patience);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// A lock that does not poison, and that loom can see.
#[derive(Debug)]
pub(crate) struct Mutex<T>(imp::RawMutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::RawMutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A word on a cache line of its own, and away from its neighbour's prefetch.
pub(crate) use crossbeam_utils::CachePadded;

// ===== thread numbers =====

/// The dense number of a thread: its place in every sharded structure.
///
/// Numbers are given out lowest first and come back when a thread ends, so they stay below the largest number of
/// threads alive at one time. The hand-over goes through a lock, so a number's next owner sees every write of
/// the one before: a shard has one writer at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u32);

impl Home {
    #[cfg(test)]
    pub(crate) const fn of(number: u32) -> Self {
        Home(number)
    }

    /// The calling thread's home.
    #[inline]
    pub(crate) fn current() -> Self {
        let number = number::NUMBER.try_with(std::cell::Cell::get).unwrap_or(u32::MAX);
        if number == number::UNSET {
            return number::assign();
        }
        Home(number)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

mod number {
    use super::Home;
    use super::global::Mutex;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    /// Not asked for yet. `u32::MAX`, beside it, says that the thread is ending.
    pub(super) const UNSET: u32 = u32::MAX - 1;

    thread_local! {
        pub(super) static NUMBER: Cell<u32> = const { Cell::new(UNSET) };
        static OWNED: Owned = const { Owned(Cell::new(UNSET)) };
    }

    /// Numbers that came back, and the next one never given out.
    static FREE: Mutex<(BTreeSet<u32>, u32)> = Mutex::new((BTreeSet::new(), 0));

    struct Owned(Cell<u32>);

    impl Drop for Owned {
        fn drop(&mut self) {
            // What this thread still does while it ends goes to the shared shard.
            let _ = NUMBER.try_with(|number| number.set(u32::MAX));
            if self.0.get() != UNSET {
                FREE.lock().0.insert(self.0.get());
            }
        }
    }

    #[cold]
    pub(super) fn assign() -> Home {
        let assigned = OWNED.try_with(|owned| {
            let mut free = FREE.lock();
            let number = free.0.pop_first().unwrap_or_else(|| {
                free.1 += 1;
                free.1 - 1
            });
            owned.0.set(number);
            number
        });
        let number = assigned.unwrap_or(u32::MAX);
        let _ = NUMBER.try_with(|cell| cell.set(number));
        Home(number)
    }
}
