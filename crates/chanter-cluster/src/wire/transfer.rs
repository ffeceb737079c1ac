//! The senders of ports that a body carries: they are counted as long as the body is kept.
//!
//! While a value is written, each sender in it adds its port's hold, and the body keeps these holds. Between
//! processes, the ports are listed behind the body. The reader of the value finds there the holds of its own process.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use chanter::base::stack_local;
use chanter_engine::wire::Slot;

use crate::engine::ProcessId;
use crate::name::ThreadName;
use crate::port::Hold;

/// The holds of the ports whose senders a body carries.
#[derive(Default)]
pub(crate) struct SenderTransfer {
    holds: Vec<Hold>,
}

/// Bytes of a port's name behind a body, and of the part that follows all names.
const NAME: usize = 12;
const END: usize = 12;

/// The holds of the senders in a value that is being written.
#[derive(Default)]
struct Writing(RefCell<Vec<Hold>>);

/// The transfer of the body that is being read.
struct Reading(Arc<SenderTransfer>);

/// Notes that a sender of that port is being written. Outside of a message nothing is noted, and the sender's copy
/// does not count.
pub(crate) fn carry(hold: &Hold) {
    stack_local::with(|writing: Option<&Writing>| {
        let Some(Writing(carried)) = writing else { return };
        let is_new = !carried.borrow().iter().any(|other| other.port() == hold.port());
        if is_new {
            carried.borrow_mut().push(Hold::clone(hold));
        }
    });
}

/// The hold of a port in the message that is being read.
pub(crate) fn carried_here(port: ThreadName) -> Option<Hold> {
    stack_local::with(|reading: Option<&Reading>| reading.and_then(|Reading(transfer)| transfer.get(port)))
}

/// The transfer of the message that is being read, for a part that is read later.
pub(super) fn being_read() -> Option<Arc<SenderTransfer>> {
    stack_local::with(|reading: Option<&Reading>| reading.map(|Reading(transfer)| Arc::clone(transfer)))
}

/// Writes a value by `write`, and returns the senders that it carries.
#[inline]
pub(super) fn writing<R>(write: impl FnOnce() -> R) -> (R, Option<Arc<SenderTransfer>>) {
    let writing = Writing::default();
    let result = stack_local::set(&writing, write);
    let holds = writing.0.into_inner();
    (result, (!holds.is_empty()).then(|| Arc::new(SenderTransfer { holds })))
}

/// Reads a value whose senders `transfer` holds.
pub(super) fn reading<R>(transfer: Arc<SenderTransfer>, read: impl FnOnce() -> R) -> R {
    stack_local::set(&Reading(transfer), read)
}

impl SenderTransfer {
    pub(crate) fn new(holds: Vec<Hold>) -> Self {
        Self { holds }
    }

    fn get(&self, port: ThreadName) -> Option<Hold> {
        self.holds.iter().find(|hold| hold.port() == port).map(Hold::clone)
    }

    /// The holds of both transfers.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self { holds: self.holds.iter().chain(&other.holds).map(Hold::clone).collect() }
    }

    /// Adds each of its holds to the message that is being written.
    pub(super) fn carry(&self) {
        self.holds.iter().for_each(carry);
    }

    /// Number of bytes that [`write`](Self::write) writes.
    pub(super) fn length(&self) -> usize {
        NAME * self.holds.len() + END
    }

    /// Lists these ports behind a body, with the transfer's number.
    pub(super) fn write(&self, number: u64, bytes: &mut Vec<u8>) {
        for port in self.holds.iter().map(|hold| hold.port()) {
            for word in [port.process.0, port.thread.index, port.thread.generation] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&(self.holds.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// The part behind a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) ports: Vec<(ProcessId, Slot)>,
    /// The transfer's number.
    pub(super) transfer: u64,
    /// Length of the body without this part, in bytes.
    pub(super) length: usize,
}

/// Reads the part behind a body. `None`: it is malformed.
pub(super) fn read_end(bytes: &[u8]) -> Option<End> {
    let (rest, number) = bytes.split_last_chunk::<8>()?;
    let (rest, count) = rest.split_last_chunk::<4>()?;
    let transfer = u64::from_le_bytes(*number);
    let names = (u32::from_le_bytes(*count) as usize).checked_mul(NAME)?;
    let length = rest.len().checked_sub(names)?;
    if transfer == 0 || names == 0 {
        return None;
    }
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let port =
        |name: &[u8]| (ProcessId(word(name, 0)), Slot { index: word(name, 4), generation: word(name, 8) });
    let ports = rest[length..].chunks_exact(NAME).map(port).collect();
    Some(End { ports, transfer, length })
}

impl fmt::Debug for SenderTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SenderTransfer").field("holds", &self.holds.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_ends_are_refused() {
        let end = |ports: &[[u32; 3]], count: u32, number: u64| {
            let mut bytes = b"body".to_vec();
            ports.iter().flatten().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            bytes.extend_from_slice(&count.to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes
        };
        let port = (ProcessId(7), Slot { index: 8, generation: 9 });
        assert_eq!(
            read_end(&end(&[[7, 8, 9]], 1, 5)),
            Some(End { ports: vec![port], transfer: 5, length: 4 })
        );
        assert_eq!(read_end(&end(&[[7, 8, 9]], 1, 0)), None, "no transfer has number 0");
        for count in [0, 2, u32::MAX] {
            assert_eq!(read_end(&end(&[[7, 8, 9]], count, 5)), None);
        }
        for length in 0..END {
            assert_eq!(read_end(&vec![1; length]), None);
        }
    }
}
