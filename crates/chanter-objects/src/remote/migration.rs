//! Where objects have gone that were born here, and where those of others are said to be.
//!
//! An object's name is that of the place where it was born, its *home*. When it has moved, its slot there stays, empty, and the home
//! knows where it is: it owns it there. Requests that come to the home are forwarded. Whoever is answered from elsewhere is told
//! from where, and asks there from then on; that is a hint. A process that is asked for what it does not have hands the request on to
//! the home.
//!
//! INV-MIGRATION (all under the lock of the table, with INV-BODY):
//!
//! 1. An object that is in the table is empty here, and not live. Whoever makes it live again takes it out.
//! 2. Who puts it in has been alone inside, and looks whether its generation is over. Who ends a generation takes it out
//!    afterwards. So what is owned elsewhere for an object goes with its owner.
//! 3. Who finds an object not to be live looks here whether it is elsewhere, and once more whether it is live: it may have come back.
//!    It asks again, then.
//! 4. A request that was forwarded to a hosted object, or came by a hint, has been let in by `route` before its method begins. The hosted object may
//!    leave in between. Then the method has not begun, and the request goes to the home, with its arguments. It comes to the object in
//!    the end: the home does not say that a hosted object is where it is not, but while it waits to take it back.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::owner_table::RemoteOwner;
use super::request::Name;
use crate::slot::Slot;

/// What objects of this process are elsewhere, by slot and generation, and what owns each there.
pub(crate) struct Table<O> {
    owners: HashMap<(u32, u32), O, RandomState>,
}

impl<O> Default for Table<O> {
    fn default() -> Self {
        Self { owners: HashMap::default() }
    }
}

impl<O> Table<O> {
    /// Drop what this returns without the lock.
    pub(crate) fn remove(&mut self, name: (u32, u32)) -> Option<O> {
        self.owners.remove(&name)
    }

    pub(crate) fn get(&self, name: (u32, u32)) -> Option<&O> {
        self.owners.get(&name)
    }
}

/// An object is elsewhere from now on, unless its owner is gone (INV-MIGRATION 2). Its caller is alone inside. Drop what this returns
/// without the lock.
pub(super) fn put_away<O>(table: &mut Table<O>, slot: &Slot, name: (u32, u32), owner: O) -> Option<O> {
    slot.set_away();
    if is_left_out("looks") || !slot.is_over(name.1) {
        table.owners.insert(name, owner);
        return None;
    }
    Some(owner)
}

/// An object is on its way home (INV-MIGRATION 1): it is live again. Its caller is alone inside.
pub(super) fn take_home<O>(table: &mut Table<O>, slot: &Slot, name: (u32, u32)) -> Option<O> {
    let owner = table.remove(name)?;
    slot.forgive(name.1);
    Some(owner)
}

/// Whether an object that was found not to be live is to be asked for once more (INV-MIGRATION 3).
pub(super) fn is_elsewhere<O>(table: &Table<O>, slot: &Slot, name: (u32, u32)) -> bool {
    table.get(name).is_some() || !is_left_out("looks again") && slot.is_live(name.1)
}

/// Whether a model does without that rule.
#[inline(always)]
fn is_left_out(_rule: &'static str) -> bool {
    #[cfg(all(test, loom))]
    return super::models::is_left_out(_rule);
    #[cfg(not(all(test, loom)))]
    false
}

static MIGRATIONS: Mutex<Option<Table<RemoteOwner>>> = Mutex::new(None);
/// How many are in the table: a hint for those who have not to lock it.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The table, locked.
pub(crate) struct Migrations(MutexGuard<'static, Option<Table<RemoteOwner>>>);

impl Migrations {
    pub(crate) fn lock() -> Self {
        Self(MIGRATIONS.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn get(&self, name: (u32, u32)) -> Option<&RemoteOwner> {
        self.0.as_ref()?.get(name)
    }

    /// Does something with the table.
    pub(super) fn with<R>(mut self, f: impl FnOnce(&mut Table<RemoteOwner>) -> R) -> R {
        let table = self.0.get_or_insert_default();
        let result = f(table);
        COUNT.store(table.owners.len(), Ordering::Relaxed);
        result
    }

    /// Drop what this returns without the lock.
    pub(crate) fn remove(self, name: (u32, u32)) -> Option<RemoteOwner> {
        if self.0.is_none() {
            return None;
        }
        self.with(|table| table.remove(name))
    }
}

/// Whether any has. (Who has moved one, or has heard of that, sees it.)
pub(crate) fn some_have() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Where it is: process, slot and generation.
pub(crate) fn whereabouts(name: (u32, u32)) -> Option<Name> {
    if !some_have() {
        return None;
    }
    Migrations::lock().get(name).map(RemoteOwner::name)
}

/// So many hints are kept. With more, all are forgotten: they are hints.
const MOST_HINTS: usize = 1 << 16;

/// By name.
type Places = HashMap<Name, Name>;

/// Where objects of other processes are said to be: by process, slot and generation of their names.
#[derive(Default)]
pub(super) struct Hints {
    hints: Mutex<Places>,
    count: AtomicUsize,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: Name) -> Option<Name> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get(&name).copied()
    }

    pub(super) fn insert(&self, name: Name, place: Name) {
        let mut hints = self.lock();
        if hints.len() >= MOST_HINTS {
            hints.clear();
        }
        hints.insert(name, place);
        self.count.store(hints.len(), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, name: Name) {
        let mut hints = self.lock();
        hints.remove(&name);
        self.count.store(hints.len(), Ordering::Relaxed);
    }
}
