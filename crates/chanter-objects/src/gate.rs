//! The gate of an object: who is inside.
//!
//! ```text
//!           enter: nobody in the way                    enter: somebody is
//!   free ───────────────────────────► marked by callers ───────────────────► lined up
//!    ▲                                       │                                  │
//!    └──────────── the last leaves ──────────┘◄──── the last of the line leaves ┘
//! ```
//!
//! While callers find nobody in the way, they only *mark* the gate: a count behind a short lock, which is biased to the OS thread that
//! uses it most and costs that one no read-modify-write. The first that finds somebody in the way takes the object's
//! [`RwLock`] *for those inside*, and lines up for it; so does everyone after him, until the line is empty again. So who waits,
//! and who is next, is the business of that lock: it is granted to who is polled, and to nobody before.
//!
//! * INV-MARK: while nobody is lined up, the marks are the truth, and the lock is free. While somebody is, the truth is the
//!   lock; it is held for those who have marked the gate, if there are any, by `held`, until the last of them leaves.
//!   All of this is read and written under the short lock. Nothing is awaited and no code of the user runs under it.
//! * INV-LAST: an object whose owner has gone is dropped by whoever finds, under the short lock, that nobody is inside or lined up,
//!   and takes it out there: so by one, and it is dropped when the lock is free again.

use std::any::TypeId;

use chanter::base::BiasedLock;
use chanter::lock::{ReadGuard, RwLock, WriteGuard};

use crate::error::Gone;

/// How a method uses its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It reads: beside others that read.
    Read,
    /// It changes: alone.
    Change,
}

/// A place for an object, which is never freed.
pub(crate) struct Gate {
    marks: BiasedLock<Marks>,
    line: RwLock<()>,
}

/// What is behind the short lock.
struct Marks {
    generation: u32,
    readers: u32,
    /// How many are lined up, or inside by the lock.
    lined_up: u32,
    is_changed: bool,
    has_owner: bool,
    is_poisoned: bool,
    held: Option<Held>,
    object: Option<Object>,
}

/// An object, whatever its type.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) at: *mut (),
    pub(crate) kind: TypeId,
    /// Drops it.
    pub(crate) end: unsafe fn(*mut ()),
}

// SAFETY: objects are `Send` and `Sync`: see `Owner::new`, the only place where they come from.
unsafe impl Send for Object {}

/// The lock, taken for those who have marked the gate.
enum Held {
    Read { _guard: ReadGuard<'static, ()> },
    Change { _guard: WriteGuard<'static, ()> },
}

/// Inside by the lock.
pub(crate) enum Turn {
    Read { _guard: ReadGuard<'static, ()> },
    Change { _guard: WriteGuard<'static, ()> },
}

/// What came of trying to enter.
pub(crate) enum Entered {
    /// Inside, by a mark.
    Marked(*mut ()),
    /// Lined up: to wait for the lock.
    LinedUp,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let marks = Marks {
            generation: 0,
            readers: 0,
            lined_up: 0,
            is_changed: false,
            has_owner: false,
            is_poisoned: false,
            held: None,
            object: None,
        };
        Self { marks: BiasedLock::new(marks, 0), line: RwLock::new(()) }
    }

    /// An object moves in: its generation.
    pub(crate) fn open(&self, object: Object) -> u32 {
        let mut marks = self.marks.lock();
        marks.generation += 1;
        marks.has_owner = true;
        marks.is_poisoned = false;
        marks.object = Some(object);
        marks.generation
    }

    /// Whether generations are used up.
    pub(crate) fn is_used_up(&self) -> bool {
        self.marks.lock().generation == u32::MAX
    }

    /// Whether its object is there.
    pub(crate) fn is_open(&self, generation: u32, kind: TypeId) -> bool {
        self.marks.lock().object(generation, kind).is_ok()
    }

    /// Marks the gate, or lines up.
    #[inline]
    pub(crate) fn enter(&'static self, generation: u32, kind: TypeId, how: Use) -> Result<Entered, Gone> {
        let mut marks = self.marks.lock();
        let at = marks.object(generation, kind)?;
        if marks.lined_up == 0 && !marks.is_changed {
            match how {
                Use::Read => {
                    marks.readers += 1;
                    return Ok(Entered::Marked(at));
                }
                Use::Change if marks.readers == 0 => {
                    marks.is_changed = true;
                    return Ok(Entered::Marked(at));
                }
                Use::Change => {}
            }
        }
        marks.line_up(&self.line);
        Ok(Entered::LinedUp)
    }

    /// Leaves, after a mark. An object to be dropped.
    #[inline]
    #[must_use]
    pub(crate) fn leave(&self, how: Use, poisons: bool) -> Option<Object> {
        let (held, object) = {
            let mut marks = self.marks.lock();
            match how {
                Use::Read => marks.readers -= 1,
                Use::Change => marks.is_changed = false,
            }
            marks.is_poisoned |= poisons;
            if marks.readers > 0 || (marks.held.is_none() && marks.has_owner) {
                return None;
            }
            (marks.held.take(), marks.end())
        };
        // Whoever is woken by it runs when no lock of ours is held.
        drop(held);
        object
    }

    /// The event of the lock. Whoever has lined up waits for it.
    pub(crate) async fn turn(&'static self, how: Use) -> Turn {
        match how {
            Use::Read => Turn::Read { _guard: self.line.read().await },
            Use::Change => Turn::Change { _guard: self.line.write().await },
        }
    }

    /// The lock is ours: is the object there still?
    pub(crate) fn begin_turn(&self, generation: u32, kind: TypeId) -> Result<*mut (), Gone> {
        self.marks.lock().object(generation, kind)
    }

    /// Is lined up no more; its turn is over, if it had one. An object to be dropped.
    #[must_use]
    pub(crate) fn quit(&self, turn: Option<Turn>, poisons: bool) -> Option<Object> {
        drop(turn);
        let mut marks = self.marks.lock();
        marks.lined_up -= 1;
        marks.is_poisoned |= poisons;
        marks.end()
    }

    /// The owner has gone. The object, if nobody is inside.
    #[must_use]
    pub(crate) fn close(&self) -> Option<Object> {
        let mut marks = self.marks.lock();
        marks.has_owner = false;
        marks.end()
    }
}

impl Marks {
    #[inline]
    fn object(&self, generation: u32, kind: TypeId) -> Result<*mut (), Gone> {
        match self.object {
            Some(object) if self.generation == generation && self.has_owner && object.kind == kind => {
                if self.is_poisoned { Err(Gone::Poisoned) } else { Ok(object.at) }
            }
            _ => Err(Gone::Dropped),
        }
    }

    #[cold]
    fn line_up(&mut self, line: &'static RwLock<()>) {
        // Of those who lined up before, all may have given up since, while others were inside all the time.
        if self.lined_up == 0 && self.held.is_none() {
            // INV-MARK: it is free.
            let held = if self.is_changed {
                line.try_write().map(|guard| Held::Change { _guard: guard })
            } else {
                line.try_read().map(|guard| Held::Read { _guard: guard })
            };
            debug_assert!(held.is_some());
            self.held = held;
        }
        self.lined_up += 1;
    }

    /// Takes the object out if it is at its end.
    fn end(&mut self) -> Option<Object> {
        let is_at_end = !self.has_owner && self.lined_up == 0 && self.readers == 0 && !self.is_changed;
        if is_at_end { self.object.take() } else { None }
    }
}
