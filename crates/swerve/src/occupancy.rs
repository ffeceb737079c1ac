//! The connections, and the time that each has been without a request. A full server asks the one that has been idle
//! for longest to leave.
//!
//! Invariant IDLE-1: while a newcomer waits and a connection is idle, somebody is asked to leave. The manager
//! sets `is_wanted` first and looks at each [`Presence`] afterwards, under its lock. A connection that becomes idle
//! notes that under the same lock and reads `is_wanted` there. If it comes to the lock first, the manager sees
//! it idle. If the manager comes first, the connection sees that it is wanted, and says so ([`Note::Look`]).
//!
//! To be asked is no order. A connection that has been given a request meanwhile stays, and says so: then the manager
//! asks another. So no request is lost, and none waits behind a download.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chanter::prelude::*;

/// Number of the longest idle connections that are remembered from one look at all.
const REMEMBERED: usize = 64;

/// A message from a connection to the manager.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The connection with this number has ended.
    Ended(u64),
    /// A newcomer waits, and there is reason to look who is idle.
    Look,
}

/// A connection, as the manager and the connection itself see it.
#[derive(Debug)]
pub(crate) struct Presence {
    id: u64,
    /// `None`: it is not idle, or has been asked to leave.
    idle_since: Mutex<Option<Instant>>,
    /// Whether a newcomer waits.
    is_wanted: Arc<AtomicBool>,
    notes: Sender<Note>,
    ask: Sender<()>,
    asked: Receiver<()>,
}

impl Presence {
    /// Called by the connection: it has been idle since then, or (`None`) is not idle any more.
    pub(crate) fn set_idle(&self, since: Option<Instant>) {
        let mut idle_since = self.idle_since();
        *idle_since = since;
        // ORDER: Relaxed: the lock orders it; see IDLE-1.
        let tells = since.is_some() && self.is_wanted.load(Relaxed);
        drop(idle_since);
        if tells {
            self.stays();
        }
    }

    /// The event that the connection is asked to leave, if it is still idle.
    pub(crate) fn asked_to_leave(&self) -> impl Event<Output = ()> + Send {
        // The sending end is never dropped before this one.
        self.asked.recv().wrap(|_| ())
    }

    /// Called by the connection, which was asked to leave and does not, as it has a request.
    pub(crate) fn stays(&self) {
        self.note(Note::Look);
    }

    /// Called by the manager: asks the connection to leave.
    pub(crate) fn ask_to_leave(&self) {
        // Full: it has been asked before, and has yet to hear of it.
        let _ = self.ask.try_send(());
    }

    fn note(&self, note: Note) {
        // A mailbox is never full, and nobody minds when the manager has gone.
        let _ = self.notes.try_send(note);
    }

    fn idle_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard that notes the end of a connection when it is dropped, also after a panic.
pub(crate) struct Ending(Arc<Presence>);

impl Ending {
    pub(crate) fn of(presence: &Arc<Presence>) -> Ending {
        Ending(presence.clone())
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.note(Note::Ended(self.0.id));
    }
}

/// All connections, as the manager sees them.
pub(crate) struct Occupancy {
    present: HashMap<u64, Arc<Presence>>,
    entered: u64,
    is_wanted: Arc<AtomicBool>,
    notes: Sender<Note>,
    /// Connections that had been idle for longest at the last look, the longest first. A connection that has become
    /// idle since then has been idle for less long than all of these.
    longest_idle: VecDeque<(Instant, u64)>,
}

impl Occupancy {
    /// Makes an empty list, and the channel to which the notes come.
    pub(crate) fn new() -> (Occupancy, Receiver<Note>) {
        let (notes, noted) = mailbox();
        let occupancy = Occupancy {
            present: HashMap::new(),
            entered: 0,
            is_wanted: Arc::default(),
            notes,
            longest_idle: VecDeque::new(),
        };
        (occupancy, noted)
    }

    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// Number of connections that have ever come.
    pub(crate) fn entered(&self) -> u64 {
        self.entered
    }

    /// Adds a connection, which is not idle.
    pub(crate) fn enter(&mut self) -> Arc<Presence> {
        self.entered += 1;
        let (ask, asked) = bounded(1);
        let presence = Arc::new(Presence {
            id: self.entered,
            idle_since: Mutex::new(None),
            is_wanted: self.is_wanted.clone(),
            notes: self.notes.clone(),
            ask,
            asked,
        });
        self.present.insert(self.entered, presence.clone());
        presence
    }

