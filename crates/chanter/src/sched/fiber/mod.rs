//! The stacks of fibers, and what a virtual processor knows of the fibers that have begun on it.
//!
//! `thread/fiber/` spawns them.

mod bound;
mod control;
mod overflow;
mod pool;
mod stack;

#[cfg(feature = "tokio")]
pub(crate) use bound::Bound;
pub(crate) use bound::before_a_fiber_blocks;
pub(crate) use control::{FiberControl, Fibers, Lent, YIELDED, default_size};
pub(crate) use stack::Stack;
