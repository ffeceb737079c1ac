//! Bridges to other libraries.

#[cfg(feature = "hyper")]
pub mod hyper;
