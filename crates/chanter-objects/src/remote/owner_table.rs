//! The objects that a process owns in another one.
//!
//! The owner of an object in another process is here. No object may outlive its owner's process. So the owner's
//! process holds a *lease*: a call that the other process never answers. The call is withdrawn with the process, or
//! when the last owner is dropped. The *owner table* of the call, with all objects that were put under it there, ends
//! with the call.
//!
//! An object is put there by a request that begins after the lease's, as requests of one process do (law D6 of
//! `chanter_cluster`). If the lease has gone by then, the object goes at once.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chanter::{after, sync::Semaphore};
use chanter_cluster::__table::Called;
use chanter_cluster::Process;
use chanter_cluster::wire::{Body, Number};

use super::hosted::Staying;
use crate::ObjectError;

pub(super) const LEASE: &str = "chanter_objects::lease";

/// Pause before another try, if too many requests are under way.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of objects that each other process may have here, until [`limit_placed`](super::limit_placed) sets another limit.
const ROOM: u64 = 256 << 20;
/// Bytes that an object counts besides its value.
const BESIDE: u64 = 256;
/// Objects that are written for another process and under way to it, at most. Others wait as values.
const AT_A_TIME: usize = 16;

/// Leases that this process has, and owner tables of others in it.
pub(super) struct OwnerTables {
    leases: Mutex<Leases>,
    /// Owner tables, by process and lease.
    owner_tables: Mutex<HashMap<(u32, u64), OwnerTable>>,
    /// Number of bytes of objects that each process has here.
    taken: Mutex<HashMap<u32, u64>>,
    room: AtomicU64,
}

impl Default for OwnerTables {
    fn default() -> Self {
        Self {
            leases: Mutex::default(),
            owner_tables: Mutex::default(),
            taken: Mutex::default(),
            room: AtomicU64::new(ROOM),
        }
    }
}

#[derive(Default)]
struct Leases {
    last: u64,
    of: HashMap<u32, Weak<Lease>>,
}

/// The owners of objects that another process has put here, by slot and generation.
type OwnerTable = HashMap<(u32, u32), Kept>;

/// An object that another process owns.
pub(super) struct Kept {
    owner: Box<dyn Owned>,
    /// Set if the object has moved here.
    _staying: Option<Staying>,
    _taken: Taken,
}

/// Bytes that count as taken by a process's objects here, as long as this lives.
pub(super) struct Taken {
    tables: Weak<OwnerTables>,
    by: u32,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(tables) = self.tables.upgrade() else { return };
        let mut taken = lock(&tables.taken);
        if let Some(all) = taken.get_mut(&self.by) {
            *all -= self.bytes;
            if *all == 0 {
                taken.remove(&self.by);
            }
        }
    }
}

/// An owner of an object of any type.
pub(super) trait Owned: Any + Send {
    fn forgive(&self);
}

/// The right to own objects in another process.
pub(crate) struct Lease {
    pub(super) number: u64,
    /// Permits to write an object that goes to that process.
    pub(super) turns: Semaphore,
    /// The call that is never answered, and is withdrawn when this is dropped.
    _call: Mutex<Option<Called>>,
}

impl OwnerTables {
    /// Sets the bytes of objects that each other process may have here.
    pub(super) fn set_room(&self, bytes: u64) {
        // ORDER: Relaxed: the limit is independent of all other data.
        self.room.store(bytes, Ordering::Relaxed);
    }

    /// Opens the table of another process's lease. `None`: that lease was taken before.
    pub(super) fn open(self: &Arc<Self>, key: (u32, u64)) -> Option<OwnerTableGuard> {
        match lock(&self.owner_tables).entry(key) {
            Entry::Vacant(place) => place.insert(OwnerTable::new()),
            Entry::Occupied(_) => return None,
        };
        Some(OwnerTableGuard { tables: Arc::downgrade(self), key })
    }

    /// Forgives an object that process `of` owns by this lease.
    pub(super) fn forgive(&self, of: u32, lease: u64, name: (u32, u32)) {
        if let Some(owner_table) = lock(&self.owner_tables).get(&(of, lease))
            && let Some(kept) = owner_table.get(&name)
        {
            kept.owner.forgive();
        }
    }

    /// This process's lease in another one.
    pub(super) async fn lease(&self, here: &Process, process: u32) -> Arc<Lease> {
        loop {
            {
                let mut leases = lock(&self.leases);
                if let Some(lease) = leases.of.get(&process).and_then(Weak::upgrade) {
                    return lease;
                }
                leases.last += 1;
                let number = leases.last;
                let mut body = Body::with_capacity(8);
                body.extend_from_slice(&number.to_le_bytes());
                if let Ok(call) = here.at(process).call_raw(LEASE, Number::of(LEASE), body) {
                    let lease = Arc::new(Lease {
                        number,
                        turns: Semaphore::new(AT_A_TIME),
                        _call: Mutex::new(Some(call)),
                    });
                    leases.of.insert(process, Arc::downgrade(&lease));
                    return lease;
                }
            }
            after(PAUSE).await;
        }
    }

    /// Counts the bytes of an object that another process puts here.
    ///
    /// # Errors
    /// [`ObjectError::Full`]: that process has no room here.
    pub(super) fn take_room(self: &Arc<Self>, by: u32, bytes: usize) -> Result<Taken, ObjectError> {
        let bytes = (bytes as u64).saturating_add(BESIDE);
        let mut taken = lock(&self.taken);
        let before = taken.get(&by).copied().unwrap_or(0);
        // ORDER: Relaxed: see `set_room`.
        match before.checked_add(bytes).filter(|all| *all <= self.room.load(Ordering::Relaxed)) {
            Some(all) => taken.insert(by, all),
            None => return Err(ObjectError::Full),
        };
        Ok(Taken { tables: Arc::downgrade(self), by, bytes })
    }

    /// Puts an object under another process's lease. If the lease has gone, the object ends, and this is false.
    pub(super) fn put(
        &self,
        (of, lease): (u32, u64),
        name: (u32, u32),
        _staying: Option<Staying>,
        (owner, _taken): (Box<dyn Owned>, Taken),
    ) -> bool {
        let kept = Kept { owner, _staying, _taken };
        let mut owner_tables = lock(&self.owner_tables);
        match owner_tables.get_mut(&(of, lease)) {
            Some(owner_table) => {
                owner_table.insert(name, kept);
                true
            }
            None => {
                drop(owner_tables);
                drop(kept);
                false
            }
        }
    }

    /// Whether process `of` owns an object by this lease.
    pub(super) fn is_owned_by(&self, of: u32, lease: u64, name: (u32, u32)) -> bool {
        lock(&self.owner_tables).get(&(of, lease)).is_some_and(|table| table.contains_key(&name))
    }

    /// Takes an object out of an owner table.
    pub(super) fn take(&self, of: u32, lease: u64, name: (u32, u32)) -> Option<Kept> {
        lock(&self.owner_tables).get_mut(&(of, lease))?.remove(&name)
    }
}

/// Ends an owner table with its lease.
pub(super) struct OwnerTableGuard {
    tables: Weak<OwnerTables>,
    key: (u32, u64),
}

impl Drop for OwnerTableGuard {
    fn drop(&mut self) {
        let owner_table =
            self.tables.upgrade().and_then(|tables| lock(&tables.owner_tables).remove(&self.key));
        // The drop is user code, so it runs without the lock.
        drop(owner_table);
    }
}
