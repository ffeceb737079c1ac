//! The places of objects that were made here and have moved. (Those of others: `hints.rs`.)
//!
//! An object's name is that of the place where it was made, its *home*. When it has moved, its slot at home stays,
//! empty. The home knows the object's place, and owns it there. Requests that come to the home are forwarded. An
//! answer from another place names that place, and the caller asks there from then on; that is a hint. A process that
//! is asked for an object that it does not have forwards the request to the home.
//!
//! INV-MIGRATION (all under the lock of the table, with INV-BODY):
//!
//! 1. An object that is in the table is empty here, and not live. The thread that makes it live again takes it out.
//! 2. The thread that puts it in has been alone inside, and checks whether its generation is over. The thread that ends a
//!    generation takes it out afterwards. So an object that is owned in another process goes with its owner.
//! 3. A caller that finds an object not to be live checks here whether it has moved, and once more whether it is live: it may
//!    have come back. Then the caller asks again.
//! 4. A request that was forwarded to a hosted object, or came by a hint, has been let in by `route` before its method begins.
//!    The hosted object may leave in between. Then the method has not begun, and the request goes to the home, with its
//!    arguments. It reaches the object in the end: the home gives a wrong place only while it waits to take the object back.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::hosted::home_of;
use super::remote_owner::RemoteOwner;
use crate::place::Name;
use crate::slot::{self, Slot};

/// The objects of this process that are in others, by slot and generation, and the owner of each there.
pub(crate) struct Table<O> {
    owners: HashMap<(u32, u32), O, RandomState>,
}

impl<O> Default for Table<O> {
    fn default() -> Self {
        Self { owners: HashMap::default() }
    }
}

impl<O> Table<O> {
    /// Takes an object out. Drop the returned owner without the lock.
    pub(crate) fn remove(&mut self, name: (u32, u32)) -> Option<O> {
        self.owners.remove(&name)
    }

    pub(crate) fn get(&self, name: (u32, u32)) -> Option<&O> {
        self.owners.get(&name)
    }
}

/// Enters an object as moved, unless its owner is gone (INV-MIGRATION 2). The caller is alone inside. Drop the
/// returned owner without the lock.
pub(super) fn put_away<O>(table: &mut Table<O>, slot: &Slot, name: (u32, u32), owner: O) -> Option<O> {
    slot.set_away();
    if is_left_out("looks") || !slot.is_over(name.1) {
        table.owners.insert(name, owner);
        return None;
    }
    Some(owner)
}

/// Takes an object on its way home out of the table (INV-MIGRATION 1): it is live again. The caller is alone inside.
pub(super) fn take_home<O>(table: &mut Table<O>, slot: &Slot, name: (u32, u32)) -> Option<O> {
    let owner = table.remove(name)?;
    slot.forgive(name.1);
    Some(owner)
}

/// Whether an object that was found not to be live is to be asked for once more (INV-MIGRATION 3).
pub(super) fn is_asked_again<O>(table: &Table<O>, slot: &Slot, name: (u32, u32)) -> bool {
    table.get(name).is_some() || !is_left_out("looks again") && slot.is_live(name.1)
}

/// Whether a model leaves out that rule.
#[inline(always)]
fn is_left_out(_rule: &'static str) -> bool {
    #[cfg(all(test, loom))]
    return super::models::is_left_out(_rule);
    #[cfg(not(all(test, loom)))]
    false
}

static MIGRATIONS: Mutex<Option<Table<RemoteOwner>>> = Mutex::new(None);
/// Number of objects in the table: a hint that spares most callers the lock.
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

    /// Drop the returned owner without the lock.
    pub(crate) fn remove(self, name: (u32, u32)) -> Option<RemoteOwner> {
        if self.0.is_none() {
            return None;
        }
        self.with(|table| table.remove(name))
    }
}

/// Whether any object of this process has moved. (A thread that has moved one, or has been told of a move, sees
/// this.)
pub(crate) fn some_have() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// The place of an object that has moved: process, slot and generation.
pub(crate) fn whereabouts(name: (u32, u32)) -> Option<Name> {
    if !some_have() {
        return None;
    }
    Migrations::lock().get(name).map(RemoteOwner::name)
}

/// Whether a caller that has found this generation not to be live should ask another process. If so, the object has
/// moved, or has come back. Or it was a hosted object and has left: its home knows where it is (INV-MIGRATION 3 and
/// 4).
#[cold]
pub(crate) fn is_elsewhere(slot: &'static Slot, generation: u32) -> bool {
    let name = (slot::number_of(slot), generation);
    home_of(name).is_some() || Migrations::lock().with(|table| is_asked_again(table, slot, name))
}
