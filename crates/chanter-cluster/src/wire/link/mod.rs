//! One lane of a link: frames to and from one peer, each once and in order, above an engine that loses, duplicates or
//! reorders them.
//!
//! It is a state machine without threads, clocks or locks: its owner says what has come and what time it is, and sends what
//! [`next_frame`](LaneLink::next_frame) gives. Each frame has a number; the receiver acknowledges, in whatever it sends the
//! other way, the number up to which all have come; the sender keeps what is not acknowledged, at most a window, and sends the
//! oldest again when nothing has been acknowledged for a while. What is beyond the window it gives back.
//!
//! ```text
//!  sender         send()           next_frame()         arrived(): acknowledged
//!     the owner's --------> fresh --------------> out -----------------------------> gone
//!                                               ^  |
//!                                               +--+  next_frame(), when it is due: again
//!
//!  receiver    arrived()          take()
//!     on its way ------> early -----------> the owner's; `expected` is the next one
//!                  |
//!                  +---> dropped: a duplicate, beyond the window, or of another session
//! ```
//!
//! * **INV-LINK-1** What [`take`](LaneLink::take) has given are the frames that the peer was told to send, from the
//!   first one on, each once, in order.
//! * **INV-LINK-2** `acknowledged <= expected there <= next <= acknowledged + window`: so a number of 32 bits names one
//!   frame, as long as the network keeps no frame back while 2^32 others pass.
//! * **INV-LINK-3** While a frame is not acknowledged, [`due`](LaneLink::due) says when it is sent again.
//! * **INV-LINK-4** Whatever arrives: at most a window of frames is kept, and nothing is acknowledged that was not sent.
//! * **INV-LINK-5** While the peer does not know of a frame that has come, [`owes`](LaneLink::owes) says when it is told, at the
//!   latest: [`Pace::acknowledge`] after the first such frame. Whatever goes there before tells it.
//!
//! Why 1 holds: `take` gives only the frame with the number `expected`, which then grows by one, so the numbers given are
//! 0, 1, 2 .. without repetition. A number is given to one frame only, by `send`, in order. A frame with an
//! old number is told by its distance from `expected`, which 2 makes unambiguous.
//! Why it goes on: the oldest unacknowledged frame is sent again and again (3). If it has not come, it fills the first gap; if it
//! has, it is a duplicate, and a duplicate owes an acknowledgement. Either way, if the network delivers one of
//! infinitely many, `acknowledged` grows.
//!
//! The last 8 bytes of a frame are its session: not part of the body, and cut off by the receiver. Frames of
//! other sessions, of an earlier job that had the same addresses, are dropped (D5).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::header::{AGAIN, NUMBERED};
use super::{Body, Header, Kind};

/// Bytes that a link adds to a frame.
pub(crate) const TRAILER: u32 = 8;

/// What a link needs to know of the engine below it, if that loses or reorders frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Tells the frames of this job from those of others on the same network.
    pub session: u64,
    /// So many frames of a lane may be on their way to a peer; at least 1. 256 by default.
    pub window: u32,
    /// A frame is sent again if nothing has been acknowledged for so long. 50 ms by default.
    pub resend: Duration,
    /// That time doubles with each try, up to this. 1 s by default.
    pub slowest: Duration,
    /// A peer that acknowledges nothing for so long is unreachable, for good. 30 s by default.
    pub lost_after: Duration,
    /// For so long an acknowledgement may wait for a frame that goes the same way, and takes it along; unless a quarter of the
    /// window is owed, or frames were lost or came twice. Shorter than `resend`. 0 by default: it goes at once.
    pub acknowledge: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            session: 0,
            window: 256,
            resend: Duration::from_millis(50),
            slowest: Duration::from_secs(1),
            lost_after: Duration::from_secs(30),
            acknowledge: Duration::ZERO,
        }
    }
}

/// What became of a frame that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Arrival {
    /// It is kept, until those before it have come.
    Kept,
    /// It was an acknowledgement and nothing else.
    Heard,
    /// It has come before.
    Duplicate,
    /// It is no frame, of another session, or beyond the window.
    Refused,
}

