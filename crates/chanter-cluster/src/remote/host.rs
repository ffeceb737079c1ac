//! Threads of this process that others have spawned, and what is asked of them.
//!
//! A thread is in the table from its spawn until nobody is to ask for it any more: it was detached, or its spawner's process has
//! gone, and it has ended. So a value may be asked for again: an answer that was lost with a choice is not the value's end.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chanter::prelude::*;
use chanter::{JoinError, Refused as Refusal, Request};
use foldhash::fast::RandomState;

use super::functions::{Context, Work};
use super::order::{End, ORDER, Order, Refused, Reply, SPAWN, Spawn, Unspawned};
use crate::Here;
use crate::engine::Peer;
use crate::name::ThreadName;
use crate::node::Node;
use crate::service::Caller;
use crate::wire::{Body, Number, Plain, Slot};

/// So many threads of others a process may have.
const MOST_THREADS: usize = 1 << 16;

/// The threads that others have spawned.
#[derive(Default)]
pub(crate) struct Hosts {
    threads: Mutex<HashMap<Slot, Arc<Hosted>, RandomState>>,
}

/// A thread that was spawned by another process.
struct Hosted {
    spawner: Peer,
    thread: Thread<Body>,
    /// Filled when it is determined.
    end: IVar<Arc<End>>,
    /// Nobody will ask any more. Changes under the table's lock.
    is_detached: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The services by which threads are spawned and asked.
pub(crate) fn serve(here: &Here) {
    let spawning = here.serve(SPAWN, |caller, spawn| async move { spawn_for(&caller, spawn) });
    let ordering = here.serve(ORDER, |caller, (slot, order)| async move { obey(&caller, slot, order).await });
    // A process has no others when it starts.
    spawning.into_iter().chain(ordering).for_each(crate::Serving::forever);
}

/// Sets its variable when it is dropped: the thread has begun, or never will.
struct Begun(CVar);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.set();
    }
}

fn spawn_for(caller: &Caller, spawn: Spawn) -> Result<Slot, Unspawned> {
    let node = caller.node();
    let Spawn { function, arguments, name, vp } = spawn;
    let make = node.functions.get(Number(function)).ok_or(Unspawned::NoFunction)?;
    let vps = Machine::current().map_or(1, |machine| machine.vps());
    if let Some(vp) = vp
        && vp as usize >= vps
    {
        return Err(Unspawned::NoSuchProcessor(vps as u32));
    }
    if lock(&node.hosts.threads).len() >= MOST_THREADS {
        return Err(Unspawned::Full);
    }
    let inbox = Here::of(Arc::clone(node)).inbox().map_err(|_| Unspawned::Full)?;
    let slot = inbox.name().thread;
    let context = Context::new(inbox, Arc::clone(node), caller.peer());
    // Making the body is the user's code: it belongs to the thread, but arguments that cannot be read to its spawner.
    let work = match catch_unwind(AssertUnwindSafe(|| make(context, &arguments.0))) {
        Ok(work) => work.map_err(Unspawned::BadArguments)?,
        Err(payload) => panics(payload),
    };
    let begun = CVar::new();
    let begins = Begun(begun.clone());
    let mut builder = ThreadBuilder::new();
    if let Some(name) = name {
        builder = builder.name(name);
    }
    if let Some(vp) = vp {
        builder = builder.on(vp as usize);
    }
    let thread = builder.spawn(async move {
        drop(begins);
        work.await
    });
    let join = thread.join();
    let end = IVar::new();
    let hosted = Hosted { spawner: caller.peer(), thread, end: end.clone(), is_detached: Mutex::new(false) };
    lock(&node.hosts.threads).insert(slot, Arc::new(hosted));
    let node = Arc::downgrade(node);
    spawn_parasite(async move {
        // Not before: to join a thread is to demand it, and it would run here.
        begun.wait().await;
        let ended = match join.await {
            Ok(value) => End::Value(Plain(value.to_vec())),
            Err(error) => end_of(&error),
        };
        let _ = end.put(Arc::new(ended));
        if let Some(node) = node.upgrade() {
            node.hosts.forget(slot, |hosted| *lock(&hosted.is_detached));
        }
    });
    Ok(slot)
}

