//! One lane of a link: frames to and from one peer, each once and in order, above an engine that loses, duplicates or
//! reorders them.
//!
//! It is a state machine without threads, clocks or locks. Its owner tells it of arrivals and of the time, and sends
//! the frames that [`next_frame`](LaneLink::next_frame) returns. Each frame has a number. The receiver acknowledges,
//! in any frame of the opposite direction, the number up to which all have arrived. The sender keeps unacknowledged
//! frames, at most a window of them, and sends the oldest again when nothing has been acknowledged for a while. It
//! gives back frames beyond the window.
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
//! The last 8 bytes of a frame are its session: not part of the body, and cut off by the receiver. Frames of other
//! sessions, of an earlier job that had the same addresses, are dropped (law D5).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::header::{AGAIN, NUMBERED};
use super::{Body, Header, Kind};

/// Bytes that a link adds to a frame.
pub(crate) const TRAILER: u32 = 8;

/// The parameters of a link above an engine that loses or reorders frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Tells the frames of this job from those of others on the same network.
    pub session: u64,
    /// Largest number of frames of a lane that may be on their way to a peer; at least 1.
    pub window: u32,
    /// Time without an acknowledgement after which a frame is sent again.
    pub resend: Duration,
    /// Upper bound of that time, which doubles with each try.
    pub slowest: Duration,
    /// Time without an acknowledgement after which a peer counts as unreachable, for good.
    pub lost_after: Duration,
    /// Time for which an acknowledgement may wait for a frame that takes it along. It does not wait if a quarter of
    /// the window is owed, or if frames were lost or came twice. Shorter than `resend`. 0 by default: each
    /// acknowledgement goes at once.
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

/// The result for an arriving frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Arrival {
    /// It is kept, until those before it have come.
    Kept,
    /// It was only an acknowledgement.
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
    /// Frames that the peer has not acknowledged; the first has the number `acknowledged`.
    unacknowledged: VecDeque<Body>,
    /// Number of unacknowledged frames, at the end of the queue, that the engine has not been given yet.
    fresh: usize,
    acknowledged: u32,
    timer: Option<Timer>,
    /// The frames before this number were out when one was sent again: they may be lost, too.
    suspect: u32,
    /// True if the oldest frame is suspect, and goes again at once.
    resends: bool,
    /// The number of the frame that the owner takes next.
    expected: u32,
    /// Frames from `expected` on that have come.
    early: VecDeque<Option<Body>>,
    /// The latest time to tell the peer of `expected`. Set while the peer does not know it, or asks again.
    owes: Option<Instant>,
    /// Number of arrived frames that the peer does not know of.
    unsaid: u32,
}

/// Runs while frames are not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Timer {
    due: Instant,
    interval: Duration,
    /// The time of the last acknowledgement, or of the first frame.
    progress: Instant,
}

impl LaneLink {
    pub(crate) fn new(pace: Pace) -> Self {
        Self::starting_at(0, pace)
    }

    /// A link whose frames are numbered from `first` on in both directions.
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
    /// The frame, if the window is full.
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

    /// Number of frames that the engine was given and the peer has not acknowledged.
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

    /// Takes a frame that has arrived. Returns its result, and the number of our frames that it newly acknowledges.
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

    /// Notes that the peer must be told of an arrived frame; at once if frames have been lost.
    fn owe(&mut self, now: Instant, is_awaited: bool) {
        self.unsaid += 1;
        let at_once = is_awaited || self.unsaid >= (self.pace.window / 4).max(1);
        let due = if at_once { now } else { now + self.pace.acknowledge };
        self.owes = Some(self.owes.map_or(due, |owes| owes.min(due)));
    }

    /// Cuts off the session. Returns the header, if the frame is of this session.
    fn strip(&self, frame: &mut Body) -> Option<Header> {
        let header = Header::decode(frame.frame(), u32::MAX).ok()?;
        let (_, session) = frame.split_last_chunk::<{ TRAILER as usize }>()?;
        let is_ours = u64::from_le_bytes(*session) == self.pace.session;
        let length = frame.len() - TRAILER as usize;
        frame.truncate(length);
        frame.clear_link();
        is_ours.then_some(header)
    }

    /// Takes an acknowledgement: all our frames before this number have arrived. Returns the number of newly
    /// acknowledged frames; 0 if the number is not valid.
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

    /// The next frame in order, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<Body> {
        let frame = self.early.front_mut()?.take()?;
        self.early.pop_front();
        self.expected = self.expected.wrapping_add(1);
        Some(frame)
    }

    /// The time to call [`next_frame`](Self::next_frame) again, if nothing happens before.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.timer.map(|timer| timer.due)
    }

    /// The time to call [`next_frame`](Self::next_frame) to tell the peer of arrivals, unless the engine has refused
    /// a frame of this lane.
    pub(crate) fn owes(&self) -> Option<Instant> {
        self.owes
    }

    /// Whether the peer has acknowledged nothing for too long.
    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.timer.is_some_and(|timer| now.saturating_duration_since(timer.progress) >= self.pace.lost_after)
    }

    /// Whether all frames have been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Drops all unacknowledged frames.
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
