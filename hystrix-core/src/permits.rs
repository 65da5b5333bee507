//! A limit on how much runs at once: exact, without spurious refusals, and without a word that all threads write.
//!
//! A few padded words ("homes"), each `version (40 bits) | free credits (24 bits)`. A take removes one credit from one word; giving
//! back puts one into the releaser's own home and raises that word's version. A credit is in a word or in a permit,
//! never in between. A thread that calls again and again finds the credit it put home the last time, on a line that only it
//! touches.
//!
//! **Exact.** A refusal reads every word twice. An empty word only changes by a deposit, and a deposit raises the version, so words
//! only grow while they are empty: equal sums mean that nothing changed in between, and that all words were empty at
//! one instant inside the try. A refusal writes nothing.
//!
//! **Lowering the limit** makes a debt. Free credits pay at once, the rest is paid by permits as they come home: the credit is put
//! home *first*, then the debt is looked at; a take looks at the debt *after* it has read its word. Paying is done
//! under one lock, so no credit in a payer's hand is one that somebody else was entitled to.

use std::fmt;

use crate::error::ConfigError;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::global::OnceLock;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, CachePadded, Home, Mutex, fence};

/// Words at most, the first included.
const WORDS: usize = 16;
/// A word more is used for each so many permits.
const PER_WORD: usize = 8;
const CREDIT_BITS: u32 = 24;
const CREDITS: u64 = (1 << CREDIT_BITS) - 1;
const VERSION: u64 = 1 << CREDIT_BITS;

/// How many at a time: a number, or no limit.
///
/// `semaphore(64)` and `semaphore(None)` both read as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub(crate) Option<usize>);

impl Limit {
    /// The largest limit there can be.
    pub const MAX: usize = CREDITS as usize;

