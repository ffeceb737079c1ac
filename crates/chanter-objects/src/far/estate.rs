//! What a process owns in another one.
//!
//! The owner of an object that is elsewhere is here. So that no object outlives its owner's process, that holds a *lease*: a call that the
//! other process never answers. With the process, or when the last owner is dropped, the call is withdrawn; and with the call, all goes
//! that was put under it there, its *estate*.
//!
//! An object is put there by a request that begins after the lease's, as requests of one process do (D6). If the lease has gone before,
//! the object goes at once.

use std::any::Any;
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chanter::{after, spawn};
use chanter_cluster::__table::{Called, SERVICES, Service, linkme, raw, read, write};
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{CallError, Caller, Here};

use super::space::{Space, enter};

const LEASE: &str = "chanter_objects::lease";
const END: &str = "chanter_objects::end";
const FORGIVE: &str = "chanter_objects::forgive";

/// So long it waits before it tries again, if too many requests are under way.
const PAUSE: Duration = Duration::from_millis(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leases that this process has, and estates of others in it.
#[derive(Default)]
pub(super) struct Estates {
    leases: Mutex<Leases>,
    /// By process and lease.
    estates: Mutex<HashMap<(u32, u64), Estate>>,
}

#[derive(Default)]
struct Leases {
    last: u64,
    of: HashMap<u32, Weak<Lease>>,
}

/// The owners of objects that another process has put here, by slot and generation.
type Estate = HashMap<(u32, u32), Box<dyn Owned>>;

/// An owner of whatever type.
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
    /// Never answered; withdrawn when it is dropped.
    _call: Mutex<Option<Called>>,
}

impl Space {
    /// This process's lease in another one.
    pub(super) async fn lease(&self, here: &Here, process: u32) -> Arc<Lease> {
        loop {
            {
                let mut leases = lock(&self.estates.leases);
                if let Some(lease) = leases.of.get(&process).and_then(Weak::upgrade) {
                    return lease;
                }
                leases.last += 1;
                let number = leases.last;
                let mut body = Body::with_capacity(8);
                body.extend_from_slice(&number.to_le_bytes());
                if let Ok(call) = here.at(process).call_raw(LEASE, Number::of(LEASE), body) {
                    let lease = Arc::new(Lease { number, _call: Mutex::new(Some(call)) });
                    leases.of.insert(process, Arc::downgrade(&lease));
                    return lease;
                }
            }
            after(PAUSE).await;
        }
    }

    /// Puts an object under another process's lease. If that has gone, so does the object.
    pub(super) fn put(&self, of: u32, lease: u64, name: (u32, u32), owner: Box<dyn Owned>) -> bool {
        let mut estates = lock(&self.estates.estates);
        match estates.get_mut(&(of, lease)) {
            Some(estate) => {
                estate.insert(name, owner);
                true
            }
            None => {
                drop(estates);
                drop(owner);
                false
            }
        }
    }

    /// Takes one out.
    pub(super) fn take(&self, of: u32, lease: u64, name: (u32, u32)) -> Option<Box<dyn Owned>> {
        lock(&self.estates.estates).get_mut(&(of, lease))?.remove(&name)
    }
}

/// Who owns an object in another process.
pub(crate) struct FarOwner {
    space: Weak<Space>,
    pub(crate) process: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    lease: Arc<Lease>,
}

impl FarOwner {
    pub(super) fn new(space: &Arc<Space>, process: u32, name: (u32, u32), lease: Arc<Lease>) -> Self {
        let (slot, generation) = name;
        Self { space: Arc::downgrade(space), process, slot, generation, lease }
    }

    pub(super) fn lease(&self) -> u64 {
        self.lease.number
    }

    pub(super) fn name(&self) -> (u32, u32, u32) {
        (self.process, self.slot, self.generation)
    }

    pub(crate) fn space(&self) -> u16 {
        self.space.upgrade().map_or(0, |space| space.index)
    }

    pub(crate) fn forgive(&self) {
        self.post(FORGIVE);
    }

    /// Tells the object's process. It comes to that, or the process goes, and the object with it.
    fn post(&self, what: &'static str) {
        let Some(here) = self.space.upgrade().and_then(|space| space.here()) else { return };
        let told = (self.lease.number, self.slot, self.generation);
        let Ok(body) = write(Body::with_capacity(24), &told) else { return };
        let at = here.at(self.process);
        if let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
            // The lease keeps the estate until it is told.
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

impl Drop for FarOwner {
    fn drop(&mut self) {
        self.post(END);
    }
}

/// Ends an estate with its lease.
struct Estated {
    space: Weak<Space>,
    key: (u32, u64),
}

impl Drop for Estated {
    fn drop(&mut self) {
        let estate = self.space.upgrade().and_then(|space| lock(&space.estates.estates).remove(&self.key));
        // User code: not under the lock.
        drop(estate);
    }
}

/// Never ends by itself.
async fn leased(caller: Caller, body: Body) -> Result<Body, String> {
    let number = <[u8; 8]>::try_from(&*body).map_err(|_| "a lease has a number".to_owned())?;
    let space = Space::of(&caller.here());
    let key = (caller.process(), u64::from_le_bytes(number));
    lock(&space.estates.estates).insert(key, Estate::new());
    let _estate = Estated { space: Arc::downgrade(&space), key };
    drop((space, caller));
    pending().await
}

async fn ended(caller: Caller, body: Body) -> Result<Body, String> {
    let (lease, slot, generation) = read(&body)?;
    let owner = Space::of(&caller.here()).take(caller.process(), lease, (slot, generation));
    drop(owner);
    Ok(Body::with_capacity(0))
}

async fn forgiven(caller: Caller, body: Body) -> Result<Body, String> {
    let (lease, slot, generation): (u64, u32, u32) = read(&body)?;
    let space = Space::of(&caller.here());
    if let Some(estate) = lock(&space.estates.estates).get(&(caller.process(), lease))
        && let Some(owner) = estate.get(&(slot, generation))
    {
        owner.forgive();
    }
    Ok(Body::with_capacity(0))
}

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static LEASES: Service =
    Service::new(LEASE, || raw(LEASE, |_, _| None, |caller, _, body| leased(caller, body)));

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static ENDS: Service = Service::new(END, || {
    raw(END, |_, _| None, |caller, _, body| enter(&caller.here(), ended(caller.clone(), body)))
});

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static FORGIVES: Service = Service::new(FORGIVE, || {
    raw(FORGIVE, |_, _| None, |caller, _, body| enter(&caller.here(), forgiven(caller.clone(), body)))
});
