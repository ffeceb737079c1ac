//! Processes within one: to try programs, and for tests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use super::{
    Bell, Caps, Change, Death, Engine, Full, Lane, Leave, Loss, Order, Pe, Peer, Polled, Rest, Sink, Why,
};
use crate::wire::Body;

/// So many frames may lie in front of a process.
const CAPACITY: usize = 1024;

/// The engine of a cluster whose processes are parts of one: a send lays the frame into the other one's queue.
pub struct Local {
    me: Peer,
    ports: Arc<[Port]>,
}

#[derive(Default)]
struct Port {
    queue: Mutex<Queue>,
    /// Frames lie in the queue, or more.
    has_work: AtomicBool,
    bell: OnceLock<Bell>,
    /// Held by who polls: frames are handed out in their order.
    polling: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    frames: usize,
    /// Who was told that it is full.
    refused: Vec<Peer>,
    is_closed: bool,
}

enum Item {
    Frame(Peer, Lane, Body),
    Down(Peer, Why),
}

impl Local {
    /// The engines of so many processes, which are numbered from 0.
    pub fn cluster(count: u32) -> Vec<Self> {
        let ports: Arc<[Port]> = (0..count).map(|_| Port::default()).collect();
        (0..count).map(|me| Self { me: Peer(me), ports: Arc::clone(&ports) }).collect()
    }

    /// The engine of a process without others.
    pub fn alone() -> Self {
        Self { me: Peer(0), ports: Arc::from([Port::default()]) }
    }

    /// The process ends without a word, as if it had been killed: the others are told, after all that it has sent.
    pub fn kill(&self) {
        self.end(Why::Died);
    }

    fn port(&self, peer: Peer) -> Option<&Port> {
        self.ports.get(peer.0 as usize)
    }

    fn end(&self, why: Why) {
        let Some(own) = self.port(self.me) else { return };
        let left = {
            let mut queue = own.lock();
            if std::mem::replace(&mut queue.is_closed, true) {
                return;
            }
            std::mem::take(&mut queue.items)
        };
        drop(left);
        for (index, port) in self.ports.iter().enumerate() {
            if index != self.me.0 as usize {
                port.put(Item::Down(self.me, why));
            }
        }
    }
}

impl Port {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, item: Item) {
        {
            let mut queue = self.lock();
            if queue.is_closed {
                return;
            }
            queue.items.push_back(item);
            // ORDER: under the lock, as in `poll`: it is true while there are items.
            self.has_work.store(true, Ordering::Release);
        }
        self.ring();
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }
}

impl Engine for Local {
    fn me(&self) -> Peer {
        self.me
    }

    fn roster(&self) -> Vec<(Peer, Pe)> {
        (0..self.ports.len() as u32).map(|peer| (Peer(peer), Pe(0))).collect()
    }

    fn caps(&self, _to: Peer) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::Never, death: Death::Reports, eager: u32::MAX }
    }

    fn attach(&self, bell: Bell) {
        if let Some(port) = self.port(self.me) {
            let _ = port.bell.set(bell);
            port.ring();
        }
    }

    fn try_send(&self, to: Peer, lane: Lane, body: Body) -> Result<(), Full> {
        // The dead send nothing.
        let port = if self.has_ended() { None } else { self.port(to) };
        let Some(port) = port else { return Ok(()) };
        {
            let mut queue = port.lock();
            if queue.is_closed {
                return Ok(());
            }
            if queue.frames >= CAPACITY {
                if !queue.refused.contains(&self.me) {
                    queue.refused.push(self.me);
                }
                return Err(Full { body });
            }
            queue.frames += 1;
            queue.items.push_back(Item::Frame(self.me, lane, body));
            port.has_work.store(true, Ordering::Release);
        }
        port.ring();
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.port(self.me).is_none_or(|port| port.lock().is_closed)
    }

    fn has_work(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `put`.
        self.port(self.me).is_some_and(|port| port.has_work.load(Ordering::Acquire))
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Some(port) = self.port(self.me) else { return Polled::Nothing };
        let _alone = match port.polling.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::WouldBlock) => return Polled::Nothing,
            // A sink has panicked; what it was told is told.
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
        };
        let mut polled = Polled::Nothing;
        for _ in 0..budget {
            let (item, refused) = {
                let mut queue = port.lock();
                let Some(item) = queue.items.pop_front() else {
                    port.has_work.store(false, Ordering::Release);
                    return polled;
                };
                queue.frames -= usize::from(matches!(item, Item::Frame(..)));
                (item, std::mem::take(&mut queue.refused))
            };
            for peer in refused {
                self.port(peer).inspect(|port| port.ring());
            }
            polled = Polled::Some;
            match item {
                Item::Frame(from, lane, frame) => sink.arrived(from, lane, frame),
                Item::Down(peer, why) => sink.peer(peer, Change::Down(why)),
            }
        }
        Polled::More
    }

    fn rest(&self) -> Rest {
        if self.has_work() { Rest::Work } else { Rest::Notified }
    }

    fn rise(&self) {}

    fn leave(&self, _how: Leave) {
        self.end(Why::Left);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.end(Why::Died);
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("me", &self.me).finish_non_exhaustive()
    }
}
