//! Snapshots: what the blocked threads of a machine wait on.
//!
//! An *observed* machine keeps the genealogy of its threads, and no other books. A snapshot claims each idle thread,
//! as a wake-up would, and polls it with no budget and with `Processor::asking` set. A synchronization that still waits
//! answers with what it waits on. One that would begin answers that the thread went on.

use std::ptr::{self, NonNull};

use super::deadlock::{ThreadReport, ThreadState};
use super::genealogy::Genealogy;
use crate::frame::report::{Holder, LockProbe, Place, Probe, Resource, Waiting, Waits};
use crate::frame::{Header, Kind, Observer};
use crate::policy::Ready;
use crate::sched::{self, Pool, Worker};

impl Pool {
    /// The genealogy, if the machine keeps one: *observed* machines do.
    #[inline(always)]
    pub(crate) fn genealogy(&self) -> Option<&Genealogy> {
        self.observer()?.as_any().downcast_ref()
    }

    /// The number of a thread that is waited for, by its frame's address.
    pub(super) fn id_of(&self, frame: usize) -> Option<u64> {
        let (genealogy, frame) = (self.genealogy()?, NonNull::new(frame as *mut Header)?);
        // A thread of another machine has no number here.
        // SAFETY: the thread that waits keeps the frame.
        let is_ours = unsafe { ptr::eq((*frame.as_ref().address()).machine(), self) };
        // SAFETY: the thread that waits keeps the frame, which is of this machine.
        is_ours.then(|| unsafe { genealogy.id(frame) }).flatten()
    }
}

/// The channels and locks that blocked threads wait on, each once.
#[derive(Default)]
pub(super) struct Probes {
    pub(super) channels: Vec<Probe>,
    pub(super) locks: Vec<LockProbe>,
}

/// The results of a snapshot.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) threads: Vec<ThreadReport>,
    /// The blocked threads' ids and frames, in the order of their ids.
    pub(crate) blocked: Vec<(u64, NonNull<Header>)>,
    /// The channels and locks that they wait on.
    pub(super) probes: Probes,
    /// The handles that threads have declared to [hold](super::deadlock::holding).
    pub(crate) holders: Vec<Holder>,
}

impl Worker {
    /// Sets where the next answers go, and returns where they went before.
    pub(super) fn replace_asking(&self, waits: *mut Waits) -> *mut Waits {
        self.turn.asking.replace(waits)
    }

    /// Asks every blocked thread of this virtual processor's machine what it waits on. Threads that are bound to
    /// another processor are left out. `all`: the others are included too, as ready, and so are those that have
    /// ended.
    ///
    /// The caller drives this virtual processor, and no thread is being polled for a snapshot.
    pub(crate) fn snapshot(&self, all: bool) -> Snapshot {
        let machine = self.machine();
        let mut snapshot = Snapshot::default();
        let living = machine.genealogy().map(Genealogy::living).unwrap_or_default();
        for living in &living {
            let frame = living.frame;
            // SAFETY: the memory of frames stays while the machine lives.
            let header = unsafe { frame.as_ref() };
            let report = |is_parasite, place: Option<Place>, state| ThreadReport {
                id: living.id,
                parent: living.parent,
                name: living.name.clone(),
                site: Some(living.site),
                place,
                is_parasite,
                state,
            };
            // This is asked before the claim, so that threads elsewhere are left in peace. It is asked after the
            // claim too, because until then the frame might become another thread's. A delayed thread waits for
            // nothing.
            let thread = if header.state.is_fresh() || self.is_bound_elsewhere(header) {
                None
            } else {
                // SAFETY: the memory of frames stays while the machine lives.
                unsafe { sched::claim(frame, false) }
            };
            let Some(thread) = thread else {
                if all {
                    let is_parasite = header.kind.get() == Kind::Parasite;
                    snapshot.threads.push(report(is_parasite, None, ThreadState::Ready));
                }
                continue;
            };
            if self.is_bound_elsewhere(header) {
                Self::send_home(thread);
                continue;
            }
            let is_parasite = thread.is_parasite();
            let waits = self.ask(thread);
            let thread = living.id;
            snapshot.holders.extend(waits.held.iter().flat_map(|(_, held)| held).map(|held| {
                let resource = Resource::end(held.channel, held.sends);
                Holder { resource, thread }
            }));
            let place = waits.place;
            let state = self.state_of(waits, &mut snapshot.probes);
            snapshot.blocked.push((thread, frame));
            snapshot.threads.push(report(is_parasite, place, state));
        }
        snapshot.threads.sort_by_key(|report| report.id);
        snapshot
    }

    /// Whether a thread may only run on another virtual processor.
    pub(super) fn is_bound_elsewhere(&self, header: &Header) -> bool {
        matches!(header.kind.get(), Kind::Pinned | Kind::Local) && !self.is_at(header.address())
    }

    /// Polls a thread to learn what it waits on.
    pub(super) fn ask(&self, thread: Ready) -> Waits {
        let mut waits = Waits::default();
        let budget = self.budget.replace(0);
        let outer = self.turn.asking.replace(&raw mut waits);
        let frame = thread.header() as *const Header;
        // SAFETY: the caller drives this processor. The thread belongs to it until the thread is woken.
        unsafe { sched::run::run(self, thread) };
        self.turn.asking.set(outer);
        self.budget.set(budget);
        // SAFETY: the memory of frames stays while the machine lives. A thread that is complete, or queued again,
        // went on.
        let header = unsafe { &*frame };
        waits.went_on |= !header.state.is_idle();
        waits
    }

    pub(super) fn state_of(&self, mut waits: Waits, probes: &mut Probes) -> ThreadState {
        if waits.went_on {
            return ThreadState::Missed;
        }
        self.name_joined(&mut waits);
        for probe in waits.channels {
            if !probes.channels.iter().any(|known| known.channel == probe.channel) {
                probes.channels.push(probe);
            }
        }
        for probe in waits.locks {
            if !probes.locks.iter().any(|known| known.lock == probe.lock) {
                probes.locks.push(probe);
            }
        }
        ThreadState::Blocked(waits.list)
    }

    /// Fills in which threads are joined.
    pub(super) fn name_joined(&self, waits: &mut Waits) {
        for (place, frame) in std::mem::take(&mut waits.joins) {
            waits.list[place] = Waiting::Join { thread: self.machine().id_of(frame) };
        }
    }
}
