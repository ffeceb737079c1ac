//! Tests of the library through its public interface, by subject: `cargo test -p chanter --test it channel::`.
//!
//! They share one process. A test that needs a process of its own, since it looks at memory or at OS threads, is an
//! executable of its own beside this folder.

#[path = "../common/mod.rs"]
mod common;

mod bridge;
mod channel;
mod event;
mod guarantees;
mod io;
mod lock;
mod machine;
mod sched;
mod thread;
