//! Genealogy: the identity of a thread, its parent, its place of birth, and its children.
//!
//! A machine keeps it on request ([`Builder::genealogy`](crate::Builder::genealogy)). `journal.rs` records births and
//! deaths, `tree.rs` holds the tree, and `kin.rs` the answers. Names belong to the threads, and cost a thread without
//! a name nothing.
//!
//! STING, section 3: a thread has "genealogy information indicating T's parent,
//! children and sibling threads ... used for debugging and analysis".

mod journal;
mod kin;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;

use std::ptr::NonNull;

use crate::frame::about::{body_of, name_of};
use crate::frame::{Header, Kind, Observer, Progress, Site, arena};
use crate::machine::{Machine, MachineHandle};
use crate::sched::{Pool, Worker};
use crate::thread::{ScopedThread, Thread};
pub(crate) use journal::{Genealogy, Living};
pub use kin::{Kin, Threads};
use tree::{Node, Tree};

/// Number of ancestors that are named when a panic is reported.
const NAMED: usize = 8;

/// The thread that runs here; `None` outside of a machine's threads. Without a genealogy it has no number and no
/// site, but its name, and the path of the function in which its body was written.
///
/// It works in a panic hook, where it is the thread that panics. So a program's own hook can name the thread; std's
/// message names the OS thread. Set such a hook before the first machine is built. The library's own hook contains
/// it. That hook tells [`JoinError`](crate::JoinError) where a panic happened, and prints the thread's name if it has
/// one.
///
/// ```standalone_crate
/// # use chanter::prelude::*;
/// # use chanter::thread::current_thread;
/// std::panic::set_hook(Box::new(|info| {
///     let thread = current_thread();
///     let name = thread.as_ref().and_then(|thread| thread.name()).unwrap_or("nobody's");
///     eprintln!("{name} panic: {info}");
/// }));
/// # chanter::block_on(async {
/// assert!(Thread::builder().name("parser").spawn(async { panic!("no more input") }).await.is_err());
/// # });
/// ```
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::thread::current_thread;
/// # chanter::block_on(async {
/// let thread = Thread::builder().name("parser").spawn(async { current_thread().unwrap() });
/// assert_eq!(thread.join().await.unwrap().name(), Some("parser"));
/// # });
/// ```
pub fn current_thread() -> Option<Kin> {
    let frame = NonNull::new(Worker::current()?.running.get())?;
    // SAFETY: the thread is being polled here, so its frame is alive.
    Some(unsafe { kin_of(frame) })
}

impl<T> Thread<T> {
    /// A description of the thread, as a value: number, name, site, and progress.
    pub fn kin(&self) -> Kin {
        // SAFETY: the handle keeps the frame.
        unsafe { kin_of(self.frame()) }
    }

    /// The thread's number: threads of a machine are counted from 0 in the order of their births. `None`: the machine
    /// [keeps no genealogy](crate::Builder::genealogy).
    pub fn id(&self) -> Option<u64> {
        // SAFETY: the handle keeps the frame.
        unsafe { genealogy_of(self.frame())?.id(self.frame()) }
    }

    /// The thread's name, if it was given one; see [`ThreadBuilder`](crate::ThreadBuilder).
    pub fn name(&self) -> Option<&str> {
        // SAFETY: the handle keeps the frame, and the frame its name.
        unsafe { name_of(self.frame()) }.map(|name| &**name)
    }

    /// The place where it was spawned, if its machine keeps genealogy.
    pub fn site(&self) -> Option<Site> {
        self.look(|_, _, node| node.site)
    }

    /// The thread that spawned it, and whether that one still lives. `None`: it was spawned from outside of the
    /// machine's threads, or its machine keeps no genealogy.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let machine = Machine::builder().vps(1).genealogy(true).build()?;
    /// machine.block_on(async {
    ///     let child = Thread::builder().name("parent").spawn(async { spawn(async {}) }).await.unwrap();
    ///     let parent = child.parent().unwrap();
    ///     assert_eq!(parent.name(), Some("parent"));
    ///     assert!(!parent.is_alive());
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn parent(&self) -> Option<Kin> {
        self.look(parent_of).flatten()
    }

    /// The living threads that it has spawned, the oldest first.
    pub fn children(&self) -> Vec<Kin> {
        self.look(|genealogy, tree, node| living(genealogy, tree.children_of(Some(node.id))))
            .unwrap_or_default()
    }

    /// Its parent's other children that live, the oldest first, even if the parent does not live. Threads that were
    /// spawned from outside are siblings of each other.
    pub fn siblings(&self) -> Vec<Kin> {
        self.look(|genealogy, tree, node| living(genealogy, tree.siblings_of(node))).unwrap_or_default()
    }

