//! A command's own counts: every event word, rolling and cumulative, latencies, and what is under way.

use std::time::Duration;

use super::{Distribution, Latency, LatencyShape, Rolling, Shape, Shards};
use crate::clock::Timestamp;
use crate::outcome::{FallbackOutcome, Outcome};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::global::OnceLock;
use crate::sync::{AtomicU64, Home};

/// Everything that is counted per command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Ended(Outcome),
    Fallback(FallbackOutcome),
    /// What a command in shadow mode would have done.
    WouldHave(Outcome),
}

const OUTCOMES: usize = Outcome::ALL.len();
const FALLBACKS: usize = FallbackOutcome::ALL.len();
const WORDS: usize = 2 * OUTCOMES + FALLBACKS;

impl Word {
    const fn index(self) -> usize {
        match self {
            Word::Ended(outcome) => outcome.index(),
            Word::Fallback(fallback) => OUTCOMES + fallback.index(),
            Word::WouldHave(outcome) => OUTCOMES + FALLBACKS + outcome.index(),
        }
    }
}

/// A thread looks at the command's concurrency at most this often, so the rolling maximum is exact up to
/// 100 000 starts a second and thread.
const LOOK_EVERY: u64 = 10_000;

pub(crate) struct Stats {
    shape: Shape,
    latency: LatencyShape,
    /// Zero where time only moves by hand: there every start looks.
    look_every: u64,
    shards: Shards<Shard>,
}

struct Shard {
    rolling: Rolling<WORDS>,
    cumulative: [AtomicU64; WORDS],
    /// Attempts admitted and attempts settled, by this thread: either may be ahead.
    started: AtomicU64,
    settled: AtomicU64,
    /// Work that was left behind, and that has ended since.
    abandoned: AtomicU64,
    abandoned_ended: AtomicU64,
    /// Fallbacks begun and ended.
    fallbacks: AtomicU64,
    fallbacks_ended: AtomicU64,
    /// Calls whose attempt was settled without a good result, and those of them that have their answer since.
    owed: AtomicU64,
    paid: AtomicU64,
    /// When this thread last looked at the concurrency.
    looked: AtomicU64,
    latencies: Latencies,
}

/// What begins and ends, by whichever threads.
#[derive(Clone, Copy)]
struct Pair {
    begun: fn(&Shard) -> &AtomicU64,
    ended: fn(&Shard) -> &AtomicU64,
}

const IN_FLIGHT: Pair = Pair { begun: |shard| &shard.started, ended: |shard| &shard.settled };
const ABANDONED: Pair = Pair { begun: |shard| &shard.abandoned, ended: |shard| &shard.abandoned_ended };
const FALLING_BACK: Pair = Pair { begun: |shard| &shard.fallbacks, ended: |shard| &shard.fallbacks_ended };
const OWED: Pair = Pair { begun: |shard| &shard.owed, ended: |shard| &shard.paid };

/// Each made when it is first needed.
#[derive(Default)]
struct Latencies {
    /// Of calls that were answered by their body: the body's latency and the call's are one.
    whole: OnceLock<Box<Latency>>,
    body: OnceLock<Box<Latency>>,
    total: OnceLock<Box<Latency>>,
    queue: OnceLock<Box<Latency>>,
}

#[inline]
fn made(latency: &OnceLock<Box<Latency>>) -> &Latency {
    latency.get_or_init(|| Box::new(Latency::new()))
}

/// What a reader sees: all shards added up.
#[derive(Clone)]
pub(crate) struct Snapshot {
    rolling: [u64; WORDS],
    cumulative: [u64; WORDS],
    pub(crate) in_flight: u64,
    pub(crate) max_in_flight: u64,
    pub(crate) abandoned: u64,
    pub(crate) fallbacks: u64,
    pub(crate) queue: Distribution,
    pub(crate) body: Distribution,
    pub(crate) total: Distribution,
}

impl Snapshot {
    pub(crate) fn rolling(&self, word: Word) -> u64 {
        self.rolling[word.index()]
    }

    pub(crate) fn cumulative(&self, word: Word) -> u64 {
        self.cumulative[word.index()]
    }
}

