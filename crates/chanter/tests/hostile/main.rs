//! Policies that are out to break something: they panic at any call, and keep,
//! forget and mislay the tokens of threads. They may starve threads; nothing
//! else.

#[path = "../common/mod.rs"]
mod common;

mod hoards;
mod panics;
mod strays;
