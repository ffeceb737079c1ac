//! The counts of the senders of ports, as a process keeps them: messages that bring senders, and [holds](super::held).

use std::sync::{Arc, Weak};

use chanter::IVar;

use super::counts::{Leftover, MOST_PARCELS, State};
use super::held::{Counting, Cover, Held, Hold, Unpacking};
use super::message::PortMessage;
use crate::engine::{Lane, ProcessId};
use crate::name::ThreadName;
use crate::node::Node;
use crate::wire::{Body, Contents, SenderTransfer, Slot};

impl Counting for Node {
    fn process(&self) -> ProcessId {
        self.me()
    }

    fn pack_for(&self, to: ProcessId, hold: &Hold) -> Option<u64> {
        let transfer = Arc::new(SenderTransfer::new(vec![Hold::clone(hold)]));
        self.count(|counts| counts.pack(to, transfer))
    }

    fn release(&self, port: ThreadName) {
        self.count(|counts| counts.release(port));
    }

    fn unpacked(&self, from: ProcessId, transfer: u64) {
        self.count(|counts| counts.unpack(from, transfer));
    }
}

/// A node, as its holds see it.
fn counting(node: &Arc<Node>) -> Weak<dyn Counting> {
    let node: Weak<Node> = Arc::downgrade(node);
    node
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
        Arc::new(Held::new(port, counting(self)))
    }

    /// Whether a hold is one of this process.
    pub(super) fn has_hold(self: &Arc<Self>, hold: &Hold) -> bool {
        hold.process().is_some_and(|process| std::ptr::addr_eq(Arc::as_ptr(&process), Arc::as_ptr(self)))
    }

    /// The port of a hold of another process of the same program, held here: as if a message had brought it.
    pub(super) fn bring(self: &Arc<Self>, hold: &Hold) -> Hold {
        let from = hold.process().filter(|from| from.process() != self.me());
        let cover = from.and_then(|from| {
            let transfer = from.pack_for(self.me(), hold)?;
            Some(Arc::new(Unpacking::new(counting(self), from.process(), transfer)))
        });
        self.hold_port(hold.port(), cover)
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
        let unpacking = Arc::new(Unpacking::new(counting(&node), from, transfer));
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
            is_counted.then(|| Arc::new(Held::new(port, counting(&node))))
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
