//! Which process of the cluster this is, and how it is found again from a reference.
//!
//! A program's process is one of a cluster, as a rule. Several may lie in one (`chanter_cluster::local`, simulations): then what is
//! polled or read in the name of one of them runs within [`enter`].

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::task::{Context, Poll};

use chanter_cluster::__table::{WeakHere, only};
use chanter_cluster::Here;

use super::continuation::Cells;
use super::estate::Estates;
use super::moved::{self, Hints, Moved};
use super::request::Name;
use crate::reference::Place;
use crate::slot::{self, Slot};

/// What a process has for objects.
pub struct Space {
    here: WeakHere,
    /// The number of the process.
    pub(crate) number: u32,
    /// Its place among the spaces, counted from 1.
    pub(crate) index: u16,
    pub(super) hints: Hints,
    pub(super) estates: Estates,
    pub(super) cells: Cells,
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
    pub(crate) fn of(here: &Here) -> Arc<Self> {
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
            here: WeakHere::of(here),
            number: here.number(),
            index,
            hints: Hints::default(),
            estates: Estates::default(),
            cells: Cells::default(),
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

    /// Its process.
    pub(crate) fn here(&self) -> Option<Here> {
        self.here.upgrade()
    }
}

thread_local! {
    /// In whose name the current poll is.
    static CURRENT: Cell<*const Here> = const { Cell::new(ptr::null()) };
}

/// Puts back what was there.
struct Back(*const Here);

impl Drop for Back {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Runs `body` in the name of a process.
pub(crate) fn within<R>(here: &Here, body: impl FnOnce() -> R) -> R {
    let _back = Back(CURRENT.replace(here));
    body()
}

/// The process in whose name this runs, or the only one.
fn with_current<R>(body: impl FnOnce(Option<&Here>) -> R) -> R {
    let current = CURRENT.get();
    if current.is_null() {
        return body(only().as_ref());
    }
    // SAFETY: `within` borrows it until it has put back what was there before.
    body(Some(unsafe { &*current }))
}

/// An object that is asked for as one that has moved here, by slot and generation, and its home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    pub(super) name: (u32, u32),
    pub(super) home: Name,
}

thread_local! {
    /// For whom the current poll runs a method.
    static GUEST: Cell<Option<Guest>> = const { Cell::new(None) };
}

/// The home of an object that has moved here, if the current poll is a request's that was handed on to it.
pub(super) fn home_of(name: (u32, u32)) -> Option<Name> {
    GUEST.get().filter(|guest| guest.name == name).map(|guest| guest.home)
}

/// Whether who has found that generation not to be live asks elsewhere: it has moved, or has come back; or it was a guest, and has left,
/// which its home knows (INV-MOVED 3 and 4).
#[cold]
pub(crate) fn is_elsewhere(slot: &'static Slot, generation: u32) -> bool {
    let name = (slot::number_of(slot), generation);
    home_of(name).is_some() || Moved::lock().with(|table| moved::is_elsewhere(table, slot, name))
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
        /// Puts back what was there.
        struct Back(Option<Guest>);
        impl Drop for Back {
            fn drop(&mut self) {
                GUEST.set(self.0);
            }
        }
        // SAFETY: the future is not moved, and the other field is not pinned.
        let (guest, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.guest, Pin::new_unchecked(&mut this.future))
        };
        if guest.is_none() && GUEST.get().is_none() {
            return future.poll(cx);
        }
        let _back = Back(GUEST.replace(guest));
        future.poll(cx)
    }
}

/// The current process.
pub(crate) fn current() -> Option<Here> {
    with_current(|here| here.cloned())
}

/// The number that local objects have in references: that of the current process.
pub(crate) fn name_of_here() -> u32 {
    with_current(|here| here.map_or(0, Here::number))
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
pub fn enter<F: Future>(here: &Here, future: F) -> Entered<F> {
    Entered { here: here.clone(), future }
}

/// The same, with one's own handle.
pub(super) fn entered<F: Future>(here: Here, future: F) -> Entered<F> {
    Entered { here, future }
}

/// See [`enter`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Entered<F> {
    here: Here,
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
