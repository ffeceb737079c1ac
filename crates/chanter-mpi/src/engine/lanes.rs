//! The sends of all lanes. Each lane has requests of its own, and a queue of frames that wait for a free one. So no
//! lane is full only because another one is.

use std::collections::VecDeque;

use chanter_engine::Lane;
use chanter_engine::wire::Body;

use super::buffer_pool::BufferPool;
use super::in_flight::{Sends, Sent};
use super::peer::LANES;
use crate::shim::{Comm, MpiToken, Result};

/// Largest numbers of sends of a lane, and of large bodies, that are on their way.
const SENDS: usize = 64;
const BULK: usize = 32;

/// A frame that is to be sent.
pub(super) struct Outgoing {
    pub(super) to: u32,
    pub(super) lane: Lane,
    pub(super) body: Body,
}

/// The lengths of frames that go in one piece, or in several, in a lane. The bodies of longer frames go by
/// themselves.
#[derive(Clone, Copy)]
pub(super) struct Eager {
    pub(super) comm: Comm,
    /// Bytes of a piece.
    pub(super) piece: usize,
    /// Largest number of bytes of a frame that goes in pieces.
    pub(super) most: usize,
}

/// A lane.
pub(super) struct Way {
    pub(super) eager: Eager,
    sends: Sends,
    bulk: Sends,
    /// Frames that others have handed in, and that found no room.
    backlog: VecDeque<Outgoing>,
}

pub(super) struct Lanes {
    ways: [Way; LANES],
    /// Sends under way in all lanes, large bodies, and frames in their backlogs.
    under_way: usize,
    bulk_under_way: usize,
    waiting: usize,
}

impl Way {
    /// Whether a frame of that length can be given to MPI now.
    #[inline]
    fn fits(&self, length: usize) -> bool {
        let Eager { piece, most, .. } = self.eager;
        if length <= most {
            self.sends.has_room_for(length.div_ceil(piece))
        } else {
            self.sends.has_room() && self.bulk.has_room()
        }
    }
}

impl Lanes {
    pub(super) fn new(eager: impl Fn(usize) -> Eager) -> Self {
        let way = |lane| Way {
            eager: eager(lane),
            sends: Sends::new(SENDS),
            bulk: Sends::new(BULK),
            backlog: VecDeque::new(),
        };
        Self { ways: std::array::from_fn(way), under_way: 0, bulk_under_way: 0, waiting: 0 }
    }

    #[inline]
    pub(super) fn eager(&self, lane: Lane) -> Eager {
        self.ways[lane as usize].eager
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way == 0 && self.bulk_under_way == 0 && self.waiting == 0
    }

    /// Whether sends are under way, and whether large bodies are.
    #[inline]
    pub(super) fn are_under_way(&self) -> (bool, bool) {
        (self.under_way > 0, self.bulk_under_way > 0)
    }

    /// Whether a frame waits for room, or might soon.
    #[inline]
    pub(super) fn want_room(&self) -> bool {
        self.waiting > 0 || (self.under_way > SENDS / 2 && self.ways.iter().any(|way| way.sends.is_short()))
    }

    /// Whether a send of this size finds room in its lane, and no frame waits there.
    #[inline]
    pub(super) fn has_room(&self, lane: Lane, length: usize) -> bool {
        let way = &self.ways[lane as usize];
        way.backlog.is_empty() && way.fits(length)
    }

    /// Whether any frame would find room in that lane.
    pub(super) fn has_room_for_any(&self, lane: usize) -> bool {
        let way = &self.ways[lane];
        way.backlog.is_empty() && way.fits(way.eager.most) && way.bulk.has_room()
    }

    /// Whether a word of the engine's own finds room.
    pub(super) fn has_room_for_word(&self) -> bool {
        self.ways[Lane::Control as usize].sends.has_room()
    }

