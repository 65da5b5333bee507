//! Latencies: a log-linear histogram over a rolling window, for one writer and any readers.
//!
//! Sixteen buckets per power of two, the first row in steps of 64 ns: a value is reported as the middle of its bucket,
//! at most 3.2 % (or 32 ns) away. What lies above 73 minutes is counted in the last bucket; maximum and mean are exact.
//!
//! The writer adds to one array. When the sub-window turns, it packs what it has into a few pairs and starts again from
//! zero, so a window of six sub-windows costs one array and not six, and an idle thread costs nothing.

use std::collections::VecDeque;
use std::time::Duration;

use super::rolling::Shape;
use crate::clock::Timestamp;
use crate::sync::Ordering::{Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, Mutex};

/// Values are counted in units of 2^6 ns.
const UNIT_BITS: u32 = 6;
/// 2^4 buckets per power of two.
const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
/// Powers of two above the first row, up to 2^42 ns.
const ROWS: usize = 32;
const BUCKETS: usize = SUBS * (ROWS + 1);

fn index_of(nanos: u64) -> usize {
    let value = nanos >> UNIT_BITS;
    if value < SUBS as u64 {
        return value as usize;
    }
    let row = value.ilog2() - SUB_BITS;
    let sub = (value >> row) as usize - SUBS;
    (SUBS * (row as usize + 1) + sub).min(BUCKETS - 1)
}

/// The middle of a bucket, in nanoseconds.
fn middle_of(index: usize) -> u64 {
    let (row, sub) = (index / SUBS, (index % SUBS) as u64);
    let (low, width) = match row {
        0 => (sub, 1),
        _ => ((SUBS as u64 + sub) << (row - 1), 1u64 << (row - 1)),
    };
    (low << UNIT_BITS) + (width << (UNIT_BITS - 1))
}

pub(crate) type LatencyShape = Shape;

// ===== impl Latency =====

/// One thread's latencies.
pub(crate) struct Latency {
    counts: Box<[AtomicU32; BUCKETS]>,
    /// Sum and maximum of what `counts` holds.
    sum: AtomicU64,
    max: AtomicU64,
    /// The sub-window being written, as an epoch plus one; zero before the first.
    epoch: AtomicU64,
    /// When that sub-window ends.
    ends: AtomicU64,
    /// Sub-windows that have ended. Its lock is held while the writer packs one, and by readers.
    packed: Mutex<VecDeque<Packed>>,
}

/// The filled buckets of an ended sub-window.
struct Packed {
    epoch: u64,
    filled: Box<[(u16, u32)]>,
    sum: u64,
    max: u64,
}

impl Latency {
    pub(crate) fn new() -> Self {
        Self {
            counts: Box::new(std::array::from_fn(|_| AtomicU32::new(0))),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            ends: AtomicU64::new(0),
            packed: Mutex::new(VecDeque::new()),
        }
    }

    /// Counts one latency. For the shard's owner only.
    #[inline]
    pub(crate) fn record(&self, shape: LatencyShape, now: Timestamp, nanos: u64) {
        if now.as_nanos() >= self.ends.load(Relaxed) {
            self.turn(shape, now);
        }
        let count = &self.counts[index_of(nanos)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum.store(self.sum.load(Relaxed).wrapping_add(nanos), Relaxed);
        if nanos > self.max.load(Relaxed) {
            self.max.store(nanos, Relaxed);
        }
    }

    #[cold]
    fn turn(&self, shape: LatencyShape, now: Timestamp) {
        let epoch = shape.epoch(now);
        let mut packed = self.packed.lock();
        let ended = self.epoch.load(Relaxed);
        if ended > 0 {
            let filled = self.counts.iter().enumerate();
            let filled = filled.filter_map(|(index, count)| {
                let count = count.load(Relaxed);
                (count > 0).then_some((index as u16, count))
            });
            packed.push_back(Packed {
                epoch: ended - 1,
                filled: filled.collect(),
                sum: self.sum.load(Relaxed),
                max: self.max.load(Relaxed),
            });
            for count in self.counts.iter() {
                count.store(0, Relaxed);
            }
            self.sum.store(0, Relaxed);
            self.max.store(0, Relaxed);
        }
        let oldest = shape.oldest(epoch);
        packed.retain(|sub| sub.epoch >= oldest);
        self.epoch.store(epoch + 1, Relaxed);
        // Pairs with nothing: readers hold the lock, and only the owner reads this without it.
        self.ends.store((epoch + 1).saturating_mul(shape.bucket_len()), Release);
    }

    /// Adds what lies within the window that ends at `now`.
    pub(crate) fn add_to(&self, shape: LatencyShape, now: Timestamp, all: &mut Distribution) {
        let oldest = shape.oldest(shape.epoch(now));
        let packed = self.packed.lock();
        for sub in packed.iter().filter(|sub| sub.epoch >= oldest) {
            for &(index, count) in &sub.filled {
                all.counts[usize::from(index)] += u64::from(count);
            }
            all.sum += u128::from(sub.sum);
            all.max = all.max.max(sub.max);
        }
        // The owner may be adding; it cannot be packing.
        if self.epoch.load(Relaxed) > oldest {
            for (sum, count) in all.counts.iter_mut().zip(self.counts.iter()) {
                *sum += u64::from(count.load(Relaxed));
            }
            all.sum += u128::from(self.sum.load(Relaxed));
            all.max = all.max.max(self.max.load(Relaxed));
        }
    }
}

// ===== impl Distribution =====

/// Latencies merged from all threads.
#[derive(Clone)]
pub(crate) struct Distribution {
    counts: Box<[u64; BUCKETS]>,
    sum: u128,
    max: u64,
}

impl Distribution {
    pub(crate) fn empty() -> Self {
        Self { counts: Box::new([0; BUCKETS]), sum: 0, max: 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn mean(&self) -> Duration {
        match u128::from(self.count()) {
            0 => Duration::ZERO,
            count => Duration::from_nanos(u64::try_from(self.sum / count).unwrap_or(u64::MAX)),
        }
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The latency that `percent` of the values do not pass; zero without values.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let count = self.count();
        if count == 0 {
            return Duration::ZERO;
        }
        if percent >= 100.0 {
            return self.max();
        }
        // The nearest rank: a percentile below zero, or NaN, is the smallest value.
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(middle_of(index).min(self.max));
            }
        }
        self.max()
    }
}

#[cfg(all(test, not(hystrix_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_in_order_and_cover_everything() {
        let mut last = 0;
        for shift in 0..64 {
            for nanos in [(1u64 << shift) - 1, 1 << shift, (1 << shift) | (1 << (shift / 2))] {
                assert!(index_of(nanos) < BUCKETS);
            }
            assert!(index_of(1 << shift) >= last);
            last = index_of(1 << shift);
        }
    }

    proptest! {
        #[test]
        fn a_value_lies_within_the_stated_error_of_its_bucket(nanos in 0u64..(1 << 42)) {
            let reported = middle_of(index_of(nanos));
            let allowed = (nanos / 32).max(32) + 1;
            prop_assert!(reported.abs_diff(nanos) <= allowed, "{nanos} reported as {reported}");
        }
    }
}
