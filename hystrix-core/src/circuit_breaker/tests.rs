//! The circuit by example and against a slow model; its races by loom.

use super::*;
use crate::clock::Timestamp;
use crate::outcome::CircuitState;
use crate::sync::Home;
use crate::window::Shape;

const HERE: Home = Home::of(0);

fn circuit(volume: u64, percent: f64) -> Circuit {
    let rules =
        Rules { request_volume_threshold: volume, error_threshold_percentage: percent, sleep_window: SLEEP };
    let shape = Shape::new(("window", Duration::from_secs(10)), ("buckets", 10)).expect("an even window");
    Circuit::new("circuit", rules, shape, at(0))
}

const SLEEP: Duration = Duration::from_millis(1000);

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(100) + Duration::from_millis(millis)
}

fn ask(circuit: &Circuit, now: Timestamp) -> Result<Pass, Option<Duration>> {
    circuit.admit(now, now).0
}

#[cfg(not(hystrix_loom))]
mod plain {
    use super::*;
    use crate::event::CircuitCause;
    use proptest::prelude::*;

    fn pass(circuit: &Circuit, now: Timestamp) -> Pass {
        ask(circuit, now).expect("the circuit lets it pass")
    }

    /// A call that begins and ends now.
    fn call(circuit: &Circuit, verdict: Verdict, now: Timestamp) -> Option<Change> {
        let pass = pass(circuit, now);
        circuit.record(HERE, pass, verdict, now)
    }

    fn opened() -> Circuit {
        let circuit = circuit(2, 50.0);
        call(&circuit, Verdict::Failure, at(0));
        call(&circuit, Verdict::Failure, at(0));
        assert_eq!(circuit.state(), CircuitState::Open);
        circuit
    }

    #[test]
    fn trips_on_the_very_result_and_says_why() {
        let circuit = circuit(3, 50.0);
        assert!(call(&circuit, Verdict::Failure, at(0)).is_none());
        assert!(call(&circuit, Verdict::Success, at(1)).is_none());
        let Change(event) = call(&circuit, Verdict::Failure, at(2)).expect("two of three");
        assert_eq!((event.requests, event.failures, event.cause), (3, 2, CircuitCause::ErrorThreshold));
        assert_eq!(ask(&circuit, at(2)), Err(Some(SLEEP)));
        assert_eq!(ask(&circuit, at(1001)), Err(Some(Duration::from_millis(1))));
    }

    #[test]
    fn bc_065_a_success_can_be_the_result_that_fills_the_volume() {
        let circuit = circuit(3, 50.0);
        call(&circuit, Verdict::Failure, at(0));
        call(&circuit, Verdict::Failure, at(0));
        assert!(call(&circuit, Verdict::Success, at(0)).is_some());
        assert_eq!(circuit.state(), CircuitState::Open);
    }

    #[test]
    fn the_watch_is_lowered_when_the_rate_is_no_longer_met() {
        let circuit = circuit(10, 50.0);
        call(&circuit, Verdict::Failure, at(0));
        for _ in 0..20 {
            call(&circuit, Verdict::Success, at(0));
        }
        assert_eq!(circuit.state(), CircuitState::Closed);
        assert_eq!(circuit.view(at(0)).requests, 21);
    }

    #[test]
    fn one_trial_at_a_time_decides() {
        let circuit = opened();
        let trial = pass(&circuit, at(1000));
        assert!(trial.is_trial());
        assert_eq!(ask(&circuit, at(1000)), Err(None));
        let closed = circuit.record(HERE, trial, Verdict::Success, at(1100));
        assert_eq!(closed.map(|Change(event)| event.to), Some(CircuitState::Closed));
        assert_eq!(circuit.view(at(1100)).requests, 0, "health begins anew");
    }

    #[test]
    fn a_failed_trial_opens_for_a_whole_window_from_its_end() {
        let circuit = opened();
        let trial = pass(&circuit, at(1000));
        circuit.record(HERE, trial, Verdict::Failure, at(1500));
        assert_eq!(ask(&circuit, at(2499)), Err(Some(Duration::from_millis(1))));
        assert!(pass(&circuit, at(2500)).is_trial());
    }

    #[test]
    fn a_trial_that_decides_nothing_is_the_next_callers() {
        let circuit = opened();
        for verdict in [Verdict::Neutral, Verdict::Refused, Verdict::Neutral] {
            let trial = pass(&circuit, at(1000));
            assert!(trial.is_trial());
            circuit.record(HERE, trial, verdict, at(1000));
            assert_eq!(circuit.state(), CircuitState::HalfOpen);
        }
        let trial = pass(&circuit, at(1000));
        circuit.record(HERE, trial, Verdict::Success, at(1000));
        assert_eq!(circuit.state(), CircuitState::Closed);
    }

