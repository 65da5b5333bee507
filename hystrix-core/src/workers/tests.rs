//! Workers by example on real threads, and their hand-off by model.

use super::*;

#[cfg(not(hystrix_loom))]
mod plain {
    use super::*;
    use crate::clock::ManualClock;
    use crate::sync::global::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A job that says when it begins and ends when its gate opens.
    #[derive(Clone)]
    struct Gated(Arc<Inner>);

    struct Inner {
        number: usize,
        entry: AtomicU64,
        over: AtomicBool,
        told: AtomicUsize,
        begun: mpsc::Sender<usize>,
        gate: Mutex<Option<mpsc::Receiver<()>>>,
        command: CommandKey,
    }

    impl Job for Gated {
        fn run(self, seat: Seat<Self>, _now: Timestamp) {
            if self.0.over.load(SeqCst) {
                return;
            }
            let gate = self.0.gate.lock().take();
            let begun = || self.0.begun.send(self.0.number).expect("the test listens");
            if let Some(gate) = gate {
                begun();
                let _ = gate.recv();
                drop(seat);
            } else {
                // Nothing to wait for: tells its caller last, as the conductor does.
                drop(seat);
                begun();
            }
        }

        fn refuse(&self, _why: Refused) {
            self.0.told.fetch_add(1, SeqCst);
        }

        fn is_over(&self) -> bool {
            self.0.over.load(SeqCst)
        }

        fn entry(&self) -> &AtomicU64 {
            &self.0.entry
        }

        fn command(&self) -> &CommandKey {
            &self.0.command
        }
    }

    struct Bench {
        clock: ManualClock,
        workers: Workers<Gated>,
        begun: mpsc::Receiver<usize>,
        sender: mpsc::Sender<usize>,
    }

    impl Bench {
        fn new(core: usize, maximum: usize, queue: usize) -> Self {
            let clock = ManualClock::new();
            let source = TimeSource::given(clock.clone());
            let timer = Timer::new(source.clone());
            let limits = Limits { core, maximum, queue, keep_alive: Duration::from_secs(60) };
            let workers = Workers::new("test", limits, source, timer);
            let (sender, begun) = mpsc::channel();
            Self { clock, workers, begun, sender }
        }

        /// A job, and what opens its gate when it is dropped or sent to.
        fn job(&self, number: usize) -> (Gated, mpsc::Sender<()>) {
            let (open, gate) = mpsc::channel();
            let inner = Inner {
                number,
                entry: AtomicU64::new(0),
                over: AtomicBool::new(false),
                told: AtomicUsize::new(0),
                begun: self.sender.clone(),
                gate: Mutex::new(Some(gate)),
                command: CommandKey::new("test", "job"),
            };
            (Gated(Arc::new(inner)), open)
        }

        fn submit(&self, number: usize) -> Result<mpsc::Sender<()>, Refused> {
            let (job, open) = self.job(number);
            self.workers.submit(&job, Room::Place).map(|()| open)
        }

        fn begins(&self) -> usize {
            self.begun.recv_timeout(PATIENCE).expect("a job begins")
        }

