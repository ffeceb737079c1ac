//! Finds the blocked threads that can never run again, whatever the others do.
//!
//! A channel is *closed off* by a set of threads if all its senders, receivers and events belong to members of the
//! set. Then nobody else can send, receive or close there. Of the threads that were found to block, the largest set
//! of a certain kind is taken. Its members wait only at channels that the set closes off, and for the ends of
//! members. Nobody outside can wake a member, and inside nobody runs.

use std::collections::{HashMap, HashSet};

use super::{Deadlock, ThreadReport};
use crate::frame::report::{Census, Held, Holder, Resource, Waiter};

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
    pub(crate) sides: [Census; 2],
}

/// The shares of one side of a channel that belong to the set.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    handles: u32,
    lent: u64,
    counts: u64,
}

impl Share {
    fn is_all_of(self, side: Census) -> bool {
        let events = side.events.wrapping_add(self.lent).wrapping_sub(self.counts);
        // The sum counts modulo 2^40.
        self.handles == side.handles && events << 24 == 0
    }
}

/// The threads that can never run again, as groups that have nothing to do with each other.
pub(crate) fn stuck(members: Vec<Member>, channels: &[Channel]) -> Vec<Deadlock> {
    let mut members = members;
    let channels: HashMap<usize, [Census; 2]> = channels.iter().map(|c| (c.address, c.sides)).collect();
    loop {
        let before = members.len();
        let shares = shares_of(&members);
        let frames: HashSet<usize> = members.iter().map(|member| member.frame).collect();
        let share = |channel, sends| shares.get(&(channel, sends)).copied().unwrap_or_default();
        let is_closed_off = |channel: usize| {
            channels.get(&channel).is_some_and(|[tx, rx]| {
                share(channel, true).is_all_of(*tx) && share(channel, false).is_all_of(*rx)
            })
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

fn shares_of(members: &[Member]) -> HashMap<(usize, bool), Share> {
    let mut shares = HashMap::<_, Share>::new();
    for member in members {
        for held in &member.held {
            let share = shares.entry((held.channel, held.sends)).or_default();
            share.handles += 1;
            share.lent += u64::from(held.lent);
        }
        for waiter in member.waiters.iter().filter(|waiter| waiter.counts) {
            shares.entry((waiter.channel, waiter.sends)).or_default().counts += 1;
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
        for Held { channel, sends, .. } in member.held {
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

    fn member(id: u64, joins: &[usize], waits: &[(usize, bool)], held: &[(usize, bool, u32)]) -> Member {
        let waiting =
            |&(channel, sends)| if sends { Waiting::Send { channel } } else { Waiting::Receive { channel } };
        let waiter = |&(channel, sends)| Waiter { channel, sends, counts: true, offer: NonNull::dangling() };
        Member {
            frame: id as usize,
            report: ThreadReport {
                id,
                state: ThreadState::Blocked(waits.iter().map(waiting).collect()),
                ..ThreadReport::default()
            },
            joins: joins.to_vec(),
            waiters: waits.iter().map(waiter).collect(),
            held: held.iter().map(|&(channel, sends, lent)| Held { channel, sends, lent }).collect(),
        }
    }

    fn channel(address: usize, tx: (u32, i64), rx: (u32, i64)) -> Channel {
        // The events are the upper 40 bits of a word.
        let side = |(handles, events): (u32, i64)| Census { handles, events: (events as u64) << 24 >> 24 };
        Channel { address, sides: [side(tx), side(rx)] }
    }

    fn ids(groups: &[Deadlock]) -> Vec<Vec<u64>> {
        groups.iter().map(|group| group.threads.iter().map(|thread| thread.id).collect()).collect()
    }

    /// A thread that receives from channel `own`, whose receiver it has, and sends on `other`.
    fn crossed(id: u64, own: usize, other: usize) -> Member {
        member(id, &[], &[(own, false)], &[(own, false, 5), (other, true, 0)])
    }

    /// The shares of such a channel: four of five lent events have ended.
    const CROSSED: ((u32, i64), (u32, i64)) = ((1, 0), (1, -4));

    #[test]
    fn all_shares_must_be_inside() {
        let both = || vec![crossed(1, 10, 20), crossed(2, 20, 10)];
        let (tx, rx) = CROSSED;
        let groups = stuck(both(), &[channel(10, tx, rx), channel(20, tx, rx)]);
        assert_eq!(ids(&groups), [[1, 2]]);
        assert_eq!(groups[0].cycle, [1, 2]);
        // There is one more handle, or event, on one of the sides.
        for more in [((2, 0), rx), ((1, 1), rx), (tx, (2, -4)), (tx, (1, -3))] {
            assert!(stuck(both(), &[channel(10, more.0, more.1), channel(20, tx, rx)]).is_empty());
        }
        // An offer on channel 20 has been taken.
        assert!(stuck(both(), &[channel(10, tx, rx)]).is_empty());
    }

    #[test]
    fn who_depends_on_a_member_is_one() {
        let (tx, rx) = CROSSED;
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
            member(8, &[], &[(30, false)], &[(30, false, 1), (30, true, 0)]),
        ];
        let channels = [channel(10, tx, rx), channel(20, tx, rx), channel(30, (1, 0), (1, 0))];
        assert_eq!(ids(&stuck(all, &channels)), [vec![1, 2, 3, 4], vec![8]]);
    }

    #[test]
    fn one_who_may_run_frees_all() {
        let (tx, rx) = CROSSED;
        // Thread 2 may also receive a message that another thread sends.
        let mut second = crossed(2, 20, 10);
        second.waiters.push(Waiter { channel: 40, sends: false, counts: false, offer: NonNull::dangling() });
        let channels = [channel(10, tx, rx), channel(20, tx, rx), channel(40, (1, 0), (1, 0))];
        assert!(stuck(vec![crossed(1, 10, 20), second, member(3, &[1], &[], &[])], &channels).is_empty());
    }
}
