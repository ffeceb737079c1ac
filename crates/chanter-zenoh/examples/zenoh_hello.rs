//! Each process greets process 0, over Zenoh: see the crate's documentation; `target/release/examples/zenoh_hello`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/hello.rs"]
mod program;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(chanter_zenoh::run(async |here| program::process(&here).await)??)
}
