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
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chanter::{after, spawn, sync::Semaphore};
use chanter_cluster::__table::{Called, SERVICES, Service, linkme, raw_here, read, write};
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{CallError, Caller, Process};

use super::context::{Hosted, ProcessContext, Staying, enter};
use super::request::Name;
use crate::ObjectError;

const LEASE: &str = "chanter_objects::lease";
const END: &str = "chanter_objects::end";
const FORGIVE: &str = "chanter_objects::forgive";

/// Pause before another try, if too many requests are under way.
const PAUSE: Duration = Duration::from_millis(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of objects that each other process may have here, until [`limit_placed`] sets another limit.
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

/// Limits the bytes of objects that each other process may have in this one, by [`Owner::new_on`](crate::Owner::new_on) and
/// [`Ref::migrate`](crate::Ref::migrate). The limit is 256 MiB at first.
///
/// An object that would exceed the limit is refused with [`ObjectError::Full`]. Objects that are here stay. An object counts with the bytes in
/// which it came, and 256 more; later growth does not count. Never blocks.
pub fn limit_placed(here: &Process, bytes: u64) {
    // ORDER: Relaxed: the limit is independent of all other data.
    ProcessContext::of(here).owner_tables.room.store(bytes, Ordering::Relaxed);
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
    context: Weak<ProcessContext>,
    by: u32,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(context) = self.context.upgrade() else { return };
        let mut taken = lock(&context.owner_tables.taken);
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

impl<T: Send + 'static> Owned for crate::Owner<T> {
    fn forgive(&self) {
        crate::Owner::forgive(self);
    }
}

/// The right to own objects in another process.
pub(crate) struct Lease {
    pub(super) number: u64,
    /// Permits to write an object that goes to that process.
    pub(super) turns: Semaphore,
    /// The call that is never answered, and is withdrawn when this is dropped.
    _call: Mutex<Option<Called>>,
}

impl ProcessContext {
    /// This process's lease in another one.
    pub(super) async fn lease(&self, here: &Process, process: u32) -> Arc<Lease> {
        loop {
            {
                let mut leases = lock(&self.owner_tables.leases);
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
        let mut taken = lock(&self.owner_tables.taken);
        let before = taken.get(&by).copied().unwrap_or(0);
        // ORDER: Relaxed: see `limit_placed`.
        match before.checked_add(bytes).filter(|all| *all <= self.owner_tables.room.load(Ordering::Relaxed)) {
            Some(all) => taken.insert(by, all),
            None => return Err(ObjectError::Full),
        };
        Ok(Taken { context: Arc::downgrade(self), by, bytes })
    }

    /// Puts an object under another process's lease. If the lease has gone, the object ends, and this is false.
    pub(super) fn put(
        self: &Arc<Self>,
        (of, lease): (u32, u64),
        name: (u32, u32),
        home: Option<Name>,
        (owner, _taken): (Box<dyn Owned>, Taken),
    ) -> bool {
        let _staying = home.map(|home| self.welcome(Hosted { name, home }));
        let kept = Kept { owner, _staying, _taken };
        let mut owner_tables = lock(&self.owner_tables.owner_tables);
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
        lock(&self.owner_tables.owner_tables).get(&(of, lease)).is_some_and(|table| table.contains_key(&name))
    }

    /// Takes an object out of an owner table.
    pub(super) fn take(&self, of: u32, lease: u64, name: (u32, u32)) -> Option<Kept> {
        lock(&self.owner_tables.owner_tables).get_mut(&(of, lease))?.remove(&name)
    }
}

/// The owner of an object in another process.
pub(crate) struct RemoteOwner {
    context: Weak<ProcessContext>,
    pub(crate) process: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    lease: Arc<Lease>,
}

impl RemoteOwner {
    pub(super) fn new(
        context: &Arc<ProcessContext>,
        process: u32,
        name: (u32, u32),
        lease: Arc<Lease>,
    ) -> Self {
        let (slot, generation) = name;
        Self { context: Arc::downgrade(context), process, slot, generation, lease }
    }

    pub(super) fn lease(&self) -> u64 {
        self.lease.number
    }

    pub(super) fn name(&self) -> (u32, u32, u32) {
        (self.process, self.slot, self.generation)
    }

    pub(crate) fn context(&self) -> u16 {
        self.context.upgrade().map_or(0, |context| context.index)
    }

    pub(crate) fn forgive(&self) {
        self.post(FORGIVE);
    }

    /// Tells the object's process. The message arrives, or the process goes, and the object with it.
    fn post(&self, what: &'static str) {
        let Some(here) = self.context.upgrade().and_then(|context| context.here()) else { return };
        let told = (self.lease.number, self.slot, self.generation);
        let Ok(body) = write(Body::with_capacity(24), &told) else { return };
        let at = here.at(self.process);
        if let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
            // The lease keeps the owner table until it is told.
            let lease = Arc::clone(&self.lease);
            drop(spawn(async move {
                while let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
                    after(PAUSE).await;
                }
                drop(lease);
            }));
        }
    }
}

impl Drop for RemoteOwner {
    fn drop(&mut self) {
        self.post(END);
    }
}

/// Ends an owner table with its lease.
struct OwnerTableGuard {
    context: Weak<ProcessContext>,
    key: (u32, u64),
}

impl Drop for OwnerTableGuard {
    fn drop(&mut self) {
        let owner_table = self
            .context
            .upgrade()
            .and_then(|context| lock(&context.owner_tables.owner_tables).remove(&self.key));
        // The drop is user code, so it runs without the lock.
        drop(owner_table);
    }
}

/// Serves a lease: never ends by itself.
async fn leased(caller: Caller, body: Body) -> Result<Body, String> {
    let number = <[u8; 8]>::try_from(&*body).map_err(|_| "a lease has a number".to_owned())?;
    let context = ProcessContext::of(&caller.here());
    let key = (caller.process(), u64::from_le_bytes(number));
    match lock(&context.owner_tables.owner_tables).entry(key) {
        Entry::Vacant(place) => place.insert(OwnerTable::new()),
        Entry::Occupied(_) => return Err("this lease was taken before".to_owned()),
    };
    let _estate = OwnerTableGuard { context: Arc::downgrade(&context), key };
    drop((context, caller));
    pending().await
}

async fn ended(caller: Caller, body: Body) -> Result<Body, String> {
    let (lease, slot, generation) = read(&body)?;
    let kept = ProcessContext::of(&caller.here()).take(caller.process(), lease, (slot, generation));
    drop(kept);
    Ok(Body::with_capacity(0))
}

async fn forgiven(caller: Caller, body: Body) -> Result<Body, String> {
    let (lease, slot, generation): (u64, u32, u32) = read(&body)?;
    let context = ProcessContext::of(&caller.here());
    if let Some(owner_table) = lock(&context.owner_tables.owner_tables).get(&(caller.process(), lease))
        && let Some(kept) = owner_table.get(&(slot, generation))
    {
        kept.owner.forgive();
    }
    Ok(Body::with_capacity(0))
}

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static LEASES: Service = Service::new(LEASE, || raw_here(LEASE, |_, _| None, leased));

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static ENDS: Service = Service::new(END, || {
    raw_here(END, |_, _| None, |caller, body| enter(&caller.here(), ended(caller.clone(), body)))
});

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static FORGIVES: Service = Service::new(FORGIVE, || {
    raw_here(FORGIVE, |_, _| None, |caller, body| enter(&caller.here(), forgiven(caller.clone(), body)))
});
