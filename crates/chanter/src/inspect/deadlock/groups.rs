//! Finds the blocked threads that can never run again, whatever the others do.
//!
//! A channel is *closed off* by a set of threads if all shares of its sides belong to members of the set. Then nobody else can send, receive or close there. Of the threads that were found to block, the largest set
//! of a certain kind is taken. Its members wait only at channels that the set closes off, and for the ends of
//! members. Nobody outside can wake a member, and inside nobody runs.

use std::collections::{HashMap, HashSet};

use super::{Deadlock, ThreadReport};
use crate::frame::report::{Held, Holder, Resource, Waiter};

/// A thread that blocks. It cannot run while its token is held.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) frame: usize,
    pub(crate) report: ThreadReport,
    /// Frames of the threads that it joins.
    pub(crate) joins: Vec<usize>,
    pub(crate) waiters: Vec<Waiter>,
    /// The handles that belong to this thread alone.
    pub(crate) held: Vec<Held>,
}

/// A channel at which all known offers still wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub(crate) address: usize,
    /// The shares of its senders, and of its receivers.
    pub(crate) sides: [u64; 2],
}

/// The threads that can never run again, as groups that have nothing to do with each other.
pub(crate) fn stuck(members: Vec<Member>, channels: &[Channel]) -> Vec<Deadlock> {
    let mut members = members;
    let channels: HashMap<usize, [u64; 2]> = channels.iter().map(|c| (c.address, c.sides)).collect();
    loop {
        let before = members.len();
        let shares = shares_of(&members);
        let frames: HashSet<usize> = members.iter().map(|member| member.frame).collect();
        let share = |channel, sends| shares.get(&(channel, sends)).copied().unwrap_or_default();
        let is_closed_off = |channel: usize| {
            channels
                .get(&channel)
                .is_some_and(|[tx, rx]| share(channel, true) == *tx && share(channel, false) == *rx)
        };
        members.retain(|member| {
            member.waiters.iter().all(|waiter| is_closed_off(waiter.channel))
                && member.joins.iter().all(|frame| frames.contains(frame))
        });
        if members.len() == before {
            break;
        }
    }
    let mut groups = Vec::new();
    while let Some(first) = members.pop() {
        let group = group_of(first, &mut members);
        // A thread that waits for nothing at all does so on purpose.
        if group.iter().any(|member| !member.waiters.is_empty() || !member.joins.is_empty()) {
            groups.push(report(group));
        }
    }
    groups.sort_by_key(|group| group.threads.first().map(|thread| thread.id));
    groups
}

/// The numbers of shares of the sides of channels that belong to the members.
fn shares_of(members: &[Member]) -> HashMap<(usize, bool), u64> {
    let mut shares = HashMap::new();
    for member in members {
        let held = member.held.iter().map(|held| (held.channel, held.sends));
        let owned = member.waiters.iter().filter(|waiter| waiter.owns);
        for side in held.chain(owned.map(|waiter| (waiter.channel, waiter.sends))) {
            *shares.entry(side).or_default() += 1;
        }
    }
    shares
}

/// Takes all members out of `others` that are connected with `first`.
fn group_of(first: Member, others: &mut Vec<Member>) -> Vec<Member> {
    let mut group = vec![first];
    let mut next = 0;
    while next < group.len() {
        let (inside, outside): (Vec<_>, Vec<_>) =
            std::mem::take(others).into_iter().partition(|other| are_connected(&group[next], other));
        group.extend(inside);
        *others = outside;
        next += 1;
    }
    group
}

/// Whether one of two members waits for the other, or for a channel that the other holds or waits at.
fn are_connected(one: &Member, other: &Member) -> bool {
    let concerns = |one: &Member, other: &Member| {
        one.joins.contains(&other.frame)
            || one.waiters.iter().any(|waiter| {
                other.held.iter().any(|held| held.channel == waiter.channel)
                    || other.waiters.iter().any(|others| others.channel == waiter.channel)
            })
    };
    concerns(one, other) || concerns(other, one)
}

