//! Forces along bonds.

use super::model::{Angle, Bond, Mixes, Segment, System, Torsion, WATER_ANGLE, WATER_BOND};
use super::model::{CUTOFF, Kind};
use crate::kit::V3;

/// `k (r - length)²`: the energy, and the force on the first, where `between` goes to it from the second.
#[inline(always)]
fn stretched(between: V3, k: f64, length: f64) -> (f64, V3) {
    let distance = between.length();
    let off = distance - length;
    (k * off * off, between * (-2.0 * k * off / distance))
}

/// `k (angle - rest)²`: the energy, and the forces on the outer two, which lie at `a` and `b` from the middle one.
#[inline(always)]
fn bent(a: V3, b: V3, k: f64, rest: f64) -> (f64, V3, V3) {
    let (long_a, long_b) = (a.length(), b.length());
    let cos = (a.dot(b) / (long_a * long_b)).clamp(-1.0, 1.0);
    let sin = (1.0 - cos * cos).sqrt().max(1e-6);
    let off = cos.acos() - rest;
    // -dE/dangle through the sine, for d(cos)/da = b/(|a||b|) - cos a/|a|².
    let pull = 2.0 * k * off / sin;
    let on_a = (b * (1.0 / (long_a * long_b)) - a * (cos / (long_a * long_a))) * pull;
    let on_b = (a * (1.0 / (long_a * long_b)) - b * (cos / (long_b * long_b))) * pull;
    (k * off * off, on_a, on_b)
}

/// The inner forces of waters: `places` has three for each.
pub(super) fn waters(places: &[V3], forces: &mut [V3]) -> f64 {
    let mut energy = 0.0;
    for (water, forces) in places.as_chunks::<3>().0.iter().zip(forces.as_chunks_mut::<3>().0) {
        let (a, b) = (water[1] - water[0], water[2] - water[0]);
        let (e1, on_a) = stretched(a, WATER_BOND.0, WATER_BOND.1);
        let (e2, on_b) = stretched(b, WATER_BOND.0, WATER_BOND.1);
        let (e3, bent_a, bent_b) = bent(a, b, WATER_ANGLE.0, WATER_ANGLE.1);
        let (on_a, on_b) = (on_a + bent_a, on_b + bent_b);
        forces[1] += on_a;
        forces[2] += on_b;
        forces[0] -= on_a + on_b;
        energy += e1 + e2 + e3;
    }
    energy
}

/// Up to four atoms of the chain that act on each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Term {
    Bond(Bond),
    Angle(Angle),
    Torsion(Torsion),
    /// Two atoms three bonds apart, which act on each other by half.
    Distant([u32; 2]),
}

impl Segment {
    /// Its terms, in the order in which their forces are added up.
    pub(super) fn terms(&self) -> impl Iterator<Item = Term> {
        let bonds = self.bonds.iter().map(|bond| Term::Bond(*bond));
        let angles = self.angles.iter().map(|angle| Term::Angle(*angle));
        let torsions = self.torsions.iter().map(|torsion| Term::Torsion(*torsion));
        bonds.chain(angles).chain(torsions).chain(self.distant.iter().map(|pair| Term::Distant(*pair)))
    }
}

impl Term {
    /// Its atoms.
    pub(super) fn atoms(&self) -> &[u32] {
        match self {
            Self::Bond(Bond(atoms, ..)) | Self::Distant(atoms) => atoms,
            Self::Angle(Angle(atoms, ..)) => atoms,
            Self::Torsion(Torsion(atoms, _)) => atoms,
        }
    }

    /// The energy, and the force on each atom, by the places of the atoms.
    pub(super) fn act(
        &self,
        side: f64,
        (mixes, kinds): (&Mixes, &[Kind]),
        places: &[V3; 4],
    ) -> (f64, [V3; 4]) {
        let between = |from: usize, to: usize| System::nearest(side, places[to] - places[from]);
        match *self {
            Self::Bond(Bond(_, k, length)) => {
                let (e, force) = stretched(between(1, 0), k, length);
                (e, [force, -force, V3::ZERO, V3::ZERO])
            }
            Self::Angle(Angle(_, k, rest)) => {
                let (e, on_a, on_b) = bent(between(1, 0), between(1, 2), k, rest);
                (e, [on_a, -(on_a + on_b), on_b, V3::ZERO])
            }
            Self::Torsion(Torsion(_, height)) => twisted(between(0, 1), between(1, 2), between(2, 3), height),
            Self::Distant([a, b]) => {
                let apart = between(1, 0);
                let square = apart.square();
                if square >= CUTOFF * CUTOFF {
                    return (0.0, [V3::ZERO; 4]);
                }
                let (e, force) = mixes[kinds[a as usize] as usize][kinds[b as usize] as usize].at(square);
                let force = apart * (0.5 * force);
                (0.5 * e, [force, -force, V3::ZERO, V3::ZERO])
            }
        }
    }
}

