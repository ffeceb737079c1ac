//! What processes say to each other of ports, each in a header without a body.
//!
//! | kind | `to` | `request` | `tag` |
//! |---|---|---|---|
//! | hold | the port | its number, not 0 | 0 |
//! | held | 0 | that of the hold | 0 |
//! | release | the port | 0 | 0 |
//! | unpacked | 0 | the parcel's number, not 0 | 0 |
//! | sees, seen | 0 | 0 | the process that has gone |

use crate::engine::Peer;
use crate::wire::{Header, Kind, Slot};

/// See [`super::counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Word {
    /// To the home: count me.
    Hold { port: Slot, request: u64 },
    /// From the home: I do, unless the port has ended.
    Held { request: u64 },
    /// To the home: count me no more.
    Release { port: Slot },
    /// To who has sent a message that carries senders: I am counted.
    Unpacked { parcel: u64 },
    /// Say so when you know that this process has gone.
    Sees { process: Peer },
    /// I know, and have said all that comes of it.
    Seen { process: Peer },
}

impl Word {
    /// What a header means. `None`: it is of another kind, or makes no sense.
    pub(crate) fn read(header: &Header) -> Option<Self> {
        let (request, port) = (header.request, header.to);
        let process = Peer(header.tag);
        match header.kind {
            _ if header.length > 0 => None,
            Kind::Hold if request > 0 => Some(Self::Hold { port, request }),
            Kind::Held if request > 0 => Some(Self::Held { request }),
            Kind::Release => Some(Self::Release { port }),
            Kind::Unpacked if request > 0 => Some(Self::Unpacked { parcel: request }),
            Kind::Sees => Some(Self::Sees { process }),
            Kind::Seen => Some(Self::Seen { process }),
            _ => None,
        }
    }

    /// Its header, in which everything else is 0.
    pub(crate) fn header(self) -> Header {
        match self {
            Self::Hold { port, request } => Header { to: port, request, ..Header::new(Kind::Hold) },
            Self::Held { request } => Header { request, ..Header::new(Kind::Held) },
            Self::Release { port } => Header { to: port, ..Header::new(Kind::Release) },
            Self::Unpacked { parcel } => Header { request: parcel, ..Header::new(Kind::Unpacked) },
            Self::Sees { process } => Header { tag: process.0, ..Header::new(Kind::Sees) },
            Self::Seen { process } => Header { tag: process.0, ..Header::new(Kind::Seen) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_all_else_refused() {
        let port = Slot { index: 3, generation: 9 };
        let process = Peer(7);
        for word in [
            Word::Hold { port, request: u64::MAX },
            Word::Held { request: 1 },
            Word::Release { port },
            Word::Unpacked { parcel: 5 },
            Word::Sees { process },
            Word::Seen { process },
        ] {
            let header = Header::decode(&word.header().encode(), 0).unwrap();
            assert_eq!(Word::read(&header), Some(word));
            assert_eq!(Word::read(&Header { length: 1, ..header }), None, "it has no body");
            if header.request > 0 {
                assert_eq!(Word::read(&Header { request: 0, ..header }), None, "no request has number 0");
            }
        }
        for kind in [Kind::Message, Kind::Call, Kind::Gone] {
            assert_eq!(Word::read(&Header { request: 1, ..Header::new(kind) }), None);
        }
    }
}
