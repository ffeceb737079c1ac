//! The stacks of fibers, and what a virtual processor knows of the fibers that have begun on it.
//!
//! `thread/fiber/` spawns them.

mod control;
mod overflow;
mod pool;
mod stack;

pub(crate) use control::{FiberControl, Fibers, YIELDED, default_size};
pub(crate) use stack::Stack;