#[inline]
fn add_one(counter: &AtomicU64) {
    // Release: whoever sees a settled attempt sees that it was started, so the difference is never negative.
    counter.store(counter.load(Relaxed) + 1, Release);
}

impl Shard {
    fn new(shape: Shape) -> Self {
        Self {
            rolling: Rolling::new(shape),
            cumulative: std::array::from_fn(|_| AtomicU64::new(0)),
            started: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            abandoned_ended: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            fallbacks_ended: AtomicU64::new(0),
            owed: AtomicU64::new(0),
            paid: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            latencies: Latencies::default(),
        }
    }

    /// Whether this thread has not looked at the concurrency for a while.
    #[inline]
    fn must_look(&self, now: Timestamp, every: u64) -> bool {
        let due = now.as_nanos().saturating_sub(self.looked.load(Relaxed)) >= every;
        if due {
            self.looked.store(now.as_nanos(), Relaxed);
        }
        due
    }

    #[inline]
    fn count(&self, shape: Shape, now: Timestamp, word: Word) {
        let index = word.index();
        self.rolling.bump(shape, 0, now, index);
        let total = &self.cumulative[index];
        total.store(total.load(Relaxed) + 1, Relaxed);
    }
}

impl Stats {
    pub(crate) fn new(shape: Shape, latency: LatencyShape, system_time: bool) -> Self {
        Self { shape, latency, look_every: if system_time { LOOK_EVERY } else { 0 }, shards: Shards::new() }
    }

    #[inline]
    fn with<R>(&self, home: Home, write: impl FnOnce(&Shard) -> R) -> R {
        self.shards.with(home, || Shard::new(self.shape), write)
    }

    /// An attempt was admitted: now and then, look how many are under way.
    #[inline]
    pub(crate) fn started(&self, home: Home, now: Timestamp) {
        let look = self.with(home, |shard| {
            add_one(&shard.started);
            shard.must_look(now, self.look_every)
        });
        if look {
            self.note_concurrency(home, now);
        }
    }

