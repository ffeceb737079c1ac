//! The frames between processes: a header of fixed size, and the body behind it, in one buffer.

mod buffer;
mod codec;
mod contents;
mod control;
mod decode;
mod enclosed;
mod transfer;
mod written;

#[doc(hidden)]
pub use buffer::Buffer;
#[doc(hidden)]
pub use buffer::moved;
pub use chanter_engine::wire::{
    AGAIN, BIG_ENDIAN, BUFFER, BadHeader, Body, CARRIES, Header, Kind, LENGTH, NUMBERED, Pace, Slot,
    WITHDRAWN,
};
pub use codec::Plain;
pub(crate) use codec::{encode, encode_into, write};
pub(crate) use contents::Contents;
pub use control::{Control, Ended, Number};
pub(crate) use decode::decode;
pub(crate) use enclosed::{Enclosed, EnclosedIn, Enclosing};
pub(crate) use transfer::{SenderTransfer, carried_here, carry};
#[doc(hidden)]
pub use written::Written;
