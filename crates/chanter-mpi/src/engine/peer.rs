//! State of another process: the frames that it has sent, their order, and whether it leaves.

use std::collections::VecDeque;

use chanter_engine::wire::Body;
use chanter_engine::{Lane, Why};

/// Number of lanes.
pub(super) const LANES: usize = 3;

/// A frame that has come, or begun to.
pub(super) enum Frame {
    Whole(Body),
    /// It comes by itself; the number is the receive's.
    Coming(u64),
    /// It has come, and was no frame.
    Bad,
}

#[derive(Default)]
pub(super) struct ProcessId {
    /// Frames of each lane that have to wait for a large one before them. Empty, or the first is on its way.
    waiting: [VecDeque<Frame>; LANES],
    /// The pieces of a frame that have come, in each lane.
    begun: [Vec<u8>; LANES],
    /// Frames that were sent to it, and frames of it that have come.
    pub(super) sent: u64,
    arrived: u64,
    /// Number of frames that the peer has sent, once it has said that it leaves.
    goodbye: Option<u64>,
    /// Whether this process has said to it that it leaves.
    pub(super) was_told: bool,
    /// The reason why it has gone, if it has.
    pub(super) down: Option<Why>,
}

impl ProcessId {
    /// Takes a piece of a frame, of which more pieces follow. A frame that is longer than `most` is none of ours: it
    /// is forgotten, and its end is no frame.
    pub(super) fn begin(&mut self, lane: Lane, piece: &[u8], most: usize) {
        let begun = &mut self.begun[lane as usize];
        if begun.is_empty() {
            begun.reserve_exact(most);
        }
        if begun.len() + piece.len() <= most {
            begun.extend_from_slice(piece);
        }
    }

    /// Makes a frame of its pieces, once the last one has come.
    #[inline]
    pub(super) fn finish(&mut self, lane: Lane, last: &[u8]) -> Frame {
        let begun = &mut self.begun[lane as usize];
        let frame = if begun.is_empty() {
            Body::filled(last.len(), |frame| frame.extend_from_slice(last))
        } else {
            begun.extend_from_slice(last);
            Body::of_frame(std::mem::take(begun))
        };
        frame.map_or(Frame::Bad, Frame::Whole)
    }

    /// Takes a frame that has come. It is returned if it may be handed out now; otherwise it waits for those before
    /// it.
    #[inline]
    pub(super) fn came(&mut self, lane: Lane, frame: Frame) -> Option<Frame> {
        let waiting = &mut self.waiting[lane as usize];
        let waits = !waiting.is_empty() || matches!(frame, Frame::Coming(_));
        if waits {
            waiting.push_back(frame);
            return None;
        }
        self.arrived += 1;
        Some(frame)
    }

    /// Fills the place of a large frame that has come.
    pub(super) fn filled(&mut self, lane: Lane, number: u64, with: Frame) {
        let mut waiting = self.waiting[lane as usize].iter_mut();
        if let Some(place) = waiting.find(|frame| matches!(frame, Frame::Coming(other) if *other == number)) {
            *place = with;
        }
    }

    /// Whether a frame of the lane need not wait any more.
    pub(super) fn has_next(&self, lane: Lane) -> bool {
        self.waiting[lane as usize].front().is_some_and(|frame| !matches!(frame, Frame::Coming(_)))
    }

    /// Takes the next frame of a lane that need not wait any more.
    pub(super) fn next(&mut self, lane: Lane) -> Option<Frame> {
        let waiting = &mut self.waiting[lane as usize];
        if matches!(waiting.front()?, Frame::Coming(_)) {
            return None;
        }
        self.arrived += 1;
        waiting.pop_front()
    }

    /// Notes that the peer leaves, and has sent this number of frames.
    pub(super) fn leaves(&mut self, sent: u64) {
        self.goodbye = Some(sent);
    }

    /// Whether the peer has left, and all its frames are here.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.goodbye.is_some_and(|sent| sent <= self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(byte: u8) -> Frame {
        Frame::Whole(Body::copied_from(&[byte]))
    }

    fn byte(frame: Option<Frame>) -> Option<u8> {
        match frame? {
            Frame::Whole(body) => Some(body[0]),
            Frame::Coming(_) | Frame::Bad => None,
        }
    }

    #[test]
    fn frames_wait_for_a_large_one_of_their_lane_only() {
        let mut peer = ProcessId::default();
        assert_eq!(byte(peer.came(Lane::User, whole(1))), Some(1));
        assert!(peer.came(Lane::User, Frame::Coming(7)).is_none());
        assert!(peer.came(Lane::User, whole(3)).is_none());
        assert_eq!(byte(peer.came(Lane::Control, whole(4))), Some(4));
        assert!(peer.next(Lane::User).is_none());
        peer.filled(Lane::User, 7, whole(2));
        assert_eq!(byte(peer.next(Lane::User)), Some(2));
        assert_eq!(byte(peer.next(Lane::User)), Some(3));
        assert!(peer.next(Lane::User).is_none());
        assert_eq!(byte(peer.came(Lane::User, whole(5))), Some(5));
    }

    #[test]
    fn it_has_left_when_all_that_it_has_sent_is_here() {
        let mut peer = ProcessId::default();
        assert!(peer.came(Lane::User, Frame::Coming(1)).is_none());
        peer.leaves(2);
        assert!(peer.came(Lane::Control, whole(1)).is_some());
        assert!(!peer.has_left());
        peer.filled(Lane::User, 1, whole(2));
        assert!(!peer.has_left());
        assert!(peer.next(Lane::User).is_some());
        assert!(peer.has_left());
    }
}
