//! Births and deaths are written into journals, one for each virtual processor and one for all other OS threads. They
//! are carried over to the tree when a journal is full, or when a question is asked. So spawners meet in a lock only
//! once in a while. A thread that is born and dies in a row is never carried over.
//!
//! All journals are taken at one moment. Then their contents are *closed*: a child's birth is there only if its
//! parent's birth is there, or has been carried over. A death is there only if the birth is, or was. (A thread has
//! been born before it spawns or dies, and the writer holds one of the locks that the reader takes.)
//!
//! The lock of the tree is taken before those of the journals, and those in order.

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::tree::{Birth, Node, Tree};
use super::{NAMED, ancestors};
use crate::frame::{Header, Observer, Site, arena};
use crate::sched::Worker;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Guard, Lock};

/// Number of entries at which a journal is carried over. Until then the dead are remembered.
pub(super) const FULL: usize = if cfg!(loom) { 2 } else { 128 };

/// Flag in a frame's number: the thread has spawned another one.
const IS_PARENT: u64 = 1 << 63;

/// The threads of a machine and their parents, if the machine [keeps](crate::Builder::genealogy) a genealogy.
#[derive(Debug)]
pub(crate) struct Genealogy {
    /// The number of the next thread; see [`Genealogy::first`].
    next: AtomicU64,
    /// The number of the first thread since the last [`Genealogy::clear`].
    first: AtomicU64,
    journals: Box<[Journal]>,
    books: Lock<Books>,
}

/// A journal, far enough from its neighbours that their writers do not meet.
#[repr(align(128))]
#[derive(Debug)]
struct Journal(Lock<Vec<Entry>>);

#[derive(Debug)]
enum Entry {
    Spawned(Birth),
    Died(u64),
}

#[derive(Debug, Default)]
struct Books {
    tree: Tree,
    /// Entries that are being carried over.
    entries: Vec<Entry>,
}

impl Books {
    fn carry_over(&mut self) {
        // Parents come first, and deaths last.
        self.entries.sort_unstable_by_key(|entry| match entry {
            Entry::Spawned(birth) => (false, birth.id),
            Entry::Died(id) => (true, *id),
        });
        for entry in self.entries.drain(..) {
            match entry {
                Entry::Spawned(birth) => self.tree.spawned(birth),
                Entry::Died(id) => self.tree.died(id),
            }
        }
    }
}

impl Genealogy {
    pub(crate) fn new(vps: usize) -> Self {
        let journal = |_| Journal(Lock::new(Vec::with_capacity(FULL)));
        Self {
            next: AtomicU64::new(1),
            first: AtomicU64::new(1),
            journals: (0..=vps).map(journal).collect(),
            books: Lock::new(Books::default()),
        }
    }

    /// Forgets all threads, and counts from 0 again.
    pub(crate) fn clear(&self) {
        let mut books = self.books.lock();
        for journal in &self.journals {
            journal.0.lock().clear();
        }
        books.tree.clear();
        self.first.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The number of a thread as it is shown, counted from the first one.
    pub(super) fn since_first(&self, id: u64) -> u64 {
        id.wrapping_sub(self.first.load(Ordering::Relaxed))
    }

    /// The number that is shown as `id`.
    pub(super) fn number_of(&self, id: u64) -> u64 {
        id.wrapping_add(self.first.load(Ordering::Relaxed))
    }

    /// Looks at the tree as it is now. Meanwhile no thread is born or dies: the
    /// frames that nodes name are alive. `f` is not to do either.
    pub(super) fn read<R>(&self, f: impl FnOnce(&Tree) -> R) -> R {
        let mut books = self.books.lock();
        let journals = self.take(&mut books.entries);
        books.carry_over();
        let result = f(&books.tree);
        drop(journals);
        result
    }

    /// As [`read`](Self::read), for a change of the tree.
    pub(super) fn change<R>(&self, f: impl FnOnce(&mut Tree) -> R) -> R {
        let mut books = self.books.lock();
        let journals = self.take(&mut books.entries);
        books.carry_over();
        let result = f(&mut books.tree);
        drop(journals);
        result
    }

    fn carry_over(&self) {
        let mut books = self.books.lock();
        drop(self.take(&mut books.entries));
        books.carry_over();
    }

    /// Empties the journals, all at one moment; they stay closed until what is
    /// returned is dropped.
    fn take(&self, entries: &mut Vec<Entry>) -> Vec<Guard<'_, Vec<Entry>>> {
        let mut journals: Vec<_> = self.journals.iter().map(|journal| journal.0.lock()).collect();
        journals.iter_mut().for_each(|journal| entries.append(journal));
        journals
    }

    /// The caller's virtual processor, if it is of this machine.
    fn here(&self) -> Option<&'static Worker> {
        Worker::current().filter(|vp| vp.machine().genealogy().is_some_and(|own| ptr::eq(own, self)))
    }

    fn journal(&self, here: Option<&Worker>) -> &Lock<Vec<Entry>> {
        let outside = self.journals.len() - 1;
        &self.journals[here.map_or(outside, |vp| vp.processor().index)].0
    }

    /// The threads that have not died, with all that is known of them, in the order of their births.
    pub(crate) fn living(&self) -> Vec<Living> {
        let living = |node: &Node| {
            let parent = node.parent.as_ref().map(|parent| self.since_first(parent.id));
            let (site, name) = (node.site, node.name.clone());
            node.frame.map(|frame| Living { id: self.since_first(node.id), parent, frame, site, name })
        };
        self.read(|tree| tree.by_age().into_iter().filter_map(living).collect())
    }
}

