//! Fibers: threads that block at any call depth.

// Miri runs no assembly, which switches stacks.
#![cfg(not(miri))]

mod blocking;
mod demanded;
mod ends;
mod many;
mod overflow;
mod places;
mod stacks;