fn report(group: Vec<Member>) -> Deadlock {
    let mut holders = Vec::new();
    let mut threads = Vec::new();
    for member in group {
        let thread = member.report.id;
        for Held { channel, sends } in member.held {
            holders.push(Holder { resource: Resource::end(channel, sends), thread });
        }
        threads.push(member.report);
    }
    Deadlock::new(threads, &holders)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::frame::report::Waiting;
    use crate::inspect::deadlock::ThreadState;

    fn member(id: u64, joins: &[usize], waits: &[(usize, bool)], held: &[(usize, bool)]) -> Member {
        let waiting =
            |&(channel, sends)| if sends { Waiting::Send { channel } } else { Waiting::Receive { channel } };
        let waiter = |&(channel, sends)| Waiter { channel, sends, owns: false, offer: NonNull::dangling() };
        Member {
            frame: id as usize,
            report: ThreadReport {
                id,
                state: ThreadState::Blocked(waits.iter().map(waiting).collect()),
                ..ThreadReport::default()
            },
            joins: joins.to_vec(),
            waiters: waits.iter().map(waiter).collect(),
            held: held.iter().map(|&(channel, sends)| Held { channel, sends }).collect(),
        }
    }

    fn channel(address: usize, tx: u64, rx: u64) -> Channel {
        Channel { address, sides: [tx, rx] }
    }

    fn ids(groups: &[Deadlock]) -> Vec<Vec<u64>> {
        groups.iter().map(|group| group.threads.iter().map(|thread| thread.id).collect()).collect()
    }

    /// A thread that receives from channel `own`, whose receiver it has, and sends on `other`.
    fn crossed(id: u64, own: usize, other: usize) -> Member {
        member(id, &[], &[(own, false)], &[(own, false), (other, true)])
    }

    #[test]
    fn all_shares_must_be_inside() {
        let both = || vec![crossed(1, 10, 20), crossed(2, 20, 10)];
        let groups = stuck(both(), &[channel(10, 1, 1), channel(20, 1, 1)]);
        assert_eq!(ids(&groups), [[1, 2]]);
        assert_eq!(groups[0].cycle, [1, 2]);
        // There is one more share on one of the sides.
        for (tx, rx) in [(2, 1), (1, 2)] {
            assert!(stuck(both(), &[channel(10, tx, rx), channel(20, 1, 1)]).is_empty());
        }
        // An offer on channel 20 has been taken.
        assert!(stuck(both(), &[channel(10, 1, 1)]).is_empty());
    }

    #[test]
    fn events_that_own_their_handle_have_its_share() {
        let mut own = member(1, &[], &[(10, false)], &[(10, true)]);
        assert!(stuck(vec![own], &[channel(10, 1, 1)]).is_empty(), "another thread may hold the receiver");
        own = member(1, &[], &[(10, false)], &[(10, true)]);
        own.waiters[0].owns = true;
        assert_eq!(ids(&stuck(vec![own], &[channel(10, 1, 1)])), [[1]]);
    }

    #[test]
    fn who_depends_on_a_member_is_one() {
        let all = vec![
            crossed(1, 10, 20),
            crossed(2, 20, 10),
            member(3, &[1], &[], &[]),
            member(4, &[3], &[], &[]),
            // It joins a thread that was not found to block.
            member(5, &[99], &[], &[]),
            member(6, &[5, 1], &[], &[]),
            // It waits for ever, and for nothing.
            member(7, &[], &[], &[]),
            // It is on its own.
            member(8, &[], &[(30, false)], &[(30, false), (30, true)]),
        ];
        let channels = [channel(10, 1, 1), channel(20, 1, 1), channel(30, 1, 1)];
        assert_eq!(ids(&stuck(all, &channels)), [vec![1, 2, 3, 4], vec![8]]);
    }

    #[test]
    fn one_who_may_run_frees_all() {
        // Thread 2 may also receive a message that another thread sends.
        let mut second = crossed(2, 20, 10);
        second.waiters.push(Waiter { channel: 40, sends: false, owns: false, offer: NonNull::dangling() });
        let channels = [channel(10, 1, 1), channel(20, 1, 1), channel(40, 1, 1)];
        assert!(stuck(vec![crossed(1, 10, 20), second, member(3, &[1], &[], &[])], &channels).is_empty());
    }
}
