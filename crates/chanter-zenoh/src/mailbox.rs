//! The mailbox between Zenoh's threads, which put frames there, and the poller.
//!
//! * INV-MAIL-1: Zenoh's threads run nothing of ours except [`Mailbox`]'s `put_` functions and the notifier. They
//!   never poll. They wait for the poller only for the moment in which it takes one thing out.
//! * INV-MAIL-2: while the mailbox is not empty, the poller has been notified since it last saw it empty, or has not
//!   seen it empty yet. A frame notifies after it has come into an empty mailbox, and the poller looks under the
//!   lock.
//! * INV-MAIL-3: each lane of each peer holds at most [`MOST`] frames. Further ones are dropped, as an engine may do:
//!   the link sends them again, and keeps to its window. After the end of a peer nothing is put there for it.
//! * INV-MAIL-4: once the processes of the job are known, nothing is kept of others; before, at most [`STRANGERS`] frames in all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use chanter_engine::{Change, Lane, Notifier, ProcessId};

use crate::keys::Once;

/// Largest number of frames of a lane of a peer that wait for a poll. A link has fewer on their way, including those
/// that it sends again.
pub(crate) const MOST: u16 = 512;

/// Largest number of frames that are kept before the processes of the job are known.
const STRANGERS: usize = 4096;

/// Item that a poll hands over.
pub(crate) enum Happening {
    Frame(ProcessId, Lane, Vec<u8>),
    ProcessId(ProcessId, Change),
}

#[derive(Default)]
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    has_work: AtomicBool,
    notifier: OnceLock<Notifier>,
}

#[derive(Default)]
struct Inside {
    queue: VecDeque<(Once, Happening)>,
    /// Frames in the queue, by sender and lane.
    frames: BTreeMap<(ProcessId, Once), [u16; 3]>,
    /// The processes of the job, once that is known.
    known: Option<BTreeMap<ProcessId, Once>>,
    /// Peers that have gone: nothing comes from them any more.
    gone: Vec<ProcessId>,
    /// Whether nothing is taken in any more.
    is_closed: bool,
}

