//! The serving side of ownership in other processes: leases, ends and forgiveness (see `owner_table.rs`).

use std::future::pending;

use chanter_cluster::__table::{SERVICES, Service, linkme, raw_here, read};
use chanter_cluster::wire::Body;
use chanter_cluster::{Caller, Process};

use super::context::{ProcessContext, enter};
use super::owner_table::{LEASE, Owned};
use super::remote_owner::{END, FORGIVE};
use crate::Owner;

/// Limits the bytes of objects that each other process may have in this one, by
/// [`Owner::new_on`](crate::Owner::new_on) and [`Ref::migrate`](crate::Ref::migrate). The limit is 256 MiB at first.
///
/// An object that would exceed the limit is refused with [`ObjectError::Full`](crate::ObjectError::Full). Objects
/// that are here stay. An object counts with the bytes in which it came, and 256 more; later growth does not count.
/// Never blocks.
pub fn limit_placed(here: &Process, bytes: u64) {
    ProcessContext::of(here).owner_tables.set_room(bytes);
}

impl<T: Send + 'static> Owned for Owner<T> {
    fn forgive(&self) {
        Owner::forgive(self);
    }
}

/// Serves a lease: never ends by itself.
async fn leased(caller: Caller, body: Body) -> Result<Body, String> {
    let number = <[u8; 8]>::try_from(&*body).map_err(|_| "a lease has a number".to_owned())?;
    let context = ProcessContext::of(&caller.here());
    let key = (caller.process(), u64::from_le_bytes(number));
    let Some(_guard) = context.owner_tables.open(key) else {
        return Err("this lease was taken before".to_owned());
    };
    drop((context, caller));
    pending().await
}

async fn ended(caller: Caller, body: Body) -> Result<Body, String> {
    let (lease, slot, generation) = read(&body)?;
    let kept =
        ProcessContext::of(&caller.here()).owner_tables.take(caller.process(), lease, (slot, generation));
    drop(kept);
    Ok(Body::with_capacity(0))
}

async fn forgiven(caller: Caller, body: Body) -> Result<Body, String> {
    let (lease, slot, generation): (u64, u32, u32) = read(&body)?;
    let context = ProcessContext::of(&caller.here());
    context.owner_tables.forgive(caller.process(), lease, (slot, generation));
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
