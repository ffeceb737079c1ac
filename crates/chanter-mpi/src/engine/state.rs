//! State that only one thread at a time may touch: MPI, and all that is under way.
//!
//! # Frames as MPI messages
//!
//! A frame of at most a slot's size is one message; MPI's tag says of which lane it is. One of up to 16 KiB is several, in order:
//! each is so short that the library sends it without asking first. A larger one is two. A descriptor takes its place
//! among the frames and gives its length. Its bytes come by themselves, straight from the sender's buffer into the
//! receiver's.
//!
//! | MPI's tag | message |
//! |---|---|
//! | lane + 4 · 0 | a frame |
//! | lane + 4 · 1 | a descriptor: the length, u64, little endian |
//! | lane + 4 · 3 | a piece of a frame, of which more follows |
//! | 4 · 2 | a goodbye: how many frames were sent to that process, u64 |
//!
//! # Large frames
//!
//! The tag of their bytes is their [`Class`]: their lane, and about how long they are. Descriptors of a class come in the order in
//! which they were sent, and so do the bytes, as MPI promises. So the first receive that is posted for a class of a process is for
//! the first descriptor, and so on.
//!
//! When a large frame has come, a receive is *preposted* for the next of its class from that process. It has room for
//! the longest, and the bytes need not wait until the descriptor is read. Which descriptor has which receive is said
//! in [`Expected`] (INV-PREPOSTED).
//!
//! # Leaving
//!
//! A process that leaves says so to each other one, and how many frames it has sent to it. A process that has got it,
//! and all these frames, answers with a goodbye of its own, unless it has sent one, and sends nothing more. So when a
//! process has the goodbyes of all, nothing is on its way in either direction, and MPI may be finalized.

use std::collections::VecDeque;
use std::sync::Arc;

use chanter_engine::combining_lock::Inside;
use chanter_engine::wire::{Body, LENGTH};
use chanter_engine::{Change, Lane, ProcessId, Sink, Why};

use super::buffer_pool::BufferPool;
use super::class::Class;
use super::counters::Counters;
use super::in_flight::{Filling, Fills, Sent, room_for};
use super::lanes::{Destination, Eager, Lanes, Outgoing};
use super::peer::{self, Frame};
use super::preposted::{Expected, FILLS, Given, Kind, PREPOSTED};
use super::ring::Ring;
use crate::detect::OPEN_MPI;
use crate::shim::{Comm, MpiError, MpiToken, Result, Status, library};

/// Bytes of a frame that goes in pieces, at most: a header, 16 KiB, and the extra bytes of a value's encoding.
const EAGER: usize = LENGTH + 16 * 1024 + 16;
/// Bytes of a piece; a whole frame mostly. Open MPI sends no more than 4 KiB, with its own header, without asking first.
const PIECE: usize = LENGTH + 8 * 1024 + 16;
const PIECE_OPEN_MPI: usize = 4000;
/// Interval, in looks, of looks at the ring of control frames and at sends under way.
const CONTROL_LOOKS: u32 = 8;
const SENDS_LOOKS: u32 = 16;
/// Interval, in looks, of a second look behind frames that come alone.
const ALONE_LOOKS: u32 = 16;
/// The longest frame.
pub(super) const LONGEST: usize = 1 << 30;
/// Slots of the rings.
const USER_SLOTS: usize = 64;
const CONTROL_SLOTS: usize = 32;
/// Bytes of a slot of the control ring. (Names are as long.)
const CONTROL_EAGER: usize = 512;

const DESCRIPTOR: u16 = 4;
const FAREWELL: u16 = 8;
const MORE: u16 = 12;
const ALL_LANES: [Lane; peer::LANES] = [Lane::Control, Lane::User, Lane::Bulk];

/// A large frame that is announced, and has not been handed out.
struct Owner {
    number: u64,
    from: u32,
    lane: Lane,
    length: usize,
}

pub(super) struct State {
    pub(super) token: MpiToken,
    me: u32,
    rings: [Ring; 2],
    lanes: Lanes,
    large: LargeFrames,
    work: Work,
    pub(super) others: Others,
    pub(super) broken: Option<MpiError>,
    pub(super) counters: Arc<Counters>,
}

/// Large frames that come.
struct LargeFrames {
    fills: Fills,
    /// The large frame that each of these receives is for.
    expected: Expected,
    buffer_pool: BufferPool,
    /// Frames that have come, and how many bytes of each, until the sink is told; and before they are announced.
    filled: Vec<(Filling, usize)>,
    early: Vec<(Filling, usize)>,
    owners: Vec<Owner>,
    last_number: u64,
}

