//! `Moves`: objects that are made in another process, and that migrate (Concert, section 2: placement).
//!
//! ```text
//!   home: inside alone ── adopt (value) ──► new place        the slot at home is empty, and knows the place (INV-MIGRATION)
//!   home: gate shut    ── take ───────────► old place        the value is at home again; then as in the first line
//! ```
//!
//! Each step goes through the home, alone inside of the object. So migrations of one object follow each other, and
//! its callers wait in the queue meanwhile. Each step runs to its end, whether its caller waits or not. If the
//! process of the new place goes before it has answered, the object stays at home. If the process of the old place
//! goes, the object goes with it.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use chanter::spawn;
use chanter_cluster::__table::{Begin, longest, raw_here, read};
use chanter_cluster::wire::Body;
use chanter_cluster::{Caller, Process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::call::{RemoteCall, Target};
use super::context::{ProcessContext, current, enter, within};
use super::hosted::Hosted;
use super::key::Key;
use super::migration;
use super::migration::Migrations;
use super::owner_table::{Lease, Owned};
use super::remote_owner::RemoteOwner;
use super::request::{Allow, Asked, answer};
use crate::hold::Hold;
use crate::slot::{self, Slot};
use crate::{Object, ObjectError, Owner, Promise, Ref};

/// An object that can be made in another process, and can migrate, since its value is data.
///
/// [`#[object(remote, moves)]`](crate::object) implements it: see there.
pub trait Moves: Object + Serialize + DeserializeOwned {
    /// The name by which all processes of the program know the type.
    #[doc(hidden)]
    const NAME: &'static str;
}

/// The error of an object that was not placed in the other process.
pub struct Unplaced<T> {
    /// The object's value. If the process was [lost](ObjectError::Lost), a copy may have been there, and has gone
    /// with it.
    pub value: T,
    /// The reason.
    pub why: ObjectError,
}

impl<T> From<Unplaced<T>> for ObjectError {
    fn from(unplaced: Unplaced<T>) -> Self {
        unplaced.why
    }
}

impl<T> fmt::Display for Unplaced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the object was not placed: {}", self.why)
    }
}

impl<T> std::error::Error for Unplaced<T> {}

impl<T> fmt::Debug for Unplaced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unplaced").field("why", &self.why).finish_non_exhaustive()
    }
}

/// A request to another process about an object of a type.
#[derive(Serialize, Deserialize)]
enum Errand<T> {
    /// Adopt this object, under the caller's lease. `home` is its slot and generation at the caller, if it was made
    /// there.
    Adopt { lease: u64, home: Option<(u32, u32)>, value: T },
    /// Give back the object, which was adopted under that lease.
    Take { lease: u64 },
    /// Move the object, whose home this process is.
    Migrate { to: u32 },
}

#[derive(Serialize, Deserialize)]
enum Done<T> {
    Adopted { slot: u32, generation: u32 },
    Taken(T),
    Migrated,
}

fn key<'a, T: Moves>() -> Key<Errand<&'a T>, Done<T>> {
    Key::new(T::NAME)
}

impl<T: Moves> Owner<T> {
    /// Makes an object of a value, in the process of that number. The object ends with its owner, which is here, with
    /// this process, or with that process.
    ///
    /// **Cancel safety.** If this is dropped, no object stays behind.
    ///
    /// # Errors
    /// [`Unplaced`] gives the value back. Reasons: the value cannot be carried there, or is too long for one message.
    /// Or that process has gone, does not serve this one, or accepts no more
    /// ([`limit_placed`](crate::remote::limit_placed)). Or this process is in no cluster.
    // An `async fn` could not declare its future `Send`.
    #[allow(clippy::manual_async_fn)]
    pub fn new_on(process: u32, value: T) -> impl Future<Output = Result<Self, Unplaced<T>>> + Send + use<T> {
        async move {
            let Some(here) = current() else { return Err(Unplaced { value, why: ObjectError::Elsewhere }) };
            if here.number() == process {
                return Ok(Self::new(value));
            }
            let context = ProcessContext::of(&here);
            // The object is made, and its owner dropped, even if nobody waits for it.
            let (promise, placed) = Promise::new();
            drop(spawn(async move {
                let lease = context.owner_tables.lease(&here, process).await;
                let put = {
                    let _turn = lease.turns.acquire().await;
                    let call = adopt(&here, process, &lease, None, &value);
                    place(&context, process, Arc::clone(&lease), call).await
                };
                let _ = placed.fill(match put {
                    Ok(owner) => Ok(Self::remote(owner)),
                    Err(why) => Err(Unplaced { value, why }),
                });
            }));
            match promise.await {
                Ok(placed) => placed,
                // The machine ends, and this future with it.
                Err(_) => pending().await,
            }
        }
    }
}

