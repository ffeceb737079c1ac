//! A protein's chain in water, atom by atom; see the folder's `README.md`.

mod bonds;
mod build;
mod cell;
mod cells;
mod chanter;
mod model;
mod pdb;
mod plain;
mod processes;
mod rayon;
mod serial;
mod shake;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kit::{Done, Failure, Form, Program, Size, V3, ensure};

use cell::Moved;
use model::FEMTOSECOND;
pub use model::System;
pub use pdb::{LeftOut, PdbError, Residue, read};
pub use processes::process;

/// How the atoms are moved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Motion {
    /// In the model's unit.
    step: f64,
    steps: usize,
    /// Whether the lengths in waters are fixed.
    is_rigid: bool,
}

impl Motion {
    /// Number of steps of half a femtosecond.
    pub const fn of(steps: usize) -> Self {
        Self { step: 0.5 * FEMTOSECOND, steps, is_rigid: false }
    }
}

/// In kcal/mol.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Energy {
    /// Of where the atoms are.
    pub potential: f64,
    /// Of how fast they are.
    pub kinetic: f64,
}

impl Energy {
    fn of_bonds(potential: f64) -> Self {
        Self { potential, kinetic: 0.0 }
    }

    fn and(self, other: Self) -> Self {
        Self { potential: self.potential + other.potential, kinetic: self.kinetic + other.kinetic }
    }

    /// Both.
    pub fn total(self) -> f64 {
        self.potential + self.kinetic
    }
}

/// Result of a run. Two results are equal if they differ by rounding only, since sums of forces in another order are
/// rounded otherwise.
#[derive(Clone, Debug)]
pub struct Outcome {
    side: f64,
    /// By the numbers of atoms.
    places: Vec<V3>,
    speeds: Vec<V3>,
    /// Before the first step, and after each.
    pub energies: Vec<Energy>,
}

/// Most that rounding may come to in a run, in Å.
const ROUNDING: f64 = 1e-7;

impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        let near = |a: &V3, b: &V3| System::nearest(self.side, *a - *b).square() < ROUNDING * ROUNDING;
        let same = |a: &Energy, b: &Energy| (a.total() - b.total()).abs() < 1e-7 * (1.0 + a.kinetic);
        self.places.len() == other.places.len()
            && self.energies.len() == other.energies.len()
            && std::iter::zip(&self.places, &other.places).all(|(a, b)| near(a, b))
            && std::iter::zip(&self.speeds, &other.speeds).all(|(a, b)| near(a, b))
            && std::iter::zip(&self.energies, &other.energies).all(|(a, b)| same(a, b))
    }
}

impl Outcome {
    fn new(system: &System, energies: Vec<Energy>) -> Self {
        let none = vec![V3::ZERO; system.atoms()];
        Self { side: system.side, places: none.clone(), speeds: none, energies }
    }

    fn take(&mut self, atoms: Vec<Moved>) {
        for Moved { atom, place, speed } in atoms {
            self.places[atom as usize] = place;
            self.speeds[atom as usize] = speed;
        }
    }

    /// Whether it is the same to the last bit, as it is among forms that add up in the same order.
    pub fn is_identical(&self, other: &Self) -> bool {
        self.places == other.places && self.speeds == other.speeds
    }

    /// How far the total energy goes from where it began, as a part of the kinetic one.
    pub fn drift(&self) -> f64 {
        let first = self.energies[0];
        self.energies.iter().map(|e| (e.total() - first.total()).abs()).fold(0.0, f64::max) / first.kinetic
    }

    /// The momentum, relative to the momentum if all atoms went one way.
    pub fn momentum(&self, system: &System) -> f64 {
        let mut sum = V3::ZERO;
        let mut all = 0.0;
        for (atom, speed) in self.speeds.iter().enumerate() {
            let mass = system.kind(atom).mass();
            sum += *speed * mass;
            all += speed.length() * mass;
        }
        sum.length() / all
    }
}

/// A system, and how it is to be moved.
#[derive(Debug)]
pub struct Input {
    /// The model.
    pub system: System,
    /// The steps.
    pub motion: Motion,
}

impl Input {
    /// A chain of residues in waters, relaxed for some steps; the arguments give the numbers.
    pub fn generated(residues: usize, waters: usize, relax: usize, steps: usize) -> Self {
        let chain = build::generated(residues, 1995);
        Self { system: build::system(&chain, waters, relax, 1995), motion: Motion::of(steps) }
    }

    /// The same system with rigid waters, whose lengths SHAKE keeps. Steps are twice as long, since the bonds of waters
    /// do not vibrate.
    #[must_use]
    pub fn with_rigid_waters(mut self) -> Self {
        let (motion, chain) = (self.motion, self.system.chain_atoms());
        let (places, speeds) = (&mut self.system.places[chain..], &mut self.system.speeds[chain..]);
        let before = places.to_vec();
        // No time passes, so the speeds do not follow the places.
        shake::mend_places(&before, places, speeds, f64::INFINITY);
        shake::mend_speeds(places, speeds);
        self.motion = Motion { step: 2.0 * motion.step, is_rigid: true, ..motion };
        self
    }

    /// The same, with a chain that has been read.
    pub fn of_residues(residues: &[Residue], waters: usize, relax: usize, steps: usize) -> Self {
        Self { system: build::system(residues, waters, relax, 1995), motion: Motion::of(steps) }
    }
}

/// The program.
#[derive(Debug)]
pub struct MolecularDynamics;

impl Program for MolecularDynamics {
    const NAME: &'static str = "molecular-dynamics";
    const ABOUT: &'static str = "a protein's chain in water, an object for each part of space";
    const FORMS: &'static [Form] = &[Form::Serial, Form::Rayon, Form::Objects];
    type Input = Input;
    type Answer = Outcome;

    fn input(size: Size) -> Input {
        match size {
            Size::Quick => Input::generated(12, 300, 20, 4),
            Size::Paper | Size::Grain => Input::generated(153, 2_000, 80, 20),
        }
    }

    fn serial(input: &Input) -> Outcome {
        serial::run(&input.system, input.motion)
    }

    fn rayon(input: &Input) -> Outcome {
        rayon::run(&input.system, input.motion)
    }

    async fn threads(input: Arc<Input>, _: Form) -> Done<Outcome> {
        Done::new(chanter::run(&input.system, input.motion).await.expect("cells live as long as their world"))
    }

    fn check(_: Size, input: &Input, answer: &Outcome) -> Result<(), Failure> {
        let drift = answer.drift();
        ensure(&format!("whether a drift of energy by {drift} is small"), &(drift < 0.01), &true)?;
        let momentum = answer.momentum(&input.system);
        ensure(&format!("whether a momentum of {momentum} is none"), &(momentum < 1e-12), &true)
    }
}

#[cfg(test)]
mod tests;
