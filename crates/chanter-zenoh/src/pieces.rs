//! Long bodies, above an engine that takes short ones: in pieces, one after the other in their lane.
//!
//! * INV-PIECES-1: while the engine below has not all of a lane's frame, nothing else of that lane goes there. The
//!   lane holds one such frame, and is full. So the pieces of a frame come in a row, and later frames come after it.
//! * INV-PIECES-2: whenever a lane's lock is free, the engine below has been given all its pieces, or has refused
//!   one. It notifies when it takes more, and the poller goes on. A sender that was refused, because a lane held a
//!   frame, is notified when the lane is free.
//! * INV-PIECES-3: of each lane of each peer at most one body of [`LONGEST`] is gathered, and no room is made for
//!   pieces that have not come. A frame that is no piece of it comes from a peer that breaks the rules. The peer is
//!   given up.
//! * INV-PIECES-4: the engine below leaves when no lane holds a frame. Leaving takes no more frames. Each lane is
//!   looked at after that under its lock, and the giver of its last piece looks again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use chanter_cluster::engine::{
    Caps, Change, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
};
use chanter_cluster::wire::{Body, Header, Kind, LENGTH};

use crate::keys::LANES;

/// The longest body.
pub(crate) const LONGEST: usize = 16 << 20;
/// Pieces in a row after which the engine below is polled again later.
const POLLS: u32 = 64;

/// An engine that takes bodies up to [`LONGEST`], above one that loses nothing and keeps the order.
pub(crate) struct Pieces<E> {
    engine: E,
    peers: BTreeMap<ProcessId, [Mutex<Outgoing>; 3]>,
    /// Number of lanes that hold a frame.
    held: AtomicUsize,
    /// The bodies that are not whole yet. Held by the poller.
    coming: Mutex<BTreeMap<(ProcessId, u8), Vec<u8>>>,
    notifier: OnceLock<Notifier>,
    is_leaving: AtomicBool,
    /// Whether the engine below has been told to leave.
    has_left: AtomicBool,
}

/// Content of one lane to one peer.
#[derive(Default)]
struct Outgoing {
    /// A frame, and how much of it the engine has.
    frame: Option<(Vec<u8>, usize)>,
    /// Whether a sender was told that the lane is full.
    has_refused: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flag that a link uses for itself; no frame of an owner has it.
fn is_piece(frame: &Body) -> bool {
    frame.frame().first() == Some(&(Kind::Descriptor as u8))
}

impl<E: Engine> Pieces<E> {
    /// All processes of a cluster must agree on this.
    pub(crate) fn over(engine: E) -> Self {
        let me = engine.me();
        let keeps = |caps: Caps| caps.order == Order::PerPeer && caps.loss != Loss::Any;
        let others = engine.roster().into_iter().map(|(peer, _)| peer).filter(|peer| *peer != me);
        let peers: BTreeMap<_, _> = others.map(|peer| (peer, Default::default())).collect();
        assert!(peers.keys().all(|peer| keeps(engine.caps(*peer))), "pieces need an order, and each other");
        Self {
            engine,
            peers,
            held: AtomicUsize::new(0),
            coming: Mutex::default(),
            notifier: OnceLock::new(),
            is_leaving: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
        }
    }

    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    fn notify(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// Gives the engine below as much of the frame as it takes.
    fn flush(&self, to: ProcessId, lane: Lane, out: &mut Outgoing) {
        let Some((frame, at)) = &mut out.frame else { return };
        let room = (self.engine.caps(to).eager as usize).max(1);
        while *at < frame.len() {
            let part = &frame[*at..frame.len().min(*at + room)];
            let mut piece = Body::copied_from(part);
            piece.set_header(&Header {
                process: self.engine.me().0,
                length: part.len() as u32,
                tag: *at as u32,
                request: frame.len() as u64,
                ..Header::new(Kind::Descriptor)
            });
            let length = part.len();
            if self.engine.try_send(to, lane, piece).is_err() {
                return;
            }
            *at += length;
        }
        out.frame = None;
        // ORDER: Release pairs with the Acquire in `flush_all`; the lane's lock orders the rest.
        self.held.fetch_sub(1, Ordering::Release);
        if std::mem::take(&mut out.has_refused) {
            self.notify();
        }
    }

    /// Sends waiting pieces, as the engine below may take more.
    fn flush_all(&self) {
        // ORDER: Acquire: as in `flush`. A sender that makes it more than 0 flushes first, and is notified.
        if self.held.load(Ordering::Acquire) == 0 {
            return;
        }
        for (peer, lanes) in &self.peers {
            for lane in LANES {
                self.flush(*peer, lane, &mut lock(&lanes[lane as usize]));
            }
        }
        self.go_on_leaving();
    }

    fn go_on_leaving(&self) {
        // ORDER: SeqCst: it is written before the lanes are looked at, and read under their locks before they hold more.
        if !self.is_leaving.load(Ordering::SeqCst) {
            return;
        }
        let holds = |lanes: &[Mutex<Outgoing>; 3]| lanes.iter().any(|lane| lock(lane).frame.is_some());
        // ORDER: AcqRel: once.
        if !self.peers.values().any(holds) && !self.has_left.swap(true, Ordering::AcqRel) {
            self.engine.leave(Leave::Drain);
            self.notify();
        }
    }
}

/// Puts the pieces that come together.
struct Gather<'a, E> {
    engine: &'a E,
    coming: &'a mut BTreeMap<(ProcessId, u8), Vec<u8>>,
    sink: &'a mut dyn Sink,
    /// Number of times that it was told something.
    told: u32,
}

impl<E: Engine> Gather<'_, E> {
    /// The frame that this piece ends; `Err`: it is no piece of the body so far.
    fn add(&mut self, from: ProcessId, lane: Lane, piece: &Body) -> Result<Option<Body>, ()> {
        let header = Header::decode(piece.frame(), u32::MAX).map_err(drop)?;
        let key = (from, lane as u8);
        let at = self.coming.get(&key).map_or(0, Vec::len);
        let total = usize::try_from(header.request).map_err(drop)?;
        let is_next = header.tag as usize == at && !piece.is_empty() && at + piece.len() <= total;
        if !is_next || !(LENGTH..=LENGTH + LONGEST).contains(&total) {
            return Err(());
        }
        let whole = self.coming.entry(key).or_default();
        whole.extend_from_slice(piece);
        if whole.len() < total {
            return Ok(None);
        }
        let whole = self.coming.remove(&key).ok_or(())?;
        Ok(Body::of_frame(whole))
    }
}

