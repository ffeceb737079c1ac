//! The engine of a node. Its processes share memory, in which messages lie until they are taken (the pull queue of
//! Concert, section 4.3).
//!
//! A message is copied twice: into a slot of its sender, and out of it. No system call is made unless the
//! receiver sleeps. Then a word on a socket wakes it. For comparisons a segment can have the protocol
//! [`Push`](Protocol::Push) instead: its slots are the receiver's. The [`Sockets`] below report processes that have died or left. They also
//! carry frames for processes that do not share the memory.
//!
//! | limit | of | effect |
//! |---|---|---|
//! | 16 MiB | a body | [`Full`] |
//! | 16, 32, 16 | slots of 4 KiB published for one process, by lane | one message waits at its sender; then [`Full`] |
//! | 256 | slots of a process, 16 of them for control alone | as for a lane's slots |
//! | 4096 | processes | |

pub(crate) mod mapping;
#[cfg(all(test, loom))]
mod models;
mod patience;
mod protocol;
pub(crate) mod pull;
mod push;
mod said;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use chanter::base::Lock;
use chanter::base::switches::NAMED_NEXT;

use self::mapping::Mapping;
pub use self::mapping::Protocol;
use self::patience::Patience;
use self::protocol::{Incoming, LookedAt, Outgoing};
use self::pull::{Found, Info, LANES, MOST_WATCHED, Memory, Piece, Quota};
use self::said::{Ledger, Said};
use self::sync::Bytes;
use crate::certificate::Certificate;
use crate::engine::{
    Caps, Change, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId,
    Sink, Why,
};
use crate::socket::Sockets;
use crate::wire::{self, Body};

/// Length of the longest body, in bytes, and (in `LONGEST`) with its header.
const LONGEST_BODY: usize = 16 << 20;
pub(crate) const LONGEST: usize = LONGEST_BODY + wire::LENGTH;
const QUOTA: Quota = Quota { lanes: [16, 32, 16], reserve: 16, names_next: true };
/// Time after which a receiver no longer waits for a link, but looks at all slots.
const PATIENCE: Duration = Duration::from_millis(1);
/// Largest number of pieces that one poll takes.
const PIECES: u32 = 256;
/// Time for which looking is worth it before a process sleeps. In this time the other process is woken, answers, and
/// wakes this one. (With less, two processes that had lost their patience went on waking each other.)
const LINGER: Duration = Duration::from_micros(50);
const LANE: [Lane; LANES] = [Lane::Control, Lane::User, Lane::Bulk];

/// The shared-memory engine. When it is dropped, the process leaves at once ([`Leave::Now`]).
#[doc(alias = "Near")]
pub struct Shm {
    sockets: Sockets,
    me: usize,
    memory: Arc<Mapping>,
    /// Whether each process shares the memory, by process number.
    is_near: Vec<bool>,
    out: Lock<Out>,
    receiving: Lock<Receiving>,
    places: LookedAt,
    /// Whether the piece that was taken last is not freed yet. The next poll frees it; usually no sender waits for
    /// it.
    has_unfreed: AtomicBool,
    /// Statements about the memory, kept and sent outside of it, where no other process can write.
    ledger: Arc<Ledger>,
    /// Number of polling threads that sleep or are about to.
    resting: AtomicU32,
    linger: Duration,
    patience: Patience,
}

/// The sender's side.
struct Out {
    outgoing: Outgoing,
    /// Messages of which some pieces were sent, by receiver and lane.
    begun: Vec<[Option<Begun>; LANES]>,
    /// Number of messages in `begun`.
    count: usize,
    /// Set once this process sends nothing more.
    has_left: bool,
    /// Set when this process is to leave once `begun` is empty.
    leaves: bool,
    /// Whether each process gets nothing more, by process number.
    has_gone: Vec<bool>,
}

struct Begun {
    body: Body,
    sent: usize,
}

/// The receiver's side.
struct Receiving {
    incoming: Incoming,
    /// The beginnings of messages, by sender and lane.
    begun: Vec<[Vec<u8>; LANES]>,
    /// Time since which a link has been missing.
    waits: Option<Instant>,
    dying: VecDeque<(ProcessId, Change)>,
    /// The last statement of each process about what it has sent.
    said: Vec<Option<Said>>,
    /// Processes that have stated more than was found here.
    doubted: Vec<usize>,
    /// Set when a scan was made that covers all that `dying` processes have sent and `doubted` ones have stated.
    has_scanned: bool,
    /// Whether something of each process was destroyed, or it is not near. Nothing is taken from such a process.
    broken: Vec<bool>,
}

