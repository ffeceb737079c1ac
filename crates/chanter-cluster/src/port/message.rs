//! The messages between processes about ports, each in a header without a body.
//!
//! | kind | `to` | `request` | `tag` |
//! |---|---|---|---|
//! | hold | the port | its number, not 0 | 0 |
//! | held | 0 | that of the hold | 0 |
//! | release | the port | 0 | 0 |
//! | unpacked | 0 | the transfer's number, not 0 | 0 |
//! | confirm, confirmed | 0 | 0 | the process that has gone |

use crate::engine::ProcessId;
use crate::wire::{Header, Kind, Slot};

/// A message about the count of a port's senders; see [`super::counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PortMessage {
    /// Request to the home to count this process.
    Hold { port: Slot, request: u64 },
    /// Answer of the home: the process is counted, unless the port has ended.
    Held { request: u64 },
    /// Request to the home to stop counting this process.
    Release { port: Slot },
    /// Notice to the sender of a message that carries senders: its receiver is counted.
    Unpacked { transfer: u64 },
    /// Request to confirm, once known, that this process has gone.
    Confirm { process: ProcessId },
    /// Confirmation that the process has gone, after all messages that follow from its end.
    Confirmed { process: ProcessId },
}

impl PortMessage {
    /// Reads a header. `None`: the header is of another kind, or malformed.
    pub(crate) fn read(header: &Header) -> Option<Self> {
        let (request, port) = (header.request, header.to);
        let process = ProcessId(header.tag);
        match header.kind {
            _ if header.length > 0 => None,
            Kind::Hold if request > 0 => Some(Self::Hold { port, request }),
            Kind::Held if request > 0 => Some(Self::Held { request }),
            Kind::Release => Some(Self::Release { port }),
            Kind::Unpacked if request > 0 => Some(Self::Unpacked { transfer: request }),
            Kind::Confirm => Some(Self::Confirm { process }),
            Kind::Confirmed => Some(Self::Confirmed { process }),
            _ => None,
        }
    }

    /// The message's header, in which all other fields are 0.
    pub(crate) fn header(self) -> Header {
        match self {
            Self::Hold { port, request } => Header { to: port, request, ..Header::new(Kind::Hold) },
            Self::Held { request } => Header { request, ..Header::new(Kind::Held) },
            Self::Release { port } => Header { to: port, ..Header::new(Kind::Release) },
            Self::Unpacked { transfer } => Header { request: transfer, ..Header::new(Kind::Unpacked) },
            Self::Confirm { process } => Header { tag: process.0, ..Header::new(Kind::Confirm) },
            Self::Confirmed { process } => Header { tag: process.0, ..Header::new(Kind::Confirmed) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_all_else_refused() {
        let port = Slot { index: 3, generation: 9 };
        let process = ProcessId(7);
        for word in [
            PortMessage::Hold { port, request: u64::MAX },
            PortMessage::Held { request: 1 },
            PortMessage::Release { port },
            PortMessage::Unpacked { transfer: 5 },
            PortMessage::Confirm { process },
            PortMessage::Confirmed { process },
        ] {
            let header = Header::decode(&word.header().encode(), 0).unwrap();
            assert_eq!(PortMessage::read(&header), Some(word));
            assert_eq!(PortMessage::read(&Header { length: 1, ..header }), None, "it has no body");
            if header.request > 0 {
                assert_eq!(
                    PortMessage::read(&Header { request: 0, ..header }),
                    None,
                    "no request has number 0"
                );
            }
        }
        for kind in [Kind::Message, Kind::Call, Kind::Gone] {
            assert_eq!(PortMessage::read(&Header { request: 1, ..Header::new(kind) }), None);
        }
    }
}
