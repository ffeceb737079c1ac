//! The counts of a port's senders: the knowledge of one process, and its messages to others.
//!
//! A process *holds* a port while anything in it stands for a sender. That is a [`PortSender`](super::PortSender), an
//! [`Outlet`](super::Outlet), or a message that carries one, on its way out or kept in an inbox. The port's home
//! counts the processes that hold it. The port ends when the last of them has said that it no longer holds the port,
//! or has gone.
//!
//! ```text
//!   P (holds) ── message, "it carries senders of these ports: parcel 7" ──► R
//!                                                     R ── hold ──► home: R is counted
//!                                                     home ── held ──► R
//!   P drops what it kept for transfer 7  ◄── unpacked 7 ── R
//! ```
//!
//! INV-PORT: *if a process that the home has not lost has a sender, or a message with a sender is on its way to one, the home
//! counts a process, or waits for what others say of the dead.* So a port never ends too early, and it ends once.
//!
//! 1. A process that sends a sender keeps its own hold (the *transfer*) until the receiver has unpacked it, that is, until the
//!    home has said that it counts the receiver. A message that is dropped before it left, or is never read, drops its holds
//!    as any other owner does.
//! 2. The messages between two processes keep their order. So a home hears *hold* before *release* of the same process. It
//!    hears *release* after all messages that the process has sent: these are in the port when it ends.
//! 3. When a process X has died, its share is gone. But X may have passed senders on to a process that is not counted
//!    yet. So the home asks all others whether they know that X has gone (*sees*). It does not end a port before they
//!    have said so (*seen*) or have gone themselves. A process that says so has read everything of X (law D3), and has
//!    said *hold* for all senders that it got. The home has heard that before.
//! 4. A process that has sent senders to X asks the same, and keeps its transfers meanwhile. Otherwise its *release* might
//!    reach a home that has not heard yet what X has said.
//!
//! The proof is by induction over the way of a sender from the home. Its holder was counted, or has it by a transfer of a
//! process that has not dropped the transfer (1, 4) or has died (3).
//!
//! All of this is a state machine under one lock. Its messages keep their order in the [outbox](State::next_word),
//! and it never calls other code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::message::PortMessage;
use crate::engine::ProcessId;
use crate::name::ThreadName;
use crate::wire::Slot;

/// Largest number of transfers that a process may leave without unpacking them. The process is given up if there are
/// more.
pub(super) const MOST_PARCELS: usize = 1 << 16;

/// Largest number of holds that wait for their homes' answers. Further senders that arrive meanwhile do not count.
pub(super) const MOST_UNANSWERED: usize = 1 << 16;

/// The counts of a process, by the rules of this module. A `C` keeps a sender counted in another process as long as it
/// lives. A `P` holds the senders that a message carries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct State<C, P> {
    me: ProcessId,
    /// All processes that were there at the start, or have joined since.
    peers: BTreeSet<ProcessId>,
    lost: BTreeSet<ProcessId>,
    last: u64,
    /// The ports that this process holds.
    held: BTreeMap<ThreadName, Own>,
    /// The covers that keep holds counted until their homes have answered, by request, with the home's process.
    unanswered: BTreeMap<u64, (ProcessId, Vec<C>)>,
    /// The transfers of messages that were not unpacked, by receiver and number.
    transfers: BTreeMap<(ProcessId, u64), P>,
    /// The ports whose home is here.
    homes: BTreeMap<Slot, Home>,
    /// The processes that have gone, each with those that have not confirmed it yet.
    unseen: BTreeMap<ProcessId, BTreeSet<ProcessId>>,
    /// The living processes whose end was asked about, each with the processes to be told.
    watched: BTreeMap<ProcessId, BTreeSet<ProcessId>>,
    outbox: VecDeque<(ProcessId, PortMessage)>,
    /// True while a thread sends from the outbox.
    is_talking: bool,
    leftover: Leftover<C, P>,
}

/// A port that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Own {
    owners: u64,
    request: u64,
}

/// A port whose home is here.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Home {
    holders: BTreeSet<ProcessId>,
    /// True once some process has had a sender.
    was_held: bool,
    has_ended: bool,
}

/// Work to be done without the lock: values to drop, and ports that have ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Leftover<C, P> {
    pub(super) covers: Vec<C>,
    pub(super) transfers: Vec<P>,
    pub(super) ended: Vec<Slot>,
}

impl<C, P> Default for Leftover<C, P> {
    fn default() -> Self {
        Self { covers: Vec::new(), transfers: Vec::new(), ended: Vec::new() }
    }
}

