//! `ProcessContext`: a process's state for objects, and the way from a reference to it.
//!
//! A program's process is one of a cluster, as a rule. Several may lie in one OS process (`chanter_cluster::local`,
//! simulations). Code that polls or reads in the name of one of them then runs within [`enter`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::task::{Context, Poll};

use chanter::base::stack_local;
use chanter_cluster::__table::{WeakProcess, only};
use chanter_cluster::Process;

use super::cells::Cells;
use super::hints::Hints;
use super::hosted::{Guests, Hosted};
use super::owner_table::OwnerTables;
use super::wait_graph::Waits;
use crate::place::Place;

/// The state that a process of the cluster has for objects.
#[doc(alias = "Space")]
pub struct ProcessContext {
    here: WeakProcess,
    /// The number of the process.
    pub(crate) number: u32,
    /// Index of this context in [`CONTEXTS`], counted from 1.
    pub(crate) index: u16,
    pub(super) hints: Hints,
    pub(super) owner_tables: Arc<OwnerTables>,
    pub(super) guests: Arc<Guests>,
    pub(super) cells: Cells,
    pub(super) waits: Waits,
}

impl fmt::Debug for ProcessContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessContext").field("process", &self.number).finish_non_exhaustive()
    }
}

/// The contexts of all processes of clusters that lie in this OS process.
static CONTEXTS: RwLock<Vec<Weak<ProcessContext>>> = RwLock::new(Vec::new());

impl ProcessContext {
    /// The context of a process.
    pub(crate) fn of(here: &Process) -> Arc<Self> {
        if let Some(context) = here.state::<Self>() {
            return context;
        }
        let mut contexts = CONTEXTS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = here.state::<Self>() {
            return context;
        }
        let free = contexts.iter().position(|context| context.strong_count() == 0);
        let at = free.unwrap_or(contexts.len());
        let index = u16::try_from(at + 1).expect("so many processes do not lie in one");
        here.provide(Self {
            here: WeakProcess::of(here),
            number: here.number(),
            index,
            hints: Hints::default(),
            owner_tables: Arc::default(),
            guests: Arc::default(),
            cells: Cells::default(),
            waits: Waits::default(),
        });
        let context = here.state::<Self>().expect("it was provided");
        match free {
            Some(free) => contexts[free] = Arc::downgrade(&context),
            None => contexts.push(Arc::downgrade(&context)),
        }
        context
    }

    /// The context with this index, if its process is in use.
    pub(crate) fn at(index: u16) -> Option<Arc<Self>> {
        let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
        contexts.get(usize::from(index).checked_sub(1)?)?.upgrade()
    }

    /// Whether the object of `hosted` has moved here from the home that `hosted` names, and is here (INV-REQUEST 2).
    pub(super) fn is_guest(&self, hosted: Hosted) -> bool {
        let Some(home) = self.guests.home(hosted.name) else { return false };
        let (process, slot, generation) = hosted.home;
        // Processes that lie in one OS process share its slots: each of them is a home of the objects made there.
        home == hosted.home
            || (home.1, home.2) == (slot, generation) && Self::lies_here(process) && Self::lies_here(home.0)
    }

    /// Whether a process of that number lies in this one, and is in use.
    fn lies_here(number: u32) -> bool {
        let contexts: Vec<Arc<Self>> = {
            let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
            contexts.iter().filter_map(Weak::upgrade).collect()
        };
        // One of these may be the last handle, whose drop runs user code, so it is dropped without the lock.
        contexts.iter().any(|context| context.number == number)
    }

    /// The process of this context, if it is still in use.
    pub(crate) fn here(&self) -> Option<Process> {
        self.here.upgrade()
    }
}

/// Runs `body` in the name of a process. This holds for the caller's stack only, so a fiber that is suspended within
/// takes it along.
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

/// The current process.
pub(crate) fn current() -> Option<Process> {
    with_current(|here| here.cloned())
}

/// The number that local objects have in references: that of the current process.
pub(crate) fn name_of_here() -> u32 {
    with_current(|here| here.map_or(0, Process::number))
}

/// The place of a slot of that process, as seen from the current process; `None` if that is the current one.
pub(crate) fn place_of(process: u32, slot: u32) -> Option<Place> {
    with_current(|here| match here {
        Some(here) if here.number() == process => None,
        Some(here) => Some(Place { context: ProcessContext::of(here).index, process, slot }),
        None if process == 0 => None,
        None => Some(Place { context: 0, process, slot }),
    })
}

/// Runs a future in the name of a process: the references and objects that it reads and makes are of that process.
/// This is useful where several processes of a cluster lie in one OS process (`chanter_cluster::local`). Threads that
/// the future spawns do not inherit it.
pub fn enter<F: Future>(here: &Process, future: F) -> Entered<F> {
    Entered { here: here.clone(), future }
}

/// Like [`enter`], with an owned handle.
pub(super) fn entered<F: Future>(here: Process, future: F) -> Entered<F> {
    Entered { here, future }
}

/// The future of [`enter`].
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
        // SAFETY: `this` is pinned, and its future is never moved out.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        within(&this.here, || future.poll(cx))
    }
}
