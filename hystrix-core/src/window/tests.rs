//! Windows against naive models, and the tables of the field.

use super::*;
use crate::clock::Timestamp;
use crate::outcome::Outcome;
use crate::sync::Home;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const HERE: Home = Home::of(0);
const S: usize = 0;
const F: usize = 1;

fn shape(window: Duration, buckets: usize) -> Shape {
    Shape::new(("window", window), ("buckets", buckets)).expect("an even window")
}

fn ten() -> Shape {
    shape(Duration::from_secs(10), 10)
}

/// One thread's window of successes and failures, on a clock that starts at zero.
struct Counted {
    shape: Shape,
    rolling: Rolling<2>,
    now: Timestamp,
}

impl Counted {
    fn new(shape: Shape) -> Self {
        let now = Timestamp::ZERO + Duration::from_secs(3600);
        Self { shape, rolling: Rolling::new(shape), now }
    }

    fn feed(&mut self, kinds: &[usize]) {
        for &kind in kinds {
            self.rolling.bump(self.shape, 0, self.now, kind);
        }
    }

    fn pass(&mut self, millis: u64) -> [u64; 2] {
        self.now = self.now + Duration::from_millis(millis);
        self.read()
    }

    fn read(&self) -> [u64; 2] {
        let (mut sum, mut peak) = ([0; 2], 0);
        self.rolling.add_to(self.shape, 0, self.now, &mut sum, &mut peak);
        sum
    }
}

#[test]
fn w1_a_bucket_is_out_exactly_one_window_after_it_began() {
    let mut window = Counted::new(ten());
    let mut seen = Vec::new();
    for round in 1..=5 {
        window.feed(if round < 3 { &[F, S] } else { &[S, S] });
        seen.push(window.pass(2000));
    }
    seen.push(window.pass(2000));
    assert_eq!(seen, [[1, 1], [2, 2], [4, 2], [6, 2], [7, 1], [6, 0]]);
}

#[test]
fn w2_w4_a_whole_window_later_nothing_is_left() {
    let mut window = Counted::new(ten());
    window.feed(&[S, S]);
    assert_eq!(window.pass(10_000), [0, 0]);
    window.feed(&[S]);
    assert_eq!(window.pass(10_001), [0, 0]);
}

#[test]
fn w3_one_a_second_leaves_nine_then_eight() {
    let mut window = Counted::new(ten());
    for _ in 0..10 {
        window.feed(&[S]);
        window.pass(1000);
    }
    assert_eq!(window.read(), [9, 0]);
    assert_eq!(window.pass(1000), [8, 0]);
}

#[test]
fn w10_a_clock_that_jumps_back_loses_nothing() {
    let mut window = Counted::new(ten());
    window.feed(&[S]);
    let later = window.now;
    window.now = later - Duration::from_secs(1);
    window.feed(&[S, F]);
    window.now = later;
    assert_eq!(window.read(), [2, 1]);
}

#[test]
fn w11_a_clock_that_jumps_ahead_clears_every_bucket() {
    let mut window = Counted::new(ten());
    window.feed(&[S, F]);
    assert_eq!(window.pass(100_000), [0, 0]);
    window.feed(&[F]);
    assert_eq!(window.read(), [0, 1]);
}

#[test]
fn a_new_era_forgets_the_old_one() {
    let shape = ten();
    let rolling = Rolling::<2>::new(shape);
    let now = Timestamp::ZERO + Duration::from_secs(60);
    rolling.bump(shape, 1, now, F);
    rolling.bump(shape, 2, now, S);
    let (mut sum, mut peak) = ([0; 2], 0);
    rolling.add_to(shape, 2, now, &mut sum, &mut peak);
    assert_eq!(sum, [1, 0]);
    rolling.add_to(shape, 1, now, &mut sum, &mut peak);
    assert_eq!(sum, [1, 0]);
}

