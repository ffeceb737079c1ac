//! What only one thread at a time may touch: MPI, and all that is under way.
//!
//! # Frames as MPI messages
//!
//! A frame of at most a slot's size is one message; MPI's tag says of which lane it is. One of up to 16 KiB is several, in order:
//! each is so short that the library sends it without asking first. A larger one is two: a descriptor
//! takes its place among the frames and says how long it is and under which key it comes; its bytes come by themselves,
//! straight from the sender's buffer into the receiver's.
//!
//! | MPI's tag | message |
//! |---|---|
//! | lane + 4 · 0 | a frame |
//! | lane + 4 · 1 | a descriptor: the length, u64, and the key, u64, little endian |
//! | lane + 4 · 3 | a piece of a frame, of which more follows |
//! | 4 · 2 | a farewell: how many frames were sent to that process, u64 |
//!
//! # Leaving
//!
//! A process that leaves says so to each other one, and how many frames it has sent to it. Who has got that, and all these
//! frames, answers with a farewell of its own, unless it has said one, and sends nothing more. So when a process has the farewells of
//! all, nothing is on its way in either direction, and MPI may be finalized.

use std::collections::VecDeque;
use std::sync::Arc;

use chanter_cluster::engine::turn::Inside;
use chanter_cluster::engine::{Change, Lane, Peer, Sink, Why};
use chanter_cluster::wire::{Body, LENGTH};

use super::counters::Counters;
use super::flight::{Filling, Fills, Sends, Sent};
use super::peer::{self, Frame};
use super::ring::Ring;
use super::rooms::Rooms;
use crate::detect::OPEN_MPI;
use crate::shim::{Comm, MpiError, Result, Right, Status, library};

/// Bytes of a frame that goes in pieces, at most: a header, 16 KiB, and what a value's encoding adds.
const EAGER: usize = LENGTH + 16 * 1024 + 16;
/// Bytes of a piece; a whole frame mostly. Open MPI sends no more than 4 KiB, with its own header, without asking first.
const PIECE: usize = LENGTH + 8 * 1024 + 16;
const PIECE_OPEN_MPI: usize = 4000;
/// The ring of control frames, and sends that are under way, are looked at by one look in so many.
const CONTROL_LOOKS: u32 = 8;
const SENDS_LOOKS: u32 = 16;
/// The longest frame.
pub(super) const LONGEST: usize = 1 << 30;
/// Slots of the rings.
const USER_SLOTS: usize = 64;
const CONTROL_SLOTS: usize = 32;
/// Bytes of a slot of the control ring. (Names are as long.)
const CONTROL_EAGER: usize = 512;
/// So many sends may be on their way.
const SENDS: usize = 64;
/// So many large bodies may be, in each direction.
const BULK: usize = 16;
/// Keys that MPI's tags have room for with every MPI.
const KEYS: u64 = 1 << 15;

const DESCRIPTOR: u16 = 4;
const FAREWELL: u16 = 8;
const MORE: u16 = 12;
const ALL_LANES: [Lane; peer::LANES] = [Lane::Control, Lane::User, Lane::Bulk];

/// A frame that is to be sent.
pub(super) struct Outgoing {
    pub(super) to: u32,
    pub(super) lane: Lane,
    pub(super) body: Body,
}

/// A large body that was announced, before there is room for it.
struct Announced {
    from: u32,
    number: u64,
    length: u64,
    key: u16,
}

pub(super) struct State {
    pub(super) right: Right,
    me: u32,
    rings: [Ring; 2],
    sends: Sends,
    bulk_sends: Sends,
    fills: Fills,
    rooms: Rooms,
    piece: usize,
    /// Counted round.
    looks: u32,
    /// What has come so far, for the sink or not. Counted round.
    progress: u64,
    /// The last poll has found something.
    is_busy: bool,
    peers: Vec<peer::Peer>,
    /// What others have handed in and there was no room for.
    backlog: VecDeque<Outgoing>,
    announced: VecDeque<Announced>,
    /// Large frames that have come, and how many bytes of each, until the sink is told.
    filled: Vec<(Filling, usize)>,
    /// Processes and lanes of which frames were left to a later poll.
    ready: VecDeque<(u32, Lane)>,
    /// So many frames this poll may still hand out.
    left: u32,
    /// Who receives each large frame: process and lane.
    owners: Vec<(u64, u32, Lane)>,
    last_key: u64,
    last_number: u64,
    /// Peers of whom the sink does not know yet that they have gone.
    gone: VecDeque<(u32, Why)>,
    living: usize,
    has_left: bool,
    /// Somebody has to be told farewell, and there was no room.
    owes_farewell: bool,
    /// The end of everything has been told.
    pub(super) is_end_told: bool,
    is_closed: bool,
    pub(super) broken: Option<MpiError>,
    pub(super) counters: Arc<Counters>,
}