        #[expect(clippy::disallowed_methods, reason = "how long a test waits is real time")]
        fn until(&self, what: &str, reached: impl Fn(&Look) -> bool) {
            let begin = Instant::now();
            while !reached(&self.workers.look()) {
                assert!(begin.elapsed() < PATIENCE, "never {what}");
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_job_that_came_to_wait_for_a_refused_thread_is_told() {
        let bench = Bench::new(1, 1, 1);
        let (first, _gate) = bench.job(1);
        // The only worker is hired, and its thread is about to be refused.
        let (entry, number) = {
            let mut state = bench.workers.0.state.lock();
            state.placed += 1;
            let entry = state.queue.push(super::Queued { job: first.clone(), room: Room::Place });
            first.0.entry.store(entry, Relaxed);
            (entry, state.hire().expect("there may be one"))
        };
        let (second, _gate) = bench.job(2);
        bench.workers.submit(&second, Room::Place).expect("it may wait");
        let refused = bench.workers.0.without_thread(number, entry, io::Error::other("no thread"));
        assert!(matches!(refused, Err(Refused::NoThread(_))));
        assert_eq!((first.0.told.load(SeqCst), second.0.told.load(SeqCst)), (0, 1));
        let look = bench.workers.look();
        assert_eq!((look.live, look.queued, look.placed), (0, 0, 0));
    }

    #[test]
    fn no_thread_is_started_before_it_is_needed_and_idle_ones_are_used_first() {
        let bench = Bench::new(4, 4, 0);
        assert_eq!(bench.workers.look().live, 0);
        for number in 0..3 {
            drop(bench.submit(number).expect("a place"));
            assert_eq!(bench.begins(), number);
            bench.until("idle", |look| look.idle == 1);
        }
        assert_eq!(bench.workers.look().live, 1);
    }

    #[test]
    fn dub_12_grows_to_its_maximum_before_it_queues_and_then_refuses() {
        let bench = Bench::new(1, 3, 1);
        let mut gates = Vec::new();
        for number in 0..3 {
            gates.push(bench.submit(number).expect("a worker"));
            bench.begins();
        }
        gates.push(bench.submit(3).expect("a place in the queue"));
        let refused = bench.submit(4).expect_err("full");
        assert!(matches!(refused, Refused::Full { places: 4, in_use: 4 }));
        let look = bench.workers.look();
        assert_eq!((look.live, look.running.len(), look.queued, look.tally.refused), (3, 3, 1, 1));
        gates.remove(0);
        assert_eq!(bench.begins(), 3);
    }

    #[test]
    fn bh09_a_withdrawn_job_gives_its_place_back_at_once_and_never_runs() {
        let bench = Bench::new(1, 1, 1);
        let first = bench.submit(0).expect("a worker");
        bench.begins();
        let (job, _gate) = bench.job(1);
        bench.workers.submit(&job, Room::Place).expect("a place in the queue");
        job.0.over.store(true, SeqCst);
        bench.workers.withdraw(&job.0.entry);
        assert_eq!((bench.workers.look().queued, bench.workers.look().placed), (0, 1));
        assert_eq!(Arc::strong_count(&job.0), 1);
        let _third = bench.submit(2).expect("the place is free");
        drop(first);
        assert_eq!(bench.begins(), 2);
    }

    #[test]
    fn a_job_decided_before_it_is_queued_never_is() {
        let bench = Bench::new(1, 1, 0);
        let (job, _gate) = bench.job(0);
        job.0.over.store(true, SeqCst);
        bench.workers.submit(&job, Room::Place).expect("nothing to refuse");
        assert_eq!((bench.workers.look().live, bench.workers.look().placed), (0, 0));
    }

    #[test]
    fn kb_21_workers_above_the_core_end_when_they_were_idle_for_the_keep_alive() {
        let bench = Bench::new(1, 3, 0);
        let gates: Vec<_> = (0..3).map(|number| bench.submit(number).expect("a worker")).collect();
        (0..3).for_each(|_| assert!(bench.begins() < 3));
        drop(gates);
        bench.until("idle", |look| look.idle == 3);
        bench.clock.advance(Duration::from_secs(59));
        assert_eq!(bench.workers.look().live, 3);
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!((bench.workers.look().live, bench.workers.look().idle), (1, 1));
        assert_eq!(bench.clock.armed(), 0, "nothing is armed for workers that stay");
    }

    #[test]
    fn hc_084_resizing_takes_effect_at_once_and_stops_nobody() {
        let bench = Bench::new(2, 2, 0);
        let limits = bench.workers.limits();
        let gates: Vec<_> = (0..2).map(|number| bench.submit(number).expect("a worker")).collect();
        (0..2).for_each(|_| assert!(bench.begins() < 2));
        assert!(bench.submit(9).is_err());
        bench.workers.resize(Limits { core: 3, maximum: 3, ..limits });
        let third = bench.submit(2).expect("a place more");
        bench.begins();
        bench.workers.resize(Limits { core: 1, maximum: 1, ..limits });
        assert_eq!(bench.workers.look().running.len(), 3);
        assert!(bench.submit(9).is_err());
        drop((gates, third));
        bench.until("shrunk", |look| (look.live, look.placed) == (1, 0));
        drop(bench.submit(5).expect("one is left"));
        assert_eq!(bench.begins(), 5);
    }

    #[test]
    fn a_raised_maximum_starts_workers_for_what_waits() {
        let bench = Bench::new(1, 1, 2);
        let limits = bench.workers.limits();
        let _gates: Vec<_> = (0..3).map(|number| bench.submit(number).expect("a place")).collect();
        assert_eq!(bench.begins(), 0);
        bench.workers.resize(Limits { core: 3, maximum: 3, ..limits });
        let mut begun = [bench.begins(), bench.begins()];
        begun.sort_unstable();
        assert_eq!(begun, [1, 2]);
    }

    #[test]
    fn closing_tells_whoever_waits_and_the_threads_end() {
        let bench = Bench::new(1, 1, 1);
        let gate = bench.submit(0).expect("a worker");
        bench.begins();
        let (waiting, _gate) = bench.job(1);
        bench.workers.submit(&waiting, Room::Place).expect("a place in the queue");
        bench.workers.close();
        assert_eq!(waiting.0.told.load(SeqCst), 1);
        assert!(matches!(bench.submit(2), Err(Refused::ShutDown)));
        drop(gate);
        bench.workers.join(real_time() + PATIENCE);
        assert_eq!(bench.workers.look().live, 0);
    }

    #[test]
    fn bc_078_a_job_never_waits_beside_an_idle_worker() {
        // Two callers that wait for their own tiny jobs: a lost wake-up would leave one waiting for ever.
        let bench = Bench::new(1, 1, 1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let workers = &bench.workers;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        let (sender, begun) = mpsc::channel();
                        let inner = Inner {
                            number,
                            entry: AtomicU64::new(0),
                            over: AtomicBool::new(false),
                            told: AtomicUsize::new(0),
                            begun: sender,
                            gate: Mutex::new(None),
                            command: CommandKey::new("test", "job"),
                        };
                        workers
                            .submit(&Gated(Arc::new(inner)), Room::Place)
                            .expect("two places, two callers");
                        assert_eq!(begun.recv_timeout(PATIENCE), Ok(number));
                    }
                });
            }
        });
    }
}