impl<E: Engine> Sink for Gather<'_, E> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        let whole = if is_piece(&frame) {
            self.add(from, lane, &frame)
        } else if self.coming.contains_key(&(from, lane as u8)) {
            Err(())
        } else {
            Ok(Some(frame))
        };
        match whole {
            Ok(Some(frame)) => {
                self.told += 1;
                self.sink.arrived(from, lane, frame);
            }
            Ok(None) => {}
            Err(()) => {
                self.coming.remove(&(from, lane as u8));
                self.engine.give_up(from);
            }
        }
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if let Change::Down(_) = change {
            self.coming.retain(|(from, _), _| *from != peer);
        }
        self.told += 1;
        self.sink.peer(peer, change);
    }
}

impl<E: Engine> Engine for Pieces<E> {
    fn me(&self) -> ProcessId {
        self.engine.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.engine.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        Caps { eager: LONGEST as u32, ..self.engine.caps(to) }
    }

    fn has_ended(&self) -> bool {
        self.engine.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier.clone());
        self.engine.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        if body.len() > LONGEST {
            return Err(Full { body });
        }
        let Some(lanes) = self.peers.get(&to) else { return self.engine.try_send(to, lane, body) };
        let out = &mut *lock(&lanes[lane as usize]);
        // ORDER: SeqCst, as in `go_on_leaving`.
        if self.is_leaving.load(Ordering::SeqCst) {
            return Ok(());
        }
        if out.frame.is_some() {
            out.has_refused = true;
            return Err(Full { body });
        }
        if body.len() <= self.engine.caps(to).eager as usize && !is_piece(&body) {
            return self.engine.try_send(to, lane, body);
        }
        out.frame = Some((body.into_frame(), 0));
        // ORDER: Relaxed: under the lock.
        self.held.fetch_add(1, Ordering::Relaxed);
        self.flush(to, lane, out);
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let mut coming = match self.coming.try_lock() {
            Ok(coming) => coming,
            Err(TryLockError::WouldBlock) => return Polled::Nothing,
            // A sink has panicked; the messages that it was told of are not told again.
            Err(TryLockError::Poisoned(coming)) => coming.into_inner(),
        };
        self.flush_all();
        let mut gather = Gather { engine: &self.engine, coming: &mut coming, sink, told: 0 };
        let mut polled = Polled::Nothing;
        for _ in 0..POLLS {
            let room = budget.saturating_sub(gather.told);
            if room == 0 {
                break;
            }
            polled = self.engine.poll(room, &mut gather);
            if polled == Polled::Nothing || gather.told > 0 {
                break;
            }
        }
        let told = gather.told;
        drop(coming);
        // Acknowledgements have made room.
        self.flush_all();
        match (told, polled) {
            (0, Polled::Nothing) => Polled::Nothing,
            (0, Polled::Some | Polled::More) => {
                // Pieces only: there may be more, but the sink was told nothing.
                self.notify();
                Polled::Nothing
            }
            (_, Polled::More) => Polled::More,
            (_, Polled::Nothing | Polled::Some) => Polled::Some,
        }
    }

    fn linger(&self) -> Duration {
        self.engine.linger()
    }

    fn park(&self) -> Idle {
        self.engine.park()
    }

    fn unpark(&self) {
        self.engine.unpark();
    }

    fn leave(&self, how: Leave) {
        // ORDER: SeqCst, as in `go_on_leaving`.
        self.is_leaving.store(true, Ordering::SeqCst);
        match how {
            Leave::Drain => self.go_on_leaving(),
            Leave::Now => {
                self.has_left.store(true, Ordering::Release);
                self.engine.leave(Leave::Now);
            }
        }
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        self.engine.give_up(peer)
    }
}

impl<E: Engine> fmt::Debug for Pieces<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").field("me", &self.me()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
