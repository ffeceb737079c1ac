//! The frames between processes: a header of fixed size, and the body behind it, in one buffer.

mod body;
mod header;
mod link;

#[doc(hidden)]
pub use body::Attachment;
pub use body::Body;
pub use header::{
    AGAIN, BIG_ENDIAN, BUFFER, BadHeader, CARRIES, Header, Kind, LENGTH, NUMBERED, Slot, WITHDRAWN,
};
pub use link::Pace;
pub(crate) use link::{Arrival, LaneLink, TRAILER};
