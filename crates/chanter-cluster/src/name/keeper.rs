//! Names that are known in the whole cluster, and who keeps them.
//!
//! The *keeper* is the living process with the lowest number. Each process remembers the names that its own threads hold; so when the
//! keeper dies, nothing is lost with it: the next one asks all that live what they hold before it answers anybody.
//!
//! INV-KEEPER: a process answers for names only while it knows that all with lower numbers have gone, which is for ever; and
//! then only after it has heard from all others, or that they have gone. Each of those says what it holds when it knows, too, that
//! the keepers before have gone, and when what it had asked of them is answered or lost. So a name that an old keeper has given, and that
//! its holder still holds, is known to the new one before it gives any; and no other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chanter::lock::Mutex as Turns;
use chanter::prelude::*;
use serde::{Deserialize, Serialize};

use crate::engine::Peer;
use crate::inbox::Inbox;
use crate::name::ThreadName;
use crate::node::Node;
use crate::service::{CallError, Caller, Service};
use crate::{Here, Serving};

/// So many names a keeper knows, or is asked for in vain.
const MOST_NAMES: usize = 1 << 16;
/// The longest name.
const LONGEST: usize = 255;

const REGISTER: Service<(String, ThreadName), Given> = Service::new("chanter::register");
const FIND: Service<String, Option<ThreadName>> = Service::new("chanter::find");
/// Who has the name does not want it any more.
const FREE: Service<(String, ThreadName), ()> = Service::new("chanter::free");
/// The names that a process holds, and those that it wants.
const HELD: Service<(), Vec<(String, Claim)>> = Service::new("chanter::held");

/// A name that a thread holds, if it was given, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    thread: ThreadName,
    is_given: bool,
}

/// A claim where it is made.
struct Held {
    claim: Claim,
    /// The keeper that is asked for it, and what is filled when that has ended.
    asked: Option<(u32, IVar<()>)>,
}

impl Held {
    /// The keeper has answered, or is lost.
    fn settle(&mut self) {
        if let Some((_, settled)) = self.asked.take() {
            let _ = settled.put(());
        }
    }
}

/// What the keeper says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Given {
    Yes,
    Taken(ThreadName),
    Full,
}

/// What a process knows of names.
#[derive(Default)]
pub(crate) struct Keeper {
    /// The names that its own threads hold.
    held: Mutex<HashMap<String, Held>>,
    /// What it knows as the keeper.
    kept: Mutex<Kept>,
    /// Whether it has heard from all others. One asks, the rest wait.
    has_heard: Turns<bool>,
}

#[derive(Default)]
struct Kept {
    names: HashMap<String, ThreadName>,
    awaited: HashMap<String, IVar<ThreadName>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a name cannot be registered, or found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Another thread of the cluster has it: that one.
    Taken(ThreadName),
    /// A name has 1 to 255 bytes.
    Bad(String),
    /// The keeper knows as many names as it may, or is asked for as many.
    Full,
    /// The keeper could not be asked. (If it dies, the next one is.)
    Call(CallError),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(thread) => write!(f, "the name is taken by {thread}"),
            Self::Bad(name) => write!(f, "{name:?} is no name: 1 to {LONGEST} bytes"),
            Self::Full => f.write_str("the cluster has as many names as it may: let some go"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NameError {}

/// A thread has this name in the whole cluster as long as this lives.
#[must_use = "a name is free again when this is dropped"]
pub struct Registered {
    node: Arc<Node>,
    name: String,
    thread: ThreadName,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("name", &self.name).field("thread", &self.thread).finish()
    }
}

impl Registered {
    /// What is done, briefly, with what the process knows of it.
    fn with<R>(&self, f: impl FnOnce(&mut Held) -> R) -> Option<R> {
        lock(&self.node.keeper.held).get_mut(&self.name).map(f)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // First: whoever becomes the keeper now does not hear of it.
        let held = lock(&self.node.keeper.held).remove(&self.name);
        held.into_iter().for_each(|mut held| held.settle());
        let here = Here::of(Arc::clone(&self.node));
        // If it cannot be told, it asks who wants the name next.
        let _ = here.at(here.keeper()).post(FREE.ask(&(self.name.clone(), self.thread)));
    }
}

impl Here {
    /// The process with the lowest number that lives, as far as this one knows.
    fn keeper(&self) -> u32 {
        let lives = |process: &u32| *process == self.number() || self.down(*process).is_none();
        (0..self.number()).find(lives).unwrap_or(self.number())
    }

    /// Gives the thread that has `inbox` a name that it has alone in the whole cluster, as long as what this returns lives. Others
    /// [find](Self::find) it by that. It survives the process that keeps the names.
    ///
    /// **Cancel safety.** Dropped, the name may be given, and is free again when somebody wants it.
    ///
    /// # Errors
    /// See [`NameError`].
    pub async fn register(&self, name: &str, inbox: &Inbox) -> Result<Registered, NameError> {
        check(name)?;
        let thread = inbox.name();
        let node = Arc::clone(self.node());
        match lock(&node.keeper.held).entry(name.to_owned()) {
            Entry::Occupied(taken) => return Err(NameError::Taken(taken.get().claim.thread)),
            Entry::Vacant(free) => {
                free.insert(Held { claim: Claim { thread, is_given: false }, asked: None });
            }
        }
        let registered = Registered { node, name: name.to_owned(), thread };
        loop {
            let keeper = self.keeper();
            registered.with(|held| held.asked = Some((keeper, IVar::new())));
            let given = self.at(keeper).call(REGISTER.ask(&(name.to_owned(), thread))).await;
            let settled = registered.with(|held| {
                held.claim.is_given = given == Ok(Given::Yes);
                held.asked.take()
            });
            settled.flatten().inspect(|(_, settled)| _ = settled.put(()));
            match given {
                Ok(Given::Yes) => return Ok(registered),
                Ok(Given::Taken(thread)) => return Err(NameError::Taken(thread)),
                Ok(Given::Full) => return Err(NameError::Full),
                Err(CallError::Lost { .. }) => {}
                Err(error) => return Err(NameError::Call(error)),
            }
        }
    }

