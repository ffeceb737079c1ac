//! Heat spreads over a plate, whose rows are divided among the processes, over Zenoh: see the crate's documentation; `target/release/examples/zenoh_heat [SIDE] [STEPS]`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/heat.rs"]
mod program;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    chanter_zenoh::run(async |here| program::process(&here).await)?
}
