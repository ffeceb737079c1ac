//! The programs that other systems run too, each in a process of its own (`chanter-bench peers`). This folder's
//! `README.md` is the contract, its folders are the peers, and [`Chanter`] is our side. `bench` is a part of
//! `chanter-bench`,
//! [`mpi`] what stands beside Concert's programs.

pub(crate) mod chanter;
pub mod mpi;

pub use self::chanter::Chanter;