impl Receiving {
    /// Whether that process has sent something that was not taken here. For a process that has not gone and was just
    /// heard, the piece may be here and not have been looked for yet.
    fn misses(&self, from: usize) -> bool {
        let expected = self.incoming.expected(from);
        self.said[from].is_some_and(|said| {
            let has_begun = self.begun[from].iter().any(|begun| !begun.is_empty());
            said.is_ahead(expected) || said.is_whole_at(expected) && has_begun
        })
    }
}

/// A place in a segment. A process takes it before it connects, so that the others know that it reads there.
#[doc(alias = "Seat")]
pub struct ShmSlot {
    me: usize,
    memory: Mapping,
}

impl fmt::Debug for ShmSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShmSlot").field("me", &self.me).finish_non_exhaustive()
    }
}

impl ShmSlot {
    /// Takes the place of process `me` of `processes`.
    ///
    /// # Errors
    /// The segment is for another number of processes or from another build.
    pub fn take(segment: OwnedFd, me: ProcessId, processes: u32) -> io::Result<Self> {
        let memory = Mapping::open(segment, processes as usize)?;
        let me = me.0 as usize;
        if me >= memory.processes() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        memory.port(me).attach();
        Ok(Self { me, memory })
    }
}

impl Shm {
    /// The engine of a process that has taken a place and has connected since.
    pub fn new(shm_slot: ShmSlot, sockets: Sockets) -> Self {
        let ShmSlot { me, memory } = shm_slot;
        let processes = memory.processes();
        // Two processes are near if both read from the segment. So both send to each other by the same way, and the end
        // of a process comes after its messages.
        let is_attached = memory.port(me).is_attached();
        let is_near: Vec<bool> = (0..processes)
            .map(|process| is_attached && process != me && memory.port(process).is_attached())
            .collect();
        let quota = Quota { names_next: NAMED_NEXT && processes <= MOST_WATCHED, ..QUOTA };
        let memory = Arc::new(memory);
        let ledger = Arc::new(Ledger::new(me, Arc::clone(&memory)));
        sockets.set_beside(Arc::clone(&ledger) as _);
        let incoming = Incoming::new(me, &memory);
        let cores = available_parallelism().map_or(1, usize::from);
        let shm = Self {
            me,
            out: Lock::new(Out {
                outgoing: Outgoing::new(me, quota, &memory),
                begun: (0..processes).map(|_| Default::default()).collect(),
                count: 0,
                has_left: false,
                leaves: false,
                has_gone: vec![false; processes],
            }),
            places: incoming.places(),
            has_unfreed: AtomicBool::new(false),
            receiving: Lock::new(Receiving {
                incoming,
                begun: (0..processes).map(|_| Default::default()).collect(),
                waits: None,
                dying: VecDeque::new(),
                said: vec![None; processes],
                doubted: Vec::new(),
                has_scanned: false,
                // Nothing is taken from a process that is not near: its end is told without a look at its pieces.
                broken: is_near.iter().map(|is_near| !is_near).collect(),
            }),
            ledger,
            resting: AtomicU32::new(0),
            linger: Duration::ZERO,
            patience: Patience::default(),
            is_near,
            memory,
            sockets,
        };
        shm.on_cores(cores)
    }

    /// States the number of cores that the processes of this node share. By default they are the cores that this process
    /// may use. A launcher may give each process cores of its own.
    pub fn on_cores(mut self, cores: usize) -> Self {
        let crowd = 1 + self.is_near.iter().filter(|is_near| **is_near).count();
        // With more processes than cores, a spinning process takes the core of the one that would answer.
        self.linger = if crowd <= cores { LINGER } else { Duration::ZERO };
        self
    }

    fn is_near(&self, peer: ProcessId) -> bool {
        self.is_near.get(peer.0 as usize).is_some_and(|shm| *shm)
    }

    /// Sends as many pieces from byte `sent` on as there are slots for, and returns how far it got. If that is not
    /// the end, room is asked for.
    fn send_pieces(&self, out: &mut Out, to: usize, lane: usize, frame: &[u8], mut sent: usize) -> usize {
        let from = sent;
        while sent < frame.len() {
            let piece = &frame[sent..frame.len().min(sent + Bytes::LENGTH)];
            let has_more = sent + piece.len() < frame.len();
            match out.outgoing.send(&self.memory, to, Info { length: piece.len(), lane, has_more }, piece) {
                Ok(()) => sent += piece.len(),
                // The process that frees such a slot will tell us. One may be free by now, so try again.
                Err(needed) if self.memory.port(self.me).want_slots(needed) => {}
                Err(_) => {
                    self.ledger.wants_room(true);
                    break;
                }
            }
        }
        if sent > from && self.memory.port(to).is_to_be_woken() {
            self.sockets.notify_peer(ProcessId(to as u32));
        }
        sent
    }

