//! SHAKE: waters whose bonds keep their lengths (Ryckaert, Ciccotti, Berendsen 1977). A step moves atoms as if they
//! were free. Then each length is mended in turn, until all are right. Speeds are mended likewise (RATTLE, Andersen
//! 1983), so that energy and momentum stay.

use super::model::{Kind, WATER_ANGLE, WATER_BOND};
use crate::kit::V3;

/// By how much the square of a length may be wrong, as a part of it.
pub(super) const TOLERANCE: f64 = 1e-12;
/// The most rounds. (A water takes about 20.)
const ROUNDS: usize = 1000;

/// The three lengths of a water: two atoms, oxygen first, and the distance between them.
pub(super) fn lengths() -> [([usize; 2], f64); 3] {
    let apart = 2.0 * WATER_BOND.1 * (0.5 * WATER_ANGLE.1).sin();
    [([0, 1], WATER_BOND.1), ([0, 2], WATER_BOND.1), ([1, 2], apart)]
}

fn inverse_masses() -> [f64; 3] {
    let hydrogen = Kind::WaterHydrogen.mass().recip();
    [Kind::WaterOxygen.mass().recip(), hydrogen, hydrogen]
}

/// Mends each length in turn, until `mend` has found all of them right.
fn in_rounds(mut mend: impl FnMut([usize; 2], f64) -> bool) {
    let lengths = lengths();
    for _ in 0..ROUNDS {
        let mut are_right = true;
        for (atoms, length) in lengths {
            are_right &= mend(atoms, length);
        }
        if are_right {
            return;
        }
    }
}

/// Moves atoms of waters so that their lengths are right, along the bonds as they were before the step. Speeds change
/// with the places. The slices have three atoms for each water.
pub(super) fn mend_places(before: &[V3], places: &mut [V3], speeds: &mut [V3], step: f64) {
    let inverse = inverse_masses();
    let waters = before.as_chunks::<3>().0.iter().zip(places.as_chunks_mut::<3>().0);
    for ((before, places), speeds) in waters.zip(speeds.as_chunks_mut::<3>().0) {
        in_rounds(|[a, b], length| {
            let between = places[a] - places[b];
            let off = between.square() - length * length;
            if off.abs() <= TOLERANCE * length * length {
                return true;
            }
            let along = before[a] - before[b];
            let by = along * (off / (2.0 * (inverse[a] + inverse[b]) * between.dot(along)));
            places[a] -= by * inverse[a];
            places[b] += by * inverse[b];
            speeds[a] -= by * (inverse[a] / step);
            speeds[b] += by * (inverse[b] / step);
            false
        });
    }
}

/// Changes speeds so that no length of a water changes.
pub(super) fn mend_speeds(places: &[V3], speeds: &mut [V3]) {
    let inverse = inverse_masses();
    let waters = places.as_chunks::<3>().0.iter().zip(speeds.as_chunks_mut::<3>().0);
    for (places, speeds) in waters {
        in_rounds(|[a, b], length| {
            let along = places[a] - places[b];
            let off = along.dot(speeds[a] - speeds[b]);
            if off.abs() <= TOLERANCE * length {
                return true;
            }
            let by = along * (off / ((inverse[a] + inverse[b]) * along.square()));
            speeds[a] -= by * inverse[a];
            speeds[b] += by * inverse[b];
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_mended_and_momenta_stay() {
        let (oh, half) = (WATER_BOND.1, 0.5 * WATER_ANGLE.1);
        let hydrogen = |side: f64| V3::new(oh * half.cos(), side * oh * half.sin(), 0.0);
        let before = [V3::ZERO, hydrogen(1.0), hydrogen(-1.0)];
        let by = [V3::new(0.02, 0.01, -0.03), V3::new(-0.04, 0.05, 0.02), V3::new(0.03, 0.02, 0.06)];
        let masses = inverse_masses().map(f64::recip);
        let sum = |of: &[V3; 3]| (0..3).fold(V3::ZERO, |sum, at| sum + of[at] * masses[at]);
        let turn =
            |of: &[V3; 3]| (0..3).fold(V3::ZERO, |sum, at| sum + before[at].cross(of[at]) * masses[at]);
        let mut places: [V3; 3] = std::array::from_fn(|at| before[at] + by[at]);
        let mut speeds = by;
        mend_places(&before, &mut places, &mut speeds, 1.0);
        for ([a, b], length) in lengths() {
            let off = (places[a] - places[b]).square() / (length * length) - 1.0;
            assert!(off.abs() <= TOLERANCE, "{a} {b}: {off}");
        }
        assert!((sum(&speeds) - sum(&by)).length() < 1e-12);
        assert!((turn(&speeds) - turn(&by)).length() < 1e-12);
        mend_speeds(&places, &mut speeds);
        for ([a, b], length) in lengths() {
            let off = (places[a] - places[b]).dot(speeds[a] - speeds[b]);
            assert!(off.abs() <= TOLERANCE * length, "{a} {b}: {off}");
        }
        assert!((sum(&speeds) - sum(&by)).length() < 1e-12);
    }
}
