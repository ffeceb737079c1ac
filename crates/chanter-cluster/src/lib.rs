//! Talking threads: Chanter's threads across processes.
//!
//! A thread that opens an [`Inbox`] has a global [name](ThreadName), which travels in the [header](wire::Header) of each
//! message and never in its body (Chant, section 3). It receives by sender and tag. Every operation that may block is an
//! [event](chanter::Event): await it, or let it take part in a choice with channels and timers. What carries messages is an
//! [engine](engine::Engine).
//!
//! # Laws of delivery
//!
//! * **D1** While both processes live, each send that has committed is received once, in order per sending thread and tag.
//! * **D3** When a process has gone, what its threads have sent is received up to some point, in order, and only then
//!   are the others told.
//! * **D4** A branch of a choice that loses has no effect: a message that was not chosen is in its place, a send that
//!   was not chosen has taken no room.
//! * **D5** Names are never used again: nothing that is meant for the dead reaches the living.

pub mod engine;
mod error;
mod here;
mod inbox;
#[cfg(unix)]
pub mod launcher;
mod name;
mod node;
mod pump;
pub mod wire;

pub use error::{LookupError, OpenError, RecvError, SendError};
pub use here::{Here, local};
pub use inbox::{ANY_TAG, ANYONE, Form, Inbox, Irecv, Received, Recv, Source, Tags, testany, waitall};
pub use name::ThreadName;
pub use node::Send;
pub use pump::Pump;
pub use wire::Plain;
