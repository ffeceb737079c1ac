//! The operational semantics of featherweight threads, executable, and the runtime held against it.
//!
//! * [`term`], [`state`], [`local`], [`global`]: the CEK machine of *Featherweight Threads for
//!   Communication*, figures 6 to 8, rule by rule, extended by choice ([`choice`]).
//! * [`enumerate()`]: all [`Outcome`]s of a small program.
//! * [`generate`]: random well-formed programs, for property tests.
//! * [`runtime`]: the same program on a real [`chanter::Machine`], under random schedules.
//!
//! Each outcome of the runtime must be one that the semantics allows. Over many schedules the runtime should show all
//! of them. `README.md` maps rules to code and lists deviations.
//!
//! ```
//! use chanter_semantics::{Limits, enumerate, runtime::{Runner, Setup}, term::*};
//!
//! // Two senders, one receiver: one of them stays blocked.
//! let program = bind("c", channel(), seq([
//!     spawn(send(var("c"), int(1))),
//!     spawn_parasite(send(var("c"), int(2))),
//!     receive(var("c")),
//! ]));
//! let allowed = enumerate(&program, Limits::default()).unwrap();
//! assert_eq!(allowed.len(), 2);
//!
//! let mut runner = Runner::new(Setup::dice(1)).unwrap();
//! for seed in 0..10 {
//!     assert!(allowed.contains(&runner.run(&program, seed).unwrap()));
//! }
//! ```

pub mod choice;
pub mod enumerate;

pub mod generate;
pub mod global;
pub mod local;
pub mod outcome;
mod random;
pub mod rule;
pub mod runtime;

pub mod state;
pub mod term;
pub mod value;

pub use enumerate::{Exceeded, Limits, enumerate, enumerate_by_every_rule};
pub use outcome::{Datum, End, Observation, Outcome, StrandOutcome, Wait};
pub use rule::Rule;
pub use state::State;
pub use term::Exp;
pub use value::{ChannelName, Name};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
