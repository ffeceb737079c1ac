//! Tests of threads of all kinds.

mod asked;
mod crowds;
mod delayed;
mod fibers;
mod fluids;
mod fork_join;
mod genealogy;
mod groups;
mod lifecycle;
mod long_chains;
mod nesting;
mod panics;
mod parasites;
mod requests;
mod scopes;
mod shared;
mod spawnable;
mod stealing;
mod thread_locals;