    /// Removes a connection that has ended.
    pub(crate) fn leave(&mut self, id: u64) {
        self.present.remove(&id);
    }

    /// Asks the connection that has been idle for longest to leave, as a newcomer waits. If none is idle, the next one
    /// that becomes idle sends a note.
    pub(crate) fn make_room(&mut self) {
        // ORDER: Relaxed: the locks below order it; see IDLE-1.
        self.is_wanted.store(true, Relaxed);
        if !self.ask_remembered() {
            self.look();
            self.ask_remembered();
        }
    }

    /// Notes that no newcomer waits any more.
    pub(crate) fn has_room(&self) {
        // ORDER: Relaxed: a connection that reads it too late sends a note that nobody needs.
        self.is_wanted.store(false, Relaxed);
    }

    /// Asks the first of the remembered connections that is still idle. `false`: none is.
    fn ask_remembered(&mut self) -> bool {
        while let Some((since, id)) = self.longest_idle.pop_front() {
            let Some(presence) = self.present.get(&id) else { continue };
            let mut idle_since = presence.idle_since();
            if *idle_since == Some(since) {
                *idle_since = None;
                drop(idle_since);
                presence.ask_to_leave();
                return true;
            }
        }
        false
    }

    fn look(&mut self) {
        let idle =
            self.present.values().filter_map(|presence| Some(((*presence.idle_since())?, presence.id)));
        let mut idle: Vec<(Instant, u64)> = idle.collect();
        if idle.len() > REMEMBERED {
            idle.select_nth_unstable(REMEMBERED);
            idle.truncate(REMEMBERED);
        }
        idle.sort_unstable();
        self.longest_idle = idle.into();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn is_asked(presence: &Presence) -> bool {
        presence.asked.try_recv().is_ok()
    }

    #[test]
    fn the_longest_idle_is_asked_first() {
        let (mut occupancy, noted) = Occupancy::new();
        let all: Vec<_> = (0..2 * REMEMBERED as u64).map(|_| occupancy.enter()).collect();
        let began = Instant::now();
        // Not in the order in which they came.
        for (i, presence) in all.iter().enumerate() {
            presence.set_idle(Some(began + Duration::from_secs((i * 37 % all.len()) as u64)));
        }
        let mut asked = Vec::new();
        for _ in 0..all.len() {
            occupancy.make_room();
            let one: Vec<_> = (0..all.len()).filter(|i| is_asked(&all[*i])).collect();
            assert_eq!(one.len(), 1);
            asked.push(one[0] * 37 % all.len());
        }
        assert!(asked.is_sorted(), "{asked:?}");
        occupancy.make_room();
        assert!(!all.iter().any(|presence| is_asked(presence)), "each is asked once");
        assert!(noted.try_recv().is_err());
    }

    /// IDLE-1, one after the other.
    #[test]
    fn who_becomes_idle_says_so_if_it_is_wanted() {
        let (mut occupancy, noted) = Occupancy::new();
        let (one, other) = (occupancy.enter(), occupancy.enter());
        one.set_idle(Some(Instant::now()));
        one.set_idle(None);
        assert!(noted.try_recv().is_err(), "nobody wants to know");
        occupancy.make_room();
        assert!(!is_asked(&one) && !is_asked(&other), "both have requests");
        other.set_idle(Some(Instant::now()));
        assert_eq!(noted.try_recv().unwrap(), Note::Look);
        occupancy.make_room();
        assert!(is_asked(&other));
        // It has a request after all.
        other.stays();
        assert_eq!(noted.try_recv().unwrap(), Note::Look);
        occupancy.has_room();
        one.set_idle(Some(Instant::now()));
        assert!(noted.try_recv().is_err());
        drop(Ending::of(&one));
        assert_eq!(noted.try_recv().unwrap(), Note::Ended(one.id));
        occupancy.leave(one.id);
        assert_eq!((occupancy.len(), occupancy.entered()), (1, 2));
    }

    /// IDLE-1, at the same time: each round ends with somebody who is asked.
    #[test]
    fn somebody_is_asked_whoever_comes_first() {
        for _ in 0..2_000 {
            let (mut occupancy, noted) = Occupancy::new();
            let presence = occupancy.enter();
            let there = presence.clone();
            let thread = std::thread::spawn(move || there.set_idle(Some(Instant::now())));
            occupancy.make_room();
            thread.join().unwrap();
            if !is_asked(&presence) {
                assert_eq!(noted.try_recv().unwrap(), Note::Look);
                occupancy.make_room();
                assert!(is_asked(&presence));
            }
        }
    }
}
