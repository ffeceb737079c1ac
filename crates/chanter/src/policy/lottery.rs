//! Shares of the processor by chance.

use super::{Policy, Ready, Reason};
use crate::sync::Lock;
use crate::sync::random::random;

/// Each turn goes to a ready thread by lot; a thread has as many lots as it has
/// [`tickets`](super::Attributes::tickets). So over time a thread with three tickets gets three times the turns of a
/// thread with one. The probability that a thread still waits falls exponentially with time, so nobody starves.
/// Nothing is given away.
///
/// Waldspurger and Weihl, "Lottery scheduling", 1994. A draw takes time in the logarithm of the threads that are
/// ready. The table grows to as many threads as were ever ready at a time, and allocates nothing afterwards.
#[derive(Debug, Default)]
pub struct Lottery {
    table: Lock<Table>,
}

/// The threads, and sums of their tickets as a binary indexed tree (Fenwick 1994): `sums[i]` is the sum of the
/// threads `i + 1 - lowbit(i + 1) ..= i`.
#[derive(Debug, Default)]
struct Table {
    threads: Vec<(Ready, u64)>,
    sums: Vec<u64>,
    total: u64,
}

impl Table {
    fn push(&mut self, thread: Ready, tickets: u64) {
        self.threads.push((thread, tickets));
        let count = self.threads.len();
        // The new node covers its own thread, and the nodes below it.
        let mut sum = tickets;
        let mut below = count - 1;
        let until = count & (count - 1);
        while below > until {
            sum += self.sums[below - 1];
            below &= below - 1;
        }
        self.sums.push(sum);
        self.total += tickets;
    }

    fn pop(&mut self) -> Option<(Ready, u64)> {
        // No other node covers the last thread.
        let (thread, tickets) = self.threads.pop()?;
        self.sums.pop();
        self.total -= tickets;
        Some((thread, tickets))
    }

    /// Takes the thread that holds the ticket with this number.
    fn take(&mut self, ticket: u64) -> Option<Ready> {
        let (mut index, mut left) = (0, ticket);
        let mut step = (self.threads.len() + 1).next_power_of_two() / 2;
        while step > 0 {
            if let Some(sum) = self.sums.get(index + step - 1).filter(|sum| **sum <= left) {
                left -= sum;
                index += step;
            }
            step /= 2;
        }
        // The last thread takes its place.
        let (last, its) = self.pop()?;
        let Some((place, before)) = self.threads.get_mut(index) else { return Some(last) };
        let drawn = std::mem::replace(place, last);
        let change = its.wrapping_sub(std::mem::replace(before, its));
        self.total = self.total.wrapping_add(change);
        let mut node = index + 1;
        while node <= self.sums.len() {
            self.sums[node - 1] = self.sums[node - 1].wrapping_add(change);
            node += node & node.wrapping_neg();
        }
        Some(drawn)
    }
}

impl Lottery {
    /// An empty policy.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Lottery {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        let tickets = u64::from(thread.attributes().tickets.max(1));
        self.table.lock().push(thread, tickets);
        None
    }

    fn next(&self) -> Option<Ready> {
        let mut table = self.table.lock();
        match table.total {
            0 => None,
            total => table.take(draw(total)),
        }
    }
}

/// A random number below `total`.
fn draw(total: u64) -> u64 {
    // The generator has 32 bits.
    const HALF: usize = u32::MAX as usize;
    match usize::try_from(total) {
        Ok(total) if total <= HALF => random(total) as u64,
        _ => (((random(HALF) as u64) << 32) | random(HALF) as u64) % total,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::threads::Threads;

    /// The tree's sums against additions, over draws of every ticket.
    #[test]
    fn every_ticket_draws_its_holder() {
        let threads = Threads::new();
        for count in 1..20_u64 {
            let total: u64 = (1..=count).map(|n| n % 5 + 1).sum();
            for ticket in 0..total {
                let mut table = Table::default();
                let mut holder = None;
                let mut sum = 0;
                for (ready, n) in threads.take(count as usize).into_iter().zip(1..) {
                    let tickets = n % 5 + 1;
                    if (sum..sum + tickets).contains(&ticket) {
                        holder = Some(ready.id());
                    }
                    sum += tickets;
                    table.push(ready, tickets);
                }
                assert_eq!(table.take(ticket).map(|ready| ready.id()), holder);
                // The remaining tickets add up, and every remaining thread comes out.
                let mut rest = 0;
                while table.total > 0 {
                    let first = table.threads[0].1;
                    assert_eq!(table.sums[0], first);
                    assert!(table.take(table.total - 1).is_some());
                    rest += 1;
                }
                assert_eq!(rest, count - 1);
            }
        }
    }

    /// More tickets than the generator has numbers: 65,538 threads with the most tickets each.
    #[test]
    fn every_ticket_of_many_can_be_drawn() {
        let total = 1 << 40;
        let draws: Vec<u64> = (0..1000).map(|_| draw(total)).collect();
        assert!(draws.iter().all(|ticket| *ticket < total));
        for part in 0..8 {
            let part = part * (total / 8)..(part + 1) * (total / 8);
            assert!(draws.iter().any(|ticket| part.contains(ticket)), "no ticket of {part:?} in 1000 draws");
        }
    }
}