    /// Puts a frame in its lane's queue, where it waits for room.
    pub(super) fn push(&mut self, outgoing: Outgoing) {
        self.waiting += 1;
        self.ways[outgoing.lane as usize].backlog.push_back(outgoing);
    }

    /// Takes the first waiting frame for which there is room now.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        if self.waiting == 0 {
            return None;
        }
        let ready = |way: &Way| way.backlog.front().is_some_and(|first| way.fits(first.body.frame().len()));
        let way = self.ways.iter_mut().find(|way| ready(way))?;
        self.waiting -= 1;
        way.backlog.pop_front()
    }

    /// Whether there is a waiting frame for which there is room now.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        let ready = |way: &Way| way.backlog.front().is_some_and(|first| way.fits(first.body.frame().len()));
        self.waiting > 0 && self.ways.iter().any(ready)
    }

    /// Whether a frame to this process waits.
    pub(super) fn waits_for(&self, to: u32) -> bool {
        self.ways.iter().any(|way| way.backlog.iter().any(|outgoing| outgoing.to == to))
    }

    /// Drops all waiting frames, when no process can be reached any more.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting = 0;
        self.ways.iter_mut().for_each(|way| way.backlog.clear());
    }

    /// Sends a frame, or a word, for which there is room.
    #[inline]
    pub(super) fn send(
        &mut self,
        token: &mut MpiToken,
        lane: Lane,
        to: Destination,
        sent: Sent,
    ) -> Result<()> {
        let sends = &mut self.ways[lane as usize].sends;
        let done = sends.send(token, to.comm, sent, to.process, to.tag)?;
        self.under_way += usize::from(done.is_none());
        Ok(())
    }

    /// Sends a large body, for which there is room.
    pub(super) fn send_bulk(
        &mut self,
        token: &mut MpiToken,
        lane: Lane,
        to: Destination,
        body: Body,
        buffer_pool: &mut BufferPool,
    ) -> Result<()> {
        let bulk = &mut self.ways[lane as usize].bulk;
        match bulk.send(token, to.comm, Sent::Whole(body), to.process, to.tag)? {
            Some(sent) => buffer_pool.put_sent(sent),
            None => self.bulk_under_way += 1,
        }
        Ok(())
    }

    /// Sends a frame in pieces, for which there is room.
    pub(super) fn send_pieces(
        &mut self,
        token: &mut MpiToken,
        lane: Lane,
        to: Destination,
        more: u16,
        body: Body,
    ) -> Result<()> {
        let Way { sends, eager, .. } = &mut self.ways[lane as usize];
        let (length, frame) = (body.frame().len(), std::sync::Arc::new(body));
        for begin in (0..length).step_by(eager.piece) {
            let end = length.min(begin + eager.piece);
            let tag = to.tag + if end < length { more } else { 0 };
            let is_done = sends.send_piece(token, to.comm, (&frame, begin..end), to.process, tag)?;
            self.under_way += usize::from(!is_done);
        }
        Ok(())
    }

    /// Tests which sends are done.
    pub(super) fn test(&mut self, token: &mut MpiToken, tests: &mut u64) -> Result<()> {
        for Way { sends, .. } in &mut self.ways {
            let under_way = &mut self.under_way;
            sends.test(token, tests, |_, _| *under_way -= 1)?;
        }
        Ok(())
    }

    /// Tests which large bodies have gone. Their memory becomes free for bodies that come.
    pub(super) fn test_bulk(
        &mut self,
        token: &mut MpiToken,
        tests: &mut u64,
        buffer_pool: &mut BufferPool,
    ) -> Result<()> {
        for Way { bulk, .. } in &mut self.ways {
            let under_way = &mut self.bulk_under_way;
            bulk.test(token, tests, |sent, _| {
                *under_way -= 1;
                buffer_pool.put_sent(sent);
            })?;
        }
        Ok(())
    }
}

/// The place to which a frame is sent.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    pub(super) comm: Comm,
    pub(super) process: u32,
    pub(super) tag: u16,
}
