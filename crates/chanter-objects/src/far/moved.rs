//! Where objects have gone that were born here, and where those of others are said to be.
//!
//! An object's name is that of the place where it was born, its *home*. When it has moved, its slot there stays, empty, and the home
//! knows where it is: it owns it there. Requests that come to the home are handed on. Whoever is answered from elsewhere is told
//! from where, and asks there from then on; that is a hint. A process that is asked for what it does not have hands the request on to
//! the home.
//!
//! INV-MOVED (all under the lock of the table, with INV-BODY):
//!
//! 1. An object that is in the table is empty here, and not live. Whoever makes it live again takes it out.
//! 2. Who puts it in has been alone inside, and looks whether its generation is over. Who ends a generation takes it out
//!    afterwards. So what is owned elsewhere for an object goes with its owner.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::estate::FarOwner;

/// By slot and generation.
type Table = HashMap<(u32, u32), FarOwner>;

static MOVED: Mutex<Option<Table>> = Mutex::new(None);
/// How many are in the table: a hint for those who have not to lock it.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The table, locked.
pub(crate) struct Moved(MutexGuard<'static, Option<Table>>);

impl Moved {
    pub(crate) fn lock() -> Self {
        Self(MOVED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn has(&self, name: (u32, u32)) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn get(&self, name: (u32, u32)) -> Option<&FarOwner> {
        self.0.as_ref()?.get(&name)
    }

    pub(crate) fn insert(&mut self, name: (u32, u32), owner: FarOwner) {
        let table = self.0.get_or_insert_default();
        table.insert(name, owner);
        COUNT.store(table.len(), Ordering::Relaxed);
    }

    /// Drop what this returns without the lock.
    pub(crate) fn remove(&mut self, name: (u32, u32)) -> Option<FarOwner> {
        let table = self.0.as_mut()?;
        let owner = table.remove(&name);
        COUNT.store(table.len(), Ordering::Relaxed);
        owner
    }
}

/// Whether any has. (Who has moved one, or has heard of that, sees it.)
pub(crate) fn some_have() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Where it is: process, slot and generation.
pub(crate) fn whereabouts(name: (u32, u32)) -> Option<(u32, u32, u32)> {
    if !some_have() {
        return None;
    }
    Moved::lock().get(name).map(FarOwner::name)
}

/// So many hints are kept. With more, all are forgotten: they are hints.
const MOST_HINTS: usize = 1 << 16;

/// Where objects of other processes are said to be: by process, slot and generation of their names.
#[derive(Default)]
pub(super) struct Hints {
    hints: Mutex<HashMap<(u32, u32, u32), (u32, u32, u32)>>,
    count: AtomicUsize,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, HashMap<(u32, u32, u32), (u32, u32, u32)>> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: (u32, u32, u32)) -> Option<(u32, u32, u32)> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get(&name).copied()
    }

    pub(super) fn insert(&self, name: (u32, u32, u32), place: (u32, u32, u32)) {
        let mut hints = self.lock();
        if hints.len() >= MOST_HINTS {
            hints.clear();
        }
        hints.insert(name, place);
        self.count.store(hints.len(), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, name: (u32, u32, u32)) {
        let mut hints = self.lock();
        hints.remove(&name);
        self.count.store(hints.len(), Ordering::Relaxed);
    }
}
