//! The timer by example on a clock that stands, under threads on the real one, and its sleep protocol by model.

#[cfg(not(hystrix_loom))]
mod plain {
    use super::super::*;
    use crate::clock::{Clock, ManualClock};
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    const HERE: Home = Home::of(0);

    /// Sends its number and the time when it is due.
    struct Probe(usize, mpsc::Sender<(usize, Timestamp)>);

    impl Due for Probe {
        fn due(self: Arc<Self>, now: Timestamp, _woken: &Meeting) {
            self.1.send((self.0, now)).expect("the test listens");
        }
    }

    struct Bench {
        clock: ManualClock,
        timer: Timer,
        sender: mpsc::Sender<(usize, Timestamp)>,
        fired: mpsc::Receiver<(usize, Timestamp)>,
    }

    impl Bench {
        fn new() -> Self {
            let clock = ManualClock::new();
            let timer = Timer::new(TimeSource::given(clock.clone()));
            let (sender, fired) = mpsc::channel();
            Self { clock, timer, sender, fired }
        }

        fn probe(&self, number: usize) -> Target {
            Target::Claim(Arc::new(Probe(number, self.sender.clone())))
        }

        fn arm(&self, number: usize, after: Duration) -> Token {
            let armed = self.timer.arm(HERE, self.clock.now() + after, self.probe(number));
            armed.expect("a clock that rings needs no thread")
        }

        fn fired(&self) -> Vec<usize> {
            self.fired.try_iter().map(|(number, _)| number).collect()
        }

        fn nodes(&self) -> usize {
            self.timer.0.shards.iter().map(|shard| shard.lock().nodes()).sum()
        }
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn deadlines_fire_in_order_each_at_its_own_time() {
        let bench = Bench::new();
        let begin = bench.clock.now();
        for (number, after) in [(0, 300), (1, 100), (2, 200)] {
            bench.arm(number, millis(after));
        }
        bench.clock.advance(Duration::from_secs(3600));
        let seen: Vec<_> = bench.fired.try_iter().map(|(number, at)| (number, at.since(begin))).collect();
        assert_eq!(seen, [(1, millis(100)), (2, millis(200)), (0, millis(300))]);
        assert_eq!(bench.timer.armed(), 0);
    }

    #[test]
    fn a_jump_fires_what_was_passed_once() {
        let bench = Bench::new();
        bench.arm(0, millis(10));
        bench.arm(1, millis(20));
        bench.clock.jump(Duration::from_secs(3600));
        assert_eq!(bench.fired(), [0, 1]);
        bench.clock.jump(Duration::from_secs(3600));
        assert_eq!(bench.fired(), [] as [usize; 0]);
    }

    #[test]
    fn what_a_deadline_arms_has_its_turn_on_the_same_way() {
        struct Chain(Timer, ManualClock, mpsc::Sender<(usize, Timestamp)>);
        impl Due for Chain {
            fn due(self: Arc<Self>, _now: Timestamp, _woken: &Meeting) {
                let target = Target::Claim(Arc::new(Probe(1, self.2.clone())));
                let armed = self.0.arm(HERE, self.1.now() + millis(50), target);
                armed.expect("a clock that rings needs no thread");
            }
        }
        let bench = Bench::new();
        let begin = bench.clock.now();
        let chain = Chain(bench.timer.clone(), bench.clock.clone(), bench.sender.clone());
        let armed = bench.timer.arm(HERE, begin + millis(100), Target::Claim(Arc::new(chain)));
        armed.expect("a clock that rings needs no thread");
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(bench.fired.try_recv(), Ok((1, begin + millis(150))));
    }

    #[test]
    fn a_cancelled_deadline_never_fires_and_keeps_nothing() {
        let bench = Bench::new();
        let probe = Arc::new(Probe(0, bench.sender.clone()));
        let armed = bench.timer.arm(HERE, bench.clock.now() + millis(5), Target::Claim(probe.clone()));
        assert!(bench.timer.cancel(armed.expect("armed")));
        assert_eq!(Arc::strong_count(&probe), 1);
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(bench.fired(), [] as [usize; 0]);
    }

    #[test]
    fn a_deadline_that_has_passed_fires_at_once_and_the_far_future_never() {
        let bench = Bench::new();
        let token = bench.arm(0, Duration::ZERO);
        assert_eq!(bench.fired(), [0]);
        assert!(!bench.timer.cancel(token), "it has fired");
        let never = bench.timer.arm(HERE, Timestamp::MAX, bench.probe(1)).expect("nothing to arm");
        assert_eq!(bench.timer.armed(), 0);
        assert!(bench.timer.cancel(never));
    }