    #[test]
    fn a_lost_trial_is_replaced_after_its_lease_and_decides_nothing_any_more() {
        let circuit = opened();
        let lost = circuit.admit(at(1000), at(1500)).0.expect("a trial");
        assert_eq!(ask(&circuit, at(2499)), Err(None), "the lease runs one window beyond the deadline");
        let second = pass(&circuit, at(2500));
        assert!(second.is_trial() && second != lost);
        circuit.record(HERE, lost, Verdict::Failure, at(2600));
        assert_eq!(circuit.state(), CircuitState::HalfOpen);
        circuit.record(HERE, second, Verdict::Success, at(2700));
        circuit.record(HERE, lost, Verdict::Failure, at(2800));
        assert_eq!(circuit.state(), CircuitState::Closed);
    }

    #[test]
    fn forced_states_win_and_the_state_underneath_goes_on() {
        let circuit = circuit(1, 50.0);
        circuit.force_open(at(0));
        assert_eq!((ask(&circuit, at(0)), circuit.state()), (Err(None), CircuitState::ForcedOpen));
        circuit.force_closed(at(0));
        call(&circuit, Verdict::Failure, at(0));
        assert!(ask(&circuit, at(0)).is_ok(), "let through although it has tripped underneath");
        circuit.clear_forced(at(0));
        assert_eq!(circuit.state(), CircuitState::Open);
        let Some(Change(event)) = circuit.reset(at(0)) else { panic!("a change that can be seen") };
        assert_eq!((event.from, event.to), (CircuitState::Open, CircuitState::Closed));
        assert!(circuit.reset(at(0)).is_none());
    }

    // ===== a slow model =====

    /// The circuit as a list of everything that happened, with no thought of speed.
    struct Slow {
        volume: u64,
        percent: f64,
        results: Vec<(u64, bool)>,
        state: CircuitState,
        until: u64,
        generation: u64,
        trial: Option<usize>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin,
        End { which: usize, verdict: usize },
        Pass { millis: u64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Begin),
            6 => (0usize..8, 0usize..4).prop_map(|(which, verdict)| Step::End { which, verdict }),
            2 => (0u64..700).prop_map(|millis| Step::Pass { millis }),
            1 => (1000u64..12_000).prop_map(|millis| Step::Pass { millis }),
        ];
        prop::collection::vec(step, 1..200)
    }

    const VERDICTS: [Verdict; 4] = [Verdict::Success, Verdict::Failure, Verdict::Refused, Verdict::Neutral];

    impl Slow {
        fn begin(&mut self, call: usize, now: u64) -> Option<(u64, bool)> {
            match self.state {
                CircuitState::Closed => Some((self.generation, false)),
                CircuitState::Open if now < self.until => None,
                _ if self.trial.is_some() && self.state == CircuitState::HalfOpen && now < self.until => None,
                _ => {
                    if self.state == CircuitState::Open {
                        self.generation += 1;
                    }
                    self.state = CircuitState::HalfOpen;
                    self.until = now + 1000;
                    self.trial = Some(call);
                    Some((self.generation, true))
                }
            }
        }

        fn end(&mut self, call: usize, (generation, trial): (u64, bool), verdict: Verdict, now: u64) {
            if trial {
                if self.state != CircuitState::HalfOpen || self.trial != Some(call) {
                    return;
                }
                match verdict {
                    Verdict::Success => self.go(CircuitState::Closed, now),
                    Verdict::Failure => self.go(CircuitState::Open, now),
                    Verdict::Refused | Verdict::Neutral => self.trial = None,
                }
            } else if self.state == CircuitState::Closed
                && generation == self.generation
                && verdict != Verdict::Neutral
            {
                self.results.push((now / 1000, verdict == Verdict::Success));
                self.results.retain(|(bucket, _)| bucket + 10 > now / 1000);
                let failures = self.results.iter().filter(|(_, good)| !good).count() as f64;
                let requests = self.results.len() as f64;
                if failures > 0.0
                    && failures * 100.0 >= self.percent * requests
                    && requests >= self.volume as f64
                {
                    self.go(CircuitState::Open, now);
                }
            }
        }

        fn go(&mut self, state: CircuitState, now: u64) {
            self.state = state;
            self.until = now + 1000;
            self.generation += 1;
            self.trial = None;
            self.results.clear();
        }
    }

    proptest! {
        /// A healthy rate that rises because successes age out is seen with the next failure only; so the slow model looks at
        /// failures, and at successes that may have filled the volume.
        #[test]
        fn equals_a_list_of_everything(
            volume in 1u64..6,
            percent in 1.0f64..100.0,
            steps in steps(),
        ) {
            let fast = circuit(volume, percent);
            let mut slow = Slow {
                volume,
                percent,
                results: Vec::new(),
                state: CircuitState::Closed,
                until: 0,
                generation: 0,
                trial: None,
            };
            let mut now = 0;
            let mut running = Vec::new();
            let mut calls = 0;
            for step in steps {
                match step {
                    Step::Pass { millis } => now += millis,
                    Step::Begin => {
                        calls += 1;
                        let expected = slow.begin(calls, now);
                        let pass = ask(&fast, at(now)).ok();
                        prop_assert_eq!(pass.map(Pass::is_trial), expected.map(|(_, trial)| trial));
                        if let (Some(pass), Some(expected)) = (pass, expected) {
                            running.push((calls, pass, expected));
                        }
                    }
                    Step::End { which, verdict } if !running.is_empty() => {
                        let (call, pass, admitted) = running.swap_remove(which % running.len());
                        let verdict = VERDICTS[verdict];
                        let before = slow.state;
                        slow.end(call, admitted, verdict, now);
                        fast.record(HERE, pass, verdict, at(now));
                        // The rate may have come to be met by ageing: then a success is not the result that decides.
                        if verdict == Verdict::Success
                            && before == CircuitState::Closed
                            && slow.state == CircuitState::Open
                            && fast.state() == CircuitState::Closed
                        {
                            return Ok(());
                        }
                    }
                    Step::End { .. } => {}
                }
                prop_assert_eq!(fast.state(), slow.state);
            }
        }
    }
}