    /// There is room: goes on with messages that were begun, and notifies threads that may have something to send.
    fn go_on(&self) {
        let mut out = self.out.lock();
        if out.count > 0 {
            for to in 0..self.memory.processes() {
                for lane in 0..LANES {
                    let Some(Begun { body, sent }) = out.begun[to][lane].take() else { continue };
                    let sent = self.send_pieces(&mut out, to, lane, body.frame(), sent);
                    if sent < body.frame().len() {
                        out.begun[to][lane] = Some(Begun { body, sent });
                    } else {
                        out.count -= 1;
                    }
                    self.note(&out, to);
                }
            }
            self.leave_if_done(&mut out);
        }
        drop(out);
        self.sockets.notify();
    }

    /// Notes in the ledger the pieces published for a process.
    #[inline]
    fn note(&self, out: &Out, to: usize) {
        let is_begun = out.count > 0 && out.begun[to].iter().any(Option::is_some);
        self.ledger.publishes(to, out.outgoing.number(to), is_begun);
    }

    fn leave_if_done(&self, out: &mut Out) {
        if out.leaves && out.count == 0 {
            out.leaves = false;
            self.sockets.leave(Leave::Drain);
        }
    }

    /// Whether a piece lies in a slot for this process.
    #[inline]
    fn has_messages(&self) -> bool {
        self.places.has_work(&self.memory, self.me)
    }

    /// Whether a poll would find an act of another process.
    #[inline]
    fn has_news(&self) -> bool {
        self.has_messages()
            || self.memory.port(self.me).is_given_room()
            || self.sockets.has_work()
            || self.ledger.calls()
    }

    /// Takes pieces from slots. Returns the number of whole frames, and whether there may be more.
    fn take(&self, receiving: &mut Receiving, budget: u32, sink: &mut dyn Sink) -> (u32, bool) {
        let (mut frames, mut scans) = (0, 0);
        let (mut has_unfreed, mut has_more) = (true, true);
        for _ in 0..PIECES {
            if frames == budget {
                break;
            }
            match receiving.incoming.take(&self.memory) {
                Found::Piece(from, piece) => {
                    match receiving.begun[from].assemble(&piece) {
                        _ if receiving.broken[from] => {}
                        Ok(None) => {}
                        Ok(Some((lane, frame))) => {
                            frames += 1;
                            sink.arrived(ProcessId(from as u32), lane, frame);
                            has_more = self.has_messages();
                            if !has_more {
                                // The receiver of that frame runs first.
                                break;
                            }
                        }
                        Err(Nonsense) => self.is_broken(&mut receiving.broken, from),
                    }
                    continue;
                }
                Found::Nothing => {
                    receiving.waits = None;
                    (has_unfreed, has_more) = (false, false);
                    break;
                }
                Found::Waits => {
                    let since = *receiving.waits.get_or_insert_with(Instant::now);
                    if since.elapsed() < PATIENCE {
                        break;
                    }
                    receiving.waits = None;
                }
                Found::Astray => {}
            }
            // One scan in a poll is enough: a process that keeps writing nonsense must not hold this one up.
            if scans == 1 {
                break;
            }
            scans += 1;
            receiving.incoming.scan(&self.memory);
        }
        // ORDER: Relaxed: a thread that falls asleep sees it through `resting`, see `park`.
        self.has_unfreed.store(has_unfreed, Ordering::Relaxed);
        (frames, has_more)
    }

    /// Gives room to the senders that want it, and wakes sleeping ones.
    fn tell_of_room(&self, receiving: &mut Receiving) {
        receiving.incoming.freed(|sender| {
            if self.memory.port(sender).give_room(self.me) {
                self.sockets.notify_peer(ProcessId(sender as u32));
            }
        });
    }

    /// Gives up a process of which something was destroyed, or that breaks the rules.
    #[cold]
    fn is_broken(&self, broken: &mut [bool], from: usize) {
        if !std::mem::replace(&mut broken[from], true) {
            self.sockets.give_up(ProcessId(from as u32));
        }
    }