    #[test]
    fn bc_044_finished_calls_leave_nothing_but_a_bounded_number_of_nodes() {
        let bench = Bench::new();
        let kept = Arc::new(());
        struct Holds(#[expect(dead_code, reason = "held, not read")] Arc<()>);
        impl Due for Holds {
            fn due(self: Arc<Self>, _now: Timestamp, _woken: &Meeting) {}
        }
        for _ in 0..100_000 {
            let target = Target::Claim(Arc::new(Holds(kept.clone())));
            let deadline = bench.clock.now() + Duration::from_secs(3600);
            let token = bench.timer.arm(HERE, deadline, target).expect("armed");
            assert!(bench.timer.cancel(token));
        }
        assert_eq!((Arc::strong_count(&kept), bench.timer.armed(), bench.nodes()), (1, 0, 1));
    }

    #[test]
    fn ever_earlier_deadlines_leave_a_bounded_number_of_nodes() {
        let bench = Bench::new();
        for step in 0..100_000u64 {
            let deadline = bench.clock.now() + Duration::from_secs(3600) - Duration::from_nanos(2 * step);
            let token = bench.timer.arm(HERE, deadline, bench.probe(0)).expect("armed");
            assert!(bench.timer.cancel(token));
        }
        assert!(bench.nodes() < 100, "{} nodes", bench.nodes());
    }

    #[test]
    fn a_slot_armed_again_for_later_fires_at_its_own_time() {
        let bench = Bench::new();
        let first = bench.arm(0, millis(100));
        assert!(bench.timer.cancel(first));
        bench.arm(1, millis(500));
        assert_eq!(bench.nodes(), 1, "the old node serves");
        bench.clock.advance(millis(499));
        assert_eq!(bench.fired(), [] as [usize; 0]);
        bench.clock.advance(millis(1));
        assert_eq!(bench.fired(), [1]);
    }

    #[test]
    fn when_traffic_ends_nothing_is_left_to_wake_up_for() {
        let bench = Bench::new();
        for _ in 0..10 {
            let token = bench.arm(0, millis(100));
            bench.timer.cancel(token);
        }
        bench.clock.advance(millis(200));
        assert_eq!(bench.nodes(), 0);
    }

    #[test]
    fn a_hundred_thousand_pending_deadlines_all_fire() {
        let bench = Bench::new();
        for number in 0..100_000 {
            bench.arm(number, millis(1 + number as u64 % 997));
        }
        assert_eq!(bench.timer.armed(), 100_000);
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(bench.fired().len(), 100_000);
    }

    #[test]
    fn the_thread_fires_never_early() {
        let timer = Timer::new(TimeSource::System);
        let (sender, fired) = mpsc::channel();
        let begin = TimeSource::System.now();
        for (number, after) in [(0, 20), (1, 5), (2, 10)] {
            let target = Target::Claim(Arc::new(Probe(number, sender.clone())));
            timer.arm(HERE, begin + millis(after), target).expect("a thread");
        }
        for (expected, after) in [(1, 5), (2, 10), (0, 20)] {
            let (number, at) = fired.recv_timeout(Duration::from_secs(10)).expect("fired");
            assert_eq!(number, expected);
            assert!(at.since(begin) >= millis(after));
        }
        timer.shutdown();
    }

    #[test]
    fn what_still_waits_at_the_end_is_woken() {
        let timer = Timer::new(TimeSource::System);
        let (sender, fired) = mpsc::channel();
        let target = |number| Target::Claim(Arc::new(Probe(number, sender.clone())));
        let far = TimeSource::System.now() + Duration::from_secs(3600);
        timer.arm(HERE, far, target(0)).expect("a thread");
        timer.shutdown();
        assert_eq!(fired.try_recv().map(|(number, _)| number), Ok(0));
        timer.arm(HERE, far, target(1)).expect("after the end it fires at once");
        assert_eq!(fired.try_recv().map(|(number, _)| number), Ok(1));
    }

    #[test]
    fn each_of_a_million_arms_is_fired_or_cancelled_exactly_once() {
        struct Counter(Arc<AtomicUsize>);
        impl Due for Counter {
            fn due(self: Arc<Self>, _now: Timestamp, _woken: &Meeting) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let timer = Timer::new(TimeSource::System);
        let (fired, cancelled) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        const EACH: usize = 100_000;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let home = Home::current();
                    for round in 0..EACH {
                        // Every 64th waits for its deadline, the rest races with it.
                        let after = Duration::from_nanos(if round % 64 == 0 { 0 } else { 1_000_000 });
                        let target = Target::Claim(Arc::new(Counter(fired.clone())));
                        let deadline = TimeSource::System.now() + after;
                        let token = timer.arm(home, deadline, target).expect("a thread");
                        cancelled.fetch_add(usize::from(timer.cancel(token)), SeqCst);
                    }
                });
            }
        });
        timer.shutdown();
        assert_eq!(fired.load(SeqCst) + cancelled.into_inner(), 4 * EACH);
        assert_eq!((Arc::strong_count(&fired), timer.armed()), (1, 0));
    }

    #[test]
    fn a_panicking_waker_does_not_end_the_timer() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("a waker panics");
            }
        }
        let bench = Bench::new();
        let waker = Waker::from(Arc::new(Panics));
        let armed = bench.timer.arm(HERE, bench.clock.now() + millis(1), Target::Waker(waker));
        armed.expect("a clock that rings needs no thread");
        bench.arm(0, millis(2));
        bench.clock.advance(millis(5));
        assert_eq!(bench.fired(), [0]);
    }

    #[test]
    fn refreshing_swaps_the_waker_and_tells_when_it_is_too_late() {
        struct Counts(AtomicUsize);
        impl std::task::Wake for Counts {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let bench = Bench::new();
        let wakes = [Arc::new(Counts(AtomicUsize::new(0))), Arc::new(Counts(AtomicUsize::new(0)))];
        let [first, second] = [0, 1].map(|index: usize| Waker::from(wakes[index].clone()));
        let armed = bench.timer.arm(HERE, bench.clock.now() + millis(1), Target::Waker(first.clone()));
        let token = armed.expect("a clock that rings needs no thread");
        assert!(bench.timer.refresh(&token, &first));
        assert!(bench.timer.refresh(&token, &second));
        bench.clock.advance(millis(1));
        assert!(!bench.timer.refresh(&token, &second), "it has fired");
        assert_eq!(wakes.each_ref().map(|wakes| wakes.0.load(SeqCst)), [0, 1]);
    }

    #[expect(clippy::disallowed_methods, reason = "the test is about threads that end")]
    #[test]
    fn numbers_of_ended_threads_are_used_again() {
        let mut seen = HashMap::new();
        for _ in 0..100 {
            let home = std::thread::spawn(Home::current).join().expect("a number is had");
            *seen.entry(home.index()).or_insert(0) += 1;
        }
        assert!(seen.len() < 50, "{} numbers for one thread at a time", seen.len());
    }
}

