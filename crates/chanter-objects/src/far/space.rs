//! Which process of the cluster this is, and how it is found again from a reference.
//!
//! A program's process is one of a cluster, as a rule. Several may lie in one (`chanter_cluster::local`, simulations): then what is
//! polled or read in the name of one of them runs within [`enter`].

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::task::{Context, Poll};

use chanter::base::stack_local;
use chanter_cluster::__table::{WeakProcess, only};
use chanter_cluster::Process;

use super::continuation::Cells;
use super::estate::Estates;
use super::moved::{self, Hints, Moved};
use super::request::Name;
use super::waits::Waits;
use crate::reference::Place;
use crate::slot::{self, Slot};

/// What a process has for objects.
pub struct Space {
    here: WeakProcess,
    /// The number of the process.
    pub(crate) number: u32,
    /// Its place among the spaces, counted from 1.
    pub(crate) index: u16,
    pub(super) hints: Hints,
    pub(super) estates: Estates,
    /// The homes of objects that have moved here, by slot and generation.
    guests: Mutex<HashMap<(u32, u32), Name>>,
    pub(super) cells: Cells,
    pub(super) waits: Waits,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("process", &self.number).finish_non_exhaustive()
    }
}

/// Of all processes that lie in this one.
static SPACES: RwLock<Vec<Weak<Space>>> = RwLock::new(Vec::new());

impl Space {
    /// That of a process.
    pub(crate) fn of(here: &Process) -> Arc<Self> {
        if let Some(space) = here.state::<Self>() {
            return space;
        }
        let mut spaces = SPACES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(space) = here.state::<Self>() {
            return space;
        }
        let free = spaces.iter().position(|space| space.strong_count() == 0);
        let at = free.unwrap_or(spaces.len());
        let index = u16::try_from(at + 1).expect("so many processes do not lie in one");
        here.provide(Self {
            here: WeakProcess::of(here),
            number: here.number(),
            index,
            hints: Hints::default(),
            estates: Estates::default(),
            guests: Mutex::default(),
            cells: Cells::default(),
            waits: Waits::default(),
        });
        let space = here.state::<Self>().expect("it was provided");
        match free {
            Some(free) => spaces[free] = Arc::downgrade(&space),
            None => spaces.push(Arc::downgrade(&space)),
        }
        space
    }

    /// The one of that index, if its process is in use.
    pub(crate) fn at(index: u16) -> Option<Arc<Self>> {
        let spaces = SPACES.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(usize::from(index).checked_sub(1)?)?.upgrade()
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<(u32, u32), Name>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that object has moved here from that home, and is here (INV-ASKED 2).
    pub(super) fn is_guest(&self, guest: Guest) -> bool {
        let Some(home) = self.guests().get(&guest.name).copied() else { return false };
        let (process, slot, generation) = guest.home;
        // Processes that lie in one have their slots together: each is a home of what was born there.
        home == guest.home
            || (home.1, home.2) == (slot, generation) && Self::lies_here(process) && Self::lies_here(home.0)
    }

    /// Whether a process of that number lies in this one, and is in use.
    fn lies_here(number: u32) -> bool {
        let spaces: Vec<Arc<Self>> = {
            let spaces = SPACES.read().unwrap_or_else(PoisonError::into_inner);
            spaces.iter().filter_map(Weak::upgrade).collect()
        };
        // One of these may be the last handle, and what it drops is user code: not under the lock.
        spaces.iter().any(|space| space.number == number)
    }

    /// An object has moved here.
    pub(super) fn welcome(self: &Arc<Self>, guest: Guest) -> Staying {
        self.guests().insert(guest.name, guest.home);
        Staying { space: Arc::downgrade(self), name: guest.name }
    }

    /// Its process.
    pub(crate) fn here(&self) -> Option<Process> {
        self.here.upgrade()
    }
}

/// Runs `body` in the name of a process. This holds for the caller's stack alone: a fiber that is suspended within takes it along.
pub(crate) fn within<R>(here: &Process, body: impl FnOnce() -> R) -> R {
    stack_local::set(here, body)
}

/// The process in whose name this runs, or the only one.
fn with_current<R>(body: impl FnOnce(Option<&Process>) -> R) -> R {
    stack_local::with(|here: Option<&Process>| match here {
        Some(here) => body(Some(here)),
        None => body(only().as_ref()),
    })
}

/// An object that is asked for as one that has moved here, by slot and generation, and its home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    pub(super) name: (u32, u32),
    pub(super) home: Name,
}