    /// The thread's parent, all living ancestors beyond it, and some dead ones. A dead ancestor is there if two or
    /// more living threads descend from it on separate branches. The nearest is first; [`Kin::generation`] shows
    /// gaps.
    pub fn ancestors(&self) -> Vec<Kin> {
        self.look(|genealogy, tree, node| ancestors(genealogy, tree, node).collect()).unwrap_or_default()
    }

    fn look<R>(&self, f: impl FnOnce(&Genealogy, &Tree, &Node) -> R) -> Option<R> {
        // SAFETY: the handle keeps the frame.
        unsafe { look(self.frame(), f) }
    }
}

impl<T> ScopedThread<'_, T> {
    /// The thread's place in the genealogy; see [`Thread::kin`].
    pub fn kin(&self) -> Kin {
        self.thread.kin()
    }
}

impl Machine {
    /// The threads that live, as a tree; it prints. Dead threads that two or more of them descend from are included,
    /// and marked as ended. `None`: the machine [keeps no genealogy](crate::Builder::genealogy).
    ///
    /// It takes time in proportion to their number, and nobody spawns meanwhile.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let machine = Machine::builder().vps(1).genealogy(true).build()?;
    /// machine.block_on(async {
    ///     Thread::builder().name("clock").spawn(async { never::<()>().await });
    ///     Thread::builder().name("server").spawn(async { spawn(async { never::<()>().await }).await });
    ///     yield_now().await;
    /// });
    /// let threads = machine.threads().unwrap();
    /// println!("{threads}");
    /// // The main thread has ended.
    /// assert_eq!(threads.living(), 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn threads(&self) -> Option<Threads> {
        self.pool().threads()
    }
}

impl MachineHandle {
    /// The threads that live, as a tree; see [`Machine::threads`].
    pub fn threads(&self) -> Option<Threads> {
        self.machine.threads()
    }
}

impl Pool {
    pub(crate) fn threads(&self) -> Option<Threads> {
        self.genealogy().map(Threads::of)
    }
}

/// # Safety
/// The caller keeps the frame, and so its machine.
unsafe fn genealogy_of<'a>(frame: NonNull<Header>) -> Option<&'a Genealogy> {
    // SAFETY: the caller keeps the frame, and so its machine.
    unsafe { arena::observer_of(frame)?.as_any().downcast_ref() }
}

/// # Safety
/// The caller keeps the frame, and so its machine.
unsafe fn look<R>(frame: NonNull<Header>, f: impl FnOnce(&Genealogy, &Tree, &Node) -> R) -> Option<R> {
    // SAFETY: the caller keeps the frame, and so its machine.
    let (genealogy, id) = unsafe {
        let genealogy = genealogy_of(frame)?;
        (genealogy, genealogy.number_of(genealogy.id(frame)?))
    };
    genealogy.read(|tree| tree.get(id).map(|node| f(genealogy, tree, node)))
}

/// # Safety
/// The caller keeps the frame, and so its machine.
unsafe fn kin_of(frame: NonNull<Header>) -> Kin {
    // SAFETY: the caller keeps the frame, and so its machine.
    let mut kin = unsafe {
        look(frame, |genealogy, _, node| Kin::of_node(genealogy, node)).unwrap_or_else(|| Kin {
            id: None,
            name: name_of(frame).cloned(),
            site: None,
            generation: None,
            progress: frame.as_ref().state.progress(),
            is_parasite: frame.as_ref().kind.get() == Kind::Parasite,
            body: None,
        })
    };
    // SAFETY: the caller keeps the frame.
    kin.body = unsafe { body_of(frame) };
    kin
}

fn living(genealogy: &Genealogy, nodes: Vec<&Node>) -> Vec<Kin> {
    nodes.into_iter().map(|node| Kin::of_node(genealogy, node)).filter(Kin::is_alive).collect()
}

fn parent_of(genealogy: &Genealogy, tree: &Tree, node: &Node) -> Option<Kin> {
    let parent = node.parent.as_ref()?;
    Some(match tree.get(parent.id) {
        Some(node) => Kin::of_node(genealogy, node),
        None => Kin::of_late(genealogy, parent, node.generation.saturating_sub(1)),
    })
}

fn ancestors<'a>(
    genealogy: &'a Genealogy,
    tree: &'a Tree,
    node: &'a Node,
) -> impl Iterator<Item = Kin> + use<'a> {
    // The node's own record of a parent that has no node any more.
    let known = |node: &'a Node| {
        let late = node.parent.as_ref().filter(|parent| tree.get(parent.id).is_none());
        late.map(|parent| Kin::of_late(genealogy, parent, node.generation.saturating_sub(1)))
    };
    let above = std::iter::successors(tree.above(node), |node| tree.above(node));
    let kept = above.flat_map(move |node| [Some(Kin::of_node(genealogy, node)), known(node)]).flatten();
    known(node).into_iter().chain(kept)
}
