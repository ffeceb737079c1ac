//! Input and output of the program in plain MPI (`programs/peers/mpi/molecular_dynamics.c`).

use super::model::{Angle, Bond, Kind, Segment, Torsion, mixes};
use super::{Energy, Input, Outcome};
use crate::kit::V3;

impl Input {
    /// The system, its forces, and the motion as numbers.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let (system, motion) = (&self.system, self.motion);
        let mut all = vec![system.side, motion.step, motion.steps as f64];
        all.extend(Kind::ALL.map(Kind::mass));
        all.extend(mixes().iter().flatten().flat_map(|mix| mix.numbers()));
        let chain = &system.chain;
        all.push(chain.kinds.len() as f64);
        for (kind, near) in std::iter::zip(&chain.kinds, &chain.near) {
            all.extend([f64::from(*kind as u8), near.len() as f64]);
            all.extend(near.iter().map(|atom| f64::from(*atom)));
        }
        all.push(chain.segments.len() as f64);
        chain.segments.iter().for_each(|of_one| segment(of_one, &mut all));
        all.push(system.atoms() as f64);
        all.extend(system.places.iter().flat_map(|place| place.0));
        all.extend(system.speeds.iter().flat_map(|speed| speed.0));
        all
    }
}

fn segment(segment: &Segment, all: &mut Vec<f64>) {
    let mut terms = |count: usize, terms: &mut dyn Iterator<Item = (&[u32], Vec<f64>)>| {
        all.push(count as f64);
        for (atoms, constants) in terms {
            all.extend(atoms.iter().map(|atom| f64::from(*atom)));
            all.extend(constants);
        }
    };
    let Segment { bonds, angles, torsions, distant, atoms: _ } = segment;
    terms(bonds.len(), &mut bonds.iter().map(|Bond(atoms, k, rest)| (&atoms[..], vec![*k, *rest])));
    terms(angles.len(), &mut angles.iter().map(|Angle(atoms, k, rest)| (&atoms[..], vec![*k, *rest])));
    terms(torsions.len(), &mut torsions.iter().map(|Torsion(atoms, height)| (&atoms[..], vec![*height])));
    terms(distant.len(), &mut distant.iter().map(|atoms| (&atoms[..], Vec::new())));
}

impl Outcome {
    /// Whether these are the places, speeds and energies, within rounding.
    pub(crate) fn is_as(&self, found: &[f64]) -> bool {
        let atoms = self.places.len();
        if found.len() != 6 * atoms + 2 * self.energies.len() {
            return false;
        }
        let all = |numbers: &[f64]| numbers.as_chunks::<3>().0.iter().map(|place| V3(*place)).collect();
        let (places, rest) = found.split_at(3 * atoms);
        let (speeds, energies) = rest.split_at(3 * atoms);
        let energy = |of: &[f64; 2]| Energy { potential: of[0], kinetic: of[1] };
        let energies = energies.as_chunks::<2>().0.iter().map(energy).collect();
        *self == Self { side: self.side, places: all(places), speeds: all(speeds), energies }
    }
}