    /// Takes the statements of other processes, and scans all slots if they, or a death, call for it.
    #[cold]
    fn listen(&self, receiving: &mut Receiving) {
        for (from, said) in self.ledger.heard() {
            receiving.said[from] = Some(said);
            if said.waits() || receiving.misses(from) {
                if !receiving.doubted.contains(&from) {
                    receiving.doubted.push(from);
                }
                // A scan that was made before this statement does not cover it.
                receiving.has_scanned = false;
            }
        }
        let nobody_asks = receiving.dying.is_empty() && receiving.doubted.is_empty();
        if !receiving.has_scanned && !nobody_asks {
            receiving.incoming.scan(&self.memory);
            receiving.has_scanned = true;
        }
    }

    /// Gives up the processes whose statements still do not hold after a scan.
    fn judge(&self, receiving: &mut Receiving) {
        receiving.incoming.odd().into_iter().for_each(|from| self.is_broken(&mut receiving.broken, from));
        if receiving.has_scanned && !receiving.incoming.is_scanning(&self.memory) {
            for from in std::mem::take(&mut receiving.doubted) {
                if receiving.misses(from) {
                    self.is_broken(&mut receiving.broken, from);
                }
            }
        }
        if !receiving.doubted.is_empty() || !receiving.dying.is_empty() {
            self.ledger.call();
        }
    }

    /// Whether the sink may still be told of a process that has gone, or of its last messages.
    fn has_unsaid(&self, receiving: &Receiving) -> bool {
        !receiving.dying.is_empty()
            || !receiving.doubted.is_empty()
            || receiving.incoming.is_scanning(&self.memory)
    }

    /// Reports processes that have gone to the sink, once all that they have sent was taken. Returns their number.
    fn bury(&self, receiving: &mut Receiving, sink: &mut dyn Sink) -> u32 {
        if receiving.dying.is_empty()
            || !receiving.has_scanned
            || receiving.incoming.is_scanning(&self.memory)
        {
            return 0;
        }
        let mut dying = std::mem::take(&mut receiving.dying);
        for (peer, change) in &mut dying {
            let gone = peer.0 as usize;
            // The process has stated before it left what it had sent.
            if *change == Change::Down(Why::Left) && (receiving.broken[gone] || receiving.misses(gone)) {
                *change = Change::Down(Why::Unreachable);
            }
            receiving.begun[gone] = Default::default();
            receiving.incoming.forget(&self.memory, gone);
            let mut out = self.out.lock();
            out.has_gone[gone] = true;
            let forgotten = std::mem::take(&mut out.begun[gone]);
            out.count -= forgotten.iter().flatten().count();
            if *change == Change::Down(Why::Left) {
                out.outgoing.has_left(gone);
            } else {
                out.outgoing.forget(&self.memory, gone);
            }
            self.leave_if_done(&mut out);
            drop(out);
            sink.peer(*peer, *change);
        }
        // The slots of these processes are now free for others.
        self.tell_of_room(receiving);
        self.go_on();
        dying.len() as u32
    }

    /// Breaks the process's connections, as if it had been killed.
    #[cfg(test)]
    fn kill(&self) {
        self.out.lock().has_left = true;
        self.sockets.kill();
    }
}

/// The beginnings of one sender's messages.
pub(crate) trait Assemble {
    /// Adds a piece, and returns the message if it is whole now.
    ///
    /// # Errors
    /// The piece is invalid, and its message is lost.
    fn assemble(&mut self, piece: &Piece<'_>) -> Result<Option<(Lane, Body)>, Nonsense>;
}

/// An invalid piece, which no correct process sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonsense;

impl Assemble for [Vec<u8>; LANES] {
    #[inline(always)]
    fn assemble(&mut self, piece: &Piece<'_>) -> Result<Option<(Lane, Body)>, Nonsense> {
        let Info { length, lane, has_more } = piece.info.ok_or(Nonsense)?;
        let begun = &mut self[lane];
        if begun.len() + length > LONGEST {
            *begun = Vec::new();
            return Err(Nonsense);
        }
        if has_more {
            piece.copy_to(begun);
            return Ok(None);
        }
        let frame = if begun.is_empty() {
            Body::filled(length, |frame| piece.copy_to(frame))
        } else {
            piece.copy_to(begun);
            Body::of_frame(std::mem::take(begun))
        };
        frame.map(|frame| Some((LANE[lane], frame))).ok_or(Nonsense)
    }
}

/// The sink of the sockets below. It keeps the ends of processes back until their pieces were taken.
struct Beneath<'a> {
    shm: &'a Shm,
    sink: &'a mut dyn Sink,
    dying: &'a mut VecDeque<(ProcessId, Change)>,
    has_scanned: &'a mut bool,
    told: u32,
}

