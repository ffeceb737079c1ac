//! Threads of this process that others have spawned, and the requests to them.
//!
//! A thread is in the table from its spawn until it has ended and no request for its value can come. That is so when
//! it was detached, or its spawner's process has gone. So a value may be requested again: an answer that was lost
//! with a choice is not the value's end.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

use chanter::prelude::*;
use chanter::{
    ThreadBuilder,
    base::Lock,
    thread::{Refused as Refusal, Request},
};
use foldhash::fast::RandomState;

use super::answer::Answer;
use super::ending::{Ending, Hosted};
use super::functions::{Context, Work};
use super::hold::Hold;
use super::order::{End, ORDER, Order, Refused, Reply, SPAWN, Spawn, Unspawned};
use crate::Process;
use crate::engine::ProcessId;
use crate::name::ThreadName;
use crate::node::Node;
use crate::service::{Caller, start};
use crate::wire::{Enclosed, Number, Slot};

/// The threads that others have spawned.
pub(crate) struct Hosts {
    state: Lock<State>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { state: Lock::new(State::default()) }
    }
}

#[derive(Default)]
struct State {
    threads: HashMap<Slot, Entry, RandomState>,
    /// The threads and bytes of each process that has, or had, threads here.
    held: HashMap<ProcessId, Hold, RandomState>,
}

/// A thread in the table.
pub(super) struct Entry {
    hosted: Arc<Hosted>,
    /// Bytes of its arguments, or, when it has ended, of its value.
    bytes: usize,
    /// Whether no request for the value will come.
    is_detached: bool,
    /// Whether its body was dropped, and a thread waits for its end.
    is_joined: bool,
}

/// The services by which threads are spawned and asked.
pub(crate) fn serve(here: &Process) {
    let spawning = here.serve(SPAWN, |caller, spawn| async move { spawn_for(&caller, spawn) });
    let obeying = start::<_, Answer, _, _>(
        |_| true,
        |caller, (slot, order): (Slot, Order)| async move { obey(&caller, slot, order).await },
    );
    let ordering = here.node().registered(ORDER.name(), ORDER.number(), obeying);
    // A process has no others when it starts.
    spawning.into_iter().chain(ordering).for_each(crate::Serving::forever);
}

/// A reserved place for a thread, given back if it is dropped.
struct Reserved<'a>(&'a Hosts, ProcessId, usize);

impl Reserved<'_> {
    fn keep(self, slot: Slot, hosted: Hosted) {
        let entry = Entry { hosted: Arc::new(hosted), bytes: self.2, is_detached: false, is_joined: false };
        self.0.state.lock().threads.insert(slot, entry);
        std::mem::forget(self);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.state.lock().release(self.1, self.2);
    }
}

fn spawn_for(caller: &Caller, spawn: Spawn) -> Result<Slot, Unspawned> {
    let node = caller.node();
    let Spawn { function, arguments, name, vp } = spawn;
    let offer = node.remote().functions.get(Number(function)).ok_or(Unspawned::NoFunction)?;
    if !(offer.allow)(caller) {
        return Err(Unspawned::Refused);
    }
    if let Some(vp) = vp {
        let vps = Machine::current().map_or(1, |machine| machine.vps());
        if vp as usize >= vps {
            return Err(Unspawned::NoSuchProcessor(vps as u32));
        }
    }
    let bytes = arguments.len();
    let reserved = node.remote().hosts.reserve(caller.peer(), bytes).ok_or(Unspawned::Full)?;
    let inbox = node.open(None).map_err(|_| Unspawned::Full)?;
    let slot = inbox.name().thread;
    let context = Context::new(inbox, caller.peer());
    // Making the body runs user code. A panic in it is the thread's; arguments that cannot be read are reported to
    // the spawner.
    let work = match catch_unwind(AssertUnwindSafe(|| (offer.make)(context, &arguments))) {
        Ok(work) => work.map_err(Unspawned::BadArguments)?,
        Err(payload) => panics(payload),
    };
    let body = IVar::new();
    let ending = Ending::new(node, slot, body.clone());
    let thread = if name.is_none() && vp.is_none() {
        chanter::spawn(ending.of(work))
    } else {
        let mut builder = ThreadBuilder::new();
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some(vp) = vp {
            builder = builder.on(vp as usize);
        }
        builder.spawn(ending.of(work))
    };
    reserved.keep(slot, Hosted::new(caller.peer(), offer, thread, body));
    // The body may have ended before the thread was in the table.
    node.remote().hosts.settle(node, slot);
    Ok(slot)
}

/// A body that panics with this payload.
fn panics(payload: Box<dyn std::any::Any + Send>) -> Work {
    let mut payload = Some(payload);
    Box::pin(poll_fn(move |_| resume_unwind(payload.take().expect("a body that has panicked is not polled"))))
}