/// A body that panics so.
fn panics(payload: Box<dyn std::any::Any + Send>) -> Work {
    let mut payload = Some(payload);
    Box::pin(poll_fn(move |_| resume_unwind(payload.take().expect("a body that has panicked is not polled"))))
}

fn end_of(error: &JoinError) -> End {
    if error.is_panic() {
        End::Panicked(error.message().unwrap_or("no message").to_owned())
    } else {
        End::Cancelled
    }
}

impl Hosts {
    fn get(&self, slot: Slot) -> Option<Arc<Hosted>> {
        lock(&self.threads).get(&slot).map(Arc::clone)
    }

    fn forget(&self, slot: Slot, when: impl FnOnce(&Hosted) -> bool) {
        let hosted = {
            let mut threads = lock(&self.threads);
            if threads.get(&slot).is_some_and(|hosted| when(hosted)) { threads.remove(&slot) } else { None }
        };
        drop(hosted);
    }

    fn detach(&self, slot: Slot) {
        self.forget(slot, |hosted| {
            *lock(&hosted.is_detached) = true;
            hosted.end.try_get().is_some()
        });
    }
}

impl Node {
    /// A process has gone: nobody asks for its threads any more, or opens its gates.
    pub(crate) fn lose_spawner(&self, peer: Peer) {
        let theirs: Vec<Slot> = {
            let threads = lock(&self.hosts.threads);
            threads.iter().filter(|(_, hosted)| hosted.spawner == peer).map(|(slot, _)| *slot).collect()
        };
        theirs.into_iter().for_each(|slot| self.hosts.detach(slot));
        self.gates.open_all(peer);
    }
}

async fn obey(caller: &Caller, slot: Slot, order: Order) -> Reply {
    let node = caller.node();
    if let Order::Open(gate) = order {
        node.gates.open(caller.peer(), gate);
        return Reply::Done;
    }
    let Some(hosted) = node.hosts.get(slot) else { return Reply::NoThread };
    let thread = &hosted.thread;
    match order {
        Order::Join => Reply::Ended((*hosted.end.get().await).clone()),
        Order::Take => {
            let end = hosted.end.get().await;
            drop(hosted);
            node.hosts.detach(slot);
            Reply::Ended(Arc::unwrap_or_clone(end))
        }
        Order::Watch => Reply::Ended(match &*hosted.end.get().await {
            End::Value(_) => End::Value(Plain::default()),
            end => end.clone(),
        }),
        Order::Cancel => answer(thread.cancel()).await,
        Order::Terminate(value) => answer(thread.terminate(Body::copied_from(&value.0))).await,
        Order::Suspend(None) => answer(thread.suspend()).await,
        Order::Suspend(Some(quantum)) => answer(thread.suspend_for(quantum)).await,
        Order::Resume => Reply::Resumed(thread.resume()),
        Order::Block(gate) => {
            let peer = caller.peer();
            match node.gates.close(peer, gate) {
                Some(condition) => answer(thread.block(async move { condition.wait().await })).await,
                None => Reply::Full,
            }
        }
        Order::Detach => {
            drop(hosted);
            node.hosts.detach(slot);
            Reply::Done
        }
        Order::Link(other) => {
            link(caller.here(), Arc::clone(&hosted), other);
            Reply::Done
        }
        Order::Open(_) => unreachable!("see above"),
    }
}

/// Cancels the thread when the other one ends otherwise than with a value, unless it has ended itself before.
fn link(here: Here, hosted: Arc<Hosted>, other: ThreadName) {
    spawn_parasite(async move {
        let other = here.thread::<()>(other);
        let down = choose_biased((hosted.end.get().wrap(|_| None), other.down().wrap(Some))).await;
        if down.is_some_and(|down| !down.is_well()) {
            // It does not matter whether it has ended by now.
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