impl<C, P> State<C, P> {
    pub(super) fn new(me: ProcessId, peers: impl Iterator<Item = ProcessId>) -> Self {
        Self {
            me,
            peers: peers.filter(|peer| *peer != me).collect(),
            lost: BTreeSet::new(),
            last: 0,
            held: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            transfers: BTreeMap::new(),
            homes: BTreeMap::new(),
            unseen: BTreeMap::new(),
            watched: BTreeMap::new(),
            outbox: VecDeque::new(),
            is_talking: false,
            leftover: Leftover::default(),
        }
    }

    /// Takes in a process that has joined.
    pub(super) fn add(&mut self, peer: ProcessId) {
        self.peers.insert(peer);
    }

    /// The next message and its receiver. One thread at a time sends them, in order.
    pub(super) fn next_word(&mut self, goes_on: bool) -> Option<(ProcessId, PortMessage)> {
        if self.is_talking && !goes_on {
            return None;
        }
        let word = self.outbox.pop_front();
        self.is_talking = word.is_some();
        word
    }

    /// Takes the work that is to be done without the lock.
    pub(super) fn leftover(&mut self) -> Leftover<C, P> {
        std::mem::take(&mut self.leftover)
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn say(&mut self, to: ProcessId, word: PortMessage) {
        self.outbox.push_back((to, word));
    }

    // Senders in this process.

    /// Adds an owner of a hold here. `cover` keeps it counted until the home counts this process.
    pub(super) fn acquire(&mut self, port: ThreadName, cover: Option<C>) {
        let home = port.process;
        let is_there = home == self.me || self.peers.contains(&home) && !self.lost.contains(&home);
        if !is_there {
            self.leftover.covers.extend(cover);
            return;
        }
        let request = match self.held.get_mut(&port) {
            Some(own) => {
                own.owners += 1;
                own.request
            }
            None => {
                let request = self.number();
                self.held.insert(port, Own { owners: 1, request });
                if home == self.me {
                    self.hold(home, port.thread);
                } else {
                    self.unanswered.insert(request, (home, Vec::new()));
                    self.say(home, PortMessage::Hold { port: port.thread, request });
                }
                request
            }
        };
        match self.unanswered.get_mut(&request) {
            Some((_, covers)) => covers.extend(cover),
            // The home counts this process already.
            None => self.leftover.covers.extend(cover),
        }
    }

    /// Removes an owner of a hold here.
    pub(super) fn release(&mut self, port: ThreadName) {
        // Nothing is held of a home that has gone.
        let Some(own) = self.held.get_mut(&port) else { return };
        own.owners -= 1;
        if own.owners > 0 {
            return;
        }
        self.held.remove(&port);
        if port.process == self.me {
            self.let_go(self.me, port.thread);
        } else {
            self.say(port.process, PortMessage::Release { port: port.thread });
        }
    }

    /// The home counts this process now.
    pub(super) fn is_held(&mut self, by: ProcessId, request: u64) {
        if self.unanswered.get(&request).is_some_and(|(home, _)| *home == by)
            && let Some((_, covers)) = self.unanswered.remove(&request)
        {
            self.leftover.covers.extend(covers);
        }
    }

    // Messages that carry senders.

    /// A message that carries `transfer` leaves for `to`: its number. `None`: that process has gone.
    pub(super) fn pack(&mut self, to: ProcessId, transfer: P) -> Option<u64> {
        if self.lost.contains(&to) {
            self.leftover.transfers.push(transfer);
            return None;
        }
        let number = self.number();
        self.transfers.insert((to, number), transfer);
        Some(number)
    }

    /// Number of messages that `by` has not unpacked.
    pub(super) fn packed(&self, by: ProcessId) -> usize {
        self.transfers.range((by, 0)..=(by, u64::MAX)).count()
    }

    /// Ends a transfer: its message was unpacked, or has not left.
    pub(super) fn is_unpacked(&mut self, by: ProcessId, number: u64) {
        self.leftover.transfers.extend(self.transfers.remove(&(by, number)));
    }

    /// Tells `from` that the senders in its message are counted for this process, or dropped.
    pub(super) fn unpack(&mut self, from: ProcessId, number: u64) {
        if !self.lost.contains(&from) {
            self.say(from, PortMessage::Unpacked { transfer: number });
        }
    }

    /// Whether senders that come from a process count.
    pub(super) fn hears(&self, from: ProcessId) -> bool {
        !self.lost.contains(&from) && self.unanswered.len() < MOST_UNANSWERED
    }

    // Ports of this process.

    pub(super) fn open(&mut self, port: Slot) {
        self.homes.insert(port, Home::default());
    }

    pub(super) fn close(&mut self, port: Slot) {
        self.homes.remove(&port);
    }

    fn hold(&mut self, by: ProcessId, port: Slot) {
        if let Some(home) = self.homes.get_mut(&port)
            && !home.has_ended
        {
            home.holders.insert(by);
            home.was_held = true;
        }
    }

    fn let_go(&mut self, by: ProcessId, port: Slot) {
        if let Some(home) = self.homes.get_mut(&port) {
            home.holders.remove(&by);
        }
        self.see_who_has_ended();
    }

    fn see_who_has_ended(&mut self) {
        if !self.unseen.is_empty() {
            return;
        }
        for (port, home) in &mut self.homes {
            if home.was_held && !home.has_ended && home.holders.is_empty() {
                home.has_ended = true;
                self.leftover.ended.push(*port);
            }
        }
    }

    // Messages of others.

    pub(super) fn hear(&mut self, from: ProcessId, word: PortMessage) {
        if self.lost.contains(&from) {
            return;
        }
        match word {
            PortMessage::Hold { port, request } => {
                self.hold(from, port);
                self.say(from, PortMessage::Held { request });
            }
            PortMessage::Held { request } => self.is_held(from, request),
            PortMessage::Release { port } => self.let_go(from, port),
            PortMessage::Unpacked { transfer } => self.is_unpacked(from, transfer),
            PortMessage::Confirm { process } if process == self.me || process == from => {}
            PortMessage::Confirm { process }
                if self.peers.contains(&process) && !self.lost.contains(&process) =>
            {
                self.watched.entry(process).or_default().insert(from);
            }
            // A process that is not known here went before this one came, or it does not get in. (All have to await it,
            // and the asker does so no longer.)
            PortMessage::Confirm { process } => self.say(from, PortMessage::Confirmed { process }),
            PortMessage::Confirmed { process } => {
                self.is_seen(process, from);
                self.see_who_has_ended();
            }
        }
    }

    /// `by` knows that `lost` has gone. When all know, the transfers to it are dropped.
    fn is_seen(&mut self, lost: ProcessId, by: ProcessId) {
        let Some(unseen) = self.unseen.get_mut(&lost) else { return };
        unseen.remove(&by);
        if unseen.is_empty() {
            self.unseen.remove(&lost);
            let mut transfers = self.transfers.split_off(&(lost, 0));
            self.transfers.append(&mut transfers.split_off(&(lost, u64::MAX)));
            self.leftover.transfers.extend(transfers.into_values());
        }
    }

    /// Forgets a process that has gone, once all its messages have been heard.
    pub(super) fn lose(&mut self, peer: ProcessId) {
        if !self.lost.insert(peer) {
            return;
        }
        self.held.retain(|port, _| port.process != peer);
        let (gone, unanswered) =
            std::mem::take(&mut self.unanswered).into_iter().partition(|(_, (home, _))| *home == peer);
        self.unanswered = unanswered;
        let gone: BTreeMap<_, (ProcessId, Vec<C>)> = gone;
        self.leftover.covers.extend(gone.into_values().flat_map(|(_, covers)| covers));
        // This message follows all those about the senders that it has sent.
        for asker in self.watched.remove(&peer).unwrap_or_default() {
            self.say(asker, PortMessage::Confirmed { process: peer });
        }
        self.watched.values_mut().for_each(|askers| _ = askers.remove(&peer));
        let asked: Vec<ProcessId> = self.unseen.keys().copied().collect();
        asked.into_iter().for_each(|lost| self.is_seen(lost, peer));
        self.homes.values_mut().for_each(|home| _ = home.holders.remove(&peer));
        let has_homes = self.homes.values().any(|home| home.was_held && !home.has_ended);
        if has_homes || self.packed(peer) > 0 {
            let others: BTreeSet<ProcessId> = self.peers.difference(&self.lost).copied().collect();
            for other in &others {
                self.say(*other, PortMessage::Confirm { process: peer });
            }
            self.unseen.insert(peer, others);
            self.is_seen(peer, peer);
        }
        self.see_who_has_ended();
    }

    /// Whether no answer, transfer or message is outstanding.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.unanswered.is_empty() && self.transfers.is_empty() && self.outbox.is_empty()
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