proptest! {
    /// HC-166: any sequence of counts and clock moves, against a list of everything.
    #[test]
    fn hc_166_a_rolling_window_equals_a_list(
        buckets in 1usize..13,
        steps in prop::collection::vec((0u64..4000, 0usize..2), 1..300),
    ) {
        let shape = shape(Duration::from_millis(buckets as u64 * 200), buckets);
        let bucket = 200_000_000;
        let mut window = Counted::new(shape);
        let mut all: VecDeque<(u64, usize)> = VecDeque::new();
        for (wait, kind) in steps {
            window.pass(if wait < 3000 { wait / 10 } else { wait });
            window.feed(&[kind]);
            let epoch = window.now.as_nanos() / bucket;
            all.push_back((epoch, kind));
            all.retain(|(of, _)| of + buckets as u64 > epoch);
            let expected = [S, F].map(|kind| all.iter().filter(|(_, of)| *of == kind).count() as u64);
            prop_assert_eq!(window.read(), expected);
        }
    }

    #[test]
    fn percentiles_are_within_the_stated_error(
        mut values in prop::collection::vec(1u64..4_000_000_000, 1..400),
        percent in 0.0f64..100.0,
    ) {
        let shape = shape(Duration::from_secs(60), 6);
        let now = Timestamp::ZERO + Duration::from_secs(60);
        let latency = Latency::new();
        values.iter().for_each(|value| latency.record(shape, now, *value));
        let mut all = Distribution::empty();
        latency.add_to(shape, now, &mut all);
        values.sort_unstable();
        let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let exact = values[rank - 1];
        let reported = all.percentile(percent).as_nanos() as u64;
        prop_assert!(reported.abs_diff(exact) <= exact / 31 + 33, "{} reported as {}", exact, reported);
        prop_assert_eq!(all.count(), values.len() as u64);
        prop_assert_eq!(all.max().as_nanos() as u64, values[values.len() - 1]);
        let mean = values.iter().map(|value| u128::from(*value)).sum::<u128>() / values.len() as u128;
        prop_assert_eq!(all.mean().as_nanos(), mean);
    }
}

#[test]
fn hc_157_hc_164_latencies_of_two_buckets_are_one_distribution_and_age_out() {
    let shape = shape(Duration::from_secs(60), 6);
    let latency = Latency::new();
    let begin = Timestamp::ZERO + Duration::from_secs(600);
    let count_at = |after: u64| {
        let mut all = Distribution::empty();
        latency.add_to(shape, begin + Duration::from_secs(after), &mut all);
        (all.count(), all.max(), all.percentile(100.0))
    };
    assert_eq!(count_at(0), (0, Duration::ZERO, Duration::ZERO));
    latency.record(shape, begin, 1_000_000);
    latency.record(shape, begin + Duration::from_secs(10), 3_000_000);
    let millis = Duration::from_millis;
    assert_eq!(count_at(10), (2, millis(3), millis(3)));
    assert_eq!(count_at(59), (2, millis(3), millis(3)));
    assert_eq!(count_at(60), (1, millis(3), millis(3)));
    assert_eq!(count_at(70), (0, Duration::ZERO, Duration::ZERO));
}

#[test]
fn w9_nothing_is_lost_while_eight_threads_count_and_one_reads() {
    let shape = shape(Duration::from_secs(100), 10);
    let stats = Stats::new(shape, shape, true);
    let now = Timestamp::ZERO + Duration::from_secs(1000);
    std::thread::scope(|scope| {
        for number in 0..8u64 {
            let stats = &stats;
            scope.spawn(move || {
                let home = Home::current();
                for round in 0..10_000u64 {
                    stats.started(home, now);
                    let at = now + Duration::from_millis(round + number);
                    stats.settled(home, at, Outcome::Success, Some(round));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                let seen = stats.snapshot(now + Duration::from_secs(10));
                assert!(seen.rolling(Word::Ended(Outcome::Success)) <= 80_000);
                assert!(seen.in_flight <= 8 && seen.max_in_flight <= 8);
            }
        });
    });
    let seen = stats.snapshot(now + Duration::from_secs(10));
    let word = Word::Ended(Outcome::Success);
    assert_eq!((seen.rolling(word), seen.cumulative(word)), (80_000, 80_000));
    assert_eq!((seen.in_flight, seen.body.count()), (0, 80_000));
}

#[test]
fn threads_without_a_number_of_their_own_share_a_shard() {
    let stats = Stats::new(ten(), ten(), true);
    let now = Timestamp::ZERO + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    stats.count(Home::of(100_000), now, Word::Ended(Outcome::Failure));
                }
            });
        }
    });
    assert_eq!(stats.rolling(now, Word::Ended(Outcome::Failure)), 4000);
    stats.count(HERE, now, Word::Ended(Outcome::Failure));
    assert_eq!(stats.rolling(now, Word::Ended(Outcome::Failure)), 4001);
}

#[test]
fn bc_116_windows_that_do_not_divide_are_refused_by_name() {
    let second = Duration::from_secs(1);
    for (window, buckets, field) in [
        (Duration::ZERO, 10, "window"),
        (second * 10, 0, "buckets"),
        (Duration::from_millis(10), 100, "window"),
        (second * 10, 3, "window"),
        (second, 100_000, "buckets"),
        (Duration::MAX, 10, "window"),
        (Duration::from_micros(500), 1, "window"),
    ] {
        let error = Shape::new(("window", window), ("buckets", buckets)).expect_err("refused");
        assert_eq!(error.field(), field, "{error}");
    }
}