    pub(crate) fn validate(self, field: &'static str) -> Result<(), ConfigError> {
        match self.0 {
            Some(limit) if limit == 0 || limit > Self::MAX => {
                Err(ConfigError::new(field, limit, format!("1 to {}, or None", Self::MAX)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number, or `None` for no limit.
    #[must_use]
    pub fn get(self) -> Option<usize> {
        self.0
    }
}

impl From<usize> for Limit {
    fn from(limit: usize) -> Self {
        Limit(Some(limit))
    }
}

impl From<Option<usize>> for Limit {
    fn from(limit: Option<usize>) -> Self {
        Limit(limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => limit.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}

/// The permits of one limit.
pub(crate) struct Permits {
    first: CachePadded<AtomicU64>,
    /// The other words, made when two threads first meet at the first one.
    rest: OnceLock<Box<[CachePadded<AtomicU64>]>>,
    /// What every take reads and only a change of the limit writes.
    rules: CachePadded<Rules>,
    /// Held while the limit changes and while debt is paid.
    change: Mutex<()>,
}

/// What a try to take a permit gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// A permit: to be put back.
    Taken,
    /// There is no limit, and nothing to put back.
    Unneeded,
    /// All permits were out.
    Full,
}

struct Rules {
    limit: AtomicUsize,
    /// No limit: takes need no permit. Permits that are out when this changes stay out.
    unlimited: AtomicBool,
    /// Credits that a lowered limit still has to take away.
    debt: AtomicU64,
    /// Number of words in use less one: a power of two less one.
    mask: AtomicUsize,
}

impl Permits {
    /// Makes permits for a limit, or none.
    pub(crate) fn new(limit: Limit) -> Self {
        let unlimited = AtomicBool::new(limit.0.is_none());
        let limit = limit.0.unwrap_or(0);
        Self {
            first: CachePadded::new(AtomicU64::new(limit as u64)),
            rest: OnceLock::new(),
            rules: CachePadded::new(Rules {
                limit: AtomicUsize::new(limit),
                unlimited,
                debt: AtomicU64::new(0),
                mask: AtomicUsize::new(mask_for(limit)),
            }),
            change: Mutex::new(()),
        }
    }

    /// Permits that are spread over so many words from the start, however few they are.
    #[cfg(test)]
    fn spread(limit: usize, words: usize) -> Self {
        let permits = Self::new(Limit(Some(limit)));
        permits.rules.mask.store(words - 1, Relaxed);
        permits.rest.get_or_init(|| (1..words).map(|_| CachePadded::new(AtomicU64::new(0))).collect());
        permits
    }

    pub(crate) fn limit(&self) -> Limit {
        Limit((!self.rules.unlimited.load(Relaxed)).then(|| self.rules.limit.load(Relaxed)))
    }

    /// The permits that are out. Exact when nobody takes or gives back meanwhile.
    pub(crate) fn in_use(&self) -> usize {
        let free: u64 = self.words().map(|word| word.load(Acquire) & CREDITS).sum();
        let debt = self.rules.debt.load(Acquire);
        let all = self.rules.limit.load(Relaxed) as u64 + debt;
        all.saturating_sub(free) as usize
    }

    /// Takes a permit, if one is needed and free.
    pub(crate) fn take(&self, home: Home) -> Take {
        match self.take_at_home(home) {
            Some(take) => take,
            None if self.take_anywhere(home) => Take::Taken,
            None => Take::Full,
        }
    }

    /// Takes a permit where this thread put one back the last time; `None` says nothing of other places.
    #[inline]
    pub(crate) fn take_at_home(&self, home: Home) -> Option<Take> {
        if self.rules.unlimited.load(Relaxed) {
            return Some(Take::Unneeded);
        }
        let word = self.word(home);
        let seen = word.load(Acquire);
        let free = seen & CREDITS > 0 && !self.in_debt();
        let taken = free && word.compare_exchange(seen, seen - 1, AcqRel, Relaxed).is_ok();
        taken.then_some(Take::Taken)
    }

    #[cold]
    fn take_anywhere(&self, home: Home) -> bool {
        if self.first.load(Relaxed) & CREDITS > 0 && self.rules.mask.load(Relaxed) > 0 {
            // Not empty, and still not had: somebody else is at this word.
            self.rest.get_or_init(|| (1..WORDS).map(|_| CachePadded::new(AtomicU64::new(0))).collect());
        }
        let start = home.index() & self.rules.mask.load(Relaxed);
        'again: loop {
            let spread = self.rest.get().is_some();
            let mut sum = 0u64;
            for word in self.words_from(start) {
                let mut seen = word.load(Acquire);
                while seen & CREDITS > 0 {
                    if self.in_debt() {
                        self.settle();
                        continue 'again;
                    }
                    match word.compare_exchange(seen, seen - 1, AcqRel, Acquire) {
                        Ok(_) => return true,
                        Err(now) => seen = now,
                    }
                }
                sum = sum.wrapping_add(seen);
            }
            let second = self.words_from(start).fold(0u64, |sum, word| sum.wrapping_add(word.load(Acquire)));
            if second == sum && spread == self.rest.get().is_some() {
                return false;
            }
        }
    }

    /// Puts a permit back that was taken, from any thread.
    #[inline]
    pub(crate) fn put(&self, home: Home) {
        self.word(home).fetch_add(VERSION + 1, AcqRel);
        if self.in_debt() {
            self.settle();
        }
    }

    /// Changes the limit. Permits that are out stay out; after a lower limit has been set, none is taken while
    /// `in_use >= limit`.
    pub(crate) fn set_limit(&self, limit: Limit) {
        let _change = self.change.lock();
        self.rules.unlimited.store(limit.0.is_none(), Relaxed);
        let Some(limit) = limit.0 else {
            return;
        };
        let before = self.rules.limit.load(Relaxed);
        self.rules.limit.store(limit, Relaxed);
        self.rules.mask.store(mask_for(limit), Relaxed);
        if limit >= before {
            let mut raise = (limit - before) as u64;
            let debt = self.rules.debt.load(Relaxed);
            let forgiven = raise.min(debt);
            self.rules.debt.store(debt - forgiven, Release);
            raise -= forgiven;
            self.first.fetch_add(raise * (VERSION + 1), AcqRel);
        } else {
            let debt = self.rules.debt.load(Relaxed) + (before - limit) as u64;
            self.rules.debt.store(debt, SeqCst);
            self.pay();
        }
    }

    fn in_debt(&self) -> bool {
        self.rules.debt.load(Acquire) > 0
    }

    #[cold]
    fn settle(&self) {
        let _change = self.change.lock();
        self.pay();
    }

    /// Takes free credits away for the debt. Called with `change` held.
    fn pay(&self) {
        // Orders the debt that was stored before the words that are read now.
        fence(SeqCst);
        for word in self.words() {
            let mut seen = word.load(Acquire);
            while seen & CREDITS > 0 {
                let debt = self.rules.debt.load(Relaxed);
                if debt == 0 {
                    return;
                }
                match word.compare_exchange(seen, seen - 1, AcqRel, Acquire) {
                    Ok(_) => {
                        self.rules.debt.store(debt - 1, Release);
                        seen -= 1;
                    }
                    Err(now) => seen = now,
                }
            }
        }
    }

    #[inline]
    fn word(&self, home: Home) -> &AtomicU64 {
        match home.index() & self.rules.mask.load(Relaxed) {
            0 => &self.first,
            index => self.rest.get().map_or(&*self.first, |rest| &*rest[index - 1]),
        }
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.words_from(0)
    }

    /// All words there are, whatever the mask says, beginning near `start`.
    fn words_from(&self, start: usize) -> impl Iterator<Item = &AtomicU64> {
        let rest = self.rest.get().map(|rest| &rest[..]).unwrap_or_default();
        let count = rest.len() + 1;
        (0..count).map(move |step| match (start + step) % count {
            0 => &*self.first,
            index => &*rest[index - 1],
        })
    }
}

/// The largest power of two of words that each stand for [`PER_WORD`] permits or more, less one.
fn mask_for(limit: usize) -> usize {
    let words = (limit / PER_WORD).clamp(1, WORDS);
    (1 << words.ilog2()) - 1
}

#[cfg(test)]
mod tests;
