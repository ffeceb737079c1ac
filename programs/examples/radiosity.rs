//! Solves a scene, checks it, and draws it: `cargo run --release -p chanter-programs --example radiosity -- cornell out.ppm`.
//!
//! `cornell [PART SMALLEST]`, `room BOXES [PART SMALLEST]` or `FILE [PART SMALLEST]` (a scene as `programs/radiosity/cornell.toml`),
//! then the picture's file, which may be missing. With `uniform LEVELS` at the end it is compared with light by parts that are all as small.

use std::error::Error;
use std::time::Instant;

use chanter_programs::radiosity::{Accuracy, Scene, picture, solve};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut args = args.iter().map(String::as_str).peekable();
    let (scene, part, smallest) = match args.next().ok_or("which scene?")? {
        "cornell" => (Scene::cornell(), 1e-4, 30.0),
        "room" => (Scene::room(args.next().ok_or("how many boxes?")?.parse()?, 1), 1e-4, 2e-3),
        file => (Scene::read(&std::fs::read_to_string(file)?)?, 1e-4, 0.0),
    };
    let mut numbers = [part, smallest];
    for number in &mut numbers {
        if let Some(given) = args.peek().and_then(|text| text.parse().ok()) {
            *number = given;
            args.next();
        }
    }
    let accuracy = Accuracy { part: numbers[0], smallest: numbers[1], rounds: 4, bounces: 10 };
    let clock = Instant::now();
    let solution = solve(&scene, accuracy);
    println!("{:?}: {} surfaces, {solution:?}", clock.elapsed(), scene.surfaces());
    let (worst, pairs) = solution.reciprocity();
    println!(
        "reciprocity: {pairs} pairs of links differ by {worst:.1e} at most; exchanges by {:.4}",
        solution.exchange()
    );
    let balance = solution.balance(&scene);
    println!("{balance:?}: {:.4} is missing", balance.error());
    if let Some(file) = args.peek().filter(|word| **word != "uniform").copied() {
        args.next();
        std::fs::write(file, picture(&scene, &solution, 600, 600))?;
    }
    if args.next() == Some("uniform") {
        let levels = args.next().ok_or("how many levels?")?.parse()?;
        println!("off the uniform solution: {:.4}", solution.off_uniform(&scene, levels));
    }
    Ok(())
}