impl State {
    pub(super) fn new(mut right: Right, me: u32, count: u32, counters: Arc<Counters>) -> Result<Self> {
        let control = Ring::new(&mut right, Comm::Control, CONTROL_SLOTS, CONTROL_EAGER)?;
        let piece = if library().contains(OPEN_MPI) { PIECE_OPEN_MPI } else { PIECE };
        let user = Ring::new(&mut right, Comm::User, USER_SLOTS, piece)?;
        let mut rings = [user, control];
        rings.iter_mut().try_for_each(|ring| ring.start(&mut right))?;
        Ok(Self {
            right,
            me,
            rings,
            sends: Sends::new(SENDS),
            bulk_sends: Sends::new(BULK),
            fills: Fills::new(BULK),
            rooms: Rooms::default(),
            piece,
            looks: 0,
            progress: 0,
            is_busy: false,
            peers: (0..count).map(|_| peer::Peer::default()).collect(),
            backlog: VecDeque::new(),
            announced: VecDeque::new(),
            filled: Vec::new(),
            ready: VecDeque::new(),
            left: 0,
            owners: Vec::new(),
            last_key: 0,
            last_number: 0,
            gone: VecDeque::new(),
            living: count as usize - 1,
            has_left: false,
            owes_farewell: false,
            is_end_told: false,
            is_closed: false,
            broken: None,
            counters,
        })
    }

    /// Whether nothing comes any more, and nothing is on its way.
    pub(super) fn has_ended(&self) -> bool {
        self.broken.is_some()
            || self.living == 0
                && self.gone.is_empty()
                && self.backlog.is_empty()
                && self.sends.is_empty()
                && self.bulk_sends.is_empty()
    }

    /// An MPI function has complained: nobody can be reached any more.
    fn break_down(&mut self, error: MpiError) {
        self.broken.get_or_insert(error);
        for peer in 0..self.peers.len() as u32 {
            self.lose(peer, Why::Unreachable);
        }
        self.backlog.clear();
    }

    fn lose(&mut self, peer: u32, why: Why) {
        if peer != self.me && self.peers[peer as usize].down.is_none() {
            self.peers[peer as usize].down = Some(why);
            self.living -= 1;
            self.gone.push_back((peer, why));
        }
    }

    /// Looks whether something has come, or is done. Whether there is something for the sink, or to send.
    #[inline]
    pub(super) fn look(&mut self) -> bool {
        if self.broken.is_some() || self.is_closed {
            return !self.gone.is_empty();
        }
        self.try_to_look().unwrap_or_else(|error| {
            self.break_down(error);
            true
        })
    }

    /// The same, and nothing is left to a later one.
    pub(super) fn look_everywhere(&mut self) -> bool {
        self.looks = u32::MAX;
        self.look()
    }

    #[inline]
    fn try_to_look(&mut self) -> Result<bool> {
        let mut tests = 0;
        self.looks = self.looks.wrapping_add(1);
        let [user, control] = &mut self.rings;
        // What is found here is written down: who asks again finds it again.
        let mut found = control.is_done() || user.has_message(&mut self.right, &mut tests)?;
        if self.looks.is_multiple_of(CONTROL_LOOKS) {
            found |= control.has_message(&mut self.right, &mut tests)?;
        }
        // MPI makes progress with each test. Whether sends are done is of interest to who has no room, or leaves.
        let are_due = self.looks.is_multiple_of(SENDS_LOOKS)
            || self.sends.is_short()
            || self.has_left
            || !self.backlog.is_empty();
        let has_due = are_due && !self.sends.is_empty();
        if has_due || !self.bulk_sends.is_empty() || !self.fills.is_empty() {
            self.look_at_flights(has_due, &mut tests)?;
        }
        self.counters.tested(tests);
        Ok(found
            || !self.gone.is_empty()
            || !self.filled.is_empty()
            || !self.ready.is_empty()
            || self.can_send()
            || self.must_tell_end())
    }

