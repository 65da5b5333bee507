//! Where a body runs, and how many at a time: in place under a semaphore, or on the workers of a pool.

pub(crate) mod semaphore;
pub(crate) mod thread_pool;