impl Sink for Beneath<'_> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.told += 1;
        self.sink.arrived(from, lane, frame);
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if matches!(change, Change::Down(_)) && self.shm.is_near(peer) {
            self.dying.push_back((peer, change));
            // A scan from now on sees all that the process has published.
            *self.has_scanned = false;
            self.shm.ledger.call();
        } else {
            self.told += 1;
            self.sink.peer(peer, change);
        }
    }
}

impl Engine for Shm {
    fn me(&self) -> ProcessId {
        self.sockets.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.sockets.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        let eager = LONGEST_BODY as u32;
        if self.is_near(to) {
            Caps { order: Order::PerPeer, loss: Loss::Never, death: Death::Reports, eager }
        } else {
            self.sockets.caps(to)
        }
    }

    fn has_ended(&self) -> bool {
        self.sockets.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.sockets.attach(notifier);
    }

    fn linger(&self) -> Duration {
        self.linger
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        if !self.is_near(to) {
            return self.sockets.try_send(to, lane, body);
        }
        if body.frame().len() > LONGEST {
            return Err(Full { body });
        }
        let (to, lane) = (to.0 as usize, lane as usize);
        let mut out = self.out.lock();
        if out.has_left || out.has_gone[to] {
            return Ok(());
        }
        if out.begun[to][lane].is_some() {
            return Err(Full { body });
        }
        let sent = self.send_pieces(&mut out, to, lane, body.frame(), 0);
        if sent == 0 {
            return Err(Full { body });
        }
        if sent < body.frame().len() {
            out.begun[to][lane] = Some(Begun { body, sent });
            out.count += 1;
        }
        self.note(&out, to);
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.has_news() || self.has_unfreed.load(Ordering::Relaxed)
    }

    fn has_work_at_a_turn(&self) -> Option<bool> {
        Some(self.has_news())
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Some(mut receiving) = self.receiving.try_lock() else { return Polled::Busy };
        if self.memory.port(self.me).take_room() {
            self.ledger.wants_room(false);
            self.go_on();
        }
        let receiving = &mut *receiving;
        let is_called = self.ledger.is_called();
        if is_called {
            self.listen(receiving);
        }
        let (frames, has_more) = self.take(receiving, budget, sink);
        self.tell_of_room(receiving);
        let mut told = frames + self.bury(receiving, sink);
        if is_called || receiving.incoming.is_odd() {
            self.judge(receiving);
        }
        if frames < budget && self.sockets.has_work() {
            let Receiving { dying, has_scanned, .. } = receiving;
            let mut beneath = Beneath { shm: self, sink, dying, has_scanned, told: 0 };
            self.sockets.poll(budget - frames, &mut beneath);
            told += beneath.told;
        }
        match told {
            0 if has_more && self.has_messages() || self.has_unsaid(receiving) => Polled::Busy,
            0 => Polled::Nothing,
            // A piece that comes now is seen before any thread parks.
            _ if has_more && self.has_messages() || self.sockets.has_work() => Polled::More,
            _ => Polled::Some,
        }
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        self.has_work() || self.patience.wait(self.linger, || self.has_work(), is_over)
    }

    fn park(&self) -> Idle {
        let port = self.memory.port(self.me);
        // ORDER: Acquire and Release: the last thread to fall asleep sees what the others have done before; see
        // `Watches`.
        self.resting.fetch_add(1, Ordering::AcqRel);
        if self.has_work() {
            return Idle::Work;
        }
        port.fall_asleep();
        if self.has_messages() || port.is_given_room() {
            return Idle::Work;
        }
        self.sockets.park()
    }

    fn unpark(&self) {
        // ORDER: Acquire and Release, as `park` needs them. If this undoes the announcement of a thread that falls
        // asleep meanwhile, this thread is awake and looks itself before it sleeps again. Only the last sleeper takes
        // the announcement back, as the others still have to be woken.
        if self.resting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.memory.port(self.me).wake_up();
        }
        self.sockets.unpark();
    }

    fn leave(&self, how: Leave) {
        let mut out = self.out.lock();
        out.has_left = true;
        if how == Leave::Now {
            out.begun.iter_mut().for_each(|begun| *begun = Default::default());
            out.count = 0;
            out.leaves = false;
            self.sockets.leave(Leave::Now);
        } else {
            out.leaves = true;
            self.leave_if_done(&mut out);
        }
    }

    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        self.sockets.certificate(peer)
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        self.sockets.give_up(peer)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.leave(Leave::Now);
    }
}

impl fmt::Debug for Shm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shm").field("me", &self.me).field("processes", &self.is_near.len()).finish()
    }
}
