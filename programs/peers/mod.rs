//! The programs that other systems run too, each in a process of its own (`chanter-bench peers`). This folder's
//! `README.md` is the contract, its folders are the peers, and [`Chanter`] is our side.

pub(crate) mod chanter;

pub use self::chanter::Chanter;