#[cfg(hystrix_loom)]
mod loom_timer {
    use super::super::*;
    use crate::clock::Clock;
    use loom::thread;

    /// A clock at which every deadline has passed: whatever is armed is due.
    #[derive(Debug)]
    struct Late;

    impl Clock for Late {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(1 << 40)
        }
    }

    struct Fires(loom::sync::Arc<loom::sync::atomic::AtomicUsize>);

    impl Due for Fires {
        fn due(self: Arc<Self>, _now: Timestamp, _woken: &Meeting) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }

    fn fires_all(shards: usize, homes: [u32; 2]) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let timer = Timer::with_shards(TimeSource::given(Late), shards);
            let fired = loom::sync::Arc::new(loom::sync::atomic::AtomicUsize::new(0));
            let arm = |home: u32, timer: &Timer, fired: &loom::sync::Arc<_>| {
                let target = Target::Claim(Arc::new(Fires(loom::sync::Arc::clone(fired))));
                let deadline = Timestamp::from_nanos(2 + u64::from(home) * 2);
                timer.arm(Home::of(home), deadline, target).expect("loom starts threads");
            };
            let other = {
                let (timer, fired) = (timer.clone(), fired.clone());
                thread::spawn(move || arm(homes[0], &timer, &fired))
            };
            arm(homes[1], &timer, &fired);
            other.join().expect("arming does not panic");
            // A lost wake-up would leave the sleeper parked with something armed: this loop would never end, and the model says so.
            while fired.load(std::sync::atomic::Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            timer.shutdown();
        });
    }

    #[test]
    fn no_wake_up_is_lost_in_one_shard() {
        fires_all(1, [0, 1]);
    }

    #[test]
    fn no_wake_up_is_lost_in_two_shards() {
        fires_all(2, [0, 1]);
    }
}
