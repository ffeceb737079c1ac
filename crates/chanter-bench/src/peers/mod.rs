//! The systems that Chanter is measured beside.
//!
//! Peers whose channels are futures share one executor (Tokio) and one set of bodies
//! ([`asynchronous`]); the channels themselves ([`channels`]) are those of `programs/peers`, where peers run whole
//! programs. Peers that cannot do a piece of work have no case for it.

pub(crate) mod asynchronous;
pub(crate) mod boost;
pub(crate) mod crossbeam;
pub(crate) mod go;
pub(crate) mod rayon;
pub(crate) mod tokio;

pub(crate) use chanter_peer_kit::channels;
