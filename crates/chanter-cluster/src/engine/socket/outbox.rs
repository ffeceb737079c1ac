//! What is to be written to one connection: three queues, cut into pieces by turns.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use super::frame::{HEAD, LANES, PIECE, Word, head};
use super::stream::Stream;
use crate::engine::{Lane, Why};
use crate::wire::Body;

/// What this end may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Send.
    Open,
    /// Send what is in the queues, then say that it leaves.
    Leaving,
    /// It has said so.
    Left,
    /// Nothing but good-bye: the other end leaves.
    Parting,
    /// Nothing.
    Closed(Why),
}

/// Whether the socket has taken everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    All,
    /// It is full. When it is writable again, flush again.
    Blocked,
}

#[derive(Default)]
struct Queue {
    bodies: VecDeque<Body>,
    /// Bytes of all bodies.
    bytes: usize,
    /// Bytes of the first that have been staged.
    staged: usize,
    /// A body was refused; so many bytes may be left when another one may be tried.
    refused: Option<usize>,
}

/// The queues, and a buffer of frames that the socket is to take.
pub(super) struct Outbox {
    pub(super) phase: Phase,
    lanes: [Queue; LANES],
    /// Whether a piece of the bulk lane goes next, if users have one, too.
    bulk_next: bool,
    /// Frames: those before `written` have been taken.
    staged: Vec<u8>,
    written: usize,
    /// Bytes that the socket has ever taken.
    pub(super) written_ever: u64,
    /// There is room again in a queue that has refused a body.
    has_room: bool,
    alive: bool,
    notify_peer: bool,
    beside: Option<u64>,
    goodbye: bool,
    /// The writer waits until the socket takes more.
    pub(super) blocked: bool,
    /// The socket has refused: what is staged goes nowhere.
    broken: bool,
    /// It has taken records that it has not written.
    unwritten: bool,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Open,
            lanes: Default::default(),
            bulk_next: false,
            staged: Vec::new(),
            written: 0,
            written_ever: 0,
            has_room: false,
            alive: false,
            notify_peer: false,
            beside: None,
            goodbye: false,
            blocked: false,
            broken: false,
            unwritten: false,
        }
    }

    /// Takes a body, unless the lane has `most` bytes or would have more; one alone is always taken.
    pub(super) fn push(&mut self, lane: Lane, body: Body, most: usize) -> Result<(), Body> {
        let queue = &mut self.lanes[lane as usize];
        let bytes = body.frame().len();
        if !queue.bodies.is_empty() && queue.bytes + bytes > most {
            // Not for each body that goes: who tries again shall find room for several.
            queue.refused = Some(most / 2);
            return Err(body);
        }
        queue.bytes += bytes;
        queue.bodies.push_back(body);
        Ok(())
    }

    /// Whether there is room again where there was none, since this was last asked.
    pub(super) fn take_room(&mut self) -> bool {
        std::mem::take(&mut self.has_room)
    }

    /// Says that this process lives, unless it may say nothing.
    pub(super) fn say_alive(&mut self) {
        self.alive = matches!(self.phase, Phase::Open | Phase::Leaving);
    }

    /// Says that there is something to look for elsewhere, unless it may say nothing.
    pub(super) fn say_knock(&mut self) {
        self.notify_peer = matches!(self.phase, Phase::Open | Phase::Leaving);
    }

    /// Says that of what was sent elsewhere, unless it may say nothing: the last that was to be said.
    pub(super) fn say_beside(&mut self, said: u64) {
        if matches!(self.phase, Phase::Open | Phase::Leaving) {
            self.beside = Some(said);
        }
    }

    /// Says that all has been taken that has come, after what is in the queues.
    pub(super) fn say_goodbye(&mut self) {
        self.goodbye = true;
    }

    /// Whether all that it may say has been taken by the socket.
    pub(super) fn is_flushed(&self) -> bool {
        let is_written = self.written == self.staged.len() && !self.unwritten;
        self.broken || (is_written && !self.goodbye && self.next_lane().is_none())
    }

    /// Drops what has not been staged; what has been must go on, or the other end sees half a frame.
    pub(super) fn forget_queues(&mut self) {
        self.lanes = Default::default();
    }

    /// Nothing goes out any more.
    pub(super) fn close(&mut self, why: Why) {
        self.phase = Phase::Closed(why);
        self.broken = true;
        self.forget_queues();
        self.staged = Vec::new();
        self.written = 0;
    }

    fn next_lane(&self) -> Option<Lane> {
        let waits = |lane: Lane| !self.lanes[lane as usize].bodies.is_empty();
        if waits(Lane::Control) {
            return Some(Lane::Control);
        }
        match (waits(Lane::User), waits(Lane::Bulk)) {
            (true, true) => Some(if self.bulk_next { Lane::Bulk } else { Lane::User }),
            (true, false) => Some(Lane::User),
            (false, true) => Some(Lane::Bulk),
            (false, false) => None,
        }
    }

    fn put(&mut self, word: Word, lane: Lane, piece: std::ops::Range<usize>) {
        self.staged.extend_from_slice(&head(word, lane, piece.len()));
        if let Some(body) = self.lanes[lane as usize].bodies.front() {
            self.staged.extend_from_slice(&body.frame()[piece]);
        }
    }

    fn put_piece(&mut self, lane: Lane) {
        let queue = &self.lanes[lane as usize];
        let Some(body) = queue.bodies.front() else { return };
        let (begin, length) = (queue.staged, body.frame().len());
        let end = length.min(begin + PIECE);
        let word = if end == length { Word::Last } else { Word::Piece };
        self.put(word, lane, begin..end);
        self.bulk_next = lane == Lane::User;
        let queue = &mut self.lanes[lane as usize];
        queue.staged = end;
        if word == Word::Last && queue.bodies.pop_front().is_some() {
            queue.bytes -= length;
            queue.staged = 0;
            if queue.refused.is_some_and(|most| queue.bytes <= most) {
                queue.refused = None;
                self.has_room = true;
            }
        }
    }

    /// Stages frames until there are enough for a write.
    fn stage(&mut self) {
        if self.written == self.staged.len() {
            self.staged.clear();
            self.written = 0;
        } else if self.written >= PIECE {
            self.staged.drain(..self.written);
            self.written = 0;
        }
        while self.staged.len() - self.written < PIECE {
            if std::mem::take(&mut self.alive) {
                self.put(Word::Alive, Lane::Control, 0..0);
            } else if std::mem::take(&mut self.notify_peer) {
                self.put(Word::Notify, Lane::Control, 0..0);
            } else if let Some(said) = self.beside.take() {
                self.staged.extend_from_slice(&head(Word::Beside, Lane::Control, size_of::<u64>()));
                self.staged.extend_from_slice(&said.to_le_bytes());
            } else if let Some(lane) = self.next_lane() {
                self.put_piece(lane);
            } else if self.phase == Phase::Leaving {
                self.put(Word::Leave, Lane::Control, 0..0);
                self.phase = Phase::Left;
            } else if std::mem::take(&mut self.goodbye) {
                self.put(Word::Goodbye, Lane::Control, 0..0);
            } else {
                break;
            }
        }
        debug_assert!(self.staged.len() <= 3 * (HEAD + PIECE));
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// The connection is broken. Nothing more is written; who reads from it finds its end.
    pub(super) fn flush(&mut self, stream: &Stream) -> io::Result<Flushed> {
        if self.broken {
            return Ok(Flushed::All);
        }
        loop {
            self.stage();
            if self.written == self.staged.len() {
                return self.flush_records(stream);
            }
            match stream.try_write(&self.staged[self.written..]) {
                Ok(written) => {
                    self.written += written;
                    self.written_ever += written as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Flushed::Blocked),
                Err(error) => {
                    self.broken = true;
                    return Err(error);
                }
            }
        }
    }

    fn flush_records(&mut self, stream: &Stream) -> io::Result<Flushed> {
        let flushed = stream.try_flush();
        self.unwritten = flushed.is_err();
        match flushed {
            Ok(()) => Ok(Flushed::All),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Flushed::Blocked),
            Err(error) => {
                self.broken = true;
                Err(error)
            }
        }
    }
}
