//! Tests of machines, and calls that block.

mod blocking_calls;
mod shared_workers;
mod shutdown;
