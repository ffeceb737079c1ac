//! Frames in parts: a frame that is longer than those of the engine goes as several, and is put together on arrival.
//! So the longest message is the same with every engine.
//!
//! A part is a frame of kind [`Part`](Kind::Part). Its body is a piece of the whole frame, header included. `tag` is
//! the place of the piece in that frame, and `request` is the length of that frame.
//!
//! INV-PARTS: the parts of a frame come in a row in their lane. The sender gives the engine no other frame of the lane
//! before the last part, and engines keep the order of a lane. The receiver checks it: a part that does not follow the
//! one before comes from a process that breaks the rules. No memory is reserved for parts that have not come, and of
//! each lane at most one frame is put together.

use crate::engine::{Engine, Lane, ProcessId};
use crate::wire::{Body, Header, Kind, LENGTH};

/// Longest part, in bytes. Other lanes go between two parts.
const PART: usize = 256 << 10;

/// Gives the engine parts of a frame from `sent` on, as many as it takes. True: it has all of them.
#[cold]
pub(super) fn give(engine: &dyn Engine, to: ProcessId, lane: Lane, frame: &[u8], sent: &mut usize) -> bool {
    let longest = (engine.caps(to).eager as usize).clamp(1, PART);
    while *sent < frame.len() {
        let piece = &frame[*sent..frame.len().min(*sent + longest)];
        let mut part = Body::copied_from(piece);
        part.set_header(&Header {
            process: engine.me().0,
            length: piece.len() as u32,
            tag: *sent as u32,
            request: frame.len() as u64,
            ..Header::new(Kind::Part)
        });
        if engine.try_send(to, lane, part).is_err() {
            return false;
        }
        *sent += piece.len();
    }
    true
}

/// The parts that have come from a process, by lane.
#[derive(Debug, Default)]
pub(super) struct Parts([Vec<u8>; 3]);

/// A part that does not follow the one before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfPlace;

impl Parts {
    /// Takes a part of a frame whose body has at most `longest` bytes. Returns the whole frame if this part is the last.
    pub(super) fn add(
        &mut self,
        longest: u32,
        lane: Lane,
        header: &Header,
        part: &Body,
    ) -> Result<Option<Body>, OutOfPlace> {
        let frame = &mut self.0[lane as usize];
        let total = usize::try_from(header.request).map_err(|_| OutOfPlace)?;
        let is_next = header.tag as usize == frame.len()
            && !part.is_empty()
            && part.len() <= total.saturating_sub(frame.len())
            && (LENGTH..=LENGTH + longest as usize).contains(&total);
        if !is_next {
            return Err(OutOfPlace);
        }
        frame.extend_from_slice(part);
        if frame.len() < total {
            return Ok(None);
        }
        let whole = Body::of_frame(std::mem::take(frame)).ok_or(OutOfPlace)?;
        // Parts are not cut again.
        if whole.frame().first() == Some(&(Kind::Part as u8)) { Err(OutOfPlace) } else { Ok(Some(whole)) }
    }
}
