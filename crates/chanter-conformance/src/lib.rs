//! Kits that test what you write for Chanter: [`policy`] tests a scheduling policy.
//!
//! The kit for engines of clusters is `chanter_cluster::engine::conformance`.

pub mod policy;
