//! Figure 14 of the Chant paper: global threads, and messages between them.
//!
//! A global thread is a thread of this interface with an inbox. Its name is that of the inbox. Requests of
//! other processes (create, join, detach, cancel) are services (`remote.rs`).

mod exit;
mod job;
mod messages;
mod module;
mod mpirun;
mod remote;
mod rsr;
mod threads;

pub use exit::Ending;
pub use job::{Member, chanter_finalize, chanter_init, chanter_process_count, init};
pub use messages::{
    pthread_chanter_irecv, pthread_chanter_msgtest, pthread_chanter_msgwait, pthread_chanter_recv,
    pthread_chanter_send,
};
pub use rsr::{CRequest, chanter_rsr_call, chanter_rsr_register, chanter_rsr_reply, chanter_rsr_send};
pub use threads::{
    CThread, pthread_chanter_cancel, pthread_chanter_create, pthread_chanter_detach, pthread_chanter_equal,
    pthread_chanter_exit, pthread_chanter_join, pthread_chanter_pe, pthread_chanter_process,
    pthread_chanter_pthread, pthread_chanter_self, pthread_chanter_yield,
};

pub(crate) use job::{Global, owns};
