//! Talking threads: Chanter's threads across processes.
//!
//! A thread has a global name, which travels in the [header](wire::Header) of each message and never in its
//! body (Chant, section 3). What carries messages is an [engine](engine::Engine).

pub mod engine;
#[cfg(unix)]
pub mod launcher;
pub mod wire;
