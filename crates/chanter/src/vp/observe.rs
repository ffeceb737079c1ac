//! What can be said of a machine's threads: their births, and a snapshot of
//! what those that block wait on.
//!
//! An *observed* machine records births. Nothing else is recorded: a snapshot
//! claims each idle thread, as a wake-up would, and polls it with no budget
//! and with `Vp::asking` set. A synchronization that still waits answers with
//! what it waits on; one that would begin answers that the thread went on.

use std::collections::HashMap;
use std::panic::Location;
use std::ptr::{self, NonNull};

use super::{Shared, Vp};
use crate::deadlock::{Probe, ThreadReport, ThreadState, Waiting, Waits};
use crate::policy::Ready;
use crate::sync::atomic::Ordering;
use crate::thread;
use crate::thread::frame::{Header, Kind};

/// Where a thread was spawned.
pub(crate) type Site = &'static Location<'static>;

/// The threads of an observed machine, by frame. A frame that is used again
/// gets a new entry, so there are no more of them than frames.
#[derive(Debug, Default)]
pub(crate) struct Births {
    next: u64,
    by_frame: HashMap<usize, Birth>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) site: Site,
}

impl Births {
    pub(super) fn clear(&mut self) {
        self.next = 0;
        self.by_frame.clear();
    }

    pub(super) fn id(&self, frame: *const Header) -> Option<u64> {
        self.by_frame.get(&(frame as usize)).map(|birth| birth.id)
    }

    pub(super) fn birth(&self, frame: *const Header) -> Option<Birth> {
        self.by_frame.get(&(frame as usize)).copied()
    }

    /// All frames that were ever in use, in the order of their threads' births.
    pub(super) fn frames(&self) -> Vec<NonNull<Header>> {
        let mut all: Vec<_> = self.by_frame.iter().map(|(frame, birth)| (birth.id, *frame)).collect();
        all.sort_unstable();
        all.into_iter().filter_map(|(_, frame)| NonNull::new(frame as *mut Header)).collect()
    }
}

impl Shared {
    /// A thread has been made, and has not run.
    #[inline(always)]
    pub(crate) fn born(&self, frame: NonNull<Header>, site: Site) {
        if self.is_observed {
            self.record_birth(frame, site);
        }
    }

    /// Threads are numbered in the order of their births.
    #[cold]
    fn record_birth(&self, frame: NonNull<Header>, site: Site) {
        let running = Vp::current()
            .filter(|vp| ptr::eq(vp.machine(), self))
            .map_or(ptr::null_mut(), |vp| vp.running.get());
        let mut births = self.births.lock();
        let id = births.next;
        births.next += 1;
        let parent = births.id(running);
        births.by_frame.insert(frame.as_ptr() as usize, Birth { id, parent, site });
        drop(births);
        if self.vps[0].simulated.is_some() {
            // SAFETY: nobody else knows the new thread.
            unsafe { frame.as_ref() }.tag.set(id);
        }
    }
}

/// What a snapshot found.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) threads: Vec<ThreadReport>,
    /// The frames of those that block, in the same order as their ids.
    pub(crate) blocked: Vec<(u64, NonNull<Header>)>,
    /// The channels that they wait on, each once.
    pub(crate) channels: Vec<Probe>,
}

impl Vp {
    /// The time, by the clock of the machine.
    #[inline]
    pub(crate) fn now(&self) -> std::time::Instant {
        match &self.simulated {
            None => std::time::Instant::now(),
            Some(simulated) => simulated.now(),
        }
    }

    /// Whether a snapshot is being taken.
    pub(crate) fn is_asking(&self) -> bool {
        !self.asking.get().is_null()
    }

    /// Whom the next answers go to; returns whom they went to before.
    pub(super) fn replace_asking(&self, waits: *mut Waits) -> *mut Waits {
        self.asking.replace(waits)
    }

