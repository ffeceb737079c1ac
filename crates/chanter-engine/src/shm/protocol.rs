//! The two protocols of a segment, as the engine uses them.

use std::sync::Arc;

use super::mapping::{Mapping, Protocol};
use super::pull::{self, Found, Info, Memory, Quota, SlotsNeeded, Watches};
use super::push::{self, Places};

/// The sender's side.
pub(super) enum Outgoing {
    Pull(pull::Outgoing),
    Push(push::Outgoing),
}

impl Outgoing {
    pub(super) fn new(me: usize, quota: Quota, memory: &Mapping) -> Self {
        match memory.protocol() {
            Protocol::Pull => Self::Pull(pull::Outgoing::new(me, quota, memory)),
            Protocol::Push => Self::Push(push::Outgoing::new(me, memory)),
        }
    }

    /// Sends a piece.
    ///
    /// # Errors
    /// There is no slot for the piece.
    #[inline]
    pub(super) fn send(
        &mut self,
        memory: &Mapping,
        to: usize,
        info: Info,
        bytes: &[u8],
    ) -> Result<(), SlotsNeeded> {
        match self {
            Self::Pull(pull) => pull.send(memory, to, info, bytes),
            Self::Push(push) => push.send(memory, to, info, bytes),
        }
    }

    /// Number of the pieces published for the receiver `to`.
    #[inline]
    pub(super) fn number(&self, to: usize) -> u64 {
        match self {
            Self::Pull(pull) => pull.number(to),
            Self::Push(push) => push.number(to),
        }
    }

    /// Notes that a receiver has left.
    pub(super) fn has_left(&mut self, receiver: usize) {
        if let Self::Pull(pull) = self {
            pull.has_left(receiver);
        }
    }

    /// Takes back all slots published for a receiver that has gone. Those of push are the receiver's.
    pub(super) fn forget(&mut self, memory: &Mapping, to: usize) {
        if let Self::Pull(pull) = self {
            pull.forget(memory, to);
        }
    }
}

/// The receiver's side.
pub(super) enum Incoming {
    Pull(pull::Incoming),
    Push(push::Incoming),
}

impl Incoming {
    pub(super) fn new(me: usize, memory: &Mapping) -> Self {
        match memory.protocol() {
            Protocol::Pull => Self::Pull(pull::Incoming::new(me, memory)),
            Protocol::Push => Self::Push(push::Incoming::new(me, memory)),
        }
    }

    pub(super) fn places(&self) -> LookedAt {
        match self {
            Self::Pull(pull) => LookedAt::Pull(pull.watches()),
            Self::Push(push) => LookedAt::Push(push.places()),
        }
    }

    /// Takes the next piece.
    // Inlined as the callee is, so that the result lies in registers.
    #[inline(always)]
    pub(super) fn take<'a>(&mut self, memory: &'a Mapping) -> Found<'a> {
        match self {
            Self::Pull(pull) => pull.take(memory),
            Self::Push(push) => push.take(memory),
        }
    }

    /// Looks for all pieces that lie there now.
    pub(super) fn scan(&mut self, memory: &Mapping) {
        match self {
            Self::Pull(pull) => pull.scan(memory),
            Self::Push(push) => push.scan(memory),
        }
    }

    /// Whether pieces are left that the last scan has found.
    pub(super) fn is_scanning(&self, memory: &Mapping) -> bool {
        match self {
            Self::Pull(pull) => pull.is_scanning(),
            Self::Push(push) => push.is_scanning(memory),
        }
    }

    /// Forgets what a process that has gone had begun.
    pub(super) fn forget(&mut self, memory: &Mapping, gone: usize) {
        if let Self::Push(push) = self {
            push.forget(memory, gone);
        }
    }

    /// Calls `tell` with each process that may have room since the last call.
    #[inline]
    pub(super) fn freed(&mut self, tell: impl FnMut(usize)) {
        match self {
            Self::Pull(pull) => pull.freed().for_each(tell),
            Self::Push(push) => push.freed().for_each(tell),
        }
    }

    /// Whether an invalid state was found.
    #[inline]
    pub(super) fn is_odd(&self) -> bool {
        match self {
            Self::Pull(pull) => pull.is_odd(),
            Self::Push(push) => push.is_odd(),
        }
    }

    /// Takes the list of processes of which an invalid state was found since the last call.
    pub(super) fn odd(&mut self) -> Vec<usize> {
        match self {
            Self::Pull(pull) => pull.odd().collect(),
            Self::Push(push) => push.odd().collect(),
        }
    }

    /// The number of the next piece from that process.
    pub(super) fn expected(&self, from: usize) -> u64 {
        match self {
            Self::Pull(pull) => pull.expected(from),
            Self::Push(push) => push.expected(from),
        }
    }
}

/// The places at which a thread looks before it sleeps.
pub(super) enum LookedAt {
    Pull(Arc<Watches>),
    Push(Arc<Places>),
}

impl LookedAt {
    /// Whether a piece lies in a slot for process `me`.
    #[inline]
    pub(super) fn has_work(&self, memory: &Mapping, me: usize) -> bool {
        match self {
            // The tail first: a thread that empties it has set the watched places before.
            Self::Pull(watches) => memory.port(me).has_work() || watches.has_work(memory),
            Self::Push(places) => places.has_work(memory),
        }
    }
}
