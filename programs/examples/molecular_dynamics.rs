//! Moves a chain in water, and prints its energy over time: `cargo run --release -p chanter-programs --example
//! molecular_dynamics -- [--pdb FILE] [--rigid] [WATERS] [STEPS]`.

use std::error::Error;
use std::time::Instant;

use chanter_programs::kit::Program;
use chanter_programs::molecular_dynamics::{Input, MolecularDynamics, read};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut residues = None;
    if let Some(at) = args.iter().position(|arg| arg == "--pdb") {
        let file = args.get(at + 1).ok_or("--pdb: which file?")?;
        let (read, left_out) = read(&std::fs::read_to_string(file)?)?;
        println!("{} residues; left out: {left_out}", read.len());
        residues = Some(read);
        args.drain(at..at + 2);
    }
    let is_rigid = args.iter().any(|arg| arg == "--rigid");
    args.retain(|arg| arg != "--rigid");
    let number = |at: usize, otherwise| args.get(at).map_or(Ok(otherwise), |text| text.parse());
    let (waters, steps) = (number(0, 2_000)?, number(1, 200)?);
    let input = match residues {
        Some(residues) => Input::of_residues(&residues, waters, 100, steps),
        None => Input::generated(153, waters, 100, steps),
    };
    let input = if is_rigid { input.with_rigid_waters() } else { input };
    println!("{} atoms, {} of them the chain's", input.system.atoms(), input.system.chain_atoms());
    let clock = Instant::now();
    let outcome = MolecularDynamics::serial(&input);
    let each = clock.elapsed() / steps.max(1) as u32;
    for (step, energy) in outcome.energies.iter().enumerate().step_by(steps.div_ceil(10).max(1)) {
        let (potential, kinetic) = (energy.potential, energy.kinetic);
        println!("step {step:5}: {potential:12.3} + {kinetic:10.3} = {:12.3} kcal/mol", energy.total());
    }
    println!("{each:?} a step; energy drifts by {:.5} of the kinetic one", outcome.drift());
    println!("momentum {:.1e} of what moves", outcome.momentum(&input.system));
    Ok(())
}
