//! The deadlines that one thread armed: slots, and a heap of times that points into them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use super::Target;
use crate::clock::Timestamp;

/// A slot that is not armed, or not in the heap.
const NEVER: Timestamp = Timestamp::MAX;
const NONE: u32 = u32::MAX;

/// Which entry of a shard; the generation tells an entry from the next one in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    slot: u32,
    generation: u32,
}

pub(super) struct Shard {
    slots: Vec<Slot>,
    /// Head of the chain of free slots.
    free: u32,
    heap: BinaryHeap<Reverse<(Timestamp, u32)>>,
    armed: usize,
    /// Those of them that no caller waits for.
    upkeep: usize,
}

/// Padded to two cache lines: the small tables of two shards must not share one.
#[repr(align(128))]
struct Slot {
    deadline: Timestamp,
    /// The time of the earliest heap node that points here.
    queued_at: Timestamp,
    generation: u32,
    next_free: u32,
    target: Option<Target>,
}

impl Shard {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, heap: BinaryHeap::new(), armed: 0, upkeep: 0 }
    }

    /// The pending deadlines of callers.
    pub(super) fn armed(&self) -> usize {
        self.armed - self.upkeep
    }

    pub(super) fn arm(&mut self, deadline: Timestamp, target: Target) -> Entry {
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.deadline = deadline;
        self.upkeep += usize::from(target.is_upkeep());
        slot.target = Some(target);
        let generation = slot.generation;
        if deadline < slot.queued_at {
            slot.queued_at = deadline;
            self.push(deadline, index);
        }
        self.armed += 1;
        Entry { slot: index, generation }
    }

    fn take_slot(&mut self) -> u32 {
        if self.free == NONE {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 deadlines are pending");
            self.slots.push(Slot {
                deadline: NEVER,
                queued_at: NEVER,
                generation: 0,
                next_free: NONE,
                target: None,
            });
            return index;
        }
        let index = self.free;
        self.free = self.slots[index as usize].next_free;
        index
    }

    fn push(&mut self, time: Timestamp, index: u32) {
        self.heap.push(Reverse((time, index)));
        // Ever earlier deadlines leave nodes behind; keep what a slot still answers to.
        if self.heap.len() > 2 * self.slots.len() + 64 {
            let slots = &self.slots;
            self.heap.retain(|Reverse((time, index))| slots[*index as usize].queued_at == *time);
        }
    }

    /// Takes the target back, unless the entry has fired. The caller drops it without the lock.
    pub(super) fn cancel(&mut self, entry: Entry) -> Option<Target> {
        self.armed_slot(entry)?;
        Some(self.release(entry.slot))
    }

    /// Puts `waker` in the place of the entry's present one, which it returns; `None` if the entry has fired.
    pub(super) fn replace(&mut self, entry: Entry, waker: Waker) -> Option<Target> {
        self.armed_slot(entry)?.target.replace(Target::Waker(waker))
    }

    /// Says whether the entry's waker wakes the same task; `None` if the entry has fired.
    pub(super) fn wakes(&mut self, entry: Entry, waker: &Waker) -> Option<bool> {
        let target = &self.armed_slot(entry)?.target;
        Some(matches!(target, Some(Target::Waker(known)) if known.will_wake(waker)))
    }

    fn armed_slot(&mut self, entry: Entry) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(entry.slot as usize)?;
        (slot.generation == entry.generation && slot.target.is_some()).then_some(slot)
    }

    /// Empties an armed slot and puts it back into the chain. Its heap node stays.
    fn release(&mut self, index: u32) -> Target {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.deadline = NEVER;
        slot.next_free = self.free;
        self.free = index;
        let target = slot.target.take().expect("only an armed slot is released");
        self.armed -= 1;
        self.upkeep -= usize::from(target.is_upkeep());
        target
    }

    /// Moves what is due by `now` into `due`, and returns the next time worth a look.
    pub(super) fn sweep(&mut self, now: Timestamp, due: &mut Vec<(Timestamp, Target)>) -> Timestamp {
        let mut in_vain = false;
        while let Some(&Reverse((time, index))) = self.heap.peek() {
            if time > now {
                break;
            }
            self.heap.pop();
            let slot = &mut self.slots[index as usize];
            if slot.queued_at != time {
                // An older node of a slot that has got a nearer one.
                continue;
            }
            let deadline = slot.deadline;
            slot.queued_at = NEVER;
            if deadline == NEVER {
                in_vain = true;
            } else if deadline <= now {
                let target = self.release(index);
                due.push((deadline, target));
            } else {
                // Armed again meanwhile, for a later time.
                slot.queued_at = deadline;
                self.heap.push(Reverse((deadline, index)));
            }
        }
        if in_vain && self.armed == 0 {
            // Traffic has ended: nothing here is worth a wake-up.
            self.heap.clear();
            for slot in &mut self.slots {
                slot.queued_at = NEVER;
            }
        }
        self.heap.peek().map_or(NEVER, |Reverse((time, _))| *time)
    }

    /// Takes everything out: the timer ends.
    pub(super) fn drain(&mut self, due: &mut Vec<(Timestamp, Target)>) {
        for index in 0..self.slots.len() as u32 {
            if self.slots[index as usize].target.is_some() {
                let deadline = self.slots[index as usize].deadline;
                let target = self.release(index);
                due.push((deadline, target));
            }
        }
    }

    #[cfg(all(test, not(hystrix_loom)))]
    pub(super) fn nodes(&self) -> usize {
        self.heap.len()
    }
}