    /// Looks whether large frames have come, or have gone.
    #[cold]
    fn look_at_flights(&mut self, sends_are_due: bool, tests: &mut u64) -> Result<()> {
        if sends_are_due {
            *tests += 1;
            self.sends.test(&mut self.right, |sent, _| {
                if let Sent::Whole(frame) = sent {
                    drop(Body::of_frame(frame));
                }
            })?;
        }
        if !self.bulk_sends.is_empty() {
            *tests += 1;
            self.bulk_sends.test(&mut self.right, |sent, _| keep(&mut self.rooms, sent))?;
        }
        if !self.fills.is_empty() {
            *tests += 1;
            self.fills.test(&mut self.right, |filling, came| self.filled.push((filling, came)))?;
        }
        Ok(())
    }

    /// Whether something that waits for room could be sent.
    #[inline]
    fn can_send(&self) -> bool {
        match self.backlog.front() {
            Some(outgoing) => self.has_room_for(outgoing),
            None => self.owes_farewell && self.sends.has_room(),
        }
    }

    #[inline]
    fn must_tell_end(&self) -> bool {
        self.living == 0 && !self.is_end_told && self.has_ended()
    }

    /// Hands at most `budget` frames out. What the sink was told, and whether there may be more.
    pub(super) fn poll(&mut self, budget: u32, sink: &mut dyn Sink) -> (u32, bool) {
        let mut count = 0;
        self.left = budget;
        let done = loop {
            if !self.look() {
                break false;
            }
            if self.left == 0 {
                break true;
            }
            let had = self.progress;
            if let Err(error) = self.hand_out(&mut count, sink) {
                self.break_down(error);
            }
            while let Some((peer, why)) = self.gone.pop_front() {
                sink.peer(Peer(peer), Change::Down(why));
                count += 1;
                self.progress += 1;
            }
            if self.progress == had {
                break false;
            }
            // Who waits for a single answer has it now; another look may cost as much as all this.
            if count > 0 && !self.is_busy {
                break true;
            }
        };
        self.is_busy = count > 0;
        (count, done)
    }

    fn hand_out(&mut self, count: &mut u32, sink: &mut dyn Sink) -> Result<()> {
        while self.left > 0
            && let Some((from, lane)) = self.ready.pop_front()
        {
            self.progress += 1;
            let next = self.peers[from as usize].next(lane);
            *count += self.tell(from, lane, next, sink)?;
        }
        for ring in 0..self.rings.len() {
            if self.left > 0 && self.rings[ring].is_done() {
                self.progress += 1;
                *count += self.read(ring, sink)?;
                self.rings[ring].next(&mut self.right)?;
            }
        }
        while self.left > 0
            && let Some((filling, came)) = self.filled.pop()
        {
            self.progress += 1;
            *count += self.fill(filling, came, sink)?;
        }
        self.receive_announced()?;
        self.send_backlog()
    }

