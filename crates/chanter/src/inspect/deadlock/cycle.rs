//! Finding threads that wait for each other.
//!
//! A channel often has more holders than users: main keeps handles of which it gave clones away, and then joins. To
//! name main in the cycle would be true, and would mislead. So a cycle is looked for three times:
//!
//! 1. Without the handles that main holds, or another thread that only joins.
//! 2. With those handles.
//! 3. If there is still none, for a thread that alone holds the other end of the channel or lock that it waits for.
//!
//! The shortest cycle of the first search that finds one is taken.

use std::collections::{HashMap, VecDeque};

use super::{ThreadReport, ThreadState, Waiting};
use crate::frame::report::{Holder, Resource};

/// A cycle of threads, if there is one: each waits for something that the next one could do, according to the
/// reports. Channels and locks still have addresses.
pub(super) fn find(threads: &[ThreadReport], holders: &[Holder]) -> Vec<u64> {
    let mut of = HashMap::<Resource, Vec<u64>>::new();
    for holder in holders {
        of.entry(holder.resource).or_default().push(holder.thread);
    }
    let bystanders: Vec<u64> = threads.iter().filter(|t| t.id == 0 || only_joins(t)).map(|t| t.id).collect();
    let users = |id: u64, channel: &[u64]| -> Vec<u64> {
        channel.iter().copied().filter(|other| *other != id && !bystanders.contains(other)).collect()
    };
    let others = |id: u64, channel: &[u64]| -> Vec<u64> {
        channel.iter().copied().filter(|other| *other != id).collect()
    };
    let alone = |id: u64, channel: &[u64]| -> Vec<u64> {
        if channel.iter().all(|holder| *holder == id) { channel.to_vec() } else { others(id, channel) }
    };
    shortest(&edges(threads, &of, users))
        .or_else(|| shortest(&edges(threads, &of, others)))
        .or_else(|| shortest(&edges(threads, &of, alone)))
        .unwrap_or_default()
}

fn only_joins(thread: &ThreadReport) -> bool {
    let ThreadState::Blocked(waits) = &thread.state else { return false };
    !waits.is_empty() && waits.iter().all(|wait| matches!(wait, Waiting::Join { .. }))
}

/// The threads that each thread waits for; `choose` selects the holders of a channel that count.
fn edges(
    threads: &[ThreadReport],
    of: &HashMap<Resource, Vec<u64>>,
    choose: impl Fn(u64, &[u64]) -> Vec<u64>,
) -> Vec<(u64, Vec<u64>)> {
    let holders = |resource| of.get(&resource).map_or(&[][..], Vec::as_slice);
    let of_wait = |id: u64, wait: &Waiting| match wait {
        Waiting::Send { channel } => choose(id, holders(Resource::Receiver(*channel))),
        Waiting::Receive { channel } => choose(id, holders(Resource::Sender(*channel))),
        Waiting::Lock { lock, .. } => {
            let holders = holders(Resource::Lock(*lock));
            // Nobody else can give back a lock that the thread itself has.
            if holders.contains(&id) { vec![id] } else { choose(id, holders) }
        }
        Waiting::Join { thread: Some(thread) } => vec![*thread],
        _ => Vec::new(),
    };
    let of_thread = |thread: &ThreadReport| match &thread.state {
        ThreadState::Blocked(waits) => waits.iter().flat_map(|wait| of_wait(thread.id, wait)).collect(),
        _ => Vec::new(),
    };
    threads.iter().map(|thread| (thread.id, of_thread(thread))).collect()
}

/// The shortest cycle, from its first thread on.
fn shortest(edges: &[(u64, Vec<u64>)]) -> Option<Vec<u64>> {
    let next: HashMap<u64, &[u64]> = edges.iter().map(|(id, next)| (*id, next.as_slice())).collect();
    let mut best: Option<Vec<u64>> = None;
    for (start, _) in edges {
        if let Some(cycle) = cycle_through(*start, &next)
            && best.as_ref().is_none_or(|best| cycle.len() < best.len())
        {
            best = Some(cycle);
        }
    }
    best
}

