//! Deadlines: armed by callers, fired by one thread or by the registry's clock.
//!
//! Arming and cancelling take one uncontended lock and no heap work in steady traffic; nothing of a cancelled entry but a
//! 16-byte node stays behind, and that is forgotten in time. The protocol is in the README beside this file.
//!
//! Firing runs no user code but a waker's `wake`: what is due is a waker, or a claim ([`Due`]) that decides an attempt and hands
//! the rest to somebody else.

mod shard;

use std::task::Waker;
use std::time::Duration;
use std::{fmt, io};

use self::shard::{Entry, Shard};
use crate::clock::{Alarm, Ring, TimeSource, Timestamp, Waking, real_time};
use crate::sync::Ordering::{AcqRel, Acquire, Release};
use crate::sync::global::{self, Arc, Condvar, Weak};
use crate::sync::{
    AtomicBool, AtomicU64, Builder, CachePadded, Home, JoinHandle, Mutex, Thread, current, park, park_timeout,
};
use crate::unwind::contained;

/// What a deadline does when it passes.
pub(crate) enum Target {
    Waker(Waker),
    Claim(Arc<dyn Due>),
    /// A claim that no caller waits for, such as a worker's keep-alive. It does not count as armed.
    Upkeep(Arc<dyn Due>),
}

impl Target {
    fn is_upkeep(&self) -> bool {
        matches!(self, Target::Upkeep(_))
    }
}

/// A claim on an attempt, made by the timer. Runs no user code; what must be dropped is dropped elsewhere.
pub(crate) trait Due: Send + Sync {
    /// `now` is the time of the sweep, at or after the deadline.
    fn due(self: Arc<Self>, now: Timestamp, woken: &Meeting);
}

/// A pending deadline, or one that never comes.
#[derive(Debug)]
pub(crate) struct Token(Option<(u32, Entry)>);

impl Token {
    /// A deadline that never comes: nothing is armed.
    pub(crate) const NEVER: Token = Token(None);
}

/// The sweep is looking. Odd, where every planned time is even, and larger than any of them.
const AWAKE: u64 = u64::MAX;
/// Nothing is pending.
const FOREVER: u64 = u64::MAX - 1;

/// How many shards there are, at most: more than cores buy nothing.
const MAX_SHARDS: usize = 16;

/// The deadlines of one registry. Clones are the same timer.
#[derive(Clone)]
pub(crate) struct Timer(Arc<Core>);

pub(crate) struct Core {
    clock: TimeSource,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// See the README.
    planned: CachePadded<AtomicU64>,
    closed: AtomicBool,
    /// The thread that sleeps, where the clock does not ring. Made with the first deadline.
    sleeper: Mutex<Option<(Thread, JoinHandle<()>)>>,
    meeting: Meeting,
    /// Itself, for the thread and the clock.
    me: Weak<Core>,
}

impl Timer {
    pub(crate) fn new(clock: TimeSource) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_shards(clock, cores.next_power_of_two().min(MAX_SHARDS))
    }

    fn with_shards(clock: TimeSource, shards: usize) -> Self {
        Self(Arc::new_cyclic(|me| Core {
            clock,
            shards: (0..shards).map(|_| CachePadded::new(Mutex::new(Shard::new()))).collect(),
            planned: CachePadded::new(AtomicU64::new(FOREVER)),
            closed: AtomicBool::new(false),
            sleeper: Mutex::new(None),
            meeting: Meeting::default(),
            me: me.clone(),
        }))
    }

    /// Fires `target` at `deadline`, once, unless cancelled first.
    ///
    /// # Errors
    ///
    /// The system refuses the timer its thread; nothing is armed then.
    pub(crate) fn arm(&self, home: Home, deadline: Timestamp, target: Target) -> io::Result<Token> {
        let core = &*self.0;
        if deadline == Timestamp::MAX {
            return Ok(Token::NEVER);
        }
        // Even, so that it is never mistaken for AWAKE.
        let at = Timestamp::from_nanos(
            deadline.as_nanos().saturating_add(deadline.as_nanos() & 1).min(FOREVER - 2),
        );
        let shard = home.index() & (core.shards.len() - 1);
        let (entry, wake) = {
            let mut entries = core.shards[shard].lock();
            let entry = entries.arm(at, target);
            // Acquire: a published plan is the plan of a sweep that has seen this shard.
            (entry, at.as_nanos() < core.planned.load(Acquire))
        };
        let token = Token(Some((shard as u32, entry)));
        if wake {
            let before = core.planned.fetch_min(at.as_nanos(), AcqRel);
            if before > at.as_nanos()
                && before != AWAKE
                && let Err(error) = core.wake(at)
            {
                self.cancel(token);
                // Others may have relied on the thread that was to be: they are told now rather than never.
                core.drain();
                return Err(error);
            }
        }
        if core.closed.load(Acquire) {
            // The timer ended while this was armed: nobody else would fire it.
            core.ring();
        }
        Ok(token)
    }

    /// Withdraws a deadline. Returns false if it has fired.
    pub(crate) fn cancel(&self, token: Token) -> bool {
        let Some((shard, entry)) = token.0 else {
            return true;
        };
        let target = self.0.shards[shard as usize].lock().cancel(entry);
        // The target is dropped here, without the lock: a waker's drop is user code.
        target.is_some()
    }

    /// Makes a pending waker entry wake `waker`. Returns false if it has fired.
    pub(crate) fn refresh(&self, token: &Token, waker: &Waker) -> bool {
        let Some((shard, entry)) = token.0 else {
            return true;
        };
        let shard = &self.0.shards[shard as usize];
        let wakes = shard.lock().wakes(entry, waker);
        match wakes {
            None => false,
            Some(true) => true,
            Some(false) => {
                // Cloned and dropped without the lock, for both are user code.
                let fresh = waker.clone();
                let stale = shard.lock().replace(entry, fresh);
                stale.is_some()
            }
        }
    }

    /// Returns the number of pending deadlines that callers wait for.
    pub(crate) fn armed(&self) -> usize {
        self.0.armed()
    }

    /// Whether deadlines now fire at once instead of at their time.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.closed.load(Acquire)
    }

    /// What woken callers report to.
    pub(crate) fn meeting(&self) -> &Meeting {
        &self.0.meeting
    }

    /// Ends the timer: wakes everything that still waits, stops the thread and waits for its end.
    pub(crate) fn shutdown(&self) {
        self.0.closed.store(true, Release);
        self.0.ring();
        let sleeper = self.0.sleeper.lock().take();
        if let Some((thread, handle)) = sleeper {
            thread.unpark();
            // A registry may be dropped by a waker that the timer itself wakes.
            if thread.id() != current().id() {
                let _ = handle.join();
            }
        }
    }
}

