//! A reliable engine above an unreliable one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chanter::now;

use crate::alarm::Alarm;
use crate::certificate::Certificate;
use crate::engine::{
    Caps, Change, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
    Why,
};
use crate::polling::try_enter;
use crate::wire::{Arrival, Body, Header, Kind, LaneLink, Pace, TRAILER};

/// An engine above another one that loses, duplicates or reorders frames. It has a link to each peer for which that
/// is so, with numbers, acknowledgements and resends. Frames to other peers pass unchanged.
///
/// `Process::start` of `chanter-cluster` makes one where it is needed. Make it yourself for another [`Pace`]. A
/// peer that acknowledges nothing for [too long](Pace::lost_after) is given up: it is
/// [`Unreachable`](Why::Unreachable) for good. A process that only receives does not notice when it cannot be
/// reached. The engine below, or its user, must report it.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_engine::{Caps, Engine, Fault, Faults, Loss, Order, Pace, ProcessId, Reliable, Simulated};
///
/// let lossy = Simulated::cluster(2, Faults::of(&[Fault::Lose], 100)).remove(0);
/// assert_eq!(lossy.caps(ProcessId(1)).loss, Loss::Any);
/// let engine = Reliable::over(lossy, Pace::default());
/// assert_eq!((engine.caps(ProcessId(1)).loss, engine.caps(ProcessId(1)).order), (Loss::OnReset, Order::PerPeer));
/// ```
pub struct Reliable<E> {
    shared: Arc<Shared<E>>,
}

/// * INV-RELIABLE-1: frames of a lane get their numbers in the order of the sends, and are handed on in the order of
///   the numbers. Numbers are given under the link's lock. Arrived frames are taken and handed on by the thread that
///   polls.
/// * INV-RELIABLE-2: whenever a link's lock is free, the engine below has all frames that the link's lanes had for
///   it, except those that the current poll owes. Otherwise it has refused a frame of the lane; the frame is kept,
///   and the engine notifies when it takes more. The alarm is set for the lane that is due first.
/// * INV-RELIABLE-3: after a sender was refused because a window was full, the notifier is called when the window has
///   room again.
struct Shared<E> {
    engine: E,
    links: BTreeMap<ProcessId, Mutex<Link>>,
    notifier: OnceLock<Notifier>,
    alarm: Alarm,
    /// Frames and changes that have come and were not handed on. Held by the thread that polls.
    found: Mutex<VecDeque<Found>>,
    /// Whether `found` holds something.
    has_found: AtomicBool,
    /// Set while a peer is unreachable and the sink was not told.
    has_lost: AtomicBool,
    /// Set while the engine below may hold back a refused frame.
    is_stuck: AtomicBool,
    /// Set while this process leaves and some peers do not know it.
    is_leaving: AtomicBool,
}

/// An item for the sink.
enum Found {
    Frame(ProcessId, Lane, Body),
    ProcessId(ProcessId, Change),
}

struct Link {
    lanes: [LaneLink; 3],
    /// The frame of each lane that the engine below has refused.
    refused: [Option<Body>; 3],
    /// Whether a sender was refused because a window was full.
    has_refused: bool,
    state: State,
}

/// ```text
///   Open ----> Told             go_on_leaving: all has come, and the peer is told that we leave
///   Open, Told ----> Left       arrived: the peer leaves
///   Open, Told ----> Lost       flush: it acknowledges nothing
///   Lost ----> Gone             report_lost
///   all  ----> Gone             lose: the engine below reports it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The last frame says that we leave. When it is acknowledged, we have left.
    Told,
    /// The peer has left. It still needs an acknowledgement.
    Left,
    /// The peer is unreachable, and the sink was not told yet.
    Lost,
    /// The peer has gone. Nothing is sent there, and arriving frames are dropped.
    Gone,
}

const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];

/// Number of polls of the engine below, in one poll of this one, that may bring acknowledgements only.
const POLLS: u32 = 16;

