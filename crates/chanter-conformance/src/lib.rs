//! Kits that test what you write for Chanter: [`policy`] tests a scheduling policy, and `engine`, with the feature
//! `cluster`, an engine of clusters.

#[cfg(feature = "engine")]
pub mod engine;
pub mod policy;
