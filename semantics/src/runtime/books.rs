//! The books of one run: which strands run, and which messages are on their way. They know when nothing can happen
//! any more.
//!
//! **The claim.** When no strand runs and no message is halfway, the program is at rest for good.
//! *Argument.* A strand is booked as running from before it is spawned until it ends, except
//! while a synchronization of its own is pending; it gives processors away in between, but stays
//! booked. So if none runs, each one is in a pending synchronization. It can leave that only by a
//! commit, since there are no timers and nobody outside. A commit has two sides, and one of them is made in a poll.
//! Its strand is booked as running then, and books its side of the message before it stops. If the other side had not
//! been booked yet, the message would be halfway.
//!
//! The claim uses nothing but the contract of events, and no clock. A runtime that loses a wake or
//! a message leaves the message halfway for ever; one that delivers a message twice books it twice.
//! Both are reported.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::Trouble;
use crate::value::Name;

/// The number of a message.
pub(super) type Serial = u64;

/// A side of a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Sent,
    Received,
}

/// How long a run may take. It only bounds how late a hang is reported.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Default)]
pub(super) struct Books {
    entries: Mutex<Entries>,
    changed: Condvar,
}

#[derive(Default)]
struct Entries {
    /// Strands that are not in a pending synchronization.
    running: usize,
    /// Strands that have not ended.
    alive: usize,
    /// The sides that were booked: `None` for both.
    messages: HashMap<Serial, Option<Side>>,
    /// Messages with one booked side.
    halfway: usize,
    synchronizations: usize,
    trouble: Option<String>,
}

impl Entries {
    fn is_at_rest(&self) -> bool {
        self.running == 0 && self.halfway == 0
    }
}

impl Books {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A strand is about to be spawned.
    pub(super) fn begin(&self) {
        let mut entries = self.entries();
        entries.running += 1;
        entries.alive += 1;
    }

    /// A running strand ends.
    pub(super) fn end(&self) {
        let mut entries = self.entries();
        entries.running -= 1;
        entries.alive -= 1;
        self.changed.notify_all();
    }

    /// A strand was dropped before its end.
    pub(super) fn lost(&self, name: &Name, was_running: bool) {
        let mut entries = self.entries();
        entries.running -= usize::from(was_running);
        entries.alive -= 1;
        entries.trouble.get_or_insert_with(|| format!("{name} was dropped, or panicked"));
        self.changed.notify_all();
    }

    /// A synchronization of a running strand is pending.
    pub(super) fn block(&self) {
        let mut entries = self.entries();
        entries.running -= 1;
        if entries.is_at_rest() {
            self.changed.notify_all();
        }
    }

    /// A strand whose synchronization was pending is polled again.
    pub(super) fn resume(&self) {
        self.entries().running += 1;
    }

    /// A running strand begins a synchronization; how many there were.
    pub(super) fn synchronize(&self) -> usize {
        let mut entries = self.entries();
        entries.synchronizations += 1;
        entries.synchronizations
    }

    /// A running strand has committed its side of a message.
    pub(super) fn book(&self, serial: Serial, side: Side) {
        let mut entries = self.entries();
        match entries.messages.insert(serial, Some(side)) {
            None => entries.halfway += 1,
            Some(Some(other)) if other != side => {
                entries.messages.insert(serial, None);
                entries.halfway -= 1;
            }
            Some(_) => drop(entries.trouble.replace(format!("message {serial} was {side:?} twice"))),
        }
        self.changed.notify_all();
    }

    /// Something is wrong.
    pub(super) fn fail(&self, what: String) {
        self.entries().trouble.get_or_insert(what);
        self.changed.notify_all();
    }

    /// Waits until the program is at rest.
    pub(super) fn wait_for_rest(&self) -> Result<(), Trouble> {
        self.wait("the program does not come to rest", Entries::is_at_rest)
    }

    /// Waits until `left` strands have not ended.
    pub(super) fn wait_for_end(&self, left: usize) -> Result<(), Trouble> {
        self.wait("a closed channel did not end its waits", |entries| entries.alive == left)
    }

    fn wait(&self, failure: &str, condition: impl Fn(&Entries) -> bool) -> Result<(), Trouble> {
        let waits = |entries: &mut Entries| entries.trouble.is_none() && !condition(entries);
        let (entries, timeout) = self
            .changed
            .wait_timeout_while(self.entries(), PATIENCE, waits)
            .unwrap_or_else(|e| e.into_inner());
        if let Some(trouble) = &entries.trouble {
            return Err(Trouble(trouble.clone()));
        }
        if timeout.timed_out() {
            let Entries { running, alive, halfway, .. } = *entries;
            return Err(Trouble(format!(
                "{failure}: {alive} strands, {running} of them running, {halfway} messages halfway"
            )));
        }
        Ok(())
    }
}