/// Asks a process to adopt a copy of a value. `home` is the object's name here, if it was made here.
fn adopt<T: Moves>(
    here: &Process,
    process: u32,
    lease: &Lease,
    home: Option<(u32, u32)>,
    value: &T,
) -> Result<RemoteCall<Done<T>>, ObjectError> {
    let target = Target::nobody(here.clone(), process);
    RemoteCall::to(target, key(), &Errand::Adopt { lease: lease.number, home, value })
}

/// Waits until the process has adopted the object.
async fn place<T>(
    context: &Arc<ProcessContext>,
    process: u32,
    lease: Arc<Lease>,
    call: Result<RemoteCall<Done<T>>, ObjectError>,
) -> Result<RemoteOwner, ObjectError> {
    match call?.await? {
        Done::Adopted { slot, generation } if slot::is_generation(generation) => {
            Ok(RemoteOwner::new(context, process, (slot, generation), lease))
        }
        _ => Err(ObjectError::Incompatible),
    }
}

impl<T: Moves> Ref<T> {
    /// Moves the object to the process of that number, when nobody is inside. Its references stay valid. Calls through
    /// them go to the home, which forwards them and tells the caller the new place; later calls from the same process
    /// go there directly.
    ///
    /// The value's copy that stays behind is dropped. The object ends with its owner, with the process where it was
    /// made, or with the process where it is.
    ///
    /// **Cancel safety.** A migration that has begun runs to its end.
    ///
    /// # Errors
    /// [`ObjectError`]: the object stayed where it was, or has gone with the process where it was.
    // An `async fn` could not declare its future `Send`.
    #[allow(clippy::manual_async_fn)]
    pub fn migrate(self, to: u32) -> impl Future<Output = Result<(), ObjectError>> + Send + use<T> {
        async move {
            match self.local() {
                Some((slot, generation)) => {
                    let here = current().ok_or(ObjectError::Elsewhere)?;
                    migrate_from::<T>(here, slot, generation, to).await
                }
                None => {
                    let call = RemoteCall::to(Target::home(self)?, key::<T>(), &Errand::Migrate { to })?;
                    match call.await? {
                        Done::Migrated => Ok(()),
                        _ => Err(ObjectError::Incompatible),
                    }
                }
            }
        }
    }
}

/// Migrates an object whose home is here, to its end.
async fn migrate_from<T: Moves>(
    here: Process,
    slot: &'static Slot,
    generation: u32,
    to: u32,
) -> Result<(), ObjectError> {
    let (promise, ended) = Promise::new();
    drop(spawn(enter(&here.clone(), async move {
        let _ = ended.fill(migrate::<T>(&here, slot, generation, to).await);
    })));
    promise.await?
}

async fn migrate<T: Moves>(
    here: &Process,
    slot: &'static Slot,
    generation: u32,
    to: u32,
) -> Result<(), ObjectError> {
    let name = (slot::number_of(slot), generation);
    let context = ProcessContext::of(here);
    // Alone inside, whether the object is here or not, so that migrations follow each other.
    let hold = Hold::<T>::enter_anyhow(slot, generation).await?;
    match migration::whereabouts(name) {
        Some((process, ..)) if process == to => return Ok(()),
        Some(_) => bring_home::<T>(here, slot, &hold, name).await?,
        None => (),
    }
    if !slot.is_live(generation) {
        return Err(slot.gone_now(generation));
    }
    if to == here.number() {
        return Ok(());
    }
    let lease = context.owner_tables.lease(here, to).await;
    let turn = lease.turns.acquire().await;
    // SAFETY: `hold` is alone inside.
    let call = adopt(here, to, &lease, Some(name), unsafe { &*hold.value() });
    let owner = place(&context, to, Arc::clone(&lease), call).await?;
    drop(turn);
    put_away(slot, name, owner);
    // SAFETY: `hold` is alone inside, and no thread enters by that generation until a value is back.
    let value = unsafe { slot.take_out(hold.value()) };
    drop(hold);
    // The drop is user code, so it runs after callers are let in.
    drop(value);
    Ok(())
}

/// Gets the value back. Callers wait in the queue behind `hold` from now on.
async fn bring_home<T: Moves>(
    here: &Process,
    slot: &'static Slot,
    hold: &Hold<T>,
    name: (u32, u32),
) -> Result<(), ObjectError> {
    let mut transit = {
        let Some(owner) = Migrations::lock().with(|table| migration::take_home(table, slot, name)) else {
            return Err(slot.gone_now(name.1));
        };
        Transit { slot, name, owner: Some(owner) }
    };
    let owner = transit.owner.as_ref().expect("it was just put there");
    let target = Target::exactly(here.clone(), owner.name());
    let call = RemoteCall::to(target, key::<T>(), &Errand::Take { lease: owner.lease() })?;
    let Done::Taken(value) = call.await? else { return Err(ObjectError::Incompatible) };
    // SAFETY: `hold` is alone inside, and the slot is empty.
    unsafe { slot.refill(hold.value(), value) };
    drop(transit.owner.take());
    Ok(())
}

