//! Tests of locks.

mod locks;
