//! The frames of a connection. Each is a piece of a message, or a word of the engine itself.
//!
//! ```text
//!   byte  0         1         2                   4
//!    0  | word    | lane    | 0                 | bytes of the piece                    |
//!    8  | the piece ...
//! ```
//!
//! Numbers are little endian. A message is cut into pieces of at most [`PIECE`] bytes, so messages of one lane do not
//! wait for a long one in another. Everything is checked, as the other end may be of another build, broken, or
//! hostile. It can make this end store only bytes that it has sent, and at most [`LONGEST`] of them in each lane.

use std::fmt;

use crate::engine::Lane;
use crate::wire;

/// Length of a frame's head, in bytes.
pub(crate) const HEAD: usize = 8;
/// Length of the longest piece, in bytes.
pub(crate) const PIECE: usize = 64 << 10;
/// Length of the longest body, in bytes.
pub(crate) const LONGEST_BODY: usize = 16 << 20;
/// Length of the longest message, header and body, in bytes.
pub(crate) const LONGEST: usize = wire::LENGTH + LONGEST_BODY;

/// Number of lanes.
pub(crate) const LANES: usize = 3;

const LANE: [Lane; LANES] = [Lane::Control, Lane::User, Lane::Bulk];

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Word {
    /// A piece of a message that is not the last.
    Piece = 1,
    /// The last piece of a message.
    Last = 2,
    /// The process lives.
    Alive = 3,
    /// The process leaves: no message comes after this.
    Leave = 4,
    /// All frames that came before the other end's `Leave` have been taken.
    Goodbye = 5,
    /// The receiver should look for work outside of this connection.
    Notify = 6,
    /// A statement about messages sent outside of this connection: eight bytes.
    Beside = 7,
}

/// A frame that has come, with whole messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Message(Lane, Vec<u8>),
    Alive,
    Leave,
    Goodbye,
    Notify,
    Beside(u64),
}

/// Bytes that no correct engine sends. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadFrame {
    Word(u8),
    Lane(u8),
    /// Reserved bits are not 0.
    Padding,
    /// A piece is too long, or the content of a word of the engine has the wrong length.
    Length(u32),
    /// A message is longer than [`LONGEST`].
    Long,
    /// A message has no room for its header.
    Short(usize),
    /// A piece came after the other end had said that it leaves.
    AfterLeave,
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the other process has sent a frame that is none: {self:?}")
    }
}

impl std::error::Error for BadFrame {}

/// The head of a frame.
pub(crate) fn head(word: Word, lane: Lane, length: usize) -> [u8; HEAD] {
    debug_assert!(length <= PIECE);
    let mut head = [word as u8, lane as u8, 0, 0, 0, 0, 0, 0];
    head[4..].copy_from_slice(&(length as u32).to_le_bytes());
    head
}

fn parse(head: [u8; HEAD]) -> Result<(Word, Lane, usize), BadFrame> {
    let word = match head[0] {
        1 => Word::Piece,
        2 => Word::Last,
        3 => Word::Alive,
        4 => Word::Leave,
        5 => Word::Goodbye,
        6 => Word::Notify,
        7 => Word::Beside,
        word => return Err(BadFrame::Word(word)),
    };
    let lane = *LANE.get(usize::from(head[1])).ok_or(BadFrame::Lane(head[1]))?;
    if head[2..4] != [0, 0] {
        return Err(BadFrame::Padding);
    }
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let right = match word {
        Word::Piece | Word::Last => 0..=PIECE,
        Word::Beside => size_of::<u64>()..=size_of::<u64>(),
        _ => 0..=0,
    };
    match usize::try_from(length) {
        Ok(bytes) if right.contains(&bytes) => Ok((word, lane, bytes)),
        _ => Err(BadFrame::Length(length)),
    }
}

/// A decoder that assembles frames from the bytes of a connection, however the bytes are cut.
pub(crate) struct Frames {
    buffer: Box<[u8]>,
    /// Range of bytes that were read but not decoded: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// The beginning of each lane's message.
    begun: [Vec<u8>; LANES],
    left: bool,
    /// The error, if one was found. No frame comes after it.
    bad: Option<BadFrame>,
}

