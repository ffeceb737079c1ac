//! Input and output of the program in plain MPI (`programs/peers/mpi/radiosity.c`).

use super::{Input, Solution};

impl Input {
    /// The scene and the accuracy as numbers.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let (scene, accuracy) = (&self.scene, self.accuracy);
        let (rounds, bounces) = (accuracy.rounds as f64, accuracy.bounces as f64);
        let mut all = vec![scene.surfaces() as f64, accuracy.part, accuracy.smallest, rounds, bounces];
        for (quad, paint) in std::iter::zip(&scene.quads, &scene.paints) {
            all.extend(quad.corners.iter().flat_map(|corner| corner.0));
            all.extend(paint.reflectance.0);
            all.extend(paint.emission.0);
        }
        all
    }
}

impl Solution {
    /// Whether these are the colours of all elements, surface by surface, to the last bit.
    pub(crate) fn has_light(&self, found: &[f64]) -> bool {
        let light = self.surfaces.iter().flat_map(|(view, _)| view.light.iter());
        light.flat_map(|colour| colour.0).eq(found.iter().copied())
    }
}