impl Core {
    /// Makes whoever sleeps look at the plan again.
    #[cold]
    fn wake(&self, when: Timestamp) -> io::Result<()> {
        let ring: Weak<dyn Ring> = self.me.clone();
        if self.clock.wake_at(when, &Alarm::new(ring)) == Waking::ByClock {
            return Ok(());
        }
        let mut sleeper = self.sleeper.lock();
        if let Some((thread, _)) = &*sleeper {
            thread.unpark();
            return Ok(());
        }
        if self.closed.load(Acquire) {
            return Ok(());
        }
        let me = self.me.clone();
        #[expect(clippy::disallowed_methods, reason = "the timer's one thread")]
        let thread = Builder::new().name("hystrix-timer".into()).spawn(move || {
            if let Some(core) = me.upgrade() {
                core.run();
            }
        });
        match thread {
            Ok(handle) => {
                *sleeper = Some((handle.thread().clone(), handle));
                Ok(())
            }
            Err(error) => {
                // Nobody sleeps: the next arm must try again.
                self.planned.store(FOREVER, Release);
                Err(error)
            }
        }
    }

    /// The thread's life.
    fn run(&self) {
        while !self.closed.load(Acquire) {
            let next = self.sweep();
            if self.closed.load(Acquire) {
                break;
            }
            let now = self.clock.now();
            if next.as_nanos() >= FOREVER - 2 {
                park();
            } else if next > now {
                park_timeout(next.since(now));
            }
        }
    }

    /// Fires what is due until nothing is, and returns the time to look again.
    fn sweep(&self) -> Timestamp {
        let mut due = Vec::new();
        loop {
            self.planned.swap(AWAKE, AcqRel);
            let now = self.clock.now();
            let mut next = Timestamp::MAX;
            for shard in &self.shards {
                next = next.min(shard.lock().sweep(now, &mut due));
            }
            if !due.is_empty() {
                self.fire(now, &mut due);
                continue;
            }
            return self.publish(next);
        }
    }

    fn fire(&self, now: Timestamp, due: &mut Vec<(Timestamp, Target)>) {
        due.sort_by_key(|(deadline, _)| *deadline);
        for (_, target) in due.drain(..) {
            // A waker is the executor's code: its panic must not end the timer.
            let _ = contained(|| match target {
                Target::Waker(waker) => waker.wake(),
                Target::Claim(claim) | Target::Upkeep(claim) => claim.due(now, &self.meeting),
            });
        }
    }

    /// Fires everything, due or not.
    fn drain(&self) {
        let mut due = Vec::new();
        for shard in &self.shards {
            shard.lock().drain(&mut due);
        }
        self.fire(self.clock.now(), &mut due);
    }

    /// Plans the next look, or an earlier one that was asked for meanwhile.
    fn publish(&self, next: Timestamp) -> Timestamp {
        let mut next = next.as_nanos().min(FOREVER);
        let mut found = AWAKE;
        while let Err(lowered) = self.planned.compare_exchange(found, next, AcqRel, Acquire) {
            next = next.min(lowered);
            found = lowered;
        }
        Timestamp::from_nanos(next)
    }
}

impl Ring for Core {
    fn ring(&self) {
        if self.closed.load(Acquire) {
            return self.drain();
        }
        let next = self.sweep();
        if next.as_nanos() < FOREVER - 2 {
            // Only a clock rings, and it takes every request: no thread is started from here.
            let ring: Weak<dyn Ring> = self.me.clone();
            let _ = self.clock.wake_at(next, &Alarm::new(ring));
        }
    }

    fn armed(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().armed()).sum()
    }

    fn meet(&self) {
        self.meeting.meet();
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.armed()).finish()
    }
}

// ===== impl Meeting =====

/// Where parked callers that were just woken say that they have looked at the clock, before a test's clock moves on.
#[derive(Default)]
pub(crate) struct Meeting {
    expected: global::Mutex<usize>,
    arrived: Condvar,
}

impl Meeting {
    /// How long a clock waits for its callers, in real time.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub(crate) fn expect(&self) {
        *self.expected.lock() += 1;
    }

    pub(crate) fn arrive(&self) {
        let mut expected = self.expected.lock();
        *expected = expected.saturating_sub(1);
        if *expected == 0 {
            self.arrived.notify_all();
        }
    }

    fn meet(&self) {
        let until = real_time() + Self::PATIENCE;
        let mut expected = self.expected.lock();
        while *expected > 0 {
            let left = until.since(real_time());
            if left.is_zero() {
                // Somebody was held up for a whole second; the clock goes on without.
                *expected = 0;
                return;
            }
            expected = self.arrived.wait(expected, left);
        }
    }
}

#[cfg(test)]
mod tests;