impl Frames {
    pub(crate) fn new() -> Self {
        // Room for the longest frame, and to read ahead.
        let buffer = vec![0; 2 * (HEAD + PIECE)].into();
        Self { buffer, start: 0, end: 0, begun: Default::default(), left: false, bad: None }
    }

    /// The buffer for the next bytes. It is not empty after [`next`](Self::next) has returned `None`.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < PIECE {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// Notes that `bytes` bytes have been written to the room.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        debug_assert!(self.end <= self.buffer.len());
    }

    /// Whether the other end has stopped within a frame or a message.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn is_torn(&self) -> bool {
        self.start != self.end || self.begun.iter().any(|begun| !begun.is_empty())
    }

    /// Number of bytes of messages that have begun.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn begun(&self) -> usize {
        self.begun.iter().map(Vec::len).sum()
    }

    /// The next whole frame. After an error there is none.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, BadFrame> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        let next = self.parse_next();
        self.bad = next.as_ref().err().copied();
        next
    }

    fn parse_next(&mut self) -> Result<Option<Frame>, BadFrame> {
        loop {
            let bytes = &self.buffer[self.start..self.end];
            let Some((head, bytes)) = bytes.split_first_chunk() else { return Ok(None) };
            let (word, lane, length) = parse(*head)?;
            let Some(piece) = bytes.get(..length) else { return Ok(None) };
            let begun = &mut self.begun[lane as usize];
            let frame = match word {
                Word::Piece | Word::Last => {
                    if self.left {
                        return Err(BadFrame::AfterLeave);
                    }
                    if begun.len() + length > LONGEST {
                        return Err(BadFrame::Long);
                    }
                    begun.extend_from_slice(piece);
                    if word == Word::Piece {
                        None
                    } else if begun.len() < wire::LENGTH {
                        return Err(BadFrame::Short(begun.len()));
                    } else {
                        Some(Frame::Message(lane, std::mem::take(begun)))
                    }
                }
                Word::Alive => Some(Frame::Alive),
                Word::Leave => {
                    self.left = true;
                    Some(Frame::Leave)
                }
                Word::Goodbye => Some(Frame::Goodbye),
                Word::Notify => Some(Frame::Notify),
                Word::Beside => piece.first_chunk().map(|said| Frame::Beside(u64::from_le_bytes(*said))),
            };
            self.start += HEAD + length;
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes all frames of `bytes`, which come in chunks whose lengths repeat.
    fn read(bytes: &[u8], chunks: &[usize]) -> (Vec<Frame>, Result<bool, BadFrame>) {
        let (mut frames, mut all, mut bytes) = (Frames::new(), Vec::new(), bytes);
        for chunk in chunks.iter().cycle() {
            loop {
                match frames.next() {
                    Ok(Some(frame)) => all.push(frame),
                    Ok(None) => break,
                    Err(error) => return (all, Err(error)),
                }
            }
            if bytes.is_empty() {
                break;
            }
            let room = frames.room();
            assert!(!room.is_empty());
            let read = (*chunk).min(bytes.len()).min(room.len());
            room[..read].copy_from_slice(&bytes[..read]);
            frames.filled(read);
            bytes = &bytes[read..];
        }
        (all, Ok(frames.is_torn()))
    }

    fn frame(word: Word, lane: Lane, piece: &[u8]) -> Vec<u8> {
        [&head(word, lane, piece.len())[..], piece].concat()
    }

    /// Pseudorandom numbers, the same in each run.
    fn arbitrary(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    #[test]
    fn frames_are_the_same_however_they_are_cut_and_lanes_do_not_mix() {
        let bytes = [
            frame(Word::Piece, Lane::Bulk, &[1; PIECE]),
            frame(Word::Last, Lane::User, &[2; 48]),
            frame(Word::Alive, Lane::Control, &[]),
            frame(Word::Piece, Lane::Bulk, &[]),
            frame(Word::Last, Lane::Control, &[3; 100]),
            frame(Word::Last, Lane::Bulk, &[4; 5]),
            frame(Word::Beside, Lane::Control, &[1, 2, 0, 0, 0, 0, 0, 0]),
            frame(Word::Leave, Lane::Control, &[]),
            frame(Word::Goodbye, Lane::Control, &[]),
        ]
        .concat();
        let bulk = [&[1; PIECE][..], &[4; 5]].concat();
        let expected = [
            Frame::Message(Lane::User, vec![2; 48]),
            Frame::Alive,
            Frame::Message(Lane::Control, vec![3; 100]),
            Frame::Message(Lane::Bulk, bulk),
            Frame::Beside(0x201),
            Frame::Leave,
            Frame::Goodbye,
        ];
        for chunks in [&[1][..], &[7], &[8], &[PIECE], &[1 << 20], &[3, 70_000, 1, 9, 8192]] {
            let (all, torn) = read(&bytes, chunks);
            assert!(all == expected, "{chunks:?}");
            assert_eq!(torn, Ok(false));
        }
        for cut in [1, HEAD, HEAD + 1, HEAD + PIECE] {
            assert_eq!(read(&bytes[..cut], &[64]), (vec![], Ok(true)));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = frame(Word::Last, Lane::User, &[0; 48]);
            bytes[at] = byte;
            read(&bytes, &[1000]).1
        };
        assert_eq!(with(0, 0), Err(BadFrame::Word(0)));
        assert_eq!(with(0, 8), Err(BadFrame::Word(8)));
        assert_eq!(with(0, 7), Err(BadFrame::Length(48)));
        assert_eq!(with(0, 6), Err(BadFrame::Length(48)));
        assert_eq!(with(1, 3), Err(BadFrame::Lane(3)));
        assert_eq!(with(2, 1), Err(BadFrame::Padding));
        assert_eq!(with(0, 3), Err(BadFrame::Length(48)));
        assert_eq!(with(6, 1), Err(BadFrame::Length(65_536 + 48)));
        assert_eq!(read(&frame(Word::Last, Lane::User, &[0; 47]), &[9]).1, Err(BadFrame::Short(47)));
        let left = [frame(Word::Leave, Lane::User, &[]), frame(Word::Last, Lane::User, &[0; 48])].concat();
        assert_eq!(read(&left, &[100]), (vec![Frame::Leave], Err(BadFrame::AfterLeave)));
    }

    #[test]
    fn a_message_of_any_length_is_bounded() {
        let piece = frame(Word::Piece, Lane::Bulk, &[0; PIECE]);
        let endless = piece.repeat(LONGEST / PIECE + 1);
        assert_eq!(read(&endless, &[1 << 20]).1, Err(BadFrame::Long));
        let longest = [
            &endless[..(LONGEST / PIECE) * piece.len()],
            &frame(Word::Last, Lane::Bulk, &[0; LONGEST % PIECE]),
        ];
        let (all, torn) = read(&longest.concat(), &[1 << 20]);
        assert!(matches!(&all[..], [Frame::Message(Lane::Bulk, message)] if message.len() == LONGEST));
        assert_eq!(torn, Ok(false));
    }

    #[test]
    fn arbitrary_bytes_are_frames_or_refused_and_alike_however_they_are_cut() {
        let mut next = arbitrary(0x9e37_79b9_7f4a_7c15);
        let (mut refused, mut taken) = (0, 0);
        for _ in 0..3000 {
            let mut bytes = Vec::new();
            for _ in 0..next() % 8 {
                let word = [Word::Piece, Word::Last, Word::Alive, Word::Leave][(next() % 8).min(3) as usize];
                let length = if matches!(word, Word::Piece | Word::Last) { next() as usize % 200 } else { 0 };
                bytes.extend(frame(word, LANE[next() as usize % 3], &vec![next() as u8; length]));
            }
            for _ in 0..next() % 3 {
                if !bytes.is_empty() {
                    let at = next() as usize % bytes.len();
                    bytes[at] = next() as u8;
                }
            }
            let whole = read(&bytes, &[usize::MAX]);
            assert_eq!(read(&bytes, &[1]), whole);
            assert_eq!(read(&bytes, &[next() as usize % 50 + 1, next() as usize % 300 + 1]), whole);
            refused += usize::from(whole.1.is_err());
            taken += whole.0.len();
        }
        assert!(refused > 100 && taken > 100, "{refused} {taken}");
        for length in 0..2000 {
            let bytes: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            assert_eq!(read(&bytes, &[1]), read(&bytes, &[usize::MAX]));
        }
    }
}
