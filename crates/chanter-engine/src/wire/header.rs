//! The header of a message: its receiver, its sender, and its position in the link.
//!
//! ```text
//!   byte  0         1         2         3         4         5         6         7
//!    0  | kind    | flags   | credit            | tag                                   |
//!    8  | to: slot                              | to: generation                        |
//!   16  | from: slot                            | from: generation                      |
//!   24  | from: process                         | length of the body                    |
//!   32  | sequence                              | acknowledgement                       |
//!   40  | request                                                                       |
//! ```
//!
//! All numbers are little endian. All fields are checked before use: a header comes from another process, which may
//! be of another build, broken, or hostile.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of a header.
pub const LENGTH: usize = 48;

/// The flag of frames that have a number in their link. The receiver acknowledges it.
pub const NUMBERED: u8 = 1;

/// The flag of frames that a link sends again: the receiver acknowledges them at once.
pub const AGAIN: u8 = 16;

/// The flag of a [`Lookup`](Kind::Lookup) that is not wanted any more.
pub const WITHDRAWN: u8 = 2;

/// The flag of a [`Message`](Kind::Message) whose body is a buffer of numbers, not an encoded value.
pub const BUFFER: u8 = 4;

/// The flag of a buffer that was filled by a machine whose byte order is big endian.
pub const BIG_ENDIAN: u8 = 8;

/// The flag of messages that carry senders of ports, which are listed behind the body.
pub const CARRIES: u8 = 32;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A message from a thread to a thread, with its body. It may give credit for the sender's inbox. Then `request`
    /// has the credit's bytes and, in the upper half, the number of the process's messages that have arrived so far.
    Message = 1,
    /// A part of a frame that is too long for the engine. Its body is a piece of the whole frame; `tag` is the place of
    /// the piece there, and `request` is the length of that frame.
    Part = 2,
    /// Credit for an inbox: its bytes are in `request`, and the number of the process's messages that have arrived so
    /// far is in `tag`. Or the acknowledgement of a link, and nothing else.
    Acknowledge = 4,
    /// Asks for the thread of a name; the body is the name.
    Lookup = 6,
    /// Answers a lookup.
    Found = 7,
    /// The process leaves once all that it has sent has arrived.
    Leave = 8,
    /// There is no such thread: the answer to a message for it. The tag is that of [`Acknowledge`](Self::Acknowledge).
    Gone = 9,
    /// Asks a service of the process for an answer; the service's number stands where a thread's name would be.
    Call = 10,
    /// Like a call, but the only answer is that it is done.
    Post = 11,
    /// Answers a call or a post.
    Answer = 12,
    /// The caller does not wait for the answer any more.
    Withdraw = 13,
    /// A call of a third process, forwarded by the one that it asked.
    Forward = 14,
    /// Says to the caller that its call was forwarded.
    Moved = 15,
    /// Says to a port's home that the process has senders of it.
    Hold = 16,
    /// Answers a hold: the home counts the process.
    Held = 17,
    /// Says to a port's home that the process has no senders of it any more.
    Release = 18,
    /// Says that the senders in a message are counted for its receiver, or dropped.
    Unpacked = 19,
    /// Asks for a confirmation once a third process is known to have gone.
    Confirm = 20,
    /// Gives that confirmation.
    Confirmed = 21,
    /// A forwarded call that comes back, since there was no room for it.
    Returned = 22,
    /// The sender has given up the receiver, which has broken the rules. Messages on their way from it are not taken.
    GivenUp = 23,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Message,
            2 => Self::Part,
            4 => Self::Acknowledge,
            6 => Self::Lookup,
            7 => Self::Found,
            8 => Self::Leave,
            9 => Self::Gone,
            10 => Self::Call,
            11 => Self::Post,
            12 => Self::Answer,
            13 => Self::Withdraw,
            14 => Self::Forward,
            15 => Self::Moved,
            16 => Self::Hold,
            17 => Self::Held,
            18 => Self::Release,
            19 => Self::Unpacked,
            20 => Self::Confirm,
            21 => Self::Confirmed,
            22 => Self::Returned,
            23 => Self::GivenUp,
            _ => return None,
        })
    }
}

/// A thread's place in the table of its process. The generation tells it from earlier threads in that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Slot {
    /// Index of the place.
    pub index: u32,
    /// Number of times that the place was given away; 0 stands for no thread.
    pub generation: u32,
}

/// Byte offsets of the link's fields in an encoded header.
pub(super) const FLAGS_AT: usize = 1;
pub(super) const SEQUENCE_AT: usize = 32;
pub(super) const ACKNOWLEDGEMENT_AT: usize = 36;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The kind of the message.
    pub kind: Kind,
    /// [`NUMBERED`], [`AGAIN`], [`CARRIES`], and bits that only some kinds have; in other kinds they are 0.
    pub flags: u8,
    /// Number of further messages that may be sent to the inbox that the message is from.
    pub credit: u16,
    /// The user's tag.
    pub tag: u32,
    /// The receiver, in the process that gets the message.
    pub to: Slot,
    /// The sender, in the process that sent the message.
    pub from: Slot,
    /// The process that sent it.
    pub process: u32,
    /// Bytes of the body.
    pub length: u32,
    /// Its number in the link.
    pub sequence: u32,
    /// The number up to which all frames of the opposite direction have arrived.
    pub acknowledgement: u32,
    /// Number of the request that it makes or answers; 0 for none. Or the bytes of a credit.
    pub request: u64,
}

