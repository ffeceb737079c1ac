//! Names of the whole cluster, and the leader that keeps them.
//!
//! The *leader* is the living process with the lowest number. Each process remembers the names of its own threads, so
//! nothing is lost when the leader dies. The next leader asks all living processes for the names that they hold
//! before it answers any request.
//!
//! INV-LEADER: a process answers for names only while it knows that all processes with lower numbers have gone, which
//! is for ever. It answers only after each of the others has sent its names or has gone. A process sends its names
//! only when it knows, too, that the earlier leaders have gone, and when its requests to them are answered or lost.
//! (Before the first process there was no leader, so that one asks no process.) A new leader gives no name before it
//! knows which names of old leaders are still held.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter::{event::from_cancel_safe, sync::Mutex as Turns};
use serde::{Deserialize, Serialize};

use crate::engine::ProcessId;
use crate::inbox::Inbox;
use crate::lock::lock;
use crate::name::ThreadName;
use crate::node::Node;
use crate::service::{CallError, Caller, Service};
use crate::{Process, Serving};

/// Largest number of names that a leader keeps.
const MOST_NAMES: usize = 1 << 16;
/// Largest number of names of the threads of one process, so that no process can use up all names.
const MOST_OF_ONE: usize = MOST_NAMES / 4;
/// Longest name, in bytes.
const LONGEST: usize = 255;

const REGISTER: Service<(String, ThreadName), Given> = Service::new("chanter::register");
const FIND: Service<String, ThreadName> = Service::new("chanter::find");
/// Frees a name that its holder no longer wants.
const FREE: Service<(String, ThreadName), ()> = Service::new("chanter::free");
/// Asks for the names that a process holds or wants.
const HELD: Service<(), Vec<(String, Claim)>> = Service::new("chanter::held");

/// A thread's claim to a name. The thread holds the name if it was given, and otherwise wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    thread: ThreadName,
    is_given: bool,
}

/// A claim in the process that makes it.
struct Held {
    claim: Claim,
    /// The leader that is being asked for the name, and an IVar that is filled when this request has ended.
    asked: Option<(u32, IVar<()>)>,
}

impl Held {
    /// Ends the request: the leader has answered, or is lost.
    fn settle(&mut self) {
        if let Some((_, settled)) = self.asked.take() {
            let _ = settled.put(());
        }
    }
}

/// The leader's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Given {
    Yes,
    Taken(ThreadName),
    Full,
    /// The thread does not belong to the process that asks.
    NotYours,
}

/// The names of a process, as a holder and as the leader.
#[derive(Default)]
pub(crate) struct NameLeader {
    /// Names that its own threads hold or want.
    held: Mutex<HashMap<String, Held>>,
    /// Names that it keeps as the leader.
    kept: Mutex<Kept>,
    /// Whether it has heard from all other processes. One thread asks, and the others wait for it.
    has_heard: Turns<bool>,
}

impl Node {
    fn name_leader(&self) -> &NameLeader {
        self.concern()
    }
}

#[derive(Default)]
struct Kept {
    names: HashMap<String, ThreadName>,
    /// Number of names of each process.
    of: HashMap<ProcessId, usize>,
    awaited: HashMap<String, Awaited>,
    last_awaited: u64,
}

/// A name that is waited for and not given yet. The number of waiters is bounded, as requests are.
struct Awaited {
    /// Unique number of this wait. A waiter for a name that was given meanwhile does not mistake a later wait for its
    /// own.
    number: u64,
    given: IVar<ThreadName>,
    waiting: usize,
}

/// A waiter for a name. Dropping it ends the wait.
struct Waits<'a> {
    leader: &'a NameLeader,
    name: &'a str,
    number: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut kept = lock(&self.leader.kept);
        if let Some(awaited) = kept.awaited.get_mut(self.name)
            && awaited.number == self.number
        {
            awaited.waiting -= 1;
            if awaited.waiting == 0 {
                kept.awaited.remove(self.name);
            }
        }
    }
}

