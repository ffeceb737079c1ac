//! A cluster within one OS process, to try programs and for tests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::engine::{
    Caps, Change, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId,
    Sink, Why,
};
use crate::polling::try_enter;
use crate::wire::Body;

/// Number of frames of a lane that may wait for a process.
const CAPACITY: usize = 1024;

/// The engine of a cluster within one OS process. A send puts the frame into the receiver's queue.
pub struct Local {
    me: ProcessId,
    ports: Arc<[Port]>,
}

struct Port {
    queue: Mutex<Queue>,
    /// Held by the thread that polls.
    polling: Mutex<()>,
    /// Whether the queue holds an item: a frame or the end of a process.
    has_work: AtomicBool,
    notifier: OnceLock<Notifier>,
}

struct Queue {
    items: VecDeque<Item>,
    /// Number of frames of each lane.
    frames: [usize; 3],
    /// Processes that were refused because a lane was full.
    refused: Vec<ProcessId>,
    /// Whether the process has left or was killed.
    is_closed: bool,
    /// Number of other processes that are left.
    others: u32,
}

enum Item {
    Frame(ProcessId, Lane, Body),
    Down(ProcessId, Why),
}

impl Local {
    /// The engines of `count` processes, numbered from 0.
    pub fn cluster(count: u32) -> Vec<Self> {
        let ports: Arc<[Port]> = (0..count).map(|_| Port::new(count - 1)).collect();
        (0..count).map(|me| Self { me: ProcessId(me), ports: Arc::clone(&ports) }).collect()
    }

    /// The engine of a process without others.
    pub fn alone() -> Self {
        Self { me: ProcessId(0), ports: Arc::from([Port::new(0)]) }
    }

    /// Ends the process as if it had been killed. The others get all that it has sent, and then learn of its end.
    pub fn kill(&self) {
        self.end(Why::Died, Leave::Now);
    }

    /// Forgets the processes that `to` has refused, so that none is notified when there is room.
    #[cfg(test)]
    pub(super) fn forget_refused(&self, to: ProcessId) {
        if let Some(port) = self.port(to) {
            port.lock().refused.clear();
        }
    }

    fn port(&self, peer: ProcessId) -> Option<&Port> {
        self.ports.get(peer.0 as usize)
    }

    fn end(&self, why: Why, how: Leave) {
        let Some(own) = self.port(self.me) else { return };
        let forgotten = {
            let mut queue = own.lock();
            let was_closed = std::mem::replace(&mut queue.is_closed, true);
            let forgotten =
                if how == Leave::Now { std::mem::take(&mut queue.items) } else { VecDeque::new() };
            if was_closed {
                return;
            }
            forgotten
        };
        drop(forgotten);
        for (index, port) in self.ports.iter().enumerate() {
            if index != self.me.0 as usize {
                port.put_down(self.me, why);
            }
        }
        own.notify();
    }
}

impl Port {
    fn new(others: u32) -> Self {
        let queue =
            Queue { items: VecDeque::new(), frames: [0; 3], refused: Vec::new(), is_closed: false, others };
        Self {
            queue: Mutex::new(queue),
            polling: Mutex::new(()),
            has_work: AtomicBool::new(false),
            notifier: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports to this port that a process has gone.
    fn put_down(&self, peer: ProcessId, why: Why) {
        {
            let mut queue = self.lock();
            queue.others -= 1;
            if queue.is_closed {
                return;
            }
            queue.items.push_back(Item::Down(peer, why));
            // ORDER: Release pairs with the Acquire in `has_work`. It is stored under the lock, as in `poll`, so it
            // is true while there are items.
            self.has_work.store(true, Ordering::Release);
        }
        self.notify();
    }

    fn notify(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }
}

impl Engine for Local {
    fn me(&self) -> ProcessId {
        self.me
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        (0..self.ports.len() as u32).map(|peer| (ProcessId(peer), NodeId(0))).collect()
    }

    fn caps(&self, _to: ProcessId) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::Never, death: Death::Reports, eager: u32::MAX }
    }

    fn attach(&self, notifier: Notifier) {
        if let Some(port) = self.port(self.me) {
            let _ = port.notifier.set(notifier);
            port.notify();
        }
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        // A process that has ended sends nothing.
        let is_closed = self.port(self.me).is_none_or(|own| own.lock().is_closed);
        let port = if is_closed { None } else { self.port(to) };
        let Some(port) = port else { return Ok(()) };
        {
            let mut queue = port.lock();
            if queue.is_closed {
                return Ok(());
            }
            if queue.frames[lane as usize] >= CAPACITY {
                if !queue.refused.contains(&self.me) {
                    queue.refused.push(self.me);
                }
                return Err(Full { body });
            }
            queue.frames[lane as usize] += 1;
            queue.items.push_back(Item::Frame(self.me, lane, body));
            port.has_work.store(true, Ordering::Release);
        }
        port.notify();
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.port(self.me).is_none_or(|port| {
            let queue = port.lock();
            queue.is_closed || queue.others == 0
        })
    }

    fn has_work(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `put_down` and `try_send`.
        self.port(self.me).is_some_and(|port| port.has_work.load(Ordering::Acquire))
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Some(port) = self.port(self.me) else { return Polled::Nothing };
        let Some(_alone) = try_enter(&port.polling) else { return Polled::Busy };
        let mut polled = Polled::Nothing;
        for _ in 0..budget {
            let (item, refused) = {
                let mut queue = port.lock();
                let Some(item) = queue.items.pop_front() else {
                    port.has_work.store(false, Ordering::Release);
                    return polled;
                };
                if let Item::Frame(_, lane, _) = &item {
                    queue.frames[*lane as usize] -= 1;
                }
                (item, std::mem::take(&mut queue.refused))
            };
            for peer in refused {
                self.port(peer).inspect(|port| port.notify());
            }
            polled = Polled::Some;
            match item {
                Item::Frame(from, lane, frame) => sink.arrived(from, lane, frame),
                Item::Down(peer, why) => sink.peer(peer, Change::Down(why)),
            }
        }
        if self.has_work() { Polled::More } else { polled }
    }

    fn park(&self) -> Idle {
        if self.has_work() { Idle::Work } else { Idle::Notified }
    }

    fn unpark(&self) {}

    fn leave(&self, how: Leave) {
        self.end(Why::Left, how);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.end(Why::Died, Leave::Now);
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("me", &self.me).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Kit;

    #[chanter::test]
    async fn it_keeps_what_an_engine_promises() {
        Kit::new(async |count| Local::cluster(count)).killed_by(Local::kill).run().await.unwrap();
    }

    /// The polls that are made while a frame is handed over.
    struct Inside<'a>(&'a Local, Vec<Polled>);

    impl Sink for Inside<'_> {
        fn arrived(&mut self, _from: ProcessId, _lane: Lane, _frame: Body) {
            self.1.push(self.0.poll(1, &mut Inside(self.0, Vec::new())));
        }

        fn peer(&mut self, _peer: ProcessId, _change: Change) {}
    }

    #[test]
    fn a_poll_beside_another_one_says_so() {
        let [one, other] = <[Local; 2]>::try_from(Local::cluster(2)).unwrap();
        one.try_send(other.me(), Lane::User, Body::copied_from(b"frame")).unwrap();
        let mut inside = Inside(&other, Vec::new());
        assert_eq!(other.poll(2, &mut inside), Polled::Some);
        assert_eq!(inside.1, [Polled::Busy]);
        assert_eq!(other.poll(1, &mut inside), Polled::Nothing);
    }
}