#[cfg(hystrix_loom)]
mod loom_workers {
    use super::*;
    use crate::clock::Clock;
    use crate::sync::Ordering::{AcqRel, Acquire};
    use crate::sync::{AtomicU8, AtomicU32};
    use loom::thread;

    #[derive(Debug)]
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(1 << 40)
        }
    }

    const WAITING: u8 = 0;
    const RUN: u8 = 1;
    const GIVEN_UP: u8 = 2;
    const TOLD: u8 = 3;

    /// A job as the conductor has them: whoever moves it away from waiting decides.
    #[derive(Clone)]
    struct Decided(Arc<(AtomicU8, AtomicU64, AtomicU32)>);

    impl Decided {
        fn new() -> Self {
            Self(Arc::new((AtomicU8::new(WAITING), AtomicU64::new(0), AtomicU32::new(0))))
        }

        fn decide(&self, as_what: u8) -> bool {
            let (state, _, decisions) = &*self.0;
            let decided = state.compare_exchange(WAITING, as_what, AcqRel, Acquire).is_ok();
            if decided {
                decisions.fetch_add(1, AcqRel);
            }
            decided
        }

        fn state(&self) -> u8 {
            self.0.0.load(Acquire)
        }
    }

    impl Job for Decided {
        fn run(self, seat: Seat<Self>, _now: Timestamp) {
            self.decide(RUN);
            drop(seat);
        }

        fn refuse(&self, _why: Refused) {
            self.decide(TOLD);
        }

        fn is_over(&self) -> bool {
            self.state() != WAITING
        }

        fn entry(&self) -> &AtomicU64 {
            &self.0.1
        }

        fn command(&self) -> &CommandKey {
            unreachable!("no report is made")
        }
    }

    fn workers(queue: usize) -> Workers<Decided> {
        let clock = TimeSource::given(Still);
        let limits = Limits { core: 1, maximum: 1, queue, keep_alive: Duration::MAX };
        Workers::new("loom", limits, clock.clone(), Timer::new(clock))
    }

    fn end(workers: &Workers<Decided>) {
        workers.close();
        workers.join(Timestamp::MAX);
        assert_eq!(workers.0.state.lock().placed, 0, "every place has come back");
    }

    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    /// The caller gives up while its job is handed over: it runs or it is given up, once, and its place comes back.
    #[test]
    fn hand_off_against_a_timeout() {
        check(|| {
            let workers = workers(0);
            let job = Decided::new();
            let timer = {
                let (workers, job) = (workers.clone(), job.clone());
                thread::spawn(move || {
                    if job.decide(GIVEN_UP) {
                        workers.withdraw(job.entry());
                    }
                })
            };
            workers.submit(&job, Room::Place).expect("a place");
            timer.join().expect("giving up does not panic");
            end(&workers);
            let (_, _, decisions) = &*job.0;
            assert_eq!(decisions.load(Acquire), 1);
        });
    }

    /// The pool is shut down while a job is handed over: it runs, or its caller is told, or it is refused; never nothing.
    #[test]
    fn hand_off_against_a_shutdown() {
        check(|| {
            let workers = workers(0);
            let job = Decided::new();
            let closer = {
                let workers = workers.clone();
                thread::spawn(move || workers.close())
            };
            let taken = workers.submit(&job, Room::Place).is_ok();
            closer.join().expect("closing does not panic");
            end(&workers);
            match job.state() {
                RUN | TOLD => assert!(taken),
                state => assert!(!taken && state == WAITING, "refused, and nothing else"),
            }
        });
    }

    /// Two callers, one worker, one place in the queue: both jobs run.
    #[test]
    fn no_job_is_left_beside_an_idle_worker() {
        check(|| {
            let workers = workers(1);
            let jobs = [Decided::new(), Decided::new()];
            let other = {
                let (workers, job) = (workers.clone(), jobs[1].clone());
                thread::spawn(move || workers.submit(&job, Room::Place).expect("a place"))
            };
            workers.submit(&jobs[0], Room::Place).expect("a place");
            other.join().expect("submitting does not panic");
            while jobs.iter().any(|job| job.state() == WAITING) {
                thread::yield_now();
            }
            end(&workers);
        });
    }
}