    /// Reads the first message of a ring. How many frames the sink was told of.
    fn read(&mut self, ring: usize, sink: &mut dyn Sink) -> Result<u32> {
        let Some((Status { source, tag, .. }, bytes)) = self.rings[ring].message() else { return Ok(0) };
        let (from, tag) = (source as u32, tag as u16);
        let number = |at: usize| {
            bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let lane = ALL_LANES[usize::from(tag % 4).min(ALL_LANES.len() - 1)];
        match tag - tag % 4 {
            0 => {
                self.counters.received();
                self.counters.copied(bytes.len());
                let mut frame = self.peers[from as usize].take_begun(lane, bytes.len());
                frame.extend_from_slice(bytes);
                let frame = Body::of_frame(frame).map_or(Frame::Bad, Frame::Whole);
                self.came(from, lane, frame, sink)
            }
            MORE => {
                self.counters.copied(bytes.len());
                self.peers[from as usize].begin(lane, bytes, EAGER);
                Ok(0)
            }
            DESCRIPTOR => {
                let (length, key) = (number(0), (number(8) % KEYS) as u16);
                self.counters.received();
                self.last_number += 1;
                let announced = Announced { from, number: self.last_number, length, key };
                self.owners.push((announced.number, from, lane));
                let told = self.came(from, lane, Frame::Coming(announced.number), sink)?;
                self.announced.push_back(announced);
                Ok(told)
            }
            _ => {
                let sent = number(0);
                self.peers[from as usize].leaves(sent);
                self.see_whether_left(from).map(|()| 0)
            }
        }
    }

    #[inline]
    fn came(&mut self, from: u32, lane: Lane, frame: Frame, sink: &mut dyn Sink) -> Result<u32> {
        let next = self.peers[from as usize].came(lane, frame);
        self.tell(from, lane, next, sink)
    }

    /// Tells the sink of a frame, and of those behind it that need not wait any more. How many they are.
    #[inline]
    fn tell(&mut self, from: u32, lane: Lane, mut next: Option<Frame>, sink: &mut dyn Sink) -> Result<u32> {
        let mut told = 0;
        while let Some(frame) = next {
            if let Frame::Whole(body) = frame {
                told += 1;
                self.left = self.left.saturating_sub(1);
                sink.arrived(Peer(from), lane, body);
            }
            if self.left == 0 {
                if self.peers[from as usize].has_next(lane) {
                    self.ready.push_back((from, lane));
                }
                break;
            }
            next = self.peers[from as usize].next(lane);
        }
        self.see_whether_left(from).map(|()| told)
    }

    /// A large frame has come.
    fn fill(&mut self, filling: Filling, came: usize, sink: &mut dyn Sink) -> Result<u32> {
        let number = filling.owner;
        let with = filling.into_bytes(came).and_then(Body::of_frame).map_or(Frame::Bad, Frame::Whole);
        self.arrived_by_itself(number, with, sink)
    }

    fn arrived_by_itself(&mut self, number: u64, with: Frame, sink: &mut dyn Sink) -> Result<u32> {
        let Some(at) = self.owners.iter().position(|(other, ..)| *other == number) else { return Ok(0) };
        let (_, from, lane) = self.owners.swap_remove(at);
        self.peers[from as usize].filled(lane, number, with);
        let next = self.peers[from as usize].next(lane);
        self.tell(from, lane, next, sink)
    }

    /// Receives large bodies that were announced, as many as there is room for.
    fn receive_announced(&mut self) -> Result<()> {
        while self.fills.has_room()
            && let Some(Announced { from, number, length, key }) = self.announced.pop_front()
        {
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(LONGEST);
            let room = self.rooms.take(length);
            if self.fills.receive(&mut self.right, number, (room, length), from, key)?.is_err() {
                // Its sender waits for ever for us to receive it.
                self.lose(from, Why::Unreachable);
            }
        }
        Ok(())
    }

    #[inline]
    fn see_whether_left(&mut self, from: u32) -> Result<()> {
        if self.peers[from as usize].has_left() {
            self.lose(from, Why::Left);
            return self.say_farewell(from);
        }
        Ok(())
    }

    /// Says that nothing more comes from here, and how much has.
    fn say_farewell(&mut self, to: u32) -> Result<()> {
        // What waits for room goes first, if it still can.
        let waits = self.backlog.iter().any(|outgoing| outgoing.to == to);
        let peer = &mut self.peers[to as usize];
        if to == self.me || peer.was_told {
            return Ok(());
        }
        if (waits && peer.down.is_none()) || !self.sends.has_room() {
            self.owes_farewell = true;
            return Ok(());
        }
        peer.was_told = true;
        let frame = peer.sent.to_le_bytes().to_vec();
        self.sends.send(&mut self.right, Comm::Control, frame, to, FAREWELL).map(drop)
    }

    /// Says farewell to all, once what waits for room is gone.
    pub(super) fn leave(&mut self) {
        self.has_left = true;
        if let Err(error) = self.say_farewells() {
            self.break_down(error);
        }
    }

    fn say_farewells(&mut self) -> Result<()> {
        self.owes_farewell = false;
        for peer in 0..self.peers.len() as u32 {
            if self.has_left || self.peers[peer as usize].down == Some(Why::Left) {
                self.say_farewell(peer)?;
            }
        }
        Ok(())
    }

    fn send_backlog(&mut self) -> Result<()> {
        while let Some(outgoing) = self.backlog.front() {
            if !self.has_room_for(outgoing) {
                return Ok(());
            }
            if let Some(outgoing) = self.backlog.pop_front() {
                self.send(outgoing)?;
            }
        }
        if self.owes_farewell { self.say_farewells() } else { Ok(()) }
    }

    fn eager(lane: Lane) -> (Comm, usize) {
        match lane {
            Lane::Control => (Comm::Control, CONTROL_EAGER),
            Lane::User | Lane::Bulk => (Comm::User, EAGER),
        }
    }

    fn has_room_for(&self, outgoing: &Outgoing) -> bool {
        let (_, eager) = Self::eager(outgoing.lane);
        let length = outgoing.body.frame().len();
        if length <= eager {
            self.sends.has_room_for(length.div_ceil(self.piece))
        } else {
            self.sends.has_room() && self.bulk_sends.has_room()
        }
    }

    #[inline]
    fn send(&mut self, Outgoing { to, lane, body }: Outgoing) -> Result<()> {
        let peer = &mut self.peers[to as usize];
        if peer.down.is_some() || peer.was_told {
            return Ok(());
        }
        peer.sent += 1;
        self.counters.sent();
        let (comm, eager) = Self::eager(lane);
        let frame = body.into_frame();
        if frame.len() <= self.piece.min(eager) {
            let sent = self.sends.send(&mut self.right, comm, frame, to, lane as u16)?;
            // As a body: its memory is kept.
            if let Some(Sent::Whole(frame)) = sent {
                drop(Body::of_frame(frame));
            }
            return Ok(());
        }
        if frame.len() <= eager {
            return self.send_pieces(comm, frame, to, lane);
        }
        self.last_key += 1;
        let key = self.last_key % KEYS;
        let descriptor = [(frame.len() as u64).to_le_bytes(), key.to_le_bytes()].concat();
        drop(self.sends.send(&mut self.right, comm, descriptor, to, DESCRIPTOR + lane as u16)?);
        if let Some(sent) = self.bulk_sends.send(&mut self.right, Comm::Bulk, frame, to, key as u16)? {
            keep(&mut self.rooms, sent);
        }
        Ok(())
    }

    fn send_pieces(&mut self, comm: Comm, frame: Vec<u8>, to: u32, lane: Lane) -> Result<()> {
        let frame = Arc::new(frame);
        for begin in (0..frame.len()).step_by(self.piece) {
            let end = frame.len().min(begin + self.piece);
            let tag = lane as u16 + if end < frame.len() { MORE } else { 0 };
            self.sends.send_piece(&mut self.right, comm, (&frame, begin..end), to, tag)?;
        }
        Ok(())
    }

    /// Gives everything back to MPI that it has of us, for it to be finalized.
    pub(super) fn close(&mut self) -> Result<()> {
        self.is_closed = true;
        self.rings.iter_mut().try_for_each(|ring| ring.close(&mut self.right))
    }
}

/// The memory of what was sent is room for what comes.
fn keep(rooms: &mut Rooms, sent: Sent) {
    if let Sent::Whole(frame) = sent {
        rooms.put(frame);
    }
}

impl Inside for State {
    type Work = Outgoing;

    #[inline]
    fn has_room(&self) -> bool {
        let pieces = EAGER.div_ceil(self.piece);
        self.backlog.is_empty() && self.sends.has_room_for(pieces) && self.bulk_sends.has_room()
    }

    #[inline]
    fn take(&mut self, work: Outgoing) {
        if self.has_left || self.is_closed || self.broken.is_some() {
            return;
        }
        if !self.backlog.is_empty() || !self.has_room_for(&work) {
            self.backlog.push_back(work);
        } else if let Err(error) = self.send(work) {
            self.break_down(error);
        }
    }
}