/// Whether frames to a peer need a link.
fn needs_link(caps: Caps) -> bool {
    caps.order == Order::None || caps.loss == Loss::Any
}

impl Link {
    fn new(pace: &Pace) -> Self {
        Self {
            lanes: LANES.map(|_| LaneLink::new(pace.clone())),
            refused: [const { None }; 3],
            has_refused: false,
            state: State::Open,
        }
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().all(LaneLink::is_idle)
    }

    /// The time at which the link has something to send, if nothing happens before. Refused frames have no time, as
    /// the engine below notifies.
    fn due(&self) -> Option<Instant> {
        let sends = self.lanes.iter().filter_map(LaneLink::due);
        let lanes = self.lanes.iter().zip(&self.refused).filter(|(_, refused)| refused.is_none());
        sends.chain(lanes.filter_map(|(lane, _)| lane.owes())).min()
    }

    /// Ends sending to the peer, and enters `state`.
    fn close(&mut self, state: State) {
        self.state = state;
        self.refused = [const { None }; 3];
        self.lanes.iter_mut().for_each(LaneLink::abandon);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Engine> Reliable<E> {
    /// An engine that loses nothing, above `engine`. All processes of a cluster must agree on this, and on the
    /// [session](Pace::session).
    pub fn over(engine: E, pace: Pace) -> Self {
        let me = engine.me();
        let lossy = |peer: &ProcessId| *peer != me && needs_link(engine.caps(*peer));
        let peers: Vec<ProcessId> = engine.roster().into_iter().map(|(peer, _)| peer).filter(lossy).collect();
        let links = peers.into_iter().map(|peer| (peer, Mutex::new(Link::new(&pace)))).collect();
        let shared = Shared {
            engine,
            links,
            notifier: OnceLock::new(),
            alarm: Alarm::default(),
            found: Mutex::default(),
            has_found: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The engine below.
    pub fn engine(&self) -> &E {
        &self.shared.engine
    }
}

/// The engine, with a reliable one above it if it loses or reorders frames to some peer.
#[doc(hidden)]
pub fn reliable(engine: impl Engine) -> Arc<dyn Engine> {
    let me = engine.me();
    let is_needed = engine.roster().iter().any(|(peer, _)| *peer != me && needs_link(engine.caps(*peer)));
    if is_needed { Arc::new(Reliable::over(engine, Pace::default())) } else { Arc::new(engine) }
}

impl<E: Engine> Shared<E> {
    fn notify(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// Gives the engine below all frames that the link has for it.
    fn flush(&self, to: ProcessId, link: &mut Link) {
        if matches!(link.state, State::Lost | State::Gone) {
            return;
        }
        let (me, now) = (self.engine.me().0, now());
        for (place, lane) in LANES.into_iter().enumerate() {
            while let Some(frame) =
                link.refused[place].take().or_else(|| link.lanes[place].next_frame(me, now))
            {
                if let Err(Full { body }) = self.engine.try_send(to, lane, frame) {
                    link.refused[place] = Some(body);
                    // ORDER: Release pairs with the Acquire in `flush_stuck`. The engine below notifies after this,
                    // and the notified thread finds the frame.
                    self.is_stuck.store(true, Ordering::Release);
                    break;
                }
            }
        }
        if link.lanes.iter().any(|lane| lane.is_lost(now)) {
            link.close(State::Lost);
            // ORDER: Release pairs with the Acquire in `report_lost`.
            self.has_lost.store(true, Ordering::Release);
            self.notify();
        } else if let Some(due) = link.due() {
            self.alarm.set(due);
        }
    }

    fn flush_all(&self) {
        for (peer, link) in &self.links {
            self.flush(*peer, &mut lock(link));
        }
        self.go_on_leaving();
    }

    /// Gives refused frames to the engine below, which may take them again.
    fn flush_stuck(&self) {
        // ORDER: Acquire pairs with the Release in `flush`.
        if self.is_stuck.swap(false, Ordering::Acquire) {
            self.flush_all();
        }
    }

    /// Tells each peer that we leave when it has everything, and leaves when all know.
    fn go_on_leaving(&self) {
        // ORDER: Acquire pairs with the Release in `leave`, after which no thread sends.
        if !self.is_leaving.load(Ordering::Acquire) {
            return;
        }
        let mut all_know = true;
        for (peer, link) in &self.links {
            let link = &mut *lock(link);
            if link.state == State::Open && link.is_idle() {
                let mut frame = Body::with_capacity(TRAILER as usize);
                frame.set_header(&Header { process: self.engine.me().0, ..Header::new(Kind::Leave) });
                if link.lanes[Lane::Control as usize].send(frame, now()).is_ok() {
                    link.state = State::Told;
                    self.flush(*peer, link);
                }
            }
            all_know &= match link.state {
                State::Open => false,
                State::Told => link.is_idle(),
                State::Left | State::Lost | State::Gone => true,
            };
        }
        // This happens once. No link is open any more, so nothing can be sent.
        if all_know && self.is_leaving.swap(false, Ordering::AcqRel) {
            self.engine.leave(Leave::Drain);
            self.notify();
        }
    }

    /// Reports each unreachable peer once.
    fn report_lost(&self, found: &mut VecDeque<Found>) {
        // ORDER: Acquire pairs with the Release in `flush`.
        if !self.has_lost.swap(false, Ordering::Acquire) {
            return;
        }
        for (peer, link) in &self.links {
            let mut link = lock(link);
            if link.state == State::Lost {
                link.state = State::Gone;
                found.push_back(Found::ProcessId(*peer, Change::Down(Why::Unreachable)));
            }
        }
    }
}

/// The sink of the engine below, which takes its frames through the links.
struct Intake<'a, E> {
    shared: &'a Shared<E>,
    found: &'a mut VecDeque<Found>,
    /// Peers whose links have something to send now.
    touched: Vec<ProcessId>,
}

impl<E: Engine> Sink for Intake<'_, E> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        let Some(link) = self.shared.links.get(&from) else {
            self.found.push_back(Found::Frame(from, lane, frame));
            return;
        };
        let link = &mut *lock(link);
        if matches!(link.state, State::Lost | State::Gone) {
            return;
        }
        if self.touched.last() != Some(&from) {
            self.touched.push(from);
        }
        let (arrival, acknowledged) = link.lanes[lane as usize].arrived(frame, now());
        if acknowledged > 0 && std::mem::take(&mut link.has_refused) {
            self.shared.notify();
        }
        if arrival != Arrival::Kept {
            return;
        }
        while let Some(frame) = link.lanes[lane as usize].take() {
            if frame.frame().first() != Some(&(Kind::Leave as u8)) {
                self.found.push_back(Found::Frame(from, lane, frame));
            } else if link.state != State::Left {
                link.close(State::Left);
                self.found.push_back(Found::ProcessId(from, Change::Down(Why::Left)));
            }
        }
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if let (Some(link), Change::Down(_)) = (self.shared.links.get(&peer), change) {
            let mut link = lock(link);
            let is_known = matches!(link.state, State::Left | State::Gone);
            link.close(State::Gone);
            if is_known {
                return;
            }
        }
        self.found.push_back(Found::ProcessId(peer, change));
    }
}

impl<E: Engine> Engine for Reliable<E> {
    fn me(&self) -> ProcessId {
        self.shared.engine.me()
    }

    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        self.shared.engine.certificate(peer)
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.shared.engine.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        let caps = self.shared.engine.caps(to);
        if !self.shared.links.contains_key(&to) {
            return caps;
        }
        let eager = caps.eager.saturating_sub(TRAILER);
        Caps { order: Order::PerPeer, loss: Loss::OnReset, eager, ..caps }
    }

