//! Objects of other processes: the same references, the same calls (Concert, section 2).
//!
//! A call on an object of another process is a request of the cluster to that process's server thread. There it is
//! polled in place, as it would be here. On a free object it is over before the server thread turns to the next
//! request, and no thread is made. Otherwise it becomes a thread that waits in the object's queue.
//!
//! The end of a process has these effects (D1 to D6 are the cluster's laws):
//!
//! | it was | then |
//! |---|---|
//! | the object's | calls end with [`ObjectError::Lost`](crate::ObjectError::Lost): not begun if the request never left; otherwise that is
//! unknown (law D6 of `chanter_cluster`) |
//! | the caller's | the call is withdrawn: its method ends where it is suspended (D3: not before all that was sent has come) |
//! | the one in the middle of a forwarded call | the caller gets its answer if it had heard that the call was forwarded, else `Lost` |
//! | the owner's | the object ends |
//! | the one where an object was born that has moved | the object ends |
//! | the one where it moves to | if that is before it has been heard that it is there, it stays where it was; else it is lost |
//!
//! Names are never used again (law D5 of `chanter_cluster`): a message to an object that has ended reaches no other.
//!
//! Calls that wait for each other are reported (`waits.rs`).
//!
//! A continuation that is forwarded to an object of a third process takes the duty to answer along (`service/raw.rs`,
//! INV-FORWARDED). That process answers the first caller, and the one in the middle is done.

mod call;
mod cells;
mod census;
mod circle;
mod context;
mod continuation;
mod hints;
mod hosted;
mod key;
mod leases;
mod migration;
#[cfg(all(test, loom))]
mod models;
mod moves;
mod named;
mod owner_table;
mod remote_owner;
mod request;
mod sent;
mod serve;
mod wait_graph;
mod waits;

pub use chanter_cluster::__table as table;
pub use circle::Circle;
pub use context::{ProcessContext, enter};
pub use key::Key;
pub use leases::limit_placed;
pub use moves::{Moves, Unplaced, moves, moves_if};
pub use named::Named;
pub use request::Allow;
pub use serve::{serve, serve_if, serve_lazily, serve_lazily_if};
pub use waits::on_circle;

// All that the calls of this process know of other processes. The files that define these know none of the calls.
pub(crate) use census::{inside, waits_in_line};
pub(crate) use context::{name_of_here, place_of};
pub(crate) use continuation::RemoteContinuation;
pub(crate) use migration::{Migrations, is_elsewhere};
pub(crate) use remote_owner::RemoteOwner;
