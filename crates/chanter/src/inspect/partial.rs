//! Threads that can never run again while others do. This file collects the facts that `deadlock/groups.rs` needs,
//! all of them true at one moment.
//!
//! Every thread that blocks is claimed and asked, and its token is kept until the end. So from its answer on it does
//! not run. When all have been asked, each channel is looked at under its lock. Suppose that the offers of the asked
//! threads still wait there, and that all shares are theirs. Then nobody could have touched the channel since that
//! look, and nobody ever will: a thread without a share cannot send, receive, close, or make a handle. So the facts
//! about such channels, which are seen one after the other, are all true when the last has been seen.

use std::collections::HashMap;
use std::ptr::NonNull;

use super::deadlock::groups::{Channel, Member, stuck};
use super::deadlock::{Deadlock, ThreadReport, ThreadState};
use super::genealogy::Living;
use crate::event::Event;
use crate::frame;
use crate::frame::report::{Held, Look, Waiting, Waits};
use crate::machine::Machine;
use crate::policy::Ready;
use crate::sched::{self, Worker};

/// Gives the threads' tokens back when it is dropped.
struct Asked<'a> {
    vp: &'a Worker,
    tokens: Vec<Ready>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        for token in self.tokens.drain(..) {
            // SAFETY: the caller of `stuck_groups` drives `vp`, and the tokens come from `frame::probe`.
            unsafe { sched::let_go(self.vp, token) };
        }
    }
}

impl Worker {
    /// Finds stuck groups; see [`partial`](super::deadlock::partial). The caller drives this virtual processor.
    #[cold]
    pub(crate) fn stuck_groups(&self) -> Vec<Deadlock> {
        let machine = self.machine();
        let genealogy = machine.genealogy().expect("the machine was built with `Builder::report_deadlocks`");
        assert!(!self.is_asking(), "asked by a thread that is being asked");
        let mut asked = Asked { vp: self, tokens: Vec::new() };
        let mut answers = Vec::new();
        for living in genealogy.living() {
            let frame = living.frame;
            // SAFETY: the memory of frames stays while the machine lives.
            if unsafe { frame.as_ref() }.state.is_fresh() {
                // A delayed thread waits for nothing, and is not to run.
                continue;
            }
            // SAFETY: the memory of frames stays while the machine lives.
            let Some(token) = (unsafe { sched::claim(frame, false) }) else { continue };
            if self.is_bound_elsewhere(token.header()) {
                Self::send_home(token);
                continue;
            }
            let mut waits = Waits::default();
            let budget = self.budget.replace(0);
            let outer = self.replace_asking(&mut waits);
            // SAFETY: the caller drives this processor, and the token is ours.
            let still = unsafe { sched::probe(self, token) };
            self.replace_asking(outer);
            self.budget.set(budget);
            if let Some(token) = still {
                asked.tokens.push(token);
                answers.push((living, waits));
            }
        }
        // Drops threads that were woken after their answers, for instance by a thread that was asked later. (If its
        // waker is late, its offer does not wait any more.)
        // SAFETY: we hold their tokens, which keep the frames.
        answers.retain(|(living, _)| !unsafe { living.frame.as_ref() }.state.is_notified());
        let channels = look_at_channels(&answers);
        let members = answers.into_iter().filter_map(|(living, waits)| self.member(living, waits)).collect();
        let groups = stuck(members, &channels);
        drop(asked);
        groups
    }

    /// The thread as a member. `None`: something unknown here may wake it.
    fn member(&self, living: Living, mut waits: Waits) -> Option<Member> {
        let frame = living.frame;
        let is_known = |wait: &Waiting| {
            matches!(
                wait,
                Waiting::Send { .. } | Waiting::Receive { .. } | Waiting::Join { .. } | Waiting::Never
            )
        };
        // SAFETY: its token is held, which keeps the frame.
        let header = unsafe { frame.as_ref() };
        let is_blind = waits.went_on
            || waits.strangers
            || waits.list.is_empty()
            || !waits.list.iter().all(is_known)
            // A stream watches, and leaves no offer.
            || waits.offers.len() != waits.channels.len();
        if is_blind {
            return None;
        }
        // Handles that lie in the frame are reached by its thread alone.
        let inside = frame.as_ptr() as usize..frame.as_ptr() as usize + header.vtable.get().size;
        let held: Vec<Held> =
            waits.held.into_iter().filter(|(at, _)| inside.contains(at)).flat_map(|(_, held)| held).collect();
        for (place, frame) in &waits.joins {
            waits.list[*place] = Waiting::Join { thread: self.machine().id_of(*frame) };
        }
        Some(Member {
            frame: frame.as_ptr() as usize,
            report: ThreadReport {
                id: living.id,
                parent: living.parent,
                site: Some(living.site),
                name: living.name,
                place: waits.place,
                is_parasite: header.kind.get() == frame::Kind::Parasite,
                state: ThreadState::Blocked(waits.list),
            },
            joins: waits.joins.into_iter().map(|(_, frame)| frame).collect(),
            waiters: waits.offers,
            held,
        })
    }
}

impl Machine {
    /// Finds groups of threads that can never run again, while others go on; see
    /// [`partial`](crate::inspect::deadlock::partial) for what it can see, and what it
    /// costs. On a thread of this machine it looks at once. Elsewhere it blocks
    /// the OS thread until a thread on virtual processor 0 has had its turn and
    /// looked (and a caller on a virtual processor of another machine runs its
    /// threads meanwhile).
    ///
    /// # Panics
    /// If the machine was not built with [`Builder::report_deadlocks`](crate::Builder::report_deadlocks).
    #[track_caller]
    pub fn partial_deadlocks(&self) -> Vec<Deadlock> {
        assert!(self.pool().observer().is_some(), "the machine was built with `Builder::report_deadlocks`");
        match Worker::current() {
            Some(vp) if std::ptr::eq(vp.machine(), &**self.pool()) => vp.stuck_groups(),
            _ => {
                let looking = self.spawn_on(0, async { crate::inspect::deadlock::partial() });
                looking.join().sync_blocking().expect("the machine looks, and lives while it is borrowed")
            }
        }
    }
}

/// The channels at which all asked threads still wait.
fn look_at_channels(answers: &[(Living, Waits)]) -> Vec<Channel> {
    let mut offers = HashMap::<usize, (Option<Look>, Vec<NonNull<()>>)>::new();
    for (_, waits) in answers {
        for waiter in &waits.offers {
            offers.entry(waiter.channel).or_default().1.push(waiter.offer);
        }
        for probe in &waits.channels {
            offers.entry(probe.channel.as_ptr() as usize).or_default().0 = Some(probe.census);
        }
    }
    let look = |(address, (look, offers)): (usize, (Option<Look>, Vec<_>))| {
        let channel = NonNull::new(address as *mut ())?;
        // SAFETY: the threads that wait there have a share of the channel, and we have their tokens. So neither they
        // nor their offers go away.
        let sides = unsafe { look?(channel, &offers) }?;
        Some(Channel { address, sides })
    };
    offers.into_iter().filter_map(look).collect()
}
