//! Which large frame a receive of a large body is for.
//!
//! The bytes of large frames come by themselves, each class of a process in the order in which they were sent, and so do
//! their descriptors. MPI gives bytes to the receive of their class that was posted first. So the first receive that
//! is posted for a class of a process is for the first descriptor of it, and so on. This file records which
//! descriptor has which receive.
//!
//! ```text
//!                     (2) post, with a descriptor
//!    announced ─────────────────────────────────────► posted, owned ──────(4)─────► come, owned
//!        ▲                                                ▲                              ▲
//!        │ (1) there is none preposted                        │ (1)                          │ (1)
//!    a descriptor ────────────────────────────────── posted preposted ──────(4)─────► come, before its descriptor
//!                                                         ▲
//!    a large frame has come ──────────────────────────────┘ (3) post preposted
//! ```
//!
//! INV-PREPOSTED: for a class of a process one receive at most is posted that has no descriptor, and it was posted last.
//! * The reader of a descriptor gives it to that receive, if there is one (1). It is the first descriptor since that
//!   receive was posted, and all before it have theirs.
//! * Nothing is preposted while a descriptor of the class waits for a receive, or a receive for a descriptor (3).
//!
//! Each receive has a request: this is the most that are under way, with descriptors or without.

use std::collections::VecDeque;

use super::class::Class;

/// Largest number of announced bodies that are received at a time.
pub(super) const FILLS: usize = if cfg!(test) { 2 } else { 16 };
/// Largest number of preposted receives, and of bytes of their room.
pub(super) const PREPOSTED: usize = if cfg!(test) { 2 } else { 16 };
const AHEAD_BYTES: usize = 16 << 20;

/// The bodies of a class of a process.
pub(super) type Kind = (u32, Class);

/// A large body that was announced, before a receive is posted for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Announced {
    pub(super) number: u64,
    pub(super) kind: Kind,
}

/// A receive, by its place among all that were posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// A receive whose frame was not handed out yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Posted {
    ticket: Ticket,
    kind: Kind,
    /// Its descriptor, by number.
    owner: Option<u64>,
    has_come: bool,
}

/// Fate of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Its bytes are here: in that receive.
    Process(Ticket),
    /// They are expected.
    Coming,
    /// It waits for a receive.
    Waits,
}

/// Announced bodies, and posted receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Expected {
    announced: VecDeque<Announced>,
    posted: Vec<Posted>,
    last: u64,
    /// Receives under way with a descriptor, and without, and how much room these have.
    awaited: usize,
    preposted: usize,
    ahead_bytes: usize,
    #[cfg(test)]
    without: Option<Rule>,
}

impl Expected {
    /// Whether receives are under way whose frames are announced.
    #[inline]
    pub(super) fn has_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// (1) A descriptor was read.
    pub(super) fn announce(&mut self, number: u64, kind: Kind) -> Given {
        let is_preposted = |posted: &&mut Posted| posted.kind == kind && posted.owner.is_none();
        let gives = self.keeps(Rule::Give);
        let Some(posted) = self.posted.iter_mut().rev().find(is_preposted).filter(|_| gives) else {
            self.announced.push_back(Announced { number, kind });
            return Given::Waits;
        };
        posted.owner = Some(number);
        if posted.has_come {
            return Given::Process(posted.ticket);
        }
        self.preposted -= 1;
        self.ahead_bytes -= kind.1.longest();
        self.awaited += 1;
        Given::Coming
    }

    /// The next descriptor for which a receive is to be posted.
    pub(super) fn next(&mut self) -> Option<Announced> {
        if self.awaited < FILLS { self.announced.pop_front() } else { None }
    }

    /// (2) A receive was posted for a descriptor.
    pub(super) fn post(&mut self, Announced { number, kind }: Announced) -> Ticket {
        self.awaited += 1;
        self.push(kind, Some(number))
    }

    /// (3) Whether a receive may be preposted.
    pub(super) fn may_post_ahead(&self, kind: Kind) -> bool {
        self.preposted < PREPOSTED
            // There is a request for each. Of those that have come, some may not be handed out yet.
            && !(self.keeps(Rule::Room) && self.awaited + self.preposted >= FILLS + PREPOSTED)
            && self.ahead_bytes + kind.1.longest() <= AHEAD_BYTES
            && !(self.keeps(Rule::Wait) && self.announced.iter().any(|announced| announced.kind == kind))
            && !(self.keeps(Rule::One)
                && self.posted.iter().any(|posted| posted.kind == kind && posted.owner.is_none()))
    }

    /// (3) It was.
    pub(super) fn post_ahead(&mut self, kind: Kind) -> Ticket {
        self.preposted += 1;
        self.ahead_bytes += kind.1.longest();
        self.push(kind, None)
    }

    fn push(&mut self, kind: Kind, owner: Option<u64>) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        self.posted.push(Posted { ticket, kind, owner, has_come: false });
        ticket
    }

    /// (4) A receive is done. Whether its frame is announced.
    pub(super) fn came(&mut self, ticket: Ticket) -> bool {
        let Some(posted) = self.posted.iter_mut().find(|posted| posted.ticket == ticket) else {
            return false;
        };
        posted.has_come = true;
        if posted.owner.is_some() {
            self.awaited -= 1;
            return true;
        }
        self.preposted -= 1;
        self.ahead_bytes -= posted.kind.1.longest();
        false
    }

    /// Removes a receive, and returns the number of its frame.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<u64> {
        let at = self.posted.iter().position(|posted| posted.ticket == ticket)?;
        self.posted.remove(at).owner
    }

    /// Whether that receive has no descriptor.
    pub(super) fn is_preposted(&self, ticket: Ticket) -> bool {
        self.posted.iter().any(|posted| posted.ticket == ticket && posted.owner.is_none())
    }
}

/// Rule that a model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A descriptor is given to the receive that was preposted.
    Give,
    /// Nothing is preposted while a descriptor waits.
    Wait,
    /// One receive is preposted.
    One,
    /// Receives are preposted while there are requests for them.
    Room,
}

impl Expected {
    #[cfg(not(test))]
    #[inline]
    fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    #[cfg(test)]
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

#[cfg(test)]
mod tests;
