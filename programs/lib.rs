//! The papers' programs, a folder each. Its `README.md` says what the program computes. `serial.rs` does so serially,
//! and `chanter.rs` on Chanter's threads, with a result that is checked. [`policies`] is a study of its own, and
//! [`peers`] has the programs that other systems run too.
//!
//! [`all`] lists them; [`kit`] has their common parts: sizes, forms, and a run with its statistics.
//!
//! ```
//! use chanter_programs::{find, kit::{Form, Load, Size}};
//!
//! let program = find("matrix-elements").unwrap();
//! let prepared = program.prepare(Size::Quick)?;
//! let run = prepared.run(&Load::new(Form::Stolen, 1))?;
//! assert_eq!(run.stats.hosts_created, 1 + 8 * 8);
//! # Ok::<(), chanter_programs::kit::Failure>(())
//! ```

#![allow(
    clippy::manual_async_fn,
    reason = "a function whose future starts threads of itself must promise that it is `Send`"
)]

pub mod barnes_hut;
pub mod boyer;
pub mod count_graphs;
pub mod k_clustering;
pub mod kit;
pub mod mandelbrot;
pub mod matrix_elements;
pub mod matrix_rows;
pub mod mergesort;
pub mod micro;
pub mod microkernel;
pub mod molecular_dynamics;
pub mod par_fib;
pub mod par_tak;
pub mod peers;
pub mod policies;
pub mod primes;
pub mod radiosity;
pub mod random_tree;
pub mod ray_tracer;
pub mod scale;
pub mod schemas;
pub mod sieve;
pub mod tsp;

use kit::Entry;

/// Every program, in the order of the papers' tables: STING's figure 7, Featherweight Threads' section 6.1, then Concert's section 5.2.
pub fn all() -> Vec<Entry> {
    vec![
        Entry::of::<matrix_elements::MatrixElements>(),
        Entry::of::<primes::Primes>(),
        Entry::of::<random_tree::RandomTree>(),
        Entry::of::<boyer::Boyer>(),
        Entry::of::<mandelbrot::Mandelbrot>(),
        Entry::of::<k_clustering::KClustering>(),
        Entry::of::<barnes_hut::BarnesHut>(),
        Entry::of::<count_graphs::CountGraphs>(),
        Entry::of::<mergesort::Mergesort>(),
        Entry::of::<tsp::Tsp>(),
        Entry::of::<ray_tracer::RayTracer>(),
        Entry::of::<matrix_rows::MatrixRows>(),
        Entry::of::<sieve::Sieve3000>(),
        Entry::of::<sieve::Sieve2000>(),
        Entry::of::<par_tak::ParTak>(),
        Entry::of::<par_fib::ParFib>(),
        Entry::of::<radiosity::Radiosity>(),
        Entry::of::<molecular_dynamics::MolecularDynamics>(),
    ]
}

/// The program of that name.
pub fn find(name: &str) -> Option<Entry> {
    all().into_iter().find(|program| program.name == name)
}

#[cfg(test)]
mod tests;
