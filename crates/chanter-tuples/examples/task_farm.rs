//! A task farm: workers take tasks, split those that are too large, and put results.
//!
//! The farm integrates a function. A worker that takes an interval where the function is too crooked puts two halves
//! back, so the farm makes its own tasks. The master adds up what comes, until the whole interval is covered. A worker
//! waits for a task or for the end, whichever is first.

use chanter::prelude::*;
use chanter::sync::CVar;
use chanter_tuples::{Any, TupleSpace};

const WORKERS: u32 = 4;

#[derive(Clone, Copy)]
enum Stage {
    Task,
    Result,
}

impl chanter_tuples::Field for Stage {
    type Key = u8;

    fn key(&self) -> u8 {
        *self as u8
    }
}

/// A stage, the interval, and the area that a worker has found.
type Farm = TupleSpace<(Stage, [u64; 2], f64)>;

/// Intervals are counted in parts of one.
const PARTS: u64 = 1 << 20;

fn function(part: u64) -> f64 {
    let x = part as f64 / PARTS as f64;
    4.0 / (1.0 + x * x)
}

#[chanter::main]
async fn main() {
    let (farm, over) = (Farm::new(), CVar::new());
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn(work(farm.clone(), over.clone()))).collect();
    farm.put((Stage::Task, [0, PARTS], 0.0)).await;

    let (mut covered, mut area) = (0, 0.0);
    while covered < PARTS {
        let (_, [from, to], part) = farm.take((Stage::Result, Any, Any)).await;
        covered += to - from;
        area += part;
    }
    over.set();
    assert!((area - std::f64::consts::PI).abs() < 1e-6, "{area}");
    let mut tasks = Vec::new();
    for worker in workers {
        tasks.push(worker.await.unwrap());
    }
    assert!(farm.is_empty(), "a choice that lost has taken nothing");
    println!("{area}, from {} tasks; by each worker: {tasks:?}", tasks.iter().sum::<u32>());
}

/// Works until the farm is over. Returns the number of its tasks.
async fn work(farm: Farm, over: CVar) -> u32 {
    let mut tasks = 0;
    loop {
        let task = choose((
            farm.take((Stage::Task, Any, Any)).wrap(|(_, interval, _)| Some(interval)),
            over.wait().wrap(|()| None),
        ));
        let Some([from, to]) = task.await else { return tasks };
        tasks += 1;
        let middle = u64::midpoint(from, to);
        let width = (to - from) as f64 / PARTS as f64;
        let (one, two) = (trapezium(from, to, width), simpson(from, middle, to, width));
        if (one - two).abs() < 1e-7 * width || to - from < 2 {
            farm.put((Stage::Result, [from, to], two)).await;
        } else {
            farm.put((Stage::Task, [from, middle], 0.0)).await;
            farm.put((Stage::Task, [middle, to], 0.0)).await;
        }
    }
}

fn trapezium(from: u64, to: u64, width: f64) -> f64 {
    width * f64::midpoint(function(from), function(to))
}

fn simpson(from: u64, middle: u64, to: u64, width: f64) -> f64 {
    width * (function(from) + 4.0 * function(middle) + function(to)) / 6.0
}
