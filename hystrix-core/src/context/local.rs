//! A thread-local as context.

use std::cell::RefCell;
use std::fmt;
use std::thread::LocalKey;

use super::{Carried, Propagator};

/// Carries a thread-local: see [`thread_local()`].
pub struct ThreadLocal<T: 'static>(&'static LocalKey<RefCell<T>>);

/// Makes a propagator that clones the caller's value of a thread-local, and gives bodies and fallbacks that value.
///
/// What a body leaves in it is gone when the body ends: the thread has back what it had before.
pub const fn thread_local<T: Clone + Send + Sync + 'static>(
    key: &'static LocalKey<RefCell<T>>,
) -> ThreadLocal<T> {
    ThreadLocal(key)
}

struct Value<T: 'static> {
    key: &'static LocalKey<RefCell<T>>,
    value: T,
}

impl<T: Clone + Send + Sync + 'static> Propagator for ThreadLocal<T> {
    fn capture(&self) -> Option<Box<dyn Carried>> {
        let value = self.0.with_borrow(T::clone);
        Some(Box::new(Value { key: self.0, value }))
    }
}

impl<T: Clone + Send + Sync + 'static> Carried for Value<T> {
    fn run(&self, body: &mut dyn FnMut()) {
        let before = self.key.replace(self.value.clone());
        let _restore = Restore { key: self.key, before: Some(before) };
        body();
    }
}

/// Puts the thread's own value back, on a panic too.
struct Restore<T: 'static> {
    key: &'static LocalKey<RefCell<T>>,
    before: Option<T>,
}

impl<T> Drop for Restore<T> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            drop(self.key.replace(before));
        }
    }
}

impl<T> fmt::Debug for ThreadLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadLocal").finish_non_exhaustive()
    }
}