/// The shortest cycle through `start`, breadth first.
fn cycle_through(start: u64, next: &HashMap<u64, &[u64]>) -> Option<Vec<u64>> {
    let mut from = HashMap::<u64, u64>::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for to in next.get(&at).copied().unwrap_or_default() {
            if *to == start {
                let back = |id: &u64| if *id == start { None } else { from.get(id).copied() };
                let mut cycle: Vec<u64> = std::iter::successors(Some(at), back).collect();
                cycle.reverse();
                return Some(cycle);
            }
            if !from.contains_key(to) {
                from.insert(*to, at);
                queue.push_back(*to);
            }
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waits(id: u64, waits: &[Waiting]) -> ThreadReport {
        ThreadReport { id, state: ThreadState::Blocked(waits.to_vec()), ..ThreadReport::default() }
    }

    const JOIN_ONE: Waiting = Waiting::Join { thread: Some(1) };

    fn holder(thread: u64, resource: Resource) -> Holder {
        Holder { resource, thread }
    }

    /// Thread 1 sends on channel 10, and thread 2 on channel 20. Each has the receiver of the other's channel.
    fn crossing(main: Waiting) -> (Vec<ThreadReport>, Vec<Holder>) {
        let threads = vec![
            waits(0, &[main]),
            waits(1, &[Waiting::Send { channel: 10 }]),
            waits(2, &[Waiting::Send { channel: 20 }]),
        ];
        let holders = vec![holder(2, Resource::Receiver(10)), holder(1, Resource::Receiver(20))];
        (threads, holders)
    }

    #[test]
    fn what_main_holds_besides_does_not_matter() {
        let more = [10, 20].map(|channel| holder(0, Resource::Receiver(channel)));
        for main in [JOIN_ONE, Waiting::Receive { channel: 30 }] {
            let (threads, mut holders) = crossing(main);
            assert_eq!(find(&threads, &holders), [1, 2]);
            holders.splice(0..0, more);
            holders.push(holder(1, Resource::Sender(30)));
            assert_eq!(find(&threads, &holders), [1, 2]);
        }
        // Neither do the handles of another thread that joins.
        let (mut threads, mut holders) = crossing(JOIN_ONE);
        threads.push(waits(3, &[JOIN_ONE]));
        holders.splice(0..0, [10, 20].map(|channel| holder(3, Resource::Receiver(channel))));
        assert_eq!(find(&threads, &holders), [1, 2]);
    }

    #[test]
    fn main_is_in_the_cycle_if_it_has_to_be() {
        let threads = [waits(0, &[JOIN_ONE]), waits(1, &[Waiting::Receive { channel: 10 }])];
        assert_eq!(find(&threads, &[holder(0, Resource::Sender(10))]), [0, 1]);
        assert!(find(&threads, &[]).is_empty());
    }

    #[test]
    fn a_lock_may_be_waited_for_by_its_holder() {
        let wants =
            |lock| Waiting::Lock { lock, wants: super::super::Wanted::Mutex, of: "", holders: vec![] };
        let both = [waits(1, &[wants(10)]), waits(2, &[wants(20)])];
        let crossed = [holder(2, Resource::Lock(10)), holder(1, Resource::Lock(20))];
        assert_eq!(find(&both, &crossed), [1, 2]);
        assert_eq!(find(&both, &[holder(1, Resource::Lock(10))]), [1]);
    }

    #[test]
    fn who_alone_holds_the_other_end_waits_for_itself() {
        let threads = [waits(0, &[Waiting::Receive { channel: 10 }])];
        assert_eq!(find(&threads, &[holder(0, Resource::Sender(10))]), [0]);
        // This does not hold if another thread has a sender.
        let holders = [holder(0, Resource::Sender(10)), holder(1, Resource::Sender(10))];
        assert!(find(&threads, &holders).is_empty());
    }
}