impl State {
    /// Notes the end of a thread, for [`Hosts::has_ended`]. Returns an entry that the caller drops without the lock.
    fn has_ended(&mut self, slot: Slot, value: usize) -> Option<Entry> {
        let entry = self.threads.get_mut(&slot)?;
        if entry.is_detached {
            return self.forget(slot);
        }
        let arguments = std::mem::replace(&mut entry.bytes, value);
        if let Some(hold) = self.held.get_mut(&entry.hosted.spawner) {
            hold.change(arguments, value);
        }
        None
    }

    /// Takes a thread out of the table. The caller drops it without the lock.
    fn forget(&mut self, slot: Slot) -> Option<Entry> {
        let entry = self.threads.remove(&slot)?;
        self.release(entry.hosted.spawner, entry.bytes);
        Some(entry)
    }

    fn release(&mut self, peer: ProcessId, bytes: usize) {
        if let Some(hold) = self.held.get_mut(&peer) {
            hold.remove(bytes);
        }
    }
}

impl Hosts {
    fn get(&self, slot: Slot) -> Option<Arc<Hosted>> {
        self.state.lock().threads.get(&slot).map(|entry| Arc::clone(&entry.hosted))
    }

    /// Reserves room for one more thread of that process. `None`: it has as many as it may, or they hold as much.
    fn reserve(&self, peer: ProcessId, bytes: usize) -> Option<Reserved<'_>> {
        let has_room = self.state.lock().held.entry(peer).or_default().add(bytes);
        // The guard is made only when there is room, and without the lock: its drop gives the room back, and takes
        // the lock.
        has_room.then(|| Reserved(self, peer, bytes))
    }

    /// Whether a process may have `bytes` more bytes kept here.
    fn has_room(&self, peer: ProcessId, bytes: usize) -> bool {
        self.state.lock().held.get(&peer).is_none_or(|hold| hold.has_room(bytes))
    }

    /// Called when the body of the thread has ended, and when the thread has been put into the table: the later call
    /// finds both.
    pub(super) fn settle(&self, node: &Arc<Node>, slot: Slot) {
        let (forgotten, dropped) = {
            let mut state = self.state.lock();
            let Some(entry) = state.threads.get_mut(&slot) else { return };
            match entry.hosted.body.try_get() {
                None => return,
                Some(Some(end)) => {
                    let bytes = end.len();
                    (state.has_ended(slot, bytes), None)
                }
                Some(None) if std::mem::replace(&mut entry.is_joined, true) => return,
                Some(None) => (None, Some(Arc::clone(&entry.hosted))),
            }
        };
        drop(forgotten);
        if let Some(hosted) = dropped {
            hosted.is_joined(Arc::downgrade(node), slot);
        }
    }

    /// Notes that the thread has ended: its arguments are gone, and its value is kept unless it was detached.
    pub(super) fn has_ended(&self, slot: Slot, value: usize) {
        let forgotten = self.state.lock().has_ended(slot, value);
        drop(forgotten);
    }

    fn detach(&self, slot: Slot) {
        drop(self.take_out(slot));
    }

    /// Detaches the thread. Returns the entry, to be dropped without the lock, if it has ended.
    fn take_out(&self, slot: Slot) -> Option<Entry> {
        let mut state = self.state.lock();
        let entry = state.threads.get_mut(&slot)?;
        entry.is_detached = true;
        if entry.hosted.body.try_get().is_some() { state.forget(slot) } else { None }
    }

    /// Takes the end of a thread, which no later request asks for. `Err`: it has not ended, there is none, or another
    /// process has spawned it.
    fn take(&self, slot: Slot, by: ProcessId) -> Result<Answer, Untaken> {
        let mut state = self.state.lock();
        let entry = state.threads.get(&slot).ok_or(Untaken::NoThread)?;
        if entry.hosted.spawner != by {
            return Err(Untaken::NotAllowed);
        }
        match entry.hosted.body.try_get() {
            Some(Some(end)) => {
                let end = Arc::clone(end);
                Ok(Answer::Ended { end, _kept: state.forget(slot) })
            }
            _ => Err(Untaken::Runs(Arc::clone(&entry.hosted))),
        }
    }
}

/// The reason why the end of a thread is not taken.
enum Untaken {
    NoThread,
    /// Another process has spawned it.
    NotAllowed,
    /// It has not ended.
    Runs(Arc<Hosted>),
}

impl Node {
    /// Detaches the threads of a process that has gone, and opens its gates.
    pub(crate) fn lose_spawner(&self, peer: ProcessId) {
        let theirs: Vec<Slot> = {
            let state = self.remote().hosts.state.lock();
            let theirs = state.threads.iter().filter(|(_, entry)| entry.hosted.spawner == peer);
            theirs.map(|(slot, _)| *slot).collect()
        };
        theirs.into_iter().for_each(|slot| self.remote().hosts.detach(slot));
        self.remote().gates.open_all(peer);
    }
}

