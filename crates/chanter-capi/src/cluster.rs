//! Figure 14 of the Chant paper.

/// The global name of a thread.
pub(crate) struct Global {}
