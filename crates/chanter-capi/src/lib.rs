//! The C interface of Chanter. `include/chanter.h` is its documentation; this crate is its library.
//!
//! Each function passes a door (`door.rs`) that keeps panics inside. Handles are looked up in tables (`handle.rs`). A thread
//! of C with a stack is a fiber, which is left without unwinding (`leave.rs`, `current.rs`). A poll body is a future
//! (`poll.rs`), and its pending operations are objects of their own (`operation.rs`).

mod channel;
mod choice;
#[cfg(feature = "cluster")]
mod cluster;
mod config;
mod current;
mod descriptor;
mod door;
mod event;
mod fiber;
mod flags;
mod handle;
mod keys;
mod leave;
mod machine;
mod operation;
mod policy;
mod poll;
mod thread;

pub use channel::{
    chanter_channel_close, chanter_channel_create, chanter_channel_free, chanter_channel_length,
    chanter_recv, chanter_send,
};
pub use choice::{CCase, chanter_choose};
#[cfg(feature = "cluster")]
pub use cluster::*;
/// How other engines start the process: for `chanter-capi-mpi`.
#[cfg(feature = "cluster")]
pub mod job {
    pub use crate::cluster::{Ending, Member, init};
}
pub use config::{CAttr, CConfig, CPolicy, CReady};
pub use event::{chanter_event_create, chanter_event_free, chanter_event_set, chanter_event_wait};
pub use fiber::{Body, chanter_sleep, chanter_thread_exit, chanter_thread_spawn, chanter_yield};
pub use keys::{
    chanter_cleanup_pop, chanter_cleanup_push, chanter_key_create, chanter_key_delete, chanter_key_get,
    chanter_key_set,
};
pub use machine::{
    chanter_machine_create, chanter_machine_current, chanter_machine_free, chanter_machine_processors,
    chanter_machine_run,
};
pub use operation::{chanter_op_drop, chanter_poll_choose, chanter_poll_recv, chanter_poll_send};
pub use poll::{CContext, chanter_context_value, chanter_context_wake, chanter_thread_spawn_poll};
pub use thread::{
    chanter_thread_cancel, chanter_thread_detach, chanter_thread_join, chanter_thread_resume,
    chanter_thread_self, chanter_thread_suspend,
};

/// The version of the interface. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_abi_version() -> u32 {
    0x0001_0000
}

/// The time of the monotonic clock. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_now() -> u64 {
    door::now()
}
