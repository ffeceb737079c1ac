//! Threads in other processes (Chant, section 3.3: global thread operations).
//!
//! A [`Function`] has a name and two types: its arguments, and its value. A process [offers](crate::Process::offer) it; then any
//! process of the cluster may [spawn](crate::At::spawn) threads there that run it, and nothing else. Whoever spawns one has a
//! [`GlobalThread`]: it can be joined, watched, suspended, resumed, blocked, cancelled, ended with a value, as a
//! [`Thread`](chanter::Thread) of the own process. What is asked of a thread is answered once; the thread does it when it next enters
//! its scheduler, under the same total order as if a thread beside it had asked. It obeys its spawner, its own process, and those who
//! [may spawn](crate::Process::offer_if) it.
//!
//! A thread that was spawned so has an inbox from its begin; its [name](GlobalThread::name) is that inbox's.
//!
//! ```
//! use chanter::prelude::*;
//! use chanter_cluster::{Function, local};
//!
//! const AREA: Function<(f64, f64), f64> = Function::new("area");
//!
//! # let machine = Machine::new()?;
//! # machine.block_on(async {
//! let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
//! let offering = second.offer(AREA, |_context, (w, h): (f64, f64)| async move { w * h }).unwrap();
//! let thread = first.at(1).spawn(AREA.with(&(3.0, 4.0))).await.unwrap();
//! assert_eq!(thread.join().await, Ok(12.0));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ending;
mod error;
mod functions;
mod gates;
mod handle;
mod hold;
mod host;
mod order;

pub use error::{AskError, Down, EndError, SpawnError, Unended};
pub use functions::{Context, Function, Offering, Plan};
pub(crate) use functions::{Functions, Offer, make};
pub(crate) use gates::Gates;
pub use handle::GlobalThread;
pub(crate) use host::{Hosts, serve};
#[cfg(test)]
pub(crate) use order::{encoded_order, encoded_spawn};
