//! Threads that talk over Zenoh: between machines that find each other, with liveness, mutual TLS and access control.
//!
//! [`run`] runs a program as a process of a job; the same program runs under `chanter launch`, or alone:
//!
//! ```no_run
//! use chanter_cluster::{ANYONE, Process};
//!
//! const HELLO: u32 = 1;
//!
//! fn main() -> Result<(), chanter_zenoh::StartError> {
//!     chanter_zenoh::run(async |here: Process| {
//!         if here.number() == 0 {
//!             let me = here.open("greeter").unwrap();
//!             for _ in 1..here.count() {
//!                 let got = me.recv::<String>(ANYONE, HELLO).await.unwrap();
//!                 println!("{} says {}", got.from, got.value);
//!             }
//!         } else {
//!             let me = here.inbox().unwrap();
//!             let greeter = here.lookup("greeter@0").await.unwrap();
//!             me.send(greeter, HELLO, "hello").await.unwrap();
//!         }
//!     })
//! }
//! ```
//!
//! ```text
//! $ export CHANTER_ZENOH_JOB=hello CHANTER_ZENOH_COUNT=2
//! $ CHANTER_ZENOH_NUMBER=0 target/release/examples/zenoh_hello &
//! $ CHANTER_ZENOH_NUMBER=1 target/release/examples/zenoh_hello
//! ```
//!
//! # Layers
//!
//! | layer | gives |
//! |---|---|
//! | [`Reliable`](chanter_engine::Reliable) | numbers, acknowledgements, resends, a window for each lane of each peer |
//! | frames | what Zenoh puts and its subscribers get: any may be lost |
//! | Zenoh | sessions, discovery, routing, liveliness tokens, TLS, access control |
//!
//! Zenoh puts a frame at once or drops it ([`CongestionControl::Drop`](zenoh::qos::CongestionControl), without
//! waiting). If it waited, one peer that takes nothing would hold up the frames to all others. No accepted frame is
//! lost by that: its link sends it again. A link has a window, which a peer that takes nothing does not open. So
//! further frames to that peer are refused, and cost others nothing.
//!
//! # Deaths
//!
//! Three signs tell of the death of a process, and the first one that is seen counts. One is a link's goodbye
//! ([`Why::Left`](chanter_engine::Why)). Another is the end of a process's liveliness token, milliseconds
//! after its connections break ([`Why::Died`](chanter_engine::Why)). The third is silence, for a process
//! that was stopped or cut off. Each process sends 5 heartbeats a second. After a second without a heartbeat a
//! process is [`Suspect`](chanter_engine::Change), and after 30 it counts as dead ([`Config`]). Zenoh's own
//! lease is made as long, so that a process that was stopped for less goes on. Where connections break, a process may
//! be given time to come back ([`Config::reconnect`]): messages to it are kept meanwhile, up to the windows.
//!
//! # Security
//!
//! [`Tls`] makes all connections mutual TLS. [`Access`] lets each certificate speak for one process. The sender of a
//! frame is a part of its key expression. Zenoh's access control checks it against the certificate of the connection.
//! Without them, any peer that reaches a process's port counts as a process of the job. Use that on networks that you
//! trust. With TLS, tell Zenoh to use one thread: see [`Tls`].
//!
//! # This crate is a workspace of its own
//!
//! Zenoh brings 270 crates and minutes of building; so `cargo build --workspace` in the repository does not build it.
//! `ci/zenoh` tests it.

mod access;
mod config;
mod engine;
mod error;
mod frames;
mod keys;
mod mailbox;
mod meet;
mod run;

pub use access::Access;
pub use config::{Config, Tls};
pub use engine::Zenoh;
pub use error::StartError;
pub use run::{run, run_on};
