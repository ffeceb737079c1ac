//! Runs the rows of one micro-study: `cargo run --profile figures -p chanter-programs --example study -- table-1 1 [operations]
//! [part of a configuration's name]`. Without arguments it lists them. Under a profiler it shows where the time goes.

use std::error::Error;

use chanter_programs::micro::{Work, rows};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [study, vps, rest @ ..] = args.as_slice() else {
        for row in rows() {
            println!("{:20} {}", row.study, row.configuration);
        }
        return Ok(());
    };
    let vps = vps.parse()?;
    let asked = rest.iter().find_map(|arg| arg.parse::<u64>().ok());
    let part = rest.iter().find(|arg| arg.parse::<u64>().is_err()).map_or("", String::as_str);
    let is_meant = |row: &&chanter_programs::micro::Row| {
        row.study == study && row.configuration.contains(part) && row.least_vps <= vps
    };
    for row in rows().iter().filter(is_meant) {
        let done = row.run(Work { operations: asked.unwrap_or(row.operations), vps })?;
        let ns = done.elapsed.as_nanos() as f64 / done.operations as f64;
        println!("{:30} {ns:10.1} ns an operation", row.configuration);
    }
    Ok(())
}
