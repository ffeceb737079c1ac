//! The frames to a process that the engine has not taken yet.
//!
//! Each lane has a queue of its own. A frame that is longer than the engine's frames goes in [parts](super::parts).

use std::collections::VecDeque;

use super::parts;
use crate::engine::{Engine, Lane, ProcessId};
use crate::wire::{Body, Kind};

const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];

/// A frame that waits, with the number of its bytes that the engine has. That is more than 0 at most for the first
/// frame of a lane.
#[derive(Debug)]
pub(super) struct WaitingFrame {
    body: Body,
    sent: usize,
}

/// The frames that wait, by lane; see the module.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    lanes: [VecDeque<WaitingFrame>; 3],
    /// Number of messages among them.
    messages: usize,
    /// Number of the first frames of each lane that a thread waits for.
    awaited: [usize; 3],
    /// Number of frames that answer the process, and (in `answered`) their bytes.
    pub(super) answers: usize,
    pub(super) answered: usize,
}

/// The properties of a frame that a backlog counts.
struct Counted {
    is_message: bool,
    /// The length of an answer.
    answer: Option<usize>,
}

impl Counted {
    fn of(body: &Body) -> Self {
        Self { is_message: is_message(body), answer: is_answer(body).then_some(body.len()) }
    }
}

impl WaitingFrame {
    /// Gives the engine a frame, or as many parts as it takes. Returns the frame if the engine has not all of it.
    #[inline(always)]
    pub(super) fn give(mut self, engine: &dyn Engine, to: ProcessId, lane: Lane) -> Option<Self> {
        let longest = engine.caps(to).eager as usize;
        if self.body.len() <= longest {
            let full = engine.try_send(to, lane, self.body).err()?;
            return Some(Self { body: full.body, sent: 0 });
        }
        let is_sent = parts::give(engine, to, lane, self.body.frame(), &mut self.sent);
        if is_sent { None } else { Some(self) }
    }
}

impl From<Body> for WaitingFrame {
    #[inline(always)]
    fn from(body: Body) -> Self {
        Self { body, sent: 0 }
    }
}

impl Backlog {
    /// Notes that a thread waits until the engine has all frames that are here now. False: there are none.
    pub(super) fn await_all(&mut self) -> bool {
        self.awaited = LANES.map(|lane| self.lanes[lane as usize].len());
        self.is_awaited()
    }

    /// Whether a thread waits for one of the frames.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited != [0; 3]
    }

    /// Whether no frame of a lane waits.
    #[inline(always)]
    pub(super) fn is_free(&self, lane: Lane) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    /// Number of messages that wait.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Appends a frame that the engine does not take now.
    pub(super) fn push(&mut self, lane: Lane, frame: WaitingFrame) {
        let Counted { is_message, answer } = Counted::of(&frame.body);
        self.messages += usize::from(is_message);
        self.answers += usize::from(answer.is_some());
        self.answered += answer.unwrap_or(0);
        self.lanes[lane as usize].push_back(frame);
    }

    /// Gives the engine what it takes now. False: some frames still wait.
    pub(super) fn flush(&mut self, engine: &dyn Engine, to: ProcessId) -> bool {
        LANES.map(|lane| self.flush_lane(engine, to, lane)) == [true; 3]
    }

    fn flush_lane(&mut self, engine: &dyn Engine, to: ProcessId, lane: Lane) -> bool {
        while let Some(frame) = self.lanes[lane as usize].pop_front() {
            let Counted { is_message, answer } = Counted::of(&frame.body);
            if let Some(frame) = frame.give(engine, to, lane) {
                self.lanes[lane as usize].push_front(frame);
                return false;
            }
            let awaited = &mut self.awaited[lane as usize];
            *awaited = awaited.saturating_sub(1);
            self.messages -= usize::from(is_message);
            self.answers -= usize::from(answer.is_some());
            self.answered -= answer.unwrap_or(0);
        }
        true
    }

    /// The frames that wait. The process cannot have one of them, as it has not all parts of any.
    pub(super) fn into_frames(self) -> Vec<Body> {
        self.lanes.into_iter().flatten().map(|frame| frame.body).collect()
    }
}

/// Whether the frame answers one that came from the process.
fn is_answer(body: &Body) -> bool {
    const ANSWERS: [u8; 5] = [
        Kind::Acknowledge as u8,
        Kind::Found as u8,
        Kind::Gone as u8,
        Kind::Answer as u8,
        Kind::Returned as u8,
    ];
    body.frame().first().is_some_and(|kind| ANSWERS.contains(kind))
}

pub(super) fn is_message(body: &Body) -> bool {
    body.frame().first() == Some(&(Kind::Message as u8))
}