async fn obey(caller: &Caller, slot: Slot, order: Order) -> Answer {
    let node = caller.node();
    match order {
        Order::Open(gate) => {
            node.remote().gates.open(caller.peer(), gate);
            Reply::Done.into()
        }
        Order::Take => match node.remote().hosts.take(slot, caller.peer()) {
            Ok(ended) => ended,
            Err(Untaken::NoThread) => Reply::NoThread.into(),
            Err(Untaken::NotAllowed) => Reply::NotAllowed.into(),
            Err(Untaken::Runs(hosted)) => {
                let end = hosted.end().await;
                Answer::Ended { end, _kept: node.remote().hosts.take_out(slot) }
            }
        },
        Order::Join => match node.remote().hosts.get(slot) {
            Some(hosted) if hosted.obeys(caller) => Answer::Ended { end: hosted.end().await, _kept: None },
            Some(_) => Reply::NotAllowed.into(),
            None => Reply::NoThread.into(),
        },
        order => obey_there(caller, slot, order).await.into(),
    }
}

/// Carries out the other orders, which are requests to the thread itself.
async fn obey_there(caller: &Caller, slot: Slot, order: Order) -> Reply {
    let node = caller.node();
    let Some(hosted) = node.remote().hosts.get(slot) else { return Reply::NoThread };
    // Only the spawner has the handle that detaches.
    let is_allowed = match order {
        Order::Detach => hosted.spawner == caller.peer(),
        _ => hosted.obeys(caller),
    };
    if !is_allowed {
        return Reply::NotAllowed;
    }
    let thread = &hosted.thread;
    match order {
        Order::Watch => Reply::Ended(match &*hosted.end().await {
            End::Value(_) => End::Value(Enclosed::default()),
            end => end.clone(),
        }),
        Order::Cancel => answer(thread.cancel()).await,
        Order::Terminate(value) if !node.remote().hosts.has_room(hosted.spawner, value.len()) => Reply::Full,
        Order::Terminate(value) => answer(thread.terminate(Some(value.to_body()))).await,
        Order::Suspend(None) => answer(thread.suspend()).await,
        Order::Suspend(Some(quantum)) => answer(thread.suspend_for(quantum)).await,
        Order::Resume => Reply::Resumed(thread.resume()),
        Order::Block(gate) => {
            let peer = caller.peer();
            match node.remote().gates.close(peer, gate) {
                Some(condition) => {
                    let closed = Closed { node: Arc::downgrade(node), peer, gate };
                    let blocked = thread.block(async move {
                        let _closed = closed;
                        condition.wait().await;
                    });
                    answer(blocked).await
                }
                None => Reply::Full,
            }
        }
        Order::Detach => {
            drop(hosted);
            node.remote().hosts.detach(slot);
            Reply::Done
        }
        Order::Link(other) => {
            link(caller.here(), Arc::clone(&hosted), other);
            Reply::Done
        }
        Order::Open(_) | Order::Take | Order::Join => unreachable!("see above"),
    }
}

/// A gate at which a thread waits. However the wait ends, the gate is removed.
struct Closed {
    node: Weak<Node>,
    peer: ProcessId,
    gate: u64,
}

impl Drop for Closed {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.remote().gates.open(self.peer, self.gate);
        }
    }
}

/// Cancels the thread when the other one ends otherwise than with a value, unless it has ended itself before.
fn link(here: Process, hosted: Arc<Hosted>, other: ThreadName) {
    spawn_parasite(async move {
        let other = here.thread::<()>(other);
        let down = choose_biased((hosted.body.get().wrap(|_| None), other.down().wrap(Some))).await;
        if down.is_some_and(|down| !down.is_well()) {
            // A refusal only means that the thread has ended by now.
            let _ = hosted.thread.cancel().await;
        }
    });
}

async fn answer<T: Send + 'static>(request: Request<T>) -> Reply {
    match request.await {
        Ok(()) => Reply::Done,
        Err(refused) => Reply::Refused(why(&refused)),
    }
}

fn why<T>(refused: &Refusal<T>) -> Refused {
    if refused.is_overruled() {
        Refused::Overruled
    } else if refused.is_withdrawn() {
        Refused::Withdrawn
    } else {
        Refused::Determined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused request reserves nothing, and does not keep later ones from being tried.
    #[test]
    fn who_is_refused_gives_nothing_back() {
        let hosts = Hosts::default();
        let full = hosts.reserve(ProcessId(1), usize::MAX).expect("one alone may have more");
        for _ in 0..2 {
            assert!(hosts.reserve(ProcessId(1), 1).is_none());
        }
        assert!(hosts.reserve(ProcessId(2), 1).is_some());
        drop(full);
        assert!(hosts.reserve(ProcessId(1), 1).is_some());
        assert!(hosts.state.lock().held.values().all(Hold::is_nothing));
    }
}
