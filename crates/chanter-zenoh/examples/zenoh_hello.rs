//! Each process greets process 0, over Zenoh: see the crate's documentation; `target/release/examples/zenoh_hello`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/hello.rs"]
mod program;

use chanter_cluster::{ClusterError, Process};

#[chanter_cluster::main(engines(chanter_zenoh::Zenoh))]
async fn main(here: Process) -> Result<(), ClusterError> {
    program::process(&here).await
}
