//! Common parts of the programs.
//!
//! A [`Program`] has an input for each [`Size`], a serial version, and a version on Chanter's threads for each
//! [`Form`] that makes sense for it. [`Entry`] names it in the list of programs. [`Entry::prepare`] makes the input,
//! and computes the expected answer serially. Each [`Prepared::run`] then gives a [`Run`] with a compared answer, or
//! a [`Failure`].

mod copied;
mod form;
mod gauge;
mod job;
mod program;
mod random;
mod run;
mod shared_lifo;
mod space;
mod style;
mod threads;

pub use copied::{Copied, Original, Place};
pub use form::{Form, Size};
pub use gauge::{AtWork, Gauge};
pub use job::{JobFailure, meet};
pub use program::{Done, Entry, Prepared, Program};
pub use random::Random;
pub use run::{Failure, Load, Policies, Run, bind_if_possible, ensure};
pub use shared_lifo::SharedLifo;
pub use space::V3;
pub use style::{
    AsynchronousHosts, AsynchronousParasites, PaperParasites, Style, Synchronous, answer, answers, collect,
};
pub use threads::{Threads, all, call, each};