/// The reason why a name cannot be registered or found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Another thread of the cluster has the name.
    Taken(ThreadName),
    /// The name is invalid: it must have 1 to 255 bytes.
    Bad(String),
    /// The cluster has its largest number of names (65536), or this process has (16384).
    Full,
    /// The call to the leader failed. (If the leader dies, the next one is asked.)
    Call(CallError),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(thread) => write!(f, "the name is taken by {thread}"),
            Self::Bad(name) => write!(f, "{name:?} is no name: 1 to {LONGEST} bytes"),
            Self::Full => {
                f.write_str("the cluster, or this process, has as many names as it may: let some go")
            }
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NameError {}

/// A registered name. The thread has it in the whole cluster as long as this lives.
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
    /// Calls `f`, which must be short, with the process's claim, under the lock.
    fn with<R>(&self, f: impl FnOnce(&mut Held) -> R) -> Option<R> {
        lock(&self.node.name_leader().held).get_mut(&self.name).map(f)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // First, so that a process that becomes the leader now does not hear of the name.
        let held = lock(&self.node.name_leader().held).remove(&self.name);
        held.into_iter().for_each(|mut held| held.settle());
        let here = Process::of(Arc::clone(&self.node));
        // If the leader cannot be told, it asks this process when another thread wants the name.
        let _ = here.at(here.leader()).post(FREE.ask(&(self.name.clone(), self.thread)));
    }
}

impl Process {
    /// The living process with the lowest number, as far as this process knows.
    pub(crate) fn leader(&self) -> u32 {
        let lives = |process: &u32| *process == self.number() || self.down(*process).is_none();
        (0..self.number()).find(lives).unwrap_or(self.number())
    }

    /// Gives the thread that has `inbox` a unique name in the whole cluster, as long as the returned value lives.
    /// Other threads [find](Self::find) it by that name. The name survives the process that keeps the names.
    ///
    /// **Cancel safety.** If the future is dropped, the name may have been given; it is then free again when another
    /// thread wants it.
    ///
    /// # Errors
    /// See [`NameError`].
    pub async fn register(&self, name: &str, inbox: &Inbox) -> Result<Registered, NameError> {
        check(name)?;
        let thread = inbox.name();
        let node = Arc::clone(self.node());
        {
            let mut held = lock(&node.name_leader().held);
            let has_room = held.len() < MOST_OF_ONE;
            match held.entry(name.to_owned()) {
                Entry::Occupied(taken) => return Err(NameError::Taken(taken.get().claim.thread)),
                Entry::Vacant(_) if !has_room => return Err(NameError::Full),
                Entry::Vacant(free) => {
                    free.insert(Held { claim: Claim { thread, is_given: false }, asked: None });
                }
            }
        }
        let registered = Registered { node, name: name.to_owned(), thread };
        loop {
            let leader = self.leader();
            registered.with(|held| held.asked = Some((leader, IVar::new())));
            let given = self.at(leader).call(REGISTER.ask(&(name.to_owned(), thread))).await;
            let settled = registered.with(|held| {
                held.claim.is_given = given == Ok(Given::Yes);
                held.asked.take()
            });
            settled.flatten().inspect(|(_, settled)| _ = settled.put(()));
            match given {
                Ok(Given::Yes) => return Ok(registered),
                Ok(Given::Taken(thread)) => return Err(NameError::Taken(thread)),
                Ok(Given::Full) => return Err(NameError::Full),
                Ok(Given::NotYours) => {
                    let why = "the keeper takes the thread for another process's".to_owned();
                    return Err(NameError::Call(CallError::BadAnswer(why)));
                }
                Err(CallError::Lost { .. }) => {}
                Err(error) => return Err(NameError::Call(error)),
            }
        }
    }

