//! A queue whose entries can be taken out of the middle: a caller that leaves takes its job along.

const NONE: u32 = u32::MAX;

/// First in, first out, as a list through a slab. Everything is O(1), and a slot is used again.
pub(super) struct Queue<T> {
    nodes: Vec<Node<T>>,
    head: u32,
    tail: u32,
    free: u32,
    len: usize,
}

struct Node<T> {
    value: Option<T>,
    /// Tells an entry from the next one in its slot; never zero.
    generation: u32,
    before: u32,
    after: u32,
}

impl<T> Queue<T> {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), head: NONE, tail: NONE, free: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a value and returns its entry, which is never zero.
    pub(super) fn push(&mut self, value: T) -> u64 {
        let index = match self.free {
            NONE => {
                let index = u32::try_from(self.nodes.len()).expect("fewer than 2^32 jobs are queued");
                self.nodes.push(Node { value: None, generation: 1, before: NONE, after: NONE });
                index
            }
            index => {
                self.free = self.nodes[index as usize].after;
                index
            }
        };
        let tail = self.tail;
        let node = &mut self.nodes[index as usize];
        node.value = Some(value);
        node.before = tail;
        node.after = NONE;
        let entry = u64::from(node.generation) << 32 | u64::from(index);
        match tail {
            NONE => self.head = index,
            tail => self.nodes[tail as usize].after = index,
        }
        self.tail = index;
        self.len += 1;
        entry
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        match self.head {
            NONE => None,
            head => Some(self.unlink(head)),
        }
    }

    /// Takes an entry out, wherever it stands; `None` if it has left already.
    pub(super) fn remove(&mut self, entry: u64) -> Option<T> {
        let (generation, index) = ((entry >> 32) as u32, entry as u32);
        let node = self.nodes.get(index as usize)?;
        (node.generation == generation && node.value.is_some()).then(|| self.unlink(index))
    }

    fn unlink(&mut self, index: u32) -> T {
        let free = self.free;
        let node = &mut self.nodes[index as usize];
        let value = node.value.take().expect("a linked node has a value");
        let (before, after) = (node.before, node.after);
        node.generation = node.generation.wrapping_add(1).max(1);
        node.after = free;
        match before {
            NONE => self.head = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.tail = before,
            after => self.nodes[after as usize].before = before,
        }
        self.free = index;
        self.len -= 1;
        value
    }
}

#[cfg(all(test, not(hystrix_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque_that_loses_entries(steps in prop::collection::vec(0u8..4, 1..200)) {
            let mut queue = Queue::new();
            let mut model: VecDeque<(u64, usize)> = VecDeque::new();
            let mut gone = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => model.push_back((queue.push(number), number)),
                    2 => {
                        let front = model.pop_front();
                        gone.extend(front.map(|(entry, _)| entry));
                        prop_assert_eq!(queue.pop(), front.map(|(_, value)| value));
                    }
                    _ if !model.is_empty() => {
                        let (entry, value) = model.remove(number % model.len()).expect("in range");
                        prop_assert_eq!(queue.remove(entry), Some(value));
                        gone.push(entry);
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.len(), model.len());
                for entry in &gone {
                    prop_assert_eq!(queue.remove(*entry), None);
                }
            }
        }
    }
}