/// An object that is on its way home and marked live. The gate must stay shut until the value has arrived.
struct Transit {
    slot: &'static Slot,
    name: (u32, u32),
    owner: Option<RemoteOwner>,
}

impl Drop for Transit {
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        put_away(self.slot, self.name, owner);
    }
}

/// Records that the object has moved, unless its owner is gone.
fn put_away(slot: &'static Slot, name: (u32, u32), owner: RemoteOwner) {
    let over = Migrations::lock().with(|table| migration::put_away(table, slot, name, owner));
    drop(over);
}

/// Takes the value out of an object that its home takes back.
async fn take<T: Moves>(
    context: &ProcessContext,
    here: &Process,
    of: u32,
    lease: u64,
    slot: &'static Slot,
    name: (u32, u32),
) -> Result<Body, ObjectError> {
    // Only the object's owner may enter it like this. (The owner is looked up again below, since the lease may end
    // meanwhile.)
    if !context.owner_tables.is_owned_by(of, lease, name) {
        return Err(ObjectError::Ended);
    }
    let hold = Hold::<T>::enter_anyhow(slot, name.1).await?;
    if !slot.is_live(name.1) {
        return Err(slot.gone_now(name.1));
    }
    // The value is written before it is taken out: a value that cannot be carried stays. SAFETY: `hold` is alone
    // inside.
    let taken = Ok(Done::Taken(unsafe { &*hold.value() }));
    let taken = within(here, || answer(taken, None)).map_err(|_| ObjectError::Incompatible)?;
    if longest(here, of).is_none_or(|longest| taken.len() > longest as usize) {
        return Err(ObjectError::TooLong);
    }
    let owner = context.owner_tables.take(of, lease, name).ok_or(ObjectError::Ended)?;
    slot.set_away();
    // SAFETY: `hold` is alone inside, and no thread enters any more.
    let value = unsafe { slot.take_out(hold.value()) };
    drop(hold);
    drop(owner);
    // The drop is user code, so it runs after callers are let in.
    drop(value);
    Ok(taken)
}

/// The service that runs the requests for moving objects of a type.
pub fn moves<T: Moves>() -> Begin {
    moves_if::<T>(|_| true)
}

/// Like [`moves`], for callers that `allow` accepts.
pub fn moves_if<T: Moves>(allow: Allow) -> Begin {
    raw_here(
        T::NAME,
        |_, _| None,
        move |caller, body| {
            enter(&caller.here(), async move {
                let asked = Asked::read_any(&body)?;
                let errand: Errand<T> = read(asked.arguments)?;
                let (name, bytes) = (asked.name, asked.arguments.len());
                drop(body);
                // An adopted object may always go back to the process that has placed it.
                let is_back = matches!(errand, Errand::Take { .. });
                if !is_back && caller.process() != caller.here().number() && !allow(&caller) {
                    return answer::<Done<T>>(Err(ObjectError::Refused), None);
                }
                match run(&caller, name, bytes, errand).await {
                    Ok(body) => Ok(body),
                    Err(gone) => answer::<Done<T>>(Err(gone), None),
                }
            })
        },
    )
}

/// Runs a request whose arguments have `bytes` bytes. Returns the body of its answer.
async fn run<T: Moves>(
    caller: &Caller,
    name: (u32, u32),
    bytes: usize,
    errand: Errand<T>,
) -> Result<Body, ObjectError> {
    let done = |done: Done<T>| answer(Ok(done), None).map_err(|_| ObjectError::Incompatible);
    let here = caller.here();
    let context = ProcessContext::of(&here);
    match errand {
        Errand::Adopt { lease, home, value } => {
            let taken = context.owner_tables.take_room(caller.process(), bytes)?;
            let home = home.map(|(slot, generation)| (caller.process(), slot, generation));
            let owner = Owner::new(value);
            let (slot, generation) = owner.reference().local().expect("it was made here");
            let name = (slot::number_of(slot), generation);
            let owner: Box<dyn Owned> = Box::new(owner);
            let staying = home.map(|home| context.guests.welcome(Hosted { name, home }));
            if context.owner_tables.put((caller.process(), lease), name, staying, (owner, taken)) {
                done(Done::Adopted { slot: name.0, generation })
            } else {
                Err(ObjectError::Ended)
            }
        }
        Errand::Take { lease } => {
            let slot = slot::by_number(name.0).ok_or(ObjectError::Ended)?;
            if !slot.is_of::<T>(name.1) {
                return Err(ObjectError::Ended);
            }
            take::<T>(&context, &here, caller.process(), lease, slot, name).await
        }
        Errand::Migrate { to } => {
            let slot = slot::by_number(name.0).ok_or(ObjectError::Ended)?;
            if !slot.is_of::<T>(name.1) {
                return Err(ObjectError::Ended);
            }
            migrate_from::<T>(here, slot, name.1, to).await?;
            done(Done::Migrated)
        }
    }
}
