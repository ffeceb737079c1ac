//! Solves a scene on all processors, checks it, and draws it: `cargo run --release -p chanter-programs --example radiosity -- cornell out.ppm`.
//!
//! `cornell [PART SMALLEST]`, `room BOXES [PART SMALLEST]` or `FILE [PART SMALLEST]` (a scene as `programs/radiosity/cornell.toml`),
//! then the picture's file, which may be missing. With `patches COUNT` it is solved more and more accurately until there are as many
//! elements. With `uniform AREA` at the end it is compared with light by parts of that area at most, and by particles.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use chanter::{Event, Machine};
use chanter_programs::radiosity::{Accuracy, Progress, Scene, Solution, picture, solve_on};

/// The most that a run is made more accurate.
const FINEST: f64 = 1e-9;

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
    let file = args.next_if(|word| !["uniform", "patches"].contains(word));
    let (mut patches, mut uniform) = (0, None);
    while let Some(word) = args.next() {
        let given = args.next().ok_or("how many, or how large?")?;
        match word {
            "patches" => patches = given.parse()?,
            _ => uniform = Some(given.parse::<f64>()?),
        }
    }
    let scene = Arc::new(scene);
    let mut accuracy = Accuracy { part: numbers[0], smallest: numbers[1], rounds: 4, bounces: 10 };
    let mut solution = solved(&scene, accuracy)?;
    while solution.elements() < patches && accuracy.part > FINEST {
        accuracy.part *= 0.5;
        drop(solution);
        solution = solved(&scene, accuracy)?;
    }
    let (worst, pairs) = solution.reciprocity();
    println!(
        "reciprocity: {pairs} pairs of links differ by {worst:.1e} at most; exchanges by {:.4}",
        solution.exchange()
    );
    let balance = solution.balance(&scene);
    println!("{balance:?}: {:.4} is missing", balance.error());
    if let Some(file) = file {
        std::fs::write(file, picture(&scene, &solution, 600, 600))?;
    }
    if let Some(area) = uniform {
        println!("off light by particles: {:.4}", solution.off_traced(&scene, 4_000_000));
        println!("off the uniform solution: {:.4}", solution.off_uniform(&scene, area));
    }
    Ok(())
}

/// Solves it, and tells each few seconds how far that is.
fn solved(scene: &Arc<Scene>, accuracy: Accuracy) -> Result<Solution, Box<dyn Error>> {
    let machine = Machine::builder().build()?;
    let progress = Arc::new(Progress::default());
    let clock = Instant::now();
    let run = machine.spawn(solve_on(Arc::clone(scene), accuracy, Arc::clone(&progress)));
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let teller = std::thread::spawn(move || {
        while is_over.recv_timeout(Duration::from_secs(5)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{:4} s: {progress}", clock.elapsed().as_secs());
        }
    });
    let solution = run.join().sync_blocking()?;
    drop(over);
    teller.join().map_err(|_| "who tells of progress has failed")?;
    println!(
        "{:?}, part {:.1e}: {} surfaces, {solution:?}",
        clock.elapsed(),
        accuracy.part,
        scene.surfaces()
    );
    Ok(solution)
}
