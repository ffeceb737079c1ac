//! Holds: a process's stand for the senders of a port, and the [counts](super::counts) that its node keeps.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use chanter::IVar;

use super::counts::{Leftover, MOST_PARCELS, State};
use super::message::PortMessage;
use crate::engine::{Lane, ProcessId};
use crate::name::ThreadName;
use crate::node::Node;
use crate::wire::{Body, Contents, SenderTransfer, Slot};

/// A hold of a port. As long as a clone of it lives, the port's home counts the process, or is about to.
pub(crate) type Hold = Arc<Held>;

/// The content of a [`Hold`], which clones share.
pub(crate) struct Held {
    port: ThreadName,
    node: Weak<Node>,
}

impl Held {
    pub(crate) fn port(&self) -> ThreadName {
        self.port
    }

    pub(super) fn is_of(&self, node: &Arc<Node>) -> bool {
        std::ptr::eq(self.node.as_ptr(), Arc::as_ptr(node))
    }

    /// The same port, held by another process of the same program: as if a message had brought it there.
    pub(super) fn bring(self: &Arc<Self>, to: &Arc<Node>) -> Hold {
        let transfer = Arc::new(SenderTransfer::new(vec![Hold::clone(self)]));
        let from = self.node.upgrade().filter(|from| from.me() != to.me());
        let cover = from.and_then(|from| {
            let transfer = from.count(|counts| counts.pack(to.me(), transfer))?;
            Some(Arc::new(Unpacking { node: Arc::downgrade(to), from: from.me(), transfer }))
        });
        to.hold_port(self.port, cover)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.count(|counts| counts.release(self.port));
        }
    }
}

/// Keeps a sender counted in another process until it is counted here: the message that has brought it.
pub(super) type Cover = Arc<Unpacking>;

/// A message that has come and carries senders. When this is dropped, each of them is counted, or belongs to no port.
pub(crate) struct Unpacking {
    node: Weak<Node>,
    from: ProcessId,
    transfer: u64,
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.count(|counts| counts.unpack(self.from, self.transfer));
        }
    }
}

/// A process's counts, and the waiters for the ends of its ports.
pub(crate) struct Ports {
    counts: Mutex<State<Cover, Arc<SenderTransfer>>>,
    ends: Mutex<Vec<(Slot, IVar<()>)>>,
}

impl Ports {
    pub(crate) fn new(me: ProcessId, peers: impl Iterator<Item = ProcessId>) -> Self {
        Self { counts: Mutex::new(State::new(me, peers)), ends: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<Cover, Arc<SenderTransfer>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<(Slot, IVar<()>)>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Takes in a process that has joined: it may hold senders from now on.
    pub(crate) fn add_holder(&self, peer: ProcessId) {
        self.ports.lock().add(peer);
    }

    /// Changes the counts, and then does the resulting work without their lock.
    fn count<R>(&self, what: impl FnOnce(&mut State<Cover, Arc<SenderTransfer>>) -> R) -> R {
        let (result, leftover, word) = {
            let mut counts = self.ports.lock();
            let result = what(&mut counts);
            (result, counts.leftover(), counts.next_word(false))
        };
        self.say_all(word);
        let Leftover { covers, transfers, ended } = leftover;
        ended.into_iter().for_each(|port| self.end_port(port));
        // Their drops may come here again.
        drop((covers, transfers));
        result
    }

    fn say_all(&self, mut next: Option<(ProcessId, PortMessage)>) {
        while let Some((to, word)) = next {
            // A process that has gone need not be told.
            let _ = self.transmit_word(to, Lane::User, word);
            next = self.ports.lock().next_word(true);
        }
    }

    /// Ends a port without senders: nothing comes to its inbox any more.
    fn end_port(&self, port: Slot) {
        self.seal(port);
        let ended = {
            let mut ends = self.ports.ends();
            let at = ends.iter().position(|(slot, _)| *slot == port);
            at.map(|at| ends.swap_remove(at).1)
        };
        ended.inspect(|ended| _ = ended.put(()));
    }

    /// Opens a port with that slot. The returned variable is filled when the port has ended.
    pub(super) fn open_port(&self, port: Slot) -> IVar<()> {
        let ended = IVar::new();
        self.ports.ends().push((port, ended.clone()));
        self.count(|counts| counts.open(port));
        ended
    }

    pub(super) fn close_port(&self, port: Slot) {
        self.count(|counts| counts.close(port));
        self.ports.ends().retain(|(slot, _)| *slot != port);
    }

    /// Makes a hold of that port. `cover` keeps it counted until the home counts this process.
    pub(super) fn hold_port(self: &Arc<Self>, port: ThreadName, cover: Option<Cover>) -> Hold {
        self.count(|counts| counts.acquire(port, cover));
        Arc::new(Held { port, node: Arc::downgrade(self) })
    }

    /// Writes behind a body that leaves for `to` which senders it carries. Returns the transfer's number, if there is
    /// a transfer.
    pub(crate) fn pack(&self, to: ProcessId, body: &mut Body) -> Option<u64> {
        let transfer = body.take_transfer()?;
        let kept = Arc::clone(&transfer);
        let (number, packed) = self.count(move |counts| (counts.pack(to, kept), counts.packed(to)));
        if packed > MOST_PARCELS {
            self.give_up_on(to);
        }
        let number = number?;
        Contents::pack(body, &transfer, number);
        Some(number)
    }

    /// Undoes [`pack`](Self::pack) for a message that has not left.
    pub(crate) fn unpack_again(&self, to: ProcessId, number: u64) {
        self.count(|counts| counts.is_unpacked(to, number));
    }

    /// Holds the senders that an arrived `frame` carries. `None`: the frame is malformed.
    pub(crate) fn unpack(&self, from: ProcessId, frame: &mut Body) -> Option<()> {
        let (ports, transfer) = Contents::unpack(frame)?;
        let node = self.again()?;
        let unpacking = Arc::new(Unpacking { node: Arc::downgrade(&node), from, transfer });
        let holds = ports.into_iter().filter_map(|(process, slot)| {
            let port = self.name(process, slot);
            let cover = Arc::clone(&unpacking);
            let is_counted = self.count(|counts| {
                let hears = counts.hears(from);
                if hears {
                    counts.acquire(port, Some(cover));
                }
                hears
            });
            is_counted.then(|| Arc::new(Held { port, node: Arc::downgrade(&node) }))
        });
        frame.set_transfer(Some(Arc::new(SenderTransfer::new(holds.collect()))));
        Some(())
    }

    /// Handles a message about ports.
    pub(crate) fn hear_word(&self, from: ProcessId, word: PortMessage) {
        self.count(|counts| counts.hear(from, word));
    }

    /// A process has gone, and all that it has sent is in the inboxes.
    pub(crate) fn lose_holder(&self, peer: ProcessId) {
        self.count(|counts| counts.lose(peer));
    }
}
