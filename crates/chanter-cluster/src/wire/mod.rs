//! What goes from one process to another: a header of fixed size, and behind it the body, in one buffer.

mod body;
mod header;

pub use body::Body;
pub use header::{BadHeader, Header, Kind, LENGTH, Slot};
