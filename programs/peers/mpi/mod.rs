//! Radiosity and molecular dynamics in C and plain MPI, as one writes them without a runtime. They take the same
//! input as a file of numbers. Their results are compared with those of the serial versions.
//!
//! Here are the sources, the inputs and the checks. The benchmark compiles and starts them.

use crate::kit::{Program, Size};
use crate::molecular_dynamics::MolecularDynamics;
use crate::radiosity::Radiosity;

/// The common header, `plain.h`.
pub const HEADER: &str = include_str!("plain.h");

/// A check of a program's numbers.
type Check = Box<dyn Fn(&[f64]) -> bool>;

/// A program in C, with its input.
pub struct Plain {
    /// The name of the program whose work it does.
    pub name: &'static str,
    /// In C. Takes the names of a file with [`input`](Self::input) and of one for its result, and prints how many seconds it took.
    pub source: &'static str,
    /// Numbers, one after the other, in the machine's order of bytes.
    pub input: Vec<u8>,
    check: Check,
}

impl Plain {
    /// Radiosity. Its light is the serial version's, to the last bit.
    pub fn radiosity(size: Size) -> Self {
        let input = Radiosity::input(size);
        let solution = Radiosity::serial(&input);
        Self {
            name: Radiosity::NAME,
            source: include_str!("radiosity.c"),
            input: bytes(&input.numbers()),
            check: Box::new(move |found| solution.has_light(found)),
        }
    }

    /// Molecular dynamics. Its atoms have the places of the serial version, within rounding.
    pub fn molecular_dynamics(size: Size) -> Self {
        let input = MolecularDynamics::input(size);
        let outcome = MolecularDynamics::serial(&input);
        Self {
            name: MolecularDynamics::NAME,
            source: include_str!("molecular_dynamics.c"),
            input: bytes(&input.numbers()),
            check: Box::new(move |found| outcome.is_as(found)),
        }
    }

    /// Whether the result's file has the results of the serial version.
    pub fn is_right(&self, result: &[u8]) -> bool {
        let (numbers, rest) = result.as_chunks::<8>();
        let numbers: Vec<f64> = numbers.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect();
        rest.is_empty() && (self.check)(&numbers)
    }
}

fn bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}
