//! Fibers: threads that block at any call depth.

#[path = "../common/mod.rs"]
mod common;

mod blocking;
mod ends;
mod many;
mod overflow;
mod places;
mod stacks;