    /// An attempt was admitted that may yet be refused by its pool, which [`look`](Self::look)s when it was not.
    pub(crate) fn started_without_look(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.started));
    }

    pub(crate) fn look(&self, home: Home, now: Timestamp) {
        if self.with(home, |shard| shard.must_look(now, self.look_every)) {
            self.note_concurrency(home, now);
        }
    }

    #[inline(never)]
    fn note_concurrency(&self, home: Home, now: Timestamp) {
        let level = u32::try_from(self.level(IN_FLIGHT)).unwrap_or(u32::MAX);
        self.with(home, |shard| shard.rolling.note_peak(self.shape, 0, now, level));
    }

    /// An admitted attempt was settled; `body` is how long its body had run, if it had begun.
    pub(crate) fn settled(&self, home: Home, now: Timestamp, outcome: Outcome, body: Option<u64>) {
        self.with(home, |shard| {
            shard.count(self.shape, now, Word::Ended(outcome));
            if let Some(body) = body {
                made(&shard.latencies.body).record(self.latency, now, body);
            }
            add_one(&shard.settled);
        });
    }

    /// An admitted attempt was settled by its body, and with it its call, which had not waited: `total` is the latency of
    /// both.
    #[inline]
    pub(crate) fn finished(&self, home: Home, now: Timestamp, outcome: Outcome, total: u64) {
        self.with(home, |shard| {
            shard.count(self.shape, now, Word::Ended(outcome));
            made(&shard.latencies.whole).record(self.latency, now, total);
            add_one(&shard.settled);
        });
    }

    /// Something else is to be counted: a refusal, a fallback's end, what would have been.
    #[inline]
    pub(crate) fn count(&self, home: Home, now: Timestamp, word: Word) {
        self.with(home, |shard| shard.count(self.shape, now, word));
    }

    /// A whole call was answered.
    pub(crate) fn answered(&self, home: Home, now: Timestamp, total: u64) {
        self.with(home, |shard| made(&shard.latencies.total).record(self.latency, now, total));
    }

    /// A queued job began.
    pub(crate) fn queued(&self, home: Home, now: Timestamp, waited: u64) {
        self.with(home, |shard| made(&shard.latencies.queue).record(self.latency, now, waited));
    }

    /// A body runs on although its caller is answered.
    pub(crate) fn abandoned(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.abandoned));
    }

    /// Such a body has ended.
    pub(crate) fn abandoned_ended(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.abandoned_ended));
    }

    /// A fallback begins.
    pub(crate) fn fallback_began(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.fallbacks));
    }

    /// A fallback has ended.
    pub(crate) fn fallback_ended(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.fallbacks_ended));
    }

    /// An attempt is about to be settled whose call then still needs its answer, from a fallback perhaps.
    pub(crate) fn owes(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.owed));
    }

    /// Such a call has its answer.
    pub(crate) fn paid(&self, home: Home) {
        self.with(home, |shard| add_one(&shard.paid));
    }

    /// Nobody calls it, nothing of it runs on, and nobody waits for an answer.
    pub(crate) fn is_at_rest(&self) -> bool {
        // Attempts first: one that is seen as settled has what it leaves behind seen after it.
        [IN_FLIGHT, ABANDONED, OWED, FALLING_BACK].into_iter().all(|pair| self.at_most(pair) == 0)
    }

    /// The attempts admitted and not yet settled.
    pub(crate) fn in_flight(&self) -> u64 {
        self.level(IN_FLIGHT)
    }

    /// The bodies that run on although their callers are answered.
    pub(crate) fn abandoned_now(&self) -> u64 {
        self.level(ABANDONED)
    }

    fn sum(&self, of: fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.each().map(|shard| of(shard).load(Acquire)).sum()
    }

    /// How many have begun and not ended; never fewer than there are all the while, so that zero is rest.
    fn at_most(&self, Pair { begun, ended }: Pair) -> u64 {
        // Ends first: an end that is seen has its beginning seen by the second pass.
        let ends = self.sum(ended);
        self.sum(begun) - ends
    }

    /// How many have begun and not ended; never more than there were at one moment, so that a peak was one.
    fn level(&self, Pair { begun, ended }: Pair) -> u64 {
        const TRIES: usize = 3;

        let mut ends = self.sum(ended);
        for _ in 0..TRIES {
            let begins = self.sum(begun);
            let after = self.sum(ended);
            if after == ends {
                // Nothing has ended meanwhile: all of it was there when the second look began.
                return begins - ends;
            }
            ends = after;
        }
        // Too busy to be seen at rest: what has ended since is taken off, which may be too much.
        let begins = self.sum(begun);
        begins.saturating_sub(self.sum(ended))
    }

    pub(crate) fn snapshot(&self, now: Timestamp) -> Snapshot {
        let in_flight = self.in_flight();
        let mut all = Snapshot {
            rolling: [0; WORDS],
            cumulative: [0; WORDS],
            in_flight,
            max_in_flight: 0,
            abandoned: self.abandoned_now(),
            fallbacks: self.level(FALLING_BACK),
            queue: Distribution::empty(),
            body: Distribution::empty(),
            total: Distribution::empty(),
        };
        let mut peak = 0;
        for shard in self.shards.each() {
            shard.rolling.add_to(self.shape, 0, now, &mut all.rolling, &mut peak);
            for (sum, count) in all.cumulative.iter_mut().zip(&shard.cumulative) {
                *sum += count.load(Relaxed);
            }
            let Latencies { whole, body, total, queue } = &shard.latencies;
            let add = |latency: &OnceLock<Box<Latency>>, sum: &mut Distribution| {
                if let Some(latency) = latency.get() {
                    latency.add_to(self.latency, now, sum);
                }
            };
            add(whole, &mut all.body);
            add(whole, &mut all.total);
            add(body, &mut all.body);
            add(total, &mut all.total);
            add(queue, &mut all.queue);
        }
        // Work that began before the window and still runs is part of it.
        all.max_in_flight = u64::from(peak).max(in_flight);
        all
    }

    /// The rolling counts alone, for decisions that need no latencies.
    pub(crate) fn rolling(&self, now: Timestamp, word: Word) -> u64 {
        let (mut sum, mut peak) = ([0; WORDS], 0);
        for shard in self.shards.each() {
            shard.rolling.add_to(self.shape, 0, now, &mut sum, &mut peak);
        }
        sum[word.index()]
    }

    pub(crate) fn window(&self) -> Duration {
        self.shape.window()
    }
}
