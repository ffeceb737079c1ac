//! Tests of other runtimes.

mod tokio_runtime;