    /// The event of finding the thread that has [registered](Self::register) a name, in any process. It waits until
    /// there is one. If it is dropped or not chosen, nothing happens.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn find(&self, name: &str) -> impl Event<Output = Result<ThreadName, NameError>> + Send + use<> {
        let (here, name) = (self.clone(), name.to_owned());
        from_cancel_safe(async move {
            check(&name)?;
            loop {
                match here.at(here.leader()).call(FIND.ask(&name)).await {
                    Ok(found) => return Ok(found),
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

/// Serves the requests to the leader, and the leader's requests to others.
pub(crate) fn serve(here: &Process) {
    let served = [
        here.serve(REGISTER, |caller, (name, thread)| async move {
            let is_good = thread.process == caller.peer() && check(&name).is_ok();
            if is_good { register(&caller.here(), name, thread).await } else { Given::NotYours }
        }),
        here.serve(FIND, |caller, name| async move { find(&caller.here(), name).await }),
        here.serve(FREE, |caller, (name, thread)| async move {
            if thread.process == caller.peer() {
                free(&caller.here(), &name, thread);
            }
        }),
        here.serve(HELD, |caller, ()| async move { held(&caller).await }),
    ];
    // A starting process has no services of these names, so this cannot fail.
    served.into_iter().flatten().for_each(Serving::forever);
}

/// The claims of this process, for a leader (INV-LEADER).
async fn held(caller: &Caller) -> Vec<(String, Claim)> {
    let here = caller.here();
    for process in (0..caller.process()).filter(|process| *process != here.number()) {
        here.node().gone(ProcessId(process)).await;
    }
    let asked: Vec<IVar<()>> = {
        let held = lock(&here.node().name_leader().held);
        let asked = held.values().filter_map(|held| held.asked.as_ref());
        asked.filter(|(leader, _)| *leader < caller.process()).map(|(_, settled)| settled.clone()).collect()
    };
    for settled in asked {
        settled.get().await;
    }
    let held = lock(&here.node().name_leader().held);
    held.iter().map(|(name, held)| (name.clone(), held.claim)).collect()
}

/// Waits until this process may answer as the leader (INV-LEADER).
async fn keep(here: &Process) {
    for process in 0..here.number() {
        here.node().gone(ProcessId(process)).await;
    }
    let leader = here.node().name_leader();
    let mut has_heard = leader.has_heard.lock().await;
    // No process has kept names before the first one.
    if *has_heard || here.number() == 0 {
        return;
    }
    for process in (0..here.count()).filter(|process| here.down(*process).is_none()) {
        loop {
            match here.at(process).call(HELD.ask(&())).await {
                Ok(held) => {
                    let is_good = |name: &str, claim: Claim| {
                        claim.is_given && claim.thread.process.0 == process && check(name).is_ok()
                    };
                    let given = held.into_iter().filter(|(name, claim)| is_good(name, *claim));
                    for (name, Claim { thread, .. }) in given.take(MOST_OF_ONE) {
                        let awaited = lock(&leader.kept).give(name, thread);
                        awaited.inspect(|awaited| _ = awaited.put(thread));
                    }
                    break;
                }
                Err(CallError::Full(_)) => yield_now().await,
                // The process has gone, and its names with it.
                Err(_) => break,
            }
        }
    }
    *has_heard = true;
}

impl Kept {
    /// Gives a name to a thread. The caller fills the returned IVar, for waiters, without holding the lock.
    #[must_use]
    fn give(&mut self, name: String, thread: ThreadName) -> Option<IVar<ThreadName>> {
        let awaited = self.awaited.remove(&name);
        let before = self.names.insert(name, thread);
        *self.of.entry(thread.process).or_default() += 1;
        before.inspect(|before| self.uncount(before.process));
        awaited.map(|awaited| awaited.given)
    }

    /// Begins a wait for a name. Returns the IVar that is filled when the name is given, and the number for
    /// [`Waits`], which ends the wait.
    fn await_name(&mut self, name: &str) -> (IVar<ThreadName>, u64) {
        if !self.awaited.contains_key(name) {
            self.last_awaited += 1;
            let awaited = Awaited { number: self.last_awaited, given: IVar::new(), waiting: 0 };
            self.awaited.insert(name.to_owned(), awaited);
        }
        let awaited = self.awaited.get_mut(name).expect("it is there by now");
        awaited.waiting += 1;
        (awaited.given.clone(), awaited.number)
    }

    /// Frees a name, if it is that thread's.
    fn take(&mut self, name: &str, thread: ThreadName) {
        if self.names.get(name) == Some(&thread) {
            self.names.remove(name);
            self.uncount(thread.process);
        }
    }

    fn uncount(&mut self, process: ProcessId) {
        if let Some(count) = self.of.get_mut(&process) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&process);
            }
        }
    }

    /// Whether a process may have one more name. `is_dead`: whether a process has gone and will not free its names.
    fn has_room(&mut self, process: ProcessId, is_dead: impl Fn(ProcessId) -> bool) -> bool {
        if self.names.len() >= MOST_NAMES {
            self.names.retain(|_, thread| !is_dead(thread.process));
            self.of.retain(|process, _| !is_dead(*process));
        }
        self.names.len() < MOST_NAMES && self.of.get(&process).is_none_or(|count| *count < MOST_OF_ONE)
    }
}

async fn register(here: &Process, name: String, thread: ThreadName) -> Given {
    keep(here).await;
    let leader = here.node().name_leader();
    loop {
        let taken = {
            let mut kept = lock(&leader.kept);
            match kept.names.get(&name).copied() {
                Some(taken) if taken != thread => taken,
                None if !kept.has_room(thread.process, |process| here.down(process.0).is_some()) => {
                    return Given::Full;
                }
                _ => {
                    let awaited = kept.give(name, thread);
                    drop(kept);
                    awaited.inspect(|awaited| _ = awaited.put(thread));
                    return Given::Yes;
                }
            }
        };
        // The holder is asked whether it still holds the name.
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

async fn find(here: &Process, name: String) -> ThreadName {
    keep(here).await;
    let leader = here.node().name_leader();
    loop {
        let (given, number) = {
            let mut kept = lock(&leader.kept);
            let found = kept.names.get(&name).copied();
            match found.filter(|thread| here.down(thread.process.0).is_none()) {
                Some(found) => return found,
                None => kept.await_name(&name),
            }
        };
        let _waits = Waits { leader, name: &name, number };
        given.get().await;
    }
}

fn free(here: &Process, name: &str, thread: ThreadName) {
    lock(&here.node().name_leader().kept).take(name, thread);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NodeId;
    use crate::wire::Slot;

    fn thread(process: u32, index: u32) -> ThreadName {
        ThreadName { pe: NodeId(0), process: ProcessId(process), thread: Slot { index, generation: 1 } }
    }

    #[test]
    fn who_has_too_many_names_keeps_nobody_else_from_having_one() {
        let mut kept = Kept::default();
        let nobody = |_| false;
        for index in 0..MOST_OF_ONE as u32 {
            assert!(kept.has_room(ProcessId(0), nobody));
            assert!(kept.give(format!("0 {index}"), thread(0, index)).is_none());
        }
        assert!(!kept.has_room(ProcessId(0), nobody) && kept.has_room(ProcessId(1), nobody));
        // A name that is given again, or to another thread, is counted once.
        assert!(kept.give("0 1".into(), thread(0, 1)).is_none());
        assert!(kept.give("0 2".into(), thread(1, 0)).is_none());
        assert!(kept.has_room(ProcessId(0), nobody));
        assert_eq!((kept.of[&ProcessId(0)], kept.of[&ProcessId(1)]), (MOST_OF_ONE - 1, 1));
        kept.take("0 2", thread(0, 2));
        assert_eq!(kept.names["0 2"], thread(1, 0), "it is another one's by now");
        kept.take("0 2", thread(1, 0));
        assert!(!kept.of.contains_key(&ProcessId(1)));
    }

    #[test]
    fn the_names_of_the_dead_are_room_for_others() {
        let mut kept = Kept::default();
        for index in 0..MOST_NAMES as u32 {
            let process = index % 4;
            let _ = kept.give(index.to_string(), thread(process, index));
        }
        assert!(!kept.has_room(ProcessId(4), |_| false));
        assert!(kept.has_room(ProcessId(4), |process| process == ProcessId(2)));
        assert_eq!((kept.names.len(), kept.of.len()), (MOST_NAMES / 4 * 3, 3));
    }

    #[test]
    fn who_waits_no_more_leaves_nothing() {
        let leader = NameLeader::default();
        let waits = |name| {
            let (given, number) = lock(&leader.kept).await_name(name);
            (given, Waits { leader: &leader, name, number })
        };
        let [one, other] = [waits("a"), waits("a")];
        drop(one);
        assert_eq!(lock(&leader.kept).awaited.len(), 1);
        let given = lock(&leader.kept).give("a".into(), thread(0, 1)).unwrap();
        let _ = given.put(thread(0, 1));
        assert!(other.0.try_get().is_some());
        lock(&leader.kept).take("a", thread(0, 1));
        // A new wait for the next holder of the name. The earlier waiter has no part in it.
        let again = waits("a");
        drop(other);
        assert_eq!(lock(&leader.kept).awaited.len(), 1);
        drop(again);
        assert!(lock(&leader.kept).awaited.is_empty());
    }
}