/// The guest for which the current poll runs a method. [`ForGuest`] puts it on its stack.
#[derive(Clone, Copy)]
struct RunsFor(Option<Guest>);

fn runs_for() -> Option<Guest> {
    stack_local::with(|runs: Option<&RunsFor>| runs.and_then(|runs| runs.0))
}

/// The home of an object that has moved here, if the current poll is a request's that was handed on to it.
pub(super) fn home_of(name: (u32, u32)) -> Option<Name> {
    runs_for().filter(|guest| guest.name == name).map(|guest| guest.home)
}

/// Whether who has found that generation not to be live asks elsewhere: it has moved, or has come back; or it was a guest, and has left,
/// which its home knows (INV-MOVED 3 and 4).
#[cold]
pub(crate) fn is_elsewhere(slot: &'static Slot, generation: u32) -> bool {
    let name = (slot::number_of(slot), generation);
    home_of(name).is_some() || Moved::lock().with(|table| moved::is_elsewhere(table, slot, name))
}

/// A guest is here as long as this lives.
pub(super) struct Staying {
    space: Weak<Space>,
    name: (u32, u32),
}

impl Drop for Staying {
    fn drop(&mut self) {
        if let Some(space) = self.space.upgrade() {
            space.guests().remove(&self.name);
        }
    }
}

/// Runs a request's method, if it is one for a guest.
pub(super) fn for_guest<F: Future>(guest: Option<Guest>, future: F) -> ForGuest<F> {
    ForGuest { guest, future }
}

/// See [`for_guest`].
pub(super) struct ForGuest<F> {
    guest: Option<Guest>,
    future: F,
}

impl<F: Future> Future for ForGuest<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved, and the other field is not pinned.
        let (guest, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.guest, Pin::new_unchecked(&mut this.future))
        };
        if guest.is_none() && runs_for().is_none() {
            return future.poll(cx);
        }
        stack_local::set(&RunsFor(guest), || future.poll(cx))
    }
}

/// The current process.
pub(crate) fn current() -> Option<Process> {
    with_current(|here| here.cloned())
}

/// The number that local objects have in references: that of the current process.
pub(crate) fn name_of_here() -> u32 {
    with_current(|here| here.map_or(0, Process::number))
}

/// Where the object of that process and slot is, as seen from the current process; `None`: in this one.
pub(crate) fn place_of(process: u32, slot: u32) -> Option<Place> {
    with_current(|here| match here {
        Some(here) if here.number() == process => None,
        Some(here) => Some(Place { space: Space::of(here).index, process, slot }),
        None if process == 0 => None,
        None => Some(Place { space: 0, process, slot }),
    })
}

/// Runs a future in the name of a process: what it reads and makes is that one's. Of use where several processes of a cluster lie
/// in one (`chanter_cluster::local`); it does not go over to threads that the future spawns.
pub fn enter<F: Future>(here: &Process, future: F) -> Entered<F> {
    Entered { here: here.clone(), future }
}

/// The same, with one's own handle.
pub(super) fn entered<F: Future>(here: Process, future: F) -> Entered<F> {
    Entered { here, future }
}

/// See [`enter`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Entered<F> {
    here: Process,
    future: F,
}

impl<F: Future> Future for Entered<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved, and the other field is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: see above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        within(&this.here, || future.poll(cx))
    }
}