/// One lane of a link.
#[derive(Debug)]
pub(crate) struct LaneLink {
    pace: Pace,
    /// The first has the number `acknowledged`.
    unacknowledged: VecDeque<Body>,
    /// So many of these, the last, have not been given to the engine yet.
    fresh: usize,
    acknowledged: u32,
    timer: Option<Timer>,
    /// The frames before this number were out when one was sent again: they may be lost, too.
    suspect: u32,
    /// The oldest frame is suspect, and goes again at once.
    resends: bool,
    /// The number of the frame that the owner takes next.
    expected: u32,
    /// Frames from `expected` on that have come.
    early: VecDeque<Option<Body>>,
    /// The peer does not know of `expected` yet, or asks again: when it is to be told, at the latest.
    owes: Option<Instant>,
    /// So many frames have come that the peer does not know of.
    unsaid: u32,
}

/// Runs while frames are not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Timer {
    due: Instant,
    interval: Duration,
    /// When something was acknowledged, or the first frame was sent.
    progress: Instant,
}

impl LaneLink {
    pub(crate) fn new(pace: Pace) -> Self {
        Self::starting_at(0, pace)
    }

    /// One whose frames are numbered from `first` on, both ways.
    fn starting_at(first: u32, pace: Pace) -> Self {
        Self {
            pace,
            unacknowledged: VecDeque::new(),
            fresh: 0,
            acknowledged: first,
            timer: None,
            suspect: first,
            resends: false,
            expected: first,
            early: VecDeque::new(),
            owes: None,
            unsaid: 0,
        }
    }

    /// Takes a frame, header and all, to be sent.
    ///
    /// # Errors
    /// The window is full: here it is again.
    pub(crate) fn send(&mut self, mut frame: Body, now: Instant) -> Result<(), Body> {
        if !self.has_room() {
            return Err(frame);
        }
        frame.set_sequence(self.number(self.unacknowledged.len()));
        frame.extend_from_slice(&self.pace.session.to_le_bytes());
        self.unacknowledged.push_back(frame);
        self.fresh += 1;
        let interval = self.pace.resend;
        self.timer.get_or_insert(Timer { due: now + interval, interval, progress: now });
        self.check();
        Ok(())
    }

    pub(crate) fn has_room(&self) -> bool {
        self.unacknowledged.len() < self.pace.window.max(1) as usize
    }

    /// The number of an unacknowledged frame.
    fn number(&self, place: usize) -> u32 {
        self.acknowledged.wrapping_add(place as u32)
    }

    /// How many frames are out.
    fn out(&self) -> usize {
        self.unacknowledged.len() - self.fresh
    }

    /// The next frame that the engine should be given now.
    pub(crate) fn next_frame(&mut self, me: u32, now: Instant) -> Option<Body> {
        if let Some(timer) = self.timer.as_mut().filter(|timer| timer.due <= now) {
            timer.interval = (2 * timer.interval).min(self.pace.slowest);
            timer.due = now + timer.interval;
            self.suspect = self.number(self.out());
            self.resends = self.out() > 0;
        }
        let mut frame = if std::mem::take(&mut self.resends) {
            let mut frame = self.unacknowledged.front()?.clone();
            frame.set_again();
            frame
        } else if let Some(frame) = self.unacknowledged.get(self.out()) {
            self.fresh -= 1;
            frame.clone()
        } else if self.owes.is_some_and(|due| due <= now) {
            let mut frame = Body::with_capacity(TRAILER as usize);
            frame.set_header(&Header { process: me, ..Header::new(Kind::Acknowledge) });
            frame.extend_from_slice(&self.pace.session.to_le_bytes());
            frame
        } else {
            return None;
        };
        (self.owes, self.unsaid) = (None, 0);
        frame.set_acknowledgement(self.expected);
        self.check();
        Some(frame)
    }