    fn longest(&self) -> u32 {
        self.shared.engine.longest()
    }

    fn has_ended(&self) -> bool {
        self.shared.engine.has_ended()
    }

    /// Attaches the notifier here and to the engine below.
    ///
    /// # Panics
    /// The caller is no thread of a machine; resending needs one.
    fn attach(&self, notifier: Notifier) {
        let shared = &self.shared;
        let _ = shared.notifier.set(notifier.clone());
        shared.alarm.start(Arc::downgrade(shared), |shared| &shared.alarm, Shared::flush_all);
        shared.engine.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        let shared = &self.shared;
        let Some(link) = shared.links.get(&to) else { return shared.engine.try_send(to, lane, body) };
        if body.len() > self.caps(to).eager as usize {
            return Err(Full { body });
        }
        let link = &mut *lock(link);
        // ORDER: Acquire pairs with the Release in `leave`.
        if link.state != State::Open || shared.is_leaving.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Err(body) = link.lanes[lane as usize].send(body, now()) {
            link.has_refused = true;
            return Err(Full { body });
        }
        shared.flush(to, link);
        Ok(())
    }

    fn has_work(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `poll` and `flush`, so that the next poll sees the announced
        // items.
        let has = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        has(&self.shared.has_found) || has(&self.shared.has_lost) || self.shared.engine.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let shared = &self.shared;
        let Some(mut found) = try_enter(&shared.found) else { return Polled::Busy };
        shared.flush_stuck();
        shared.report_lost(&mut found);
        let mut polled = Polled::Nothing;
        let mut intake = Intake { shared, found: &mut found, touched: Vec::new() };
        for _ in 0..POLLS {
            let room = budget.saturating_sub(intake.found.len() as u32);
            if room == 0 {
                break;
            }
            polled = shared.engine.poll(room, &mut intake);
            if polled != Polled::More || !intake.found.is_empty() {
                break;
            }
        }
        for peer in intake.touched {
            if let Some(link) = shared.links.get(&peer) {
                shared.flush(peer, &mut lock(link));
            }
        }
        shared.go_on_leaving();
        let many = found.len().min(budget as usize);
        for item in found.drain(..many) {
            match item {
                Found::Frame(from, lane, frame) => sink.arrived(from, lane, frame),
                Found::ProcessId(peer, change) => sink.peer(peer, change),
            }
        }
        // ORDER: Release pairs with the Acquire in `has_work`.
        shared.has_found.store(!found.is_empty(), Ordering::Release);
        match (many, polled == Polled::More || !found.is_empty()) {
            // A thread that sends may be inside of the engine below.
            (0, false) if polled == Polled::Busy => Polled::Busy,
            (0, false) => Polled::Nothing,
            (0, true) => {
                // Only acknowledgements came. There is more, but the sink was told nothing.
                shared.notify();
                Polled::Busy
            }
            (_, false) => Polled::Some,
            (_, true) => Polled::More,
        }
    }

    fn linger(&self) -> Duration {
        self.shared.engine.linger()
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        self.has_work() || self.shared.engine.wait(is_over)
    }

    fn park(&self) -> Idle {
        if self.has_work() { Idle::Work } else { self.shared.engine.park() }
    }

    fn unpark(&self) {
        self.shared.engine.unpark();
    }

    fn leave(&self, how: Leave) {
        let shared = &self.shared;
        if how == Leave::Now || shared.links.is_empty() {
            for link in shared.links.values() {
                lock(link).close(State::Gone);
            }
            return shared.engine.leave(how);
        }
        // ORDER: Release pairs with the Acquire in `go_on_leaving`.
        shared.is_leaving.store(true, Ordering::Release);
        shared.go_on_leaving();
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        self.shared.engine.give_up(peer)
    }
}

impl<E: Engine> fmt::Debug for Reliable<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reliable").field("me", &self.me()).finish_non_exhaustive()
    }
}