impl Inside {
    fn may_come_from(&self, from: (ProcessId, Once)) -> bool {
        match &self.known {
            Some(known) => known.get(&from.0) == Some(&from.1),
            None => self.queue.len() < STRANGERS,
        }
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attach(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
        self.notify();
    }

    pub(crate) fn notify(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// Puts a frame that has come. It is dropped if too many of its sender are there.
    pub(crate) fn put_frame(&self, from: (ProcessId, Once), lane: Lane, frame: Vec<u8>) {
        let is_first = {
            let mut inside = self.lock();
            if inside.is_closed || inside.gone.contains(&from.0) || !inside.may_come_from(from) {
                return;
            }
            let waiting = &mut inside.frames.entry(from).or_default()[lane as usize];
            if *waiting >= MOST {
                return;
            }
            *waiting += 1;
            let was_empty = inside.queue.is_empty();
            inside.queue.push_back((from.1, Happening::Frame(from.0, lane, frame)));
            // ORDER: Release pairs with the Acquire in `has_work`; written under the lock, it is true while there is something.
            self.has_work.store(true, Ordering::Release);
            was_empty
        };
        if is_first {
            self.notify();
        }
    }

    /// Puts a change of a peer. The end of a peer is put once: nothing more is put there for it.
    pub(crate) fn put_change(&self, (peer, once): (ProcessId, Once), change: Change) {
        {
            let mut inside = self.lock();
            if inside.is_closed || inside.gone.contains(&peer) {
                return;
            }
            if matches!(change, Change::Down(_)) {
                inside.gone.push(peer);
            }
            inside.queue.push_back((once, Happening::ProcessId(peer, change)));
            // ORDER: Release pairs with the Acquire in `has_work`; written under the lock: the queue is not empty.
            self.has_work.store(true, Ordering::Release);
        }
        self.notify();
    }

    /// Forgets all, and takes nothing in any more.
    pub(crate) fn close(&self) {
        let forgotten = {
            let mut inside = self.lock();
            inside.is_closed = true;
            // ORDER: Release pairs with the Acquire in `has_work`; written under the lock, since the queue is empty.
            self.has_work.store(false, Ordering::Release);
            std::mem::take(&mut inside.queue)
        };
        drop(forgotten);
    }

    /// Sets the processes of the job; messages that have come from others are forgotten.
    pub(crate) fn know(&self, peers: BTreeMap<ProcessId, Once>) {
        let mut inside = self.lock();
        let inside = &mut *inside;
        let is_of = |peer: &ProcessId, once: &Once| peers.get(peer) == Some(once);
        inside.queue.retain(|(once, happening)| match happening {
            Happening::Frame(peer, ..) | Happening::ProcessId(peer, _) => is_of(peer, once),
        });
        inside.frames.retain(|(peer, once), _| is_of(peer, once));
        inside.known = Some(peers);
        // ORDER: Release pairs with the Acquire in `has_work`; written under the lock, it says what the queue holds.
        self.has_work.store(!inside.queue.is_empty(), Ordering::Release);
    }

    pub(crate) fn has_work(&self) -> bool {
        // ORDER: Acquire pairs with the Release where something is put.
        self.has_work.load(Ordering::Acquire)
    }

    pub(crate) fn count_gone(&self) -> usize {
        self.lock().gone.len()
    }

    /// Takes the first thing that has come, with the number that its sender has drawn.
    pub(crate) fn take(&self) -> Option<(Once, Happening)> {
        let mut inside = self.lock();
        let first = inside.queue.pop_front();
        if let Some((once, Happening::Frame(from, lane, _))) = &first
            && let Some(waiting) = inside.frames.get_mut(&(*from, *once))
        {
            waiting[*lane as usize] -= 1;
            if *waiting == [0; 3] {
                inside.frames.remove(&(*from, *once));
            }
        }
        if inside.queue.is_empty() {
            // ORDER: Release pairs with the Acquire in `has_work`; written under the lock, since the queue is empty.
            self.has_work.store(false, Ordering::Release);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use chanter_engine::Why;

    use super::*;

    const PEER: (ProcessId, Once) = (ProcessId(1), Once(7));

    fn notified() -> (Mailbox, Arc<AtomicU32>) {
        let (mailbox, rings) = (Mailbox::default(), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&rings);
        mailbox.attach(Notifier::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        rings.store(0, Ordering::SeqCst);
        (mailbox, rings)
    }

    #[test]
    fn who_sees_that_nothing_is_there_is_rung_for_the_next() {
        let (mailbox, rings) = notified();
        for round in 1..=3 {
            mailbox.put_frame(PEER, Lane::User, vec![1]);
            mailbox.put_frame(PEER, Lane::User, vec![2]);
            assert_eq!(rings.load(Ordering::SeqCst), round, "once for all that has come");
            assert!(mailbox.has_work());
            assert!(mailbox.take().is_some() && mailbox.take().is_some());
            assert!(mailbox.take().is_none() && !mailbox.has_work());
        }
    }

    #[test]
    fn a_flood_is_dropped_lane_by_lane() {
        let (mailbox, _) = notified();
        for lane in [Lane::User, Lane::Bulk] {
            (0..2 * MOST).for_each(|_| mailbox.put_frame(PEER, lane, Vec::new()));
        }
        let mut came = 0;
        while mailbox.take().is_some() {
            came += 1;
        }
        assert_eq!(came, 2 * MOST);
        mailbox.put_frame(PEER, Lane::User, Vec::new());
        assert!(mailbox.take().is_some(), "there is room again");
    }

    #[test]
    fn nothing_is_kept_of_strangers() {
        let (mailbox, rings) = notified();
        for stranger in 0..10_000 {
            mailbox.put_frame((ProcessId(1), Once(stranger)), Lane::User, vec![1]);
        }
        assert_eq!(mailbox.lock().queue.len(), STRANGERS);
        mailbox.know([PEER].into());
        assert_eq!(mailbox.lock().queue.len(), 1);
        assert_eq!(mailbox.lock().frames.len(), 1);
        mailbox.put_frame((ProcessId(1), Once(8)), Lane::User, vec![2]);
        assert!(matches!(mailbox.take(), Some((once, Happening::Frame(..))) if once == PEER.1));
        assert!(mailbox.take().is_none() && !mailbox.has_work());
        let before = rings.load(Ordering::SeqCst);
        mailbox.put_frame(PEER, Lane::User, vec![3]);
        assert_eq!(rings.load(Ordering::SeqCst), before + 1, "who is known is rung for");
    }

    #[test]
    fn after_the_end_of_a_peer_nothing_comes_from_it() {
        let (mailbox, _) = notified();
        mailbox.put_frame(PEER, Lane::User, vec![1]);
        mailbox.put_change(PEER, Change::Down(Why::Died));
        mailbox.put_frame(PEER, Lane::User, vec![2]);
        mailbox.put_change(PEER, Change::Well);
        mailbox.put_change(PEER, Change::Down(Why::Left));
        assert!(matches!(mailbox.take(), Some((_, Happening::Frame(..)))));
        assert!(matches!(mailbox.take(), Some((_, Happening::ProcessId(_, Change::Down(Why::Died))))));
        assert!(mailbox.take().is_none());
        assert_eq!(mailbox.count_gone(), 1);
    }

    /// INV-MAIL-2 with threads: a taker that sleeps until it is notified gets all.
    #[test]
    fn nothing_lies_there_unheard() {
        const EACH: usize = 20_000;
        let (mailbox, notifier) = (Arc::new(Mailbox::default()), std::sync::mpsc::sync_channel(1));
        let (ring, heard) = notifier;
        mailbox.attach(Notifier::new(move || {
            let _ = ring.try_send(());
        }));
        let putting = [1, 2].map(|peer| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                for _ in 0..EACH {
                    // A lane that is full drops: wait for room.
                    while mailbox
                        .lock()
                        .frames
                        .get(&(ProcessId(peer), Once(0)))
                        .is_some_and(|waiting| waiting[1] >= MOST)
                    {
                        thread::yield_now();
                    }
                    mailbox.put_frame((ProcessId(peer), Once(0)), Lane::User, Vec::new());
                }
            })
        });
        let mut came = 0;
        while came < 2 * EACH {
            match mailbox.take() {
                Some(_) => came += 1,
                None => heard.recv_timeout(std::time::Duration::from_secs(120)).expect("it is rung for"),
            }
        }
        putting.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