/// The reason why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadHeader {
    /// There are only this many bytes, fewer than [`LENGTH`].
    Short(usize),
    /// There is no such kind: the sender is of another version, or the bytes are no header at all.
    Kind(u8),
    /// The body is longer than the engine's limit.
    Long {
        /// The length in the header.
        length: u32,
        /// The engine's limit.
        limit: u32,
    },
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(length) => {
                write!(f, "a message of {length} bytes has no room for its header of {LENGTH}")
            }
            Self::Kind(kind) => {
                write!(f, "no message has the kind {kind}: is the other process of another version?")
            }
            Self::Long { length, limit } => {
                write!(f, "a body of {length} bytes is over the limit of {limit}")
            }
        }
    }
}

impl std::error::Error for BadHeader {}

impl Header {
    /// A header of that kind, in which everything else is 0.
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            flags: 0,
            credit: 0,
            tag: 0,
            to: Slot { index: 0, generation: 0 },
            from: Slot { index: 0, generation: 0 },
            process: 0,
            length: 0,
            sequence: 0,
            acknowledgement: 0,
            request: 0,
        }
    }

    /// Its bytes.
    #[inline]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = self.kind as u8;
        bytes[1] = self.flags;
        bytes[2..4].copy_from_slice(&self.credit.to_le_bytes());
        let words = [
            self.tag,
            self.to.index,
            self.to.generation,
            self.from.index,
            self.from.generation,
            self.process,
            self.length,
            self.sequence,
            self.acknowledgement,
        ];
        for (place, word) in bytes[4..40].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[40..].copy_from_slice(&self.request.to_le_bytes());
        bytes
    }

    /// Reads a header. `limit` is the largest number of bytes of a body.
    ///
    /// # Errors
    /// The bytes are no header, or announce a body that is too long. None of the bytes may be used then.
    #[inline]
    pub fn decode(bytes: &[u8], limit: u32) -> Result<Self, BadHeader> {
        let Some(bytes) = bytes.first_chunk::<LENGTH>() else { return Err(BadHeader::Short(bytes.len())) };
        let kind = Kind::of(bytes[0]).ok_or(BadHeader::Kind(bytes[0]))?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let length = word(28);
        if length > limit {
            return Err(BadHeader::Long { length, limit });
        }
        Ok(Self {
            kind,
            flags: bytes[FLAGS_AT],
            credit: u16::from_le_bytes([bytes[2], bytes[3]]),
            tag: word(4),
            to: Slot { index: word(8), generation: word(12) },
            from: Slot { index: word(16), generation: word(20) },
            process: word(24),
            length,
            sequence: word(SEQUENCE_AT),
            acknowledgement: word(ACKNOWLEDGEMENT_AT),
            request: u64::from(word(40)) | u64::from(word(44)) << 32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in which all bytes differ.
    fn distinct() -> Header {
        let mut bytes: [u8; LENGTH] = std::array::from_fn(|at| at as u8 + 100);
        bytes[0] = Kind::Message as u8;
        Header::decode(&bytes, u32::MAX).unwrap()
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for kind in (1..=23).filter(|kind| Kind::of(*kind).is_some()) {
            let mut bytes: [u8; LENGTH] = std::array::from_fn(|at| (at * 37 + 11) as u8);
            bytes[0] = kind;
            assert_eq!(Header::decode(&bytes, u32::MAX).unwrap().encode(), bytes);
        }
    }

    #[test]
    fn each_field_has_its_place() {
        let header = distinct();
        assert_eq!(header.flags, 101);
        assert_eq!(header.credit, u16::from_le_bytes([102, 103]));
        assert_eq!(header.tag, u32::from_le_bytes([104, 105, 106, 107]));
        assert_eq!(header.to.index, u32::from_le_bytes([108, 109, 110, 111]));
        assert_eq!(header.to.generation, u32::from_le_bytes([112, 113, 114, 115]));
        assert_eq!(header.from.index, u32::from_le_bytes([116, 117, 118, 119]));
        assert_eq!(header.from.generation, u32::from_le_bytes([120, 121, 122, 123]));
        assert_eq!(header.process, u32::from_le_bytes([124, 125, 126, 127]));
        assert_eq!(header.length, u32::from_le_bytes([128, 129, 130, 131]));
        assert_eq!(header.sequence, u32::from_le_bytes([132, 133, 134, 135]));
        assert_eq!(header.acknowledgement, u32::from_le_bytes([136, 137, 138, 139]));
        assert_eq!(header.request, u64::from_le_bytes([140, 141, 142, 143, 144, 145, 146, 147]));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let bytes = distinct().encode();
        for length in 0..LENGTH {
            assert_eq!(Header::decode(&bytes[..length], u32::MAX), Err(BadHeader::Short(length)));
        }
        for kind in [0, 3, 5].into_iter().chain(24..=255) {
            let mut bytes = bytes;
            bytes[0] = kind;
            assert_eq!(Header::decode(&bytes, u32::MAX), Err(BadHeader::Kind(kind)));
        }
        let length = distinct().length;
        assert!(Header::decode(&bytes, length).is_ok());
        assert_eq!(Header::decode(&bytes, length - 1), Err(BadHeader::Long { length, limit: length - 1 }));
    }
}
