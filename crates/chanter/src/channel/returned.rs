//! Messages that came back from receivers that never took them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The number of a commit to a waiting receiver. It never wraps: a billion commits a second take 500 years.
pub(super) type Ticket = u64;

/// Messages that came back, in the order of their commits, whatever the order in which they came.
///
/// It is a heap: `n` messages come and go in `n log n` steps, and in `n` steps if they come in order.
#[derive(Clone)]
pub(super) struct Returned<T> {
    heap: BinaryHeap<Entry<T>>,
}

#[derive(Clone)]
struct Entry<T> {
    ticket: Ticket,
    message: T,
}

impl<T> Returned<T> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new() }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Takes the message of the oldest commit.
    pub(super) fn pop(&mut self) -> Option<(Ticket, T)> {
        self.heap.pop().map(|entry| (entry.ticket, entry.message))
    }

    pub(super) fn push(&mut self, ticket: Ticket, message: T) {
        self.heap.push(Entry { ticket, message });
    }
}

/// The oldest entry is the greatest, so that it is at the top of the heap.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        tests::STEPS.set(tests::STEPS.get() + 1);
        other.ticket.cmp(&self.ticket)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.ticket == other.ticket
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Returned, Ticket};

    thread_local! {
        /// The number of comparisons of two messages, which is the heap's work.
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    const MANY: u64 = if cfg!(miri) { 200 } else { 200_000 };

    /// Gives messages back in the order of `tickets`, and takes them all. Returns the steps of each half.
    fn steps(tickets: impl Iterator<Item = Ticket>) -> [u64; 2] {
        let mut returned = Returned::new();
        STEPS.set(0);
        tickets.for_each(|ticket| returned.push(ticket, ()));
        let pushes = STEPS.replace(0);
        assert_eq!(returned.len() as u64, MANY);
        let mut last = None;
        while let Some((ticket, ())) = returned.pop() {
            assert!(last < Some(ticket), "{ticket} came behind {last:?}");
            last = Some(ticket);
        }
        [pushes, STEPS.get()]
    }

    #[test]
    fn messages_come_back_in_a_few_steps_each() {
        // To the top of the heap, and down to its leaves, where both branches are compared.
        let logarithm = u64::from(MANY.ilog2() + 1);
        // These tickets are the largest, too: the comparison does not wrap.
        let top = Ticket::MAX - MANY;
        let [pushes, pops] = steps(top..top + MANY);
        assert!(pushes <= MANY && pops <= 2 * logarithm * MANY, "in order: {pushes} and {pops}");
        let [pushes, pops] = steps((0..MANY).rev());
        assert!(pushes <= logarithm * MANY && pops <= 2 * logarithm * MANY, "backwards: {pushes} and {pops}");
        // A permutation, since the factor and the modulus have no common divisor.
        let [pushes, pops] = steps((0..MANY).map(|number| number * 618_033 % MANY));
        assert!(pushes <= logarithm * MANY && pops <= 2 * logarithm * MANY, "mixed: {pushes} and {pops}");
    }
}