/// The looks at MPI, and what was found. The counts go round.
#[derive(Default)]
struct Work {
    looks: u32,
    /// Number of frames that have come so far, for the sink or not.
    progress: u64,
    /// Number of frames in a row that came alone.
    alone: u32,
    /// Processes and lanes of which frames were left to a later poll.
    ready: VecDeque<(u32, Lane)>,
    /// Number of frames that this poll may still hand out.
    left: u32,
}

/// The other processes, and their ends.
pub(super) struct Others {
    peers: Vec<peer::ProcessId>,
    /// Processes of which the sink does not know yet that they have gone.
    gone: VecDeque<(u32, Why)>,
    living: usize,
    has_left: bool,
    /// Whether a goodbye is outstanding, as there was no room.
    owes_farewell: bool,
    /// Whether the sink knows that everything has ended.
    pub(super) is_end_told: bool,
    is_closed: bool,
}

impl State {
    pub(super) fn new(mut token: MpiToken, me: u32, count: u32, counters: Arc<Counters>) -> Result<Self> {
        let control = Ring::new(&mut token, Comm::Control, CONTROL_SLOTS, CONTROL_EAGER)?;
        let piece = if library().contains(OPEN_MPI) { PIECE_OPEN_MPI } else { PIECE };
        let user = Ring::new(&mut token, Comm::User, USER_SLOTS, piece)?;
        let mut rings = [user, control];
        rings.iter_mut().try_for_each(|ring| ring.start(&mut token))?;
        Ok(Self {
            token,
            me,
            rings,
            lanes: Lanes::new(|lane| eager(lane, piece)),
            large: LargeFrames {
                fills: Fills::new(FILLS + PREPOSTED),
                expected: Expected::default(),
                buffer_pool: BufferPool::default(),
                filled: Vec::new(),
                early: Vec::new(),
                owners: Vec::new(),
                last_number: 0,
            },
            work: Work::default(),
            others: Others {
                peers: (0..count).map(|_| peer::ProcessId::default()).collect(),
                gone: VecDeque::new(),
                living: count as usize - 1,
                has_left: false,
                owes_farewell: false,
                is_end_told: false,
                is_closed: false,
            },
            broken: None,
            counters,
        })
    }

    /// Whether nothing comes any more, and nothing is on its way.
    pub(super) fn has_ended(&self) -> bool {
        self.broken.is_some()
            || self.others.living == 0 && self.others.gone.is_empty() && self.lanes.is_empty()
    }

    /// Notes an error of MPI: no process can be reached any more.
    fn break_down(&mut self, error: MpiError) {
        self.broken.get_or_insert(error);
        for peer in 0..self.others.peers.len() as u32 {
            self.lose(peer, Why::Unreachable);
        }
        self.lanes.forget_waiting();
    }

    fn lose(&mut self, peer: u32, why: Why) {
        if peer != self.me && self.others.peers[peer as usize].down.is_none() {
            self.others.peers[peer as usize].down = Some(why);
            self.others.living -= 1;
            self.others.gone.push_back((peer, why));
        }
    }

    /// Checks whether something has come, or is done. Returns whether there is something for the sink, or to send.
    #[inline]
    pub(super) fn look(&mut self) -> bool {
        if self.broken.is_some() || self.others.is_closed {
            return !self.others.gone.is_empty();
        }
        self.try_to_look().unwrap_or_else(|error| {
            self.break_down(error);
            true
        })
    }

    /// Like `look`, but leaves nothing to a later look.
    pub(super) fn look_everywhere(&mut self) -> bool {
        self.work.looks = u32::MAX;
        self.look()
    }

    #[inline]
    fn try_to_look(&mut self) -> Result<bool> {
        let mut tests = 0;
        self.work.looks = self.work.looks.wrapping_add(1);
        let [user, control] = &mut self.rings;
        // The result is recorded, and a further call finds it again.
        let mut found = control.is_done() || user.has_message(&mut self.token, &mut tests)?;
        if self.work.looks.is_multiple_of(CONTROL_LOOKS) {
            found |= control.has_message(&mut self.token, &mut tests)?;
        }
        // MPI makes progress with each test. Whether sends are done matters only to a process without room, or one
        // that leaves.
        let are_due =
            self.work.looks.is_multiple_of(SENDS_LOOKS) || self.others.has_left || self.lanes.want_room();
        let (has_sends, has_bulk) = self.lanes.are_under_way();
        let has_due = are_due && has_sends;
        if has_due || has_bulk || self.large.expected.has_awaited() {
            self.look_at_flights(has_due, &mut tests)?;
        }
        self.counters.tested(tests);
        Ok(found
            || !self.others.gone.is_empty()
            || !self.large.filled.is_empty()
            || !self.work.ready.is_empty()
            || self.can_send()
            || self.must_tell_end())
    }

