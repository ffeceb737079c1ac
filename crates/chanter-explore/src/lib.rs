#![doc = include_str!("../README.md")]

mod explorer;
mod failure;
mod random;
mod report;
mod schedule;
mod scheduler;
mod strategy;
mod trace;
mod verdict;

pub use explorer::{Explorer, Parasites, REPLAY};
pub use failure::{Failure, FailureKind};
pub use report::Report;
pub use schedule::{BadSchedule, Schedule};
pub use trace::{Step, What};
pub use verdict::Verdict;