    /// Called by what may be polled for a snapshot. True: it is, and the thread
    /// goes on.
    pub(crate) fn answer(&self, answer: impl FnOnce(&mut Waits)) -> bool {
        // SAFETY: set by `ask` on this OS thread, for the time of a poll; the
        // borrow ends with the call, which runs no other answer.
        let Some(waits) = (unsafe { self.asking.get().as_mut() }) else { return false };
        answer(waits);
        waits.went_on
    }

    /// Asks every thread of this virtual processor's machine that blocks what
    /// it waits on; those that are bound to another one are left out. `all`:
    /// names the others too, as ready, and those that have ended.
    ///
    /// The caller drives this one, and no thread is being polled for a
    /// snapshot.
    pub(crate) fn snapshot(&self, all: bool) -> Snapshot {
        let machine = self.machine();
        let mut known: Vec<_> = {
            let births = machine.births.lock();
            births.by_frame.iter().map(|(frame, birth)| (*birth, *frame as *mut Header)).collect()
        };
        known.sort_by_key(|(birth, _)| birth.id);
        let mut snapshot = Snapshot::default();
        for (birth, frame) in known {
            let Some(frame) = NonNull::new(frame) else { continue };
            // SAFETY: frames' memory stays while the machine lives.
            let header = unsafe { frame.as_ref() };
            let report = |is_parasite, state| ThreadReport {
                id: birth.id,
                parent: birth.parent,
                site: Some(birth.site),
                is_parasite,
                state,
            };
            // Before the claim, so that those elsewhere are left in peace; after
            // it, because until then the frame might become another's.
            // A delayed thread waits for nothing.
            let thread = if header.state.is_fresh() || self.is_bound_elsewhere(header) {
                None
            } else {
                // SAFETY: as above.
                unsafe { thread::claim(frame, false) }
            };
            let Some(thread) = thread else {
                if all {
                    let is_parasite = header.kind.get() == Kind::Parasite;
                    snapshot.threads.push(report(is_parasite, ThreadState::Ready));
                }
                continue;
            };
            if self.is_bound_elsewhere(header) {
                Self::send_home(thread);
                continue;
            }
            let is_parasite = thread.is_parasite();
            let waits = self.ask(thread);
            let state = self.state_of(waits, &mut snapshot.channels);
            snapshot.blocked.push((birth.id, frame));
            snapshot.threads.push(report(is_parasite, state));
        }
        snapshot
    }

    /// Whether a thread may run on another virtual processor only.
    pub(super) fn is_bound_elsewhere(&self, header: &Header) -> bool {
        matches!(header.kind.get(), Kind::Pinned | Kind::Local)
            && !ptr::eq(header.vp.load(Ordering::Relaxed), self)
    }

    /// Polls a thread to learn what it waits on.
    fn ask(&self, thread: Ready) -> Waits {
        let mut waits = Waits::default();
        let budget = self.budget.replace(0);
        let outer = self.asking.replace(&raw mut waits);
        let frame = thread.header() as *const Header;
        // SAFETY: the caller drives us. The thread is its own until it is woken.
        unsafe { thread::run(self, thread) };
        self.asking.set(outer);
        self.budget.set(budget);
        // SAFETY: as in `snapshot`. Complete, or queued again: it went on.
        let header = unsafe { &*frame };
        waits.went_on |= !header.state.is_idle() && !header.state.rests(&header.rest, &self.home);
        waits
    }

    fn state_of(&self, mut waits: Waits, channels: &mut Vec<Probe>) -> ThreadState {
        if waits.went_on {
            return ThreadState::Missed;
        }
        let births = self.machine().births.lock();
        for (place, frame) in waits.joins {
            waits.list[place] = Waiting::Join { thread: births.id(frame as *const Header) };
        }
        for probe in waits.channels {
            if !channels.iter().any(|known| known.channel == probe.channel) {
                channels.push(probe);
            }
        }
        ThreadState::Blocked(waits.list)
    }
}