impl Observer for Genealogy {
    /// Records that a thread has been made in `frame`, which nobody else knows. Returns its number.
    fn born(&self, frame: NonNull<Header>, site: Site) -> u64 {
        let here = self.here();
        let spawner = here.and_then(|vp| NonNull::new(vp.running.get()));
        let parent = spawner.map(|spawner| {
            // SAFETY: we poll the spawner, so its frame is alive.
            let number = unsafe { arena::number(spawner) };
            // ORDER: Relaxed: only its runner, and the one that frees it, look at the flag.
            let id = number.load(Ordering::Relaxed);
            if id != 0 {
                number.store(id | IS_PARENT, Ordering::Relaxed);
            }
            id & !IS_PARENT
        });
        // From now on others may find the thread in the tree, and make a handle of it.
        // SAFETY: the new frame is ours, since nobody else knows it.
        unsafe { frame.as_ref() }.state.disown();
        // SAFETY: the new frame is ours, since nobody else knows it.
        let name = unsafe { (frame.as_ref().vtable.get().name)(frame).map(|name| Arc::clone(name.as_ref())) };
        let mut journal = self.journal(here).lock();
        // ORDER: Relaxed: a spawner has its own number already, and the counter has one order. It is incremented
        // under the lock, so that a journal is in order.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the new frame is ours, since nobody else knows it.
        unsafe { arena::number(frame) }.store(id, Ordering::Relaxed);
        journal.push(Entry::Spawned(Birth { id, parent: parent.filter(|id| *id != 0), frame, site, name }));
        let is_full = journal.len() >= FULL;
        drop(journal);
        if is_full {
            self.carry_over();
        }
        self.since_first(id)
    }

    /// Records that the thread in `frame` is no more, and that nobody refers to it.
    fn died(&self, frame: NonNull<Header>) {
        // SAFETY: the dead frame is ours, since nobody refers to it.
        let number = unsafe { arena::number(frame) };
        let number = number.swap(0, Ordering::Relaxed);
        let id = number & !IS_PARENT;
        if id == 0 {
            // The frame has had no thread, or one of an earlier simulation.
            return;
        }
        let mut journal = self.journal(self.here()).lock();
        let erased = match journal.last() {
            // The birth is taken back, as if the thread had never been; no child asks for it.
            Some(Entry::Spawned(birth)) if birth.id == id && number & IS_PARENT == 0 => journal.pop(),
            _ => {
                journal.push(Entry::Died(id));
                None
            }
        };
        let is_full = journal.len() >= FULL;
        drop(journal);
        drop(erased);
        if is_full {
            self.carry_over();
        }
    }

    /// The thread's number, counted from 0.
    ///
    /// # Safety
    /// The caller keeps the frame, which is of this machine.
    unsafe fn id(&self, frame: NonNull<Header>) -> Option<u64> {
        // SAFETY: the caller keeps the frame.
        let id = unsafe { arena::number(frame) }.load(Ordering::Relaxed) & !IS_PARENT;
        (id >= self.first.load(Ordering::Relaxed)).then(|| self.since_first(id))
    }

    unsafe fn site(&self, frame: NonNull<Header>) -> Option<Site> {
        // SAFETY: the caller keeps the frame, which is of this machine.
        let id = self.number_of(unsafe { self.id(frame) }?);
        self.read(|tree| tree.get(id).map(|node| node.site))
    }

    unsafe fn name(&self, frame: NonNull<Header>) -> Option<Arc<str>> {
        // SAFETY: the caller keeps the frame, which is of this machine.
        let id = self.number_of(unsafe { self.id(frame) }?);
        self.read(|tree| tree.get(id).and_then(|node| node.name.clone()))
    }

    unsafe fn set_name(&self, frame: NonNull<Header>, name: Arc<str>) -> bool {
        // SAFETY: the caller keeps the frame, which is of this machine.
        let Some(id) = (unsafe { self.id(frame) }) else { return false };
        self.change(|tree| tree.set_name(self.number_of(id), name))
    }

    unsafe fn add_ancestry(&self, frame: NonNull<Header>, text: &mut String) {
        // SAFETY: the caller keeps the frame, which is of this machine.
        let Some(id) = (unsafe { self.id(frame) }) else { return };
        let id = self.number_of(id);
        let nearest = |tree: &Tree| {
            let node = tree.get(id)?;
            Some(ancestors(self, tree, node).take(NAMED).collect::<Vec<_>>())
        };
        for ancestor in self.read(nearest).unwrap_or_default() {
            text.push_str(", by ");
            // Writing to a string does not fail.
            let _ = ancestor.call(text);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A thread that had not died at the moment of the question.
#[derive(Debug)]
pub(crate) struct Living {
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) frame: NonNull<Header>,
    pub(crate) site: Site,
    pub(crate) name: Option<Arc<str>>,
}