    /// Looks whether large frames have come, or have gone.
    fn look_at_flights(&mut self, sends_are_due: bool, tests: &mut u64) -> Result<()> {
        if sends_are_due {
            self.lanes.test(&mut self.token, tests)?;
        }
        if self.lanes.are_under_way().1 {
            self.lanes.test_bulk(&mut self.token, tests, &mut self.large.buffer_pool)?;
        }
        if self.large.expected.has_awaited() {
            self.test_fills(tests)?;
        }
        Ok(())
    }

    /// Looks whether large frames have come.
    fn test_fills(&mut self, tests: &mut u64) -> Result<()> {
        let LargeFrames { fills, expected, filled, early, .. } = &mut self.large;
        fills.test(&mut self.token, tests, |filling, came| {
            let is_announced = expected.came(filling.ticket);
            if is_announced { &mut *filled } else { &mut *early }.push((filling, came));
        })
    }

    /// Whether large bodies are on their way, here or from here.
    pub(super) fn is_moving(&self) -> bool {
        self.large.expected.has_awaited() || self.lanes.are_under_way().1
    }

    /// Whether something that waits for room could be sent.
    #[inline]
    fn can_send(&self) -> bool {
        self.lanes.has_ready() || (self.others.owes_farewell && self.lanes.has_room_for_word())
    }

    #[inline]
    fn must_tell_end(&self) -> bool {
        self.others.living == 0 && !self.others.is_end_told && self.has_ended()
    }

    /// Hands at most `budget` frames out. Number of frames for the sink, and whether there may be more.
    pub(super) fn poll(&mut self, budget: u32, sink: &mut dyn Sink) -> (u32, bool) {
        let mut count = 0;
        self.work.left = budget;
        let done = loop {
            if !self.look() {
                break false;
            }
            if self.work.left == 0 {
                break true;
            }
            let had = self.work.progress;
            if let Err(error) = self.hand_out(&mut count, sink) {
                self.break_down(error);
            }
            while let Some((peer, why)) = self.others.gone.pop_front() {
                sink.peer(ProcessId(peer), Change::Down(why));
                count += 1;
                self.work.progress += 1;
            }
            if self.work.progress == had {
                break false;
            }
            // A waiter for a single answer has it now. Another look may cost as much as all this.
            if count > 0 && !self.goes_on(count) {
                break true;
            }
        };
        (count, done)
    }

    /// Whether another look pays after this number of frames: the last such look has found something, or it is time
    /// to see again.
    fn goes_on(&mut self, count: u32) -> bool {
        self.work.alone = if count > 1 { 0 } else { self.work.alone.wrapping_add(1) };
        self.work.alone < 2 || self.work.alone.is_multiple_of(ALONE_LOOKS)
    }

    fn hand_out(&mut self, count: &mut u32, sink: &mut dyn Sink) -> Result<()> {
        while self.work.left > 0
            && let Some((from, lane)) = self.work.ready.pop_front()
        {
            self.work.progress += 1;
            let next = self.others.peers[from as usize].next(lane);
            *count += self.tell(from, lane, next, sink)?;
        }
        for ring in 0..self.rings.len() {
            if self.work.left > 0 && self.rings[ring].is_done() {
                self.work.progress += 1;
                *count += self.read(ring, sink)?;
                self.rings[ring].next();
            }
        }
        while self.work.left > 0
            && let Some((filling, came)) = self.large.filled.pop()
        {
            self.work.progress += 1;
            *count += self.fill(filling, came, sink)?;
        }
        self.receive_announced()?;
        self.send_backlog()
    }

