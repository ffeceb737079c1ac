//! Runs one program: `cargo run --profile figures -p chanter-programs --example run -- primes stolen 1 [quick|grain] [lifo] [bound] [times]`.
//! Without arguments it lists them. Under a profiler it shows where the time of one form goes.

use std::error::Error;

use chanter_programs::kit::{Form, Load, SharedLifo, Size};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, form, vps, rest @ ..] = args.as_slice() else {
        for program in chanter_programs::all() {
            let forms: Vec<_> = program.forms.iter().map(|form| form.name()).collect();
            println!("{:16} {} ({})", program.name, program.about, forms.join(", "));
        }
        return Ok(());
    };
    let program = chanter_programs::find(name).ok_or("no such program")?;
    let form = Form::ALL.into_iter().find(|known| known.name() == form).ok_or("no such form")?;
    let is_said = |word: &str| rest.iter().any(|arg| arg == word);
    let size = match (is_said("quick"), is_said("grain")) {
        (true, _) => Size::Quick,
        (_, true) => Size::Grain,
        _ => Size::Paper,
    };
    let times = rest.iter().find_map(|arg| arg.parse().ok()).unwrap_or(1);
    let prepared = program.prepare(size)?;
    let mut load = Load::new(form, vps.parse()?);
    if is_said("lifo") {
        load = load.policies(SharedLifo::policies);
    }
    if is_said("bound") {
        load = load.bound_if_possible();
    }
    for _ in 0..times {
        let run = prepared.run(&load)?;
        println!("{:?} {} communications, {} at once", run.elapsed, run.communications, run.at_once);
        println!("{:?}", run.stats);
    }
    Ok(())
}
