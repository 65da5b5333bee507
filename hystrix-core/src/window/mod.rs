//! What is counted, and over which time.
//!
//! Every statistic has one writer: each thread owns a shard ([`Shards`]) and adds to it with a plain load and store,
//! which costs a tenth of a locked instruction and shares no line. Readers visit all shards and add up. Time rolls
//! in buckets that carry their own stamp ([`Rolling`]): the owner clears a bucket when it comes round again, a reader
//! skips one whose stamp is old, so nothing has to run while nobody calls.

mod histogram;
mod rolling;
mod shards;
mod stats;

pub(crate) use self::histogram::{Distribution, Latency, LatencyShape};
pub(crate) use self::rolling::{Rolling, Shape};
pub(crate) use self::shards::Shards;
pub(crate) use self::stats::{Snapshot, Stats, Word};

#[cfg(all(test, not(hystrix_loom)))]
mod tests;