/// The energy of a segment. `place` finds an atom, `on` takes the force on one.
pub(super) fn segment(
    segment: &Segment,
    side: f64,
    kinds: (&Mixes, &[Kind]),
    place: impl Fn(u32) -> V3,
    mut on: impl FnMut(u32, V3),
) -> f64 {
    let mut energy = 0.0;
    for term in segment.terms() {
        let mut places = [V3::ZERO; 4];
        places.iter_mut().zip(term.atoms()).for_each(|(known, atom)| *known = place(*atom));
        let (e, forces) = term.act(side, kinds, &places);
        term.atoms().iter().zip(forces).for_each(|(atom, force)| on(*atom, force));
        energy += e;
    }
    energy
}

/// `height (1 + cos(2 angle - pi))` of the bonds `b1`, `b2`, `b3`, one after the other (Bekker's form of the forces).
fn twisted(b1: V3, b2: V3, b3: V3, height: f64) -> (f64, [V3; 4]) {
    let (m, n) = (b1.cross(b2), b2.cross(b3));
    let (m2, n2, long) = (m.square().max(1e-12), n.square().max(1e-12), b2.length());
    let angle = (m.cross(n).dot(b2) / long).atan2(m.dot(n));
    let energy = height * (1.0 - (2.0 * angle).cos());
    let slope = 2.0 * height * (2.0 * angle).sin();
    let on_first = m * (slope * long / m2);
    let on_last = n * (-slope * long / n2);
    let (s, t) = (b1.dot(b2) / (long * long), b3.dot(b2) / (long * long));
    // The rest keeps both momenta.
    let on_second = -on_first - on_first * s + on_last * t;
    let on_third = -on_last - on_last * t + on_first * s;
    (energy, [on_first, on_second, on_third, on_last])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forces are the slopes of energies, and add up to nothing.
    fn is_slope(places: &[V3], energy: impl Fn(&[V3]) -> (f64, Vec<V3>)) {
        let (_, forces) = energy(places);
        let sum = forces.iter().fold(V3::ZERO, |sum, force| sum + *force);
        assert!(sum.length() < 1e-9, "{sum:?}");
        let turn = places.iter().zip(&forces).fold(V3::ZERO, |sum, (p, f)| sum + p.cross(*f));
        assert!(turn.length() < 1e-8, "{turn:?}");
        for at in 0..places.len() {
            for axis in 0..3 {
                let moved = |by: f64| {
                    let mut places = places.to_vec();
                    places[at][axis] += by;
                    energy(&places).0
                };
                let slope = (moved(-1e-5) - moved(1e-5)) / 2e-5;
                assert!(
                    (slope - forces[at][axis]).abs() < 1e-4 * (1.0 + slope.abs()),
                    "{at} {axis}: {slope}"
                );
            }
        }
    }

    fn four() -> [V3; 4] {
        [V3::new(0.1, 1.2, -0.3), V3::new(0.0, 0.0, 0.0), V3::new(1.4, 0.1, 0.2), V3::new(1.9, 0.7, 1.3)]
    }

    #[test]
    fn torsions_are_slopes() {
        is_slope(&four(), |p| {
            let (e, forces) = twisted(p[1] - p[0], p[2] - p[1], p[3] - p[2], 2.5);
            (e, forces.to_vec())
        });
    }

    #[test]
    fn angles_and_bonds_are_slopes() {
        is_slope(&four()[..3], |p| {
            let (e, a, b) = bent(p[0] - p[1], p[2] - p[1], 60.0, 2.0);
            (e, vec![a, -(a + b), b])
        });
        is_slope(&four()[..2], |p| {
            let (e, a) = stretched(p[0] - p[1], 300.0, 1.1);
            (e, vec![a, -a])
        });
        is_slope(&four()[..3], |p| {
            let mut forces = vec![V3::ZERO; 3];
            (waters(p, &mut forces), forces)
        });
    }
}
