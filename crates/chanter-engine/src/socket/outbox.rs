//! The outbox of one connection: three queues, whose bodies are cut into pieces by turns.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::Arc;

use super::frame::{HEAD, LANES, PIECE, Word, head};
use super::stream::Stream;
use crate::engine::{Lane, Why};
use crate::wire::Body;

/// The phase of a connection: what this end may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// This end sends.
    Open,
    /// This end sends the queues, and then says that it leaves.
    Leaving,
    /// This end has said that it leaves.
    Left,
    /// The other end leaves, and this end may only say good-bye.
    Parting,
    /// This end sends nothing.
    Closed(Why),
}

/// Whether the socket has taken everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    All,
    /// The socket is full. Flush again when it is writable.
    Blocked,
}

#[derive(Default)]
struct Queue {
    bodies: VecDeque<Body>,
    /// Number of bytes of all bodies.
    bytes: usize,
    /// Number of bytes of the first body that have been staged.
    staged: usize,
    /// Number of bytes down to which the queue must shrink, after a refusal, before a body may be tried again.
    refused: Option<usize>,
}

/// The queues, a buffer of frames for the socket, and the socket until the connection has ended.
pub(super) struct Outbox {
    pub(super) phase: Phase,
    stream: Option<Arc<Stream>>,
    lanes: [Queue; LANES],
    /// Whether the bulk lane goes next, if the user lane has a piece, too.
    bulk_next: bool,
    /// Frames for the socket, which has taken the bytes before `written`.
    staged: Vec<u8>,
    written: usize,
    /// Number of bytes that the socket has ever taken.
    pub(super) written_ever: u64,
    /// Set when there is room again in a queue that had refused a body.
    has_room: bool,
    alive: bool,
    notify_peer: bool,
    beside: Option<u64>,
    goodbye: bool,
    /// Set while the writer waits until the socket takes more.
    pub(super) blocked: bool,
    /// Set when the socket has failed. Staged frames are lost.
    broken: bool,
    /// Set while the TLS session holds records that the socket has not taken.
    unwritten: bool,
}

impl Outbox {
    pub(super) fn new(stream: Arc<Stream>) -> Self {
        Self {
            phase: Phase::Open,
            stream: Some(stream),
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

    /// Takes a body, unless the lane would then have more than `most` bytes. A body alone in its lane is always
    /// taken.
    pub(super) fn push(&mut self, lane: Lane, body: Body, most: usize) -> Result<(), Body> {
        let queue = &mut self.lanes[lane as usize];
        let bytes = body.frame().len();
        if !queue.bodies.is_empty() && queue.bytes + bytes > most {
            // Room is announced only once half of `most` is free, so that a retry finds room for several bodies.
            queue.refused = Some(most / 2);
            return Err(body);
        }
        queue.bytes += bytes;
        queue.bodies.push_back(body);
        Ok(())
    }

    /// Ends the connection: the reader finds its end.
    pub(super) fn shutdown(&self) {
        if let Some(stream) = &self.stream {
            stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets go of the socket of a connection that has ended.
    pub(super) fn release(&mut self) {
        self.shutdown();
        self.stream = None;
    }

    /// Whether a queue has got room again since the last call.
    pub(super) fn take_room(&mut self) -> bool {
        std::mem::take(&mut self.has_room)
    }

    /// Says that this process lives, if the phase allows it.
    pub(super) fn say_alive(&mut self) {
        self.alive = matches!(self.phase, Phase::Open | Phase::Leaving);
    }

    /// Asks the other end to look for work elsewhere, if the phase allows it.
    pub(super) fn say_knock(&mut self) {
        self.notify_peer = matches!(self.phase, Phase::Open | Phase::Leaving);
    }

    /// Sends a statement about messages sent by other ways, if the phase allows it. It replaces one that was not sent
    /// yet.
    pub(super) fn say_beside(&mut self, said: u64) {
        if matches!(self.phase, Phase::Open | Phase::Leaving) {
            self.beside = Some(said);
        }
    }

    /// Says, after the queues are sent, that all frames that came were taken.
    pub(super) fn say_goodbye(&mut self) {
        self.goodbye = true;
    }

    /// Whether the socket has taken all that this end may send.
    pub(super) fn is_flushed(&self) -> bool {
        let is_written = self.written == self.staged.len() && !self.unwritten;
        self.broken || (is_written && !self.goodbye && self.next_lane().is_none())
    }

    /// Drops bytes that have not been staged. Staged ones must go on, or the other end would see half a frame.
    pub(super) fn forget_queues(&mut self) {
        self.lanes = Default::default();
    }

    /// Closes the outbox: nothing is sent any more.
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

    /// Stages frames until they are enough for a write.
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
    /// The connection is broken. Nothing more is written, and its reader finds its end.
    pub(super) fn flush(&mut self) -> io::Result<Flushed> {
        if self.broken {
            return Ok(Flushed::All);
        }
        let Some(stream) = self.stream.take() else { return Ok(Flushed::All) };
        let flushed = self.flush_to(&stream);
        self.stream = Some(stream);
        flushed
    }

    fn flush_to(&mut self, stream: &Stream) -> io::Result<Flushed> {
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
