//! The systems that Chanter is measured beside.
//!
//! Peers whose channels are futures share one executor (Tokio) and one set of bodies
//! ([`asynchronous`]); a peer's own file says only what is its own. Peers that cannot do a piece of
//! work have no case for it.

pub(crate) mod asynchronous;
pub(crate) mod boost;
pub(crate) mod crossbeam;
pub(crate) mod flume;
pub(crate) mod go;
pub(crate) mod kanal;
pub(crate) mod rayon;
pub(crate) mod tokio;
