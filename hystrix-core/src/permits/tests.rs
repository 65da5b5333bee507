//! Exactness of permits: by example, against a plain counter, under threads, and by model.

#[cfg(not(hystrix_loom))]
mod plain {
    use super::super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

    const HERE: Home = Home::of(0);

    fn limited(limit: usize) -> Permits {
        Permits::new(Limit(Some(limit)))
    }

    #[test]
    fn limit_is_met_exactly_and_comes_back() {
        let permits = limited(3);
        let taken = (0..5).filter(|_| permits.take(HERE) == Take::Taken).count();
        assert_eq!((taken, permits.in_use()), (3, 3));
        permits.put(HERE);
        assert_eq!(permits.take(Home::of(7)), Take::Taken);
        assert_eq!(permits.take(HERE), Take::Full);
    }

    #[test]
    fn no_limit_needs_no_permit() {
        let permits = Permits::new(Limit(None));
        assert_eq!(permits.take(HERE), Take::Unneeded);
        permits.set_limit(Limit(Some(1)));
        assert_eq!(permits.take(HERE), Take::Taken);
        assert_eq!(permits.take(HERE), Take::Full);
    }

    #[test]
    fn a_lowered_limit_is_paid_by_what_comes_home() {
        // DUB-19, BH19: 3 -> 1 -> 5 with three out.
        let permits = limited(3);
        (0..3).for_each(|_| assert_eq!(permits.take(HERE), Take::Taken));
        permits.set_limit(Limit(Some(1)));
        assert_eq!(permits.in_use(), 3);
        for left in [2, 1] {
            permits.put(HERE);
            assert_eq!((permits.take(HERE), permits.in_use()), (Take::Full, left));
        }
        permits.put(HERE);
        assert_eq!(permits.take(HERE), Take::Taken);
        permits.set_limit(Limit(Some(5)));
        let more = (0..9).filter(|_| permits.take(HERE) == Take::Taken).count();
        assert_eq!((more, permits.in_use()), (4, 5));
    }

    proptest! {
        #[test]
        fn behaves_like_a_counter(steps in prop::collection::vec((0u8..4, 0u32..20), 1..300)) {
            let permits = Permits::spread(5, 16);
            let (mut out, mut limit) = (0usize, 5usize);
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        let expected = if out < limit { Take::Taken } else { Take::Full };
                        prop_assert_eq!(permits.take(Home::of(number)), expected);
                        out += usize::from(expected == Take::Taken);
                    }
                    2 if out > 0 => {
                        permits.put(Home::of(number));
                        out -= 1;
                    }
                    3 => {
                        limit = number as usize + 1;
                        permits.set_limit(Limit(Some(limit)));
                    }
                    _ => {}
                }
                prop_assert_eq!(permits.in_use(), out);
            }
        }
    }

    #[test]
    fn many_threads_never_pass_the_limit_and_are_never_refused_a_free_permit() {
        // Eight threads that hold one permit each at most: eight permits are enough, and are never short.
        let permits = Permits::spread(8, 8);
        let (inside, most) = (AtomicI64::new(0), AtomicI64::new(0));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (permits, inside, most) = (&permits, &inside, &most);
                scope.spawn(move || {
                    for round in 0..20_000u32 {
                        let taken = permits.take(Home::of(number + round % 3));
                        assert_eq!(taken, Take::Taken, "a permit was free");
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                        permits.put(Home::of(number));
                    }
                });
            }
        });
        assert!(most.into_inner() <= 8);
        assert_eq!(permits.in_use(), 0);
    }
}

#[cfg(hystrix_loom)]
mod loom_permits {
    use super::super::*;
    use crate::sync::global::Arc;
    use loom::thread;

    /// Two permits, two words, two callers that hold one each at most: whatever moves between the words meanwhile, a free one is always found.
    #[test]
    fn a_free_permit_is_always_found() {
        loom::model(|| {
            let permits = Arc::new(Permits::spread(2, 2));
            let other = {
                let permits = permits.clone();
                thread::spawn(move || {
                    for home in [0, 1] {
                        assert_eq!(permits.take(Home::of(home)), Take::Taken);
                        permits.put(Home::of(1 - home));
                    }
                })
            };
            assert_eq!(permits.take(Home::of(1)), Take::Taken);
            permits.put(Home::of(0));
            other.join().expect("the other caller finds its permit");
            assert_eq!(permits.in_use(), 0);
        });
    }

    #[test]
    fn one_permit_is_had_by_one() {
        loom::model(|| {
            let permits = Arc::new(Permits::spread(1, 2));
            let other = {
                let permits = permits.clone();
                thread::spawn(move || permits.take(Home::of(1)) == Take::Taken)
            };
            let mine = permits.take(Home::of(0)) == Take::Taken;
            let theirs = other.join().expect("a try does not panic");
            assert!(mine != theirs, "exactly one has it");
        });
    }

    /// After a lower limit has been set, nothing is taken while as many are out.
    #[test]
    fn a_lowered_limit_holds_from_its_return() {
        loom::model(|| {
            let permits = Arc::new(Permits::spread(2, 2));
            assert_eq!(permits.take(Home::of(0)), Take::Taken);
            let other = {
                let permits = permits.clone();
                thread::spawn(move || permits.put(Home::of(1)))
            };
            permits.set_limit(Limit(Some(1)));
            let first = permits.take(Home::of(0)) == Take::Taken;
            let second = permits.take(Home::of(0)) == Take::Taken;
            other.join().expect("giving back does not panic");
            assert!(!second || !first, "two are out under a limit of one");
            if first || second {
                permits.put(Home::of(0));
            }
            assert_eq!(permits.in_use(), 0);
            assert_eq!(permits.take(Home::of(0)), Take::Taken);
            assert_eq!(permits.take(Home::of(1)), Take::Full);
        });
    }
}
