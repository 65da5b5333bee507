//! Counters over a rolling window, for one writer and any readers.

use crate::clock::{Timestamp, nanos};
use crate::error::ConfigError;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, fence};
use std::time::Duration;

/// The length of a window and of its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    bucket: u64,
    buckets: u64,
}

impl Shape {
    const MAX_BUCKETS: usize = 240;

    /// Checks that the window is cut evenly into buckets of a millisecond or more.
    pub(crate) fn new(
        window: (&'static str, Duration),
        buckets: (&'static str, usize),
    ) -> Result<Self, ConfigError> {
        let ((window_name, window), (buckets_name, count)) = (window, buckets);
        if count == 0 || count > Self::MAX_BUCKETS {
            return Err(ConfigError::new(buckets_name, count, format!("1 to {}", Self::MAX_BUCKETS)));
        }
        let (length, count) = (nanos(window), count as u64);
        let even = length % count == 0 && length / count >= 1_000_000 && length < u64::MAX;
        if !even {
            let allowed = format!("a window that {count} buckets divide evenly into 1 ms or more each");
            return Err(ConfigError::new(window_name, window, allowed));
        }
        Ok(Self { bucket: length / count, buckets: count })
    }

    pub(crate) fn window(self) -> Duration {
        Duration::from_nanos(self.bucket * self.buckets)
    }

    pub(crate) fn buckets(self) -> usize {
        self.buckets as usize
    }

    pub(super) fn epoch(self, now: Timestamp) -> u64 {
        now.as_nanos() / self.bucket
    }

    pub(super) fn bucket_len(self) -> u64 {
        self.bucket
    }

    /// The oldest epoch that the window ending in `epoch` still covers.
    pub(super) fn oldest(self, epoch: u64) -> u64 {
        (epoch + 1).saturating_sub(self.buckets)
    }
}

/// `K` counters and a peak per bucket.
///
/// A bucket counts for readers of the same *era* only: a circuit that begins anew raises its era, and what was
/// counted before is forgotten without anybody having to clear it.
pub(crate) struct Rolling<const K: usize> {
    buckets: Box<[Bucket<K>]>,
    /// Index of the bucket being written; written by the owner only, like the next three.
    current: AtomicU64,
    /// The era and the times between which `current` stands.
    era: AtomicU64,
    starts: AtomicU64,
    ends: AtomicU64,
}

struct Bucket<const K: usize> {
    /// Era and epoch, see [`stamp`]; [`CLEARING`] while the counters are being cleared.
    stamp: AtomicU64,
    counts: [AtomicU32; K],
    peak: AtomicU32,
}

const CLEARING: u64 = u64::MAX;
const EPOCH_BITS: u32 = 44;

/// The 20 low bits of the era above 44 bits of the epoch: 500 years of millisecond buckets.
fn stamp(era: u64, epoch: u64) -> u64 {
    (era << EPOCH_BITS) | (epoch & ((1 << EPOCH_BITS) - 1))
}

impl<const K: usize> Rolling<K> {
    pub(crate) fn new(shape: Shape) -> Self {
        let bucket = |_| Bucket {
            stamp: AtomicU64::new(CLEARING),
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            peak: AtomicU32::new(0),
        };
        Self {
            buckets: (0..shape.buckets()).map(bucket).collect(),
            current: AtomicU64::new(0),
            era: AtomicU64::new(u64::MAX),
            starts: AtomicU64::new(0),
            ends: AtomicU64::new(0),
        }
    }

    /// Counts one of `kind`. For the shard's owner only.
    #[inline]
    pub(crate) fn bump(&self, shape: Shape, era: u64, now: Timestamp, kind: usize) {
        let counter = &self.bucket(shape, era, now).counts[kind];
        counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Notes a level; the bucket keeps the highest. For the shard's owner only.
    pub(crate) fn note_peak(&self, shape: Shape, era: u64, now: Timestamp, level: u32) {
        let peak = &self.bucket(shape, era, now).peak;
        if level > peak.load(Relaxed) {
            peak.store(level, Relaxed);
        }
    }

    #[inline]
    fn bucket(&self, shape: Shape, era: u64, now: Timestamp) -> &Bucket<K> {
        let nanos = now.as_nanos();
        // A time before the bucket's start is another thread's later clock: it belongs here as well as anywhere.
        if nanos >= self.ends.load(Relaxed) || era != self.era.load(Relaxed) {
            self.turn(shape, era, now);
        }
        &self.buckets[self.current.load(Relaxed) as usize]
    }

    #[cold]
    fn turn(&self, shape: Shape, era: u64, now: Timestamp) {
        let now = now.as_nanos().max(self.starts.load(Relaxed));
        let epoch = shape.epoch(Timestamp::from_nanos(now));
        let index = epoch % self.buckets.len() as u64;
        let bucket = &self.buckets[index as usize];
        bucket.stamp.store(CLEARING, Relaxed);
        // Pairs with the reader's fence: whoever sees a cleared counter sees that the stamp is gone.
        fence(Release);
        for counter in &bucket.counts {
            counter.store(0, Relaxed);
        }
        bucket.peak.store(0, Relaxed);
        // Pairs with the reader's first look: whoever sees the stamp sees the counters cleared.
        bucket.stamp.store(stamp(era, epoch), Release);
        self.current.store(index, Relaxed);
        self.era.store(era, Relaxed);
        self.starts.store(epoch * shape.bucket_len(), Relaxed);
        self.ends.store((epoch + 1).saturating_mul(shape.bucket_len()), Relaxed);
    }

    /// Adds this shard's counts within the window that ends at `now`, and raises `peak`.
    pub(crate) fn add_to(&self, shape: Shape, era: u64, now: Timestamp, sum: &mut [u64; K], peak: &mut u32) {
        let epoch = shape.epoch(now);
        // A writer's clock may be a bucket ahead of this reader's: what is counted, counts.
        let window = stamp(era, shape.oldest(epoch))..=stamp(era, epoch + 1);
        for bucket in &self.buckets {
            let before = bucket.stamp.load(Acquire);
            if !window.contains(&before) {
                continue;
            }
            let counts: [u32; K] = std::array::from_fn(|kind| bucket.counts[kind].load(Relaxed));
            let level = bucket.peak.load(Relaxed);
            fence(Acquire);
            // Cleared meanwhile: it had left the window.
            if bucket.stamp.load(Relaxed) != before {
                continue;
            }
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += u64::from(count);
            }
            *peak = level.max(*peak);
        }
    }
}