    /// A frame has come. What became of it, and how many of ours it acknowledges.
    pub(crate) fn arrived(&mut self, mut frame: Body, now: Instant) -> (Arrival, u32) {
        let Some(header) = self.strip(&mut frame) else { return (Arrival::Refused, 0) };
        let acknowledged = self.hear(header.acknowledgement, now);
        let is_awaited = header.flags & AGAIN != 0 || !self.early.is_empty();
        let ahead = header.sequence.wrapping_sub(self.expected);
        let arrival = if header.flags & NUMBERED == 0 {
            Arrival::Heard
        } else if ahead > u32::MAX / 2 || self.early.get(ahead as usize).is_some_and(Option::is_some) {
            // Perhaps our acknowledgement was lost.
            self.owes = Some(now);
            Arrival::Duplicate
        } else if ahead >= self.pace.window.max(1) {
            Arrival::Refused
        } else {
            if self.early.len() <= ahead as usize {
                self.early.resize(ahead as usize + 1, None);
            }
            self.early[ahead as usize] = Some(frame);
            self.owe(now, is_awaited);
            Arrival::Kept
        };
        self.check();
        (arrival, acknowledged)
    }

    /// A frame has come of which the peer is to know; at once, if it has been lost before, or others have.
    fn owe(&mut self, now: Instant, is_awaited: bool) {
        self.unsaid += 1;
        let at_once = is_awaited || self.unsaid >= (self.pace.window / 4).max(1);
        let due = if at_once { now } else { now + self.pace.acknowledge };
        self.owes = Some(self.owes.map_or(due, |owes| owes.min(due)));
    }

    /// The header, if the frame is of this session, which is cut off.
    fn strip(&self, frame: &mut Body) -> Option<Header> {
        let header = Header::decode(frame.frame(), u32::MAX).ok()?;
        let (_, session) = frame.split_last_chunk::<{ TRAILER as usize }>()?;
        let is_ours = u64::from_le_bytes(*session) == self.pace.session;
        let length = frame.len() - TRAILER as usize;
        frame.truncate(length);
        frame.clear_link();
        is_ours.then_some(header)
    }

    /// All of ours before this number have come. How many are new among them; none if it is no such number.
    fn hear(&mut self, acknowledgement: u32, now: Instant) -> u32 {
        let new = acknowledgement.wrapping_sub(self.acknowledged);
        if new == 0 || new as usize > self.out() {
            return 0;
        }
        self.unacknowledged.drain(..new as usize);
        self.acknowledged = acknowledgement;
        let interval = self.pace.resend;
        let is_idle = self.unacknowledged.is_empty();
        self.timer = (!is_idle).then(|| Timer { due: now + interval, interval, progress: now });
        let suspects = self.suspect.wrapping_sub(acknowledgement);
        self.resends = suspects != 0 && suspects as usize <= self.out();
        new
    }

    /// The frame that comes next, if it has come.
    pub(crate) fn take(&mut self) -> Option<Body> {
        let frame = self.early.front_mut()?.take()?;
        self.early.pop_front();
        self.expected = self.expected.wrapping_add(1);
        Some(frame)
    }

    /// When [`next_frame`](Self::next_frame) should be asked again, if nothing happens before.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.timer.map(|timer| timer.due)
    }

    /// When the peer is to be told what has come, the same; unless the engine has refused a frame of this lane.
    pub(crate) fn owes(&self) -> Option<Instant> {
        self.owes
    }

    /// The peer has acknowledged nothing for too long.
    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.timer.is_some_and(|timer| now.saturating_duration_since(timer.progress) >= self.pace.lost_after)
    }

    /// Whether all that was to be sent has been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Nobody takes what is not acknowledged.
    pub(crate) fn abandon(&mut self) {
        self.acknowledged = self.number(self.unacknowledged.len());
        self.unacknowledged.clear();
        (self.fresh, self.timer, self.resends) = (0, None, false);
    }

    fn check(&self) {
        let window = self.pace.window.max(1) as usize;
        debug_assert!(self.unacknowledged.len() <= window && self.early.len() <= window, "INV-LINK-4");
        debug_assert!(self.fresh <= self.unacknowledged.len(), "INV-LINK-2");
        debug_assert_eq!(self.timer.is_none(), self.unacknowledged.is_empty(), "INV-LINK-3");
    }
}

#[cfg(test)]
mod tests;
