//! The holders of calls that may be forwarded: the rules of INV-FORWARDED (see `raw.rs`), without the messages that
//! carry them out.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::ProcessId;

/// The rules. The program keeps all of them; a model leaves one out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether the caller keeps the last holder that it has heard of, by the count of forwards (2).
    pub(super) counts: bool,
    /// Whether a caller that hears of a later holder checks if that has gone already (2).
    pub(super) looks: bool,
}

impl Rules {
    const ALL: Self = Self { counts: true, looks: true };
}

/// Pending calls, with the data that their caller keeps of each. They are behind the caller's lock.
pub(super) struct Pending<P> {
    calls: HashMap<u64, Call<P>, RandomState>,
    /// Number of calls that were made.
    made: u64,
    pub(super) rules: Rules,
}

struct Call<P> {
    /// The process that has the call, as far as the caller knows.
    holder: ProcessId,
    /// Ordinal of the call, which gives the order in which calls were made.
    made: u64,
    /// Number of times that it was forwarded; `None` if it may not be.
    forwarded: Option<u32>,
    kept: P,
}

impl<P> Default for Pending<P> {
    fn default() -> Self {
        Self { calls: HashMap::default(), made: 0, rules: Rules::ALL }
    }
}

/// The meaning, for a caller, of a message about a later holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The call may not be forwarded.
    MayNot,
    /// The call has ended, or its caller has heard of a later holder.
    Before,
    /// The named process has the call. The caller checks, after its own lock, whether that process has gone. Either
    /// it sees that, or the handler of the process's end finds the call.
    Look,
    /// Like `Look`, but the caller does not check.
    Has,
}

impl<P> Pending<P> {
    pub(super) fn insert(&mut self, request: u64, holder: ProcessId, may_be_forwarded: bool, kept: P) {
        self.made += 1;
        let forwarded = may_be_forwarded.then_some(0);
        self.calls.insert(request, Call { holder, made: self.made, forwarded, kept });
    }

    /// The holder of a call, and its data.
    pub(super) fn get_mut(&mut self, request: u64) -> Option<(ProcessId, &mut P)> {
        let call = self.calls.get_mut(&request)?;
        Some((call.holder, &mut call.kept))
    }

    /// Whether an answer belongs to that call. A later holder may answer before the caller hears of it. Then it knows
    /// the request's number, which only a holder can have given it (INV-FORWARDED 5).
    pub(super) fn may_answer(&self, request: u64, by: ProcessId, forwarded: u32) -> bool {
        let Some(call) = self.calls.get(&request) else { return false };
        call.holder == by || call.forwarded.is_some_and(|known| forwarded > known)
    }

    /// Notes that the call was forwarded to `to`, after `forwarded` forwards in all.
    pub(super) fn hear(&mut self, request: u64, to: ProcessId, forwarded: u32) -> Heard {
        let Some(call) = self.calls.get_mut(&request) else { return Heard::Before };
        let Some(known) = &mut call.forwarded else { return Heard::MayNot };
        if self.rules.counts && forwarded <= *known {
            return Heard::Before;
        }
        *known = forwarded;
        call.holder = to;
        if self.rules.looks { Heard::Look } else { Heard::Has }
    }

    /// The calls that a process has, in the order in which they were made.
    pub(super) fn of(&self, holder: ProcessId) -> Vec<u64> {
        let of = self.calls.iter().filter(|(_, call)| call.holder == holder);
        let mut requests: Vec<(u64, u64)> = of.map(|(request, call)| (call.made, *request)).collect();
        requests.sort_unstable();
        requests.into_iter().map(|(_, request)| request).collect()
    }

    /// Ends a call. Returns its holder and its data.
    pub(super) fn end(&mut self, request: u64) -> Option<(ProcessId, P)> {
        let call = self.calls.remove(&request)?;
        Some((call.holder, call.kept))
    }
}

/// The place of a duty that its holder may forward.
#[derive(Debug)]
pub(super) struct Place<O>(Mutex<Option<O>>);

impl<O> Place<O> {
    pub(super) fn new(duty: O) -> Self {
        Self(Mutex::new(Some(duty)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<O>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the duty, to answer or forward it: only one taker gets it.
    pub(super) fn take(&self) -> Option<O> {
        self.lock().take()
    }

    /// Puts back a duty that could not be forwarded.
    pub(super) fn put_back(&self, duty: O) {
        *self.lock() = Some(duty);
    }
}

/// The types that loom replaces.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
    #[cfg(not(loom))]
    pub(super) use std::sync::{Mutex, MutexGuard};
}
