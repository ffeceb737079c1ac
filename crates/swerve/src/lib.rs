//! **Swerve**: a static file server over HTTP/1.1, made of threads that communicate.
//!
//! It has the shape of Multi-MLton's Swerve (its paper, section 6.4), a web server written in Concurrent ML. Its
//! components are threads, with channels and events between them.
//!
//! ```text
//!              connections            one thread each
//!  listener ───────────────▶ manager ─────────────────▶ connection ◀──── chunks ──── file processor
//!  (network)    rendezvous      ▲      ended              │  hyper      rendezvous     │ reads that
//!                               └─────────────────────────┤                            │ would wait
//!  signals ──▶ Stop (two IVars, heard by all)             │ records                    ▼
//!                                                         ▼ bounded              disk (OS threads)
//!                                                       logger ───lines──▶ scribe (an OS thread)
//! ```
//!
//! Time, shutdown and backpressure are *choices over events*, never flags that somebody polls:
//!
//! - the listener chooses between a new connection and the order to stop;
//! - the manager, when it holds as many connections as it may, asks the one that has been idle for longest to leave in
//!   favour of a newcomer; the listener blocks meanwhile, and the kernel's queue fills;
//! - a connection chooses between its client, the order to stop, and the time at which patience ends;
//! - the file processor sends each chunk of a large file by rendezvous, so it is never more than one
//!   chunk ahead of the client, and learns from the same send that the client has left;
//! - a request that needs a disk or a file server chooses between the answer and the time at which patience ends;
//! - the logger, when it has gathered as much as it may, no longer chooses to receive: posts wait then, and finally
//!   connections wait, too. When the log's reader has stalled for a while, records are lost, and that is told.
//!
//! Downloads of large files take turns, so that a newcomer waits for a few of them and not for all. Errors go to an
//! [`ErrorLog`], which makes no thread wait.
//!
//! [`Mode`] says how the parts talk. Synchronously, as in Parallel CML, a sender waits until its message is received.
//! Asynchronously, nothing waits for the file processor of a request, or for the post of a log record: these run on
//! hosts or on parasites. On parasites a plain call answers a request for a small file in memory.
//!
//! # Example
//!
//! ```no_run
//! use chanter::prelude::*;
//! use swerve::{Config, Server};
//!
//! #[chanter::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::bind(Config::new("public", ([127, 0, 0, 1], 8080).into()))?;
//!     println!("http://{}/", server.local_addr());
//!     server.stop().on_signals()?;
//!     server.run().await?;
//!     Ok(())
//! }
//! ```

mod body;
mod buffer;
mod clock;
mod conditional;
mod config;
mod connection;
mod disk;
mod errors;
mod facts;
mod files;
mod identity;
mod kept;
mod limits;
mod listener;
mod listing;
mod logger;
mod manager;
mod media;
mod meter;
mod occupancy;
mod pace;
mod platform;
mod range;
mod record;
mod server;
mod service;
mod signals;
mod stop;
mod target;
mod tree;
mod wire;

pub use config::{AccessLog, Config, Mode};
pub use errors::ErrorLog;
pub use limits::{Descriptors, raise_descriptor_limit};
pub use server::{Server, StartError, Summary};
pub use stop::Stop;