    /// Reads the first message of a ring. How many frames the sink was told of.
    fn read(&mut self, ring: usize, sink: &mut dyn Sink) -> Result<u32> {
        let Some((Status { source, tag, .. }, bytes)) = self.rings[ring].message() else { return Ok(0) };
        let (from, tag) = (*source as u32, *tag as u16);
        let number = |at: usize| {
            bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let lane = ALL_LANES[usize::from(tag % 4).min(ALL_LANES.len() - 1)];
        match tag - tag % 4 {
            0 => {
                self.counters.received();
                self.counters.copied(bytes.len());
                let frame = self.others.peers[from as usize].finish(lane, bytes);
                self.came(from, lane, frame, sink)
            }
            MORE => {
                self.counters.copied(bytes.len());
                self.others.peers[from as usize].begin(lane, bytes, EAGER);
                Ok(0)
            }
            DESCRIPTOR => {
                let length = usize::try_from(number(0)).unwrap_or(usize::MAX).min(LONGEST);
                self.counters.received();
                self.large.last_number += 1;
                let number = self.large.last_number;
                self.large.owners.push(Owner { number, from, lane, length });
                let told = self.came(from, lane, Frame::Coming(number), sink)?;
                self.announce(number, (from, Class::of(lane, length)))?;
                Ok(told)
            }
            _ => {
                let sent = number(0);
                self.others.peers[from as usize].leaves(sent);
                self.see_whether_left(from).map(|()| 0)
            }
        }
    }

    #[inline]
    fn came(&mut self, from: u32, lane: Lane, frame: Frame, sink: &mut dyn Sink) -> Result<u32> {
        let next = self.others.peers[from as usize].came(lane, frame);
        self.tell(from, lane, next, sink)
    }

    /// Tells the sink of a frame, and of those behind it that need not wait any more. How many they are.
    #[inline]
    fn tell(&mut self, from: u32, lane: Lane, mut next: Option<Frame>, sink: &mut dyn Sink) -> Result<u32> {
        let mut told = 0;
        while let Some(frame) = next {
            if let Frame::Whole(body) = frame {
                told += 1;
                self.work.left = self.work.left.saturating_sub(1);
                sink.arrived(ProcessId(from), lane, body);
            }
            if self.work.left == 0 {
                if self.others.peers[from as usize].has_next(lane) {
                    self.work.ready.push_back((from, lane));
                }
                break;
            }
            next = self.others.peers[from as usize].next(lane);
        }
        self.see_whether_left(from).map(|()| told)
    }

    /// Gives a receive to a large frame, which is on its way, or here.
    fn announce(&mut self, number: u64, kind: Kind) -> Result<()> {
        match self.large.expected.announce(number, kind) {
            Given::Process(ticket) => {
                let is_it = |(filling, _): &(Filling, usize)| filling.ticket == ticket;
                if let Some(at) = self.large.early.iter().position(is_it) {
                    self.large.filled.push(self.large.early.swap_remove(at));
                }
                Ok(())
            }
            Given::Coming => {
                // It is mostly here.
                let mut tests = 0;
                self.test_fills(&mut tests)?;
                self.counters.tested(tests);
                Ok(())
            }
            Given::Waits => Ok(()),
        }
    }

    /// Hands on a large frame that has come.
    fn fill(&mut self, filling: Filling, came: usize, sink: &mut dyn Sink) -> Result<u32> {
        let kind = filling.kind;
        let Some(number) = self.large.expected.take(filling.ticket) else { return Ok(0) };
        let Some(at) = self.large.owners.iter().position(|owner| owner.number == number) else {
            return Ok(0);
        };
        let Owner { from, lane, length, .. } = self.large.owners.swap_remove(at);
        let with = filling.into_bytes(came, length).and_then(Body::of_frame).map_or(Frame::Bad, Frame::Whole);
        self.others.peers[from as usize].filled(lane, number, with);
        // Before its answer is on its way.
        self.receive_ahead(kind)?;
        let next = self.others.peers[from as usize].next(lane);
        self.tell(from, lane, next, sink)
    }

    /// Receives the next large frame of a process that is like the last.
    fn receive_ahead(&mut self, kind: Kind) -> Result<()> {
        if self.others.peers[kind.0 as usize].down.is_some() || !self.large.expected.may_post_ahead(kind) {
            return Ok(());
        }
        let mut tests = 0;
        self.lanes.test_bulk(&mut self.token, &mut tests, &mut self.large.buffer_pool)?;
        self.counters.tested(tests);
        if let Some(room) = room_for(kind.1, self.large.buffer_pool.take(kind.1.longest())) {
            let ticket = self.large.expected.post_ahead(kind);
            self.large.fills.receive(&mut self.token, kind, ticket, room)?;
        }
        Ok(())
    }

    /// Receives large bodies that were announced, as many as there is room for.
    fn receive_announced(&mut self) -> Result<()> {
        while let Some(announced) = self.large.expected.next() {
            let kind = announced.kind;
            let Some(room) = room_for(kind.1, self.large.buffer_pool.take(kind.1.longest())) else {
                // Its sender waits for ever for us to receive it.
                self.lose(kind.0, Why::Unreachable);
                continue;
            };
            let ticket = self.large.expected.post(announced);
            self.large.fills.receive(&mut self.token, kind, ticket, room)?;
        }
        Ok(())
    }

    #[inline]
    fn see_whether_left(&mut self, from: u32) -> Result<()> {
        if self.others.peers[from as usize].has_left() {
            self.lose(from, Why::Left);
            return self.say_farewell(from);
        }
        Ok(())
    }

    /// Says that nothing more comes from here, and how much has.
    fn say_farewell(&mut self, to: u32) -> Result<()> {
        // Frames that wait for room go first, if they still can.
        let waits = self.lanes.waits_for(to);
        let peer = &mut self.others.peers[to as usize];
        if to == self.me || peer.was_told {
            return Ok(());
        }
        if (waits && peer.down.is_none()) || !self.lanes.has_room_for_word() {
            self.others.owes_farewell = true;
            return Ok(());
        }
        peer.was_told = true;
        let word = Sent::Word(Box::new(peer.sent.to_le_bytes()));
        let to = Destination { comm: Comm::Control, process: to, tag: FAREWELL };
        self.lanes.send(&mut self.token, Lane::Control, to, word)
    }

    /// Says goodbye to all, once the frames that wait for room are gone.
    pub(super) fn leave(&mut self) {
        self.others.has_left = true;
        if let Err(error) = self.say_farewells() {
            self.break_down(error);
        }
    }

    fn say_farewells(&mut self) -> Result<()> {
        self.others.owes_farewell = false;
        for peer in 0..self.others.peers.len() as u32 {
            if self.others.has_left || self.others.peers[peer as usize].down == Some(Why::Left) {
                self.say_farewell(peer)?;
            }
        }
        Ok(())
    }

    fn send_backlog(&mut self) -> Result<()> {
        while let Some(outgoing) = self.lanes.pop() {
            self.send(outgoing)?;
        }
        if self.others.owes_farewell { self.say_farewells() } else { Ok(()) }
    }

    #[inline]
    fn send(&mut self, Outgoing { to, lane, body }: Outgoing) -> Result<()> {
        let peer = &mut self.others.peers[to as usize];
        if peer.down.is_some() || peer.was_told {
            return Ok(());
        }
        peer.sent += 1;
        self.counters.sent();
        let Eager { comm, piece, most } = self.lanes.eager(lane);
        let length = body.frame().len();
        let whole = Destination { comm, process: to, tag: lane as u16 };
        if length <= piece.min(most) {
            return self.lanes.send(&mut self.token, lane, whole, Sent::Whole(body));
        }
        if length <= most {
            return self.lanes.send_pieces(&mut self.token, lane, whole, MORE, body);
        }
        // The bytes first: they take longer, and their receiver has posted a receive already.
        let descriptor = Sent::Word(Box::new((length as u64).to_le_bytes()));
        let bulk = Destination { comm: Comm::Bulk, process: to, tag: Class::of(lane, length).tag() };
        self.lanes.send_bulk(&mut self.token, lane, bulk, body, &mut self.large.buffer_pool)?;
        let to = Destination { tag: DESCRIPTOR + lane as u16, ..whole };
        self.lanes.send(&mut self.token, lane, to, descriptor)
    }

    /// Gives everything back to MPI that it has of us, for it to be finalized.
    pub(super) fn close(&mut self) -> Result<()> {
        self.others.is_closed = true;
        // Nobody sends any more.
        let expected = &self.large.expected;
        self.large.fills.cancel(&mut self.token, |ticket| expected.is_preposted(ticket))?;
        self.rings.iter_mut().try_for_each(|ring| ring.close(&mut self.token))
    }
}

impl State {
    /// Whether lanes of those have room for any frame: a bit for each.
    pub(super) fn lanes_with_room(&self, of: u8) -> u8 {
        (0..peer::LANES)
            .filter(|lane| of >> lane & 1 == 1 && self.lanes.has_room_for_any(*lane))
            .fold(0, |all, lane| all | 1 << lane)
    }
}

/// The length that frames may have which go with a lane's ring.
fn eager(lane: usize, piece: usize) -> Eager {
    if lane == Lane::Control as usize {
        Eager { comm: Comm::Control, piece: CONTROL_EAGER, most: CONTROL_EAGER }
    } else {
        Eager { comm: Comm::User, piece, most: EAGER }
    }
}

impl Inside for State {
    type Work = Outgoing;

    #[inline]
    fn has_room(&self, work: &Outgoing) -> bool {
        self.lanes.has_room(work.lane, work.body.frame().len())
    }

    #[inline]
    fn take(&mut self, work: Outgoing) {
        if self.others.has_left || self.others.is_closed || self.broken.is_some() {
            return;
        }
        if !self.has_room(&work) {
            self.lanes.push(work);
        } else if let Err(error) = self.send(work) {
            self.break_down(error);
        }
    }
}
