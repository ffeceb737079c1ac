//! The frames between processes: a header of fixed size, and the body behind it, in one buffer.

mod body;
mod buffer;
mod codec;
mod control;
mod enclosed;
mod header;
mod link;
mod transfer;
mod written;

pub use body::Body;
#[doc(hidden)]
pub use buffer::Buffer;
#[doc(hidden)]
pub use buffer::moved;
pub use codec::Plain;
pub(crate) use codec::{decode, encode, encode_into, write};
pub use control::{Control, Ended, Number};
pub(crate) use enclosed::{Enclosed, EnclosedIn, Enclosing};
pub use header::{
    AGAIN, BIG_ENDIAN, BUFFER, BadHeader, CARRIES, Header, Kind, LENGTH, NUMBERED, Slot, WITHDRAWN,
};
pub use link::Pace;
pub(crate) use link::{Arrival, LaneLink, TRAILER};
pub(crate) use transfer::{SenderTransfer, carried_here, carry};
#[doc(hidden)]
pub use written::Written;
