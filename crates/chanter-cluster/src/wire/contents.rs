//! The contents of a body: a value or a buffer, and the senders of ports that it carries.

use std::sync::Arc;

use chanter_engine::wire::{BIG_ENDIAN, BUFFER, Body, CARRIES, Slot};
use serde::de::DeserializeOwned;

use super::decode::decode;
use super::transfer::{End, SenderTransfer, read_end, reading};
use crate::engine::ProcessId;

/// The flags of a buffer that was filled here.
const OURS: u8 = if cfg!(target_endian = "big") { BUFFER | BIG_ENDIAN } else { BUFFER };

/// A body, as the cluster reads it. (An engine sees bytes.)
pub(crate) trait Contents: Sized {
    /// Marks the body as a buffer rather than a value.
    fn set_buffer(&mut self);

    /// The flags that tell a buffer, and its byte order, from a value.
    fn buffer_flags(&self) -> u8;

    fn is_buffer(&self) -> bool;

    /// Whether the buffer was filled on a machine with another byte order.
    fn is_of_other_order(&self) -> bool;

    /// Reads the value, which must take all the bytes.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String>;

    /// Reads a part of the body in place. The senders that it carries can be read meanwhile.
    fn reading<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R;

    /// The holds of the ports whose senders the body carries.
    fn transfer(&self) -> Option<Arc<SenderTransfer>>;

    /// Whether it carries senders.
    fn has_transfer(&self) -> bool;

    fn take_transfer(&mut self) -> Option<Arc<SenderTransfer>>;

    fn set_transfer(&mut self, transfer: Option<Arc<SenderTransfer>>);

    /// Adds senders that the body carries.
    fn add_transfer(&mut self, transfer: Arc<SenderTransfer>);

    /// Number of bytes that it takes on its way, without the header.
    fn length_away(&self) -> usize;

    /// Whether the written header says that the body carries senders.
    fn is_packed(&self) -> bool;

    /// Writes behind the body which senders it carries.
    fn pack(&mut self, transfer: &SenderTransfer, number: u64);

    /// Cuts off and returns the part behind the body: the ports, and the transfer's number. `None`: it is malformed.
    fn unpack(&mut self) -> Option<(Vec<(ProcessId, Slot)>, u64)>;
}

impl Contents for Body {
    fn set_buffer(&mut self) {
        self.set_flags(OURS);
    }

    #[inline]
    fn buffer_flags(&self) -> u8 {
        self.flags() & (BUFFER | BIG_ENDIAN)
    }

    #[inline]
    fn is_buffer(&self) -> bool {
        self.flags() & BUFFER != 0
    }

    fn is_of_other_order(&self) -> bool {
        self.buffer_flags() != OURS
    }

    #[inline]
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        match self.transfer() {
            None => decode(self),
            Some(transfer) => reading(transfer, || decode(self)),
        }
    }

    fn reading<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match self.transfer() {
            None => read(self),
            Some(transfer) => reading(transfer, || read(self)),
        }
    }

    #[inline]
    fn transfer(&self) -> Option<Arc<SenderTransfer>> {
        // Nothing else is ever attached to a body.
        self.attachment().and_then(|attached| Arc::clone(attached).downcast().ok())
    }

    #[inline]
    fn has_transfer(&self) -> bool {
        self.attachment().is_some()
    }

    #[inline]
    fn take_transfer(&mut self) -> Option<Arc<SenderTransfer>> {
        self.take_attachment().and_then(|attached| attached.downcast().ok())
    }

    fn set_transfer(&mut self, transfer: Option<Arc<SenderTransfer>>) {
        self.set_attachment(transfer.map(|transfer| transfer as _));
    }

    fn add_transfer(&mut self, transfer: Arc<SenderTransfer>) {
        let all = match self.take_transfer() {
            Some(before) => Arc::new(before.and(&transfer)),
            None => transfer,
        };
        self.set_transfer(Some(all));
    }

    #[inline]
    fn length_away(&self) -> usize {
        self.len() + self.transfer().map_or(0, |transfer| transfer.length())
    }

    fn is_packed(&self) -> bool {
        self.flags() & CARRIES != 0
    }

    fn pack(&mut self, transfer: &SenderTransfer, number: u64) {
        let mut end = Vec::with_capacity(transfer.length());
        transfer.write(number, &mut end);
        self.extend_from_slice(&end);
    }

    fn unpack(&mut self) -> Option<(Vec<(ProcessId, Slot)>, u64)> {
        let End { ports, transfer, length } = read_end(self)?;
        self.truncate(length);
        Some((ports, transfer))
    }
}
