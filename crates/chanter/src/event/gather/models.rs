//! Loom models of gathering.
