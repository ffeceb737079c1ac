//! The systems that Chanter is measured beside, as parts of the command `chanter-bench`: single operations, choices, actors
//! and a web server. It is a module of that crate, and stands here beside the peers that run whole programs.
//!
//! Peers whose channels are futures share one executor (Tokio) and one set of bodies ([`asynchronous`]). The channels
//! themselves ([`channels`]) are those of `programs/peers/kit`, which peers of whole programs share. Peers that cannot do a
//! piece of work have no case for it.

pub(crate) mod actor;
pub(crate) mod asynchronous;
pub(crate) mod boost;
pub(crate) mod choice_tasks;
pub(crate) mod choice_threads;
pub(crate) mod crossbeam;
pub(crate) mod go;
pub(crate) mod rayon;
pub(crate) mod tokio;
pub(crate) mod web;

pub(crate) use chanter_peer_kit::channels;