    /// The event of finding the thread that has [registered](Self::register) that name, wherever it is: it waits until there is
    /// one. Not chosen, or dropped: nothing happens.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn find(&self, name: &str) -> impl Event<Output = Result<ThreadName, NameError>> + Send + use<> {
        let (here, name) = (self.clone(), name.to_owned());
        from_cancel_safe(async move {
            check(&name)?;
            loop {
                match here.at(here.keeper()).call(FIND.ask(&name)).await {
                    Ok(found) => return found.ok_or(NameError::Full),
                    Err(CallError::Lost { .. }) => {}
                    Err(error) => return Err(NameError::Call(error)),
                }
            }
        })
    }
}

fn check(name: &str) -> Result<(), NameError> {
    let is_good = !name.is_empty() && name.len() <= LONGEST;
    if is_good { Ok(()) } else { Err(NameError::Bad(name.to_owned())) }
}

/// The services of the keeper, and those by which it learns.
pub(crate) fn serve(here: &Here) {
    let served = [
        here.serve(
            REGISTER,
            |caller, (name, thread)| async move { register(&caller.here(), name, thread).await },
        ),
        here.serve(FIND, |caller, name| async move { find(&caller.here(), name).await }),
        here.serve(FREE, |caller, (name, thread)| async move { free(&caller.here(), &name, thread) }),
        here.serve(HELD, |caller, ()| async move { held(&caller).await }),
    ];
    // A process has no others when it starts.
    served.into_iter().flatten().for_each(Serving::forever);
}

/// What this process holds, for a keeper (INV-KEEPER).
async fn held(caller: &Caller) -> Vec<(String, Claim)> {
    let here = caller.here();
    for process in (0..caller.process()).filter(|process| *process != here.number()) {
        here.node().gone(Peer(process)).await;
    }
    let asked: Vec<IVar<()>> = {
        let held = lock(&here.node().keeper.held);
        let asked = held.values().filter_map(|held| held.asked.as_ref());
        asked.filter(|(keeper, _)| *keeper < caller.process()).map(|(_, settled)| settled.clone()).collect()
    };
    for settled in asked {
        settled.get().await;
    }
    let held = lock(&here.node().keeper.held);
    held.iter().map(|(name, held)| (name.clone(), held.claim)).collect()
}

/// Waits until this process may answer (INV-KEEPER).
async fn keep(here: &Here) {
    for process in 0..here.number() {
        here.node().gone(Peer(process)).await;
    }
    let keeper = &here.node().keeper;
    let mut has_heard = keeper.has_heard.lock().await;
    if *has_heard {
        return;
    }
    for process in (0..here.count()).filter(|process| here.down(*process).is_none()) {
        loop {
            match here.at(process).call(HELD.ask(&())).await {
                Ok(held) => {
                    let given = held.into_iter().filter(|(_, claim)| claim.is_given);
                    for (name, Claim { thread, .. }) in given.take(MOST_NAMES) {
                        let awaited = lock(&keeper.kept).give(name, thread);
                        awaited.inspect(|awaited| _ = awaited.put(thread));
                    }
                    break;
                }
                Err(CallError::Full(_)) => yield_now().await,
                // It has gone, and its names with it.
                Err(_) => break,
            }
        }
    }
    *has_heard = true;
}

impl Kept {
    /// The name is that thread's now. Who waits for it is to be told, without the lock.
    #[must_use]
    fn give(&mut self, name: String, thread: ThreadName) -> Option<IVar<ThreadName>> {
        let awaited = self.awaited.remove(&name);
        self.names.insert(name, thread);
        awaited
    }
}

async fn register(here: &Here, name: String, thread: ThreadName) -> Given {
    keep(here).await;
    let keeper = &here.node().keeper;
    loop {
        let taken = {
            let mut kept = lock(&keeper.kept);
            match kept.names.get(&name) {
                Some(taken) if *taken != thread => *taken,
                None if kept.names.len() >= MOST_NAMES => return Given::Full,
                _ => {
                    let awaited = kept.give(name, thread);
                    drop(kept);
                    awaited.inspect(|awaited| _ = awaited.put(thread));
                    return Given::Yes;
                }
            }
        };
        // Does its holder still hold it?
        let holds = match here.at(taken.process.0).call(HELD.ask(&())).await {
            Ok(held) => held.iter().any(|(held, claim)| *held == name && claim.thread == taken),
            Err(CallError::Lost { .. } | CallError::NoSuchProcess(_)) => false,
            Err(_) => true,
        };
        if holds {
            return Given::Taken(taken);
        }
        free(here, &name, taken);
    }
}

async fn find(here: &Here, name: String) -> Option<ThreadName> {
    keep(here).await;
    let keeper = &here.node().keeper;
    loop {
        let awaited = {
            let mut kept = lock(&keeper.kept);
            let found = kept.names.get(&name).copied();
            match found.filter(|thread| here.down(thread.process.0).is_none()) {
                Some(found) => return Some(found),
                None if kept.awaited.len() >= MOST_NAMES => return None,
                None => kept.awaited.entry(name.clone()).or_default().clone(),
            }
        };
        awaited.get().await;
    }
}

fn free(here: &Here, name: &str, thread: ThreadName) {
    let mut kept = lock(&here.node().keeper.kept);
    if kept.names.get(name) == Some(&thread) {
        kept.names.remove(name);
    }
}