#[cfg(hystrix_loom)]
mod loom_circuit {
    use super::*;
    use crate::sync::global::Arc;
    use loom::thread;

    fn open_and_due() -> Circuit {
        let circuit = circuit(1, 50.0);
        let pass = ask(&circuit, at(0)).expect("closed");
        circuit.record(HERE, pass, Verdict::Failure, at(0));
        assert_eq!(circuit.state(), CircuitState::Open);
        circuit
    }

    /// Of two failures that meet, one sees both: exactly one of them opens the circuit.
    #[test]
    fn two_failures_that_meet_fill_the_volume_and_open() {
        loom::model(|| {
            let circuit = Arc::new(circuit(4, 50.0));
            // A success in each shard: loom does not see the std lock that makes shards, so they are made first.
            for home in [0, 1] {
                let pass = ask(&circuit, at(0)).expect("closed");
                circuit.record(Home::of(home), pass, Verdict::Success, at(0));
            }
            let passes = [0, 1].map(|_| ask(&circuit, at(0)).expect("closed"));
            let other = {
                let circuit = circuit.clone();
                thread::spawn(move || {
                    circuit.record(Home::of(1), passes[1], Verdict::Failure, at(0)).is_some()
                })
            };
            let mine = circuit.record(Home::of(0), passes[0], Verdict::Failure, at(0)).is_some();
            let theirs = other.join().expect("recording does not panic");
            assert!(mine != theirs, "exactly one tells of the change");
            assert_eq!(circuit.state(), CircuitState::Open);
        });
    }

    /// Two callers come when the sleep window is over: one has the trial, the other is refused.
    #[test]
    fn one_of_two_callers_has_the_trial() {
        loom::model(|| {
            let circuit = Arc::new(open_and_due());
            let other = {
                let circuit = circuit.clone();
                thread::spawn(move || ask(&circuit, at(1000)).is_ok())
            };
            let mine = ask(&circuit, at(1000)).is_ok();
            assert!(mine != other.join().expect("asking does not panic"));
        });
    }

    /// A result from before the trip arrives while the trial ends: only the trial counts.
    #[test]
    fn a_late_failure_does_not_spoil_the_trial() {
        loom::model(|| {
            let circuit = circuit(1, 50.0);
            let old = ask(&circuit, at(0)).expect("closed");
            let tripping = ask(&circuit, at(0)).expect("closed");
            circuit.record(HERE, tripping, Verdict::Failure, at(0));
            let trial = ask(&circuit, at(1000)).expect("a trial");
            let circuit = Arc::new(circuit);
            let other = {
                let circuit = circuit.clone();
                thread::spawn(move || circuit.record(Home::of(1), old, Verdict::Failure, at(1000)).is_some())
            };
            let closed = circuit.record(HERE, trial, Verdict::Success, at(1000));
            assert!(closed.is_some() && !other.join().expect("recording does not panic"));
            assert_eq!(circuit.state(), CircuitState::Closed);
            assert_eq!(circuit.view(at(1000)).failures, 0);
        });
    }

    /// The trial is dropped while somebody asks: whoever asks afterwards has a trial, or somebody has it already.
    #[test]
    fn a_dropped_trial_never_leaves_the_circuit_stuck() {
        loom::model(|| {
            let circuit = Arc::new(open_and_due());
            let trial = ask(&circuit, at(1000)).expect("a trial");
            let other = {
                let circuit = circuit.clone();
                thread::spawn(move || ask(&circuit, at(1000)).is_ok())
            };
            circuit.record(HERE, trial, Verdict::Neutral, at(1000));
            let theirs = other.join().expect("asking does not panic");
            assert_eq!(ask(&circuit, at(1000)).is_ok(), !theirs);
        });
    }

    /// A lease is lost, the next trial fails while the lost one succeeds: the lost one is a stranger.
    #[test]
    fn a_lost_trial_decides_nothing() {
        loom::model(|| {
            let circuit = Arc::new(open_and_due());
            let lost = ask(&circuit, at(1000)).expect("a trial");
            let second = ask(&circuit, at(2000)).expect("the lease is over");
            let other = {
                let circuit = circuit.clone();
                thread::spawn(move || circuit.record(Home::of(1), lost, Verdict::Success, at(2000)).is_some())
            };
            circuit.record(HERE, second, Verdict::Failure, at(2000));
            assert!(!other.join().expect("recording does not panic"));
            assert_eq!(circuit.state(), CircuitState::Open);
        });
    }
}
