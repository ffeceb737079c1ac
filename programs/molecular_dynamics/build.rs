//! Makes a system: a chain, waters around it, and speeds of 300 K, all relaxed.

use std::collections::BTreeSet;

use super::Motion;
use super::cells::Grid;
use super::model::{
    Angle, BOLTZMANN, Bond, CUTOFF, Chain, Kind, Segment, System, Torsion, WATER_ANGLE, WATER_BOND,
};
use super::pdb::Residue;
use super::serial::Serial;
use crate::kit::{Random, V3};

/// Residues of a segment, whose bonds are one thread's.
const SEGMENT: usize = 16;
/// How far waters are apart at first: as in water.
const LATTICE: f64 = 3.105;
const TEMPERATURE: f64 = 300.0;

/// The place at a distance from `c`, at an angle to `b`, turned around the bond from `b` to `c` away from `a`.
fn beyond(a: V3, b: V3, c: V3, distance: f64, angle: f64, turn: f64) -> V3 {
    let along = (c - b).unit();
    let normal = (b - a).cross(along).unit();
    let aside = normal.cross(along);
    c + along * (-distance * angle.cos())
        + aside * (distance * angle.sin() * turn.cos())
        + normal * (distance * angle.sin() * turn.sin())
}

/// A chain in a ball: residue by residue, turned as the residues of proteins are, and taken back where it cannot go on.
pub(super) fn generated(residues: usize, seed: u64) -> Vec<Residue> {
    let mut random = Random::new(seed);
    let radius = 4.6 * (residues as f64).cbrt();
    let first = V3::new(0.0, 0.0, 0.0);
    let mut chain = vec![start(first)];
    let mut failures = 0;
    while chain.len() < residues {
        let grown = (0..40).find_map(|_| {
            // A helix, or a strand.
            let (phi, psi) = if random.unit() < 0.6 { (-60.0, -45.0) } else { (-120.0, 130.0) };
            let mut off = || (random.unit() - 0.5) * 50.0;
            let (phi, psi) = (phi + off(), psi + off());
            let (before, next) = grow(chain.last()?, f64::to_radians(phi), f64::to_radians(psi));
            is_free(&chain, &before, &next, radius).then_some((before, next))
        });
        match grown {
            Some((before, next)) => {
                if let Some(last) = chain.last_mut() {
                    *last = before;
                }
                chain.push(next);
            }
            None => {
                failures += 1;
                // The longer it takes, the farther back.
                let back = 2 + failures / 4 % 24;
                chain.truncate(chain.len().saturating_sub(back).max(1));
            }
        }
    }
    chain
}

fn start(nitrogen: V3) -> Residue {
    let alpha = nitrogen + V3::new(1.449, 0.0, 0.0);
    let carbonyl = beyond(nitrogen + V3::new(0.0, 1.0, 0.0), nitrogen, alpha, 1.522, 1.9216, 1.0);
    let mut residue = Residue {
        nitrogen,
        alpha,
        carbonyl,
        oxygen: V3::ZERO,
        beta: None,
        has_hydrogen: false,
        follows: false,
    };
    residue.oxygen = beyond(nitrogen, alpha, carbonyl, 1.229, 2.1014, 2.0);
    residue.beta = Some(beyond(carbonyl, nitrogen, alpha, 1.526, 1.9146, 2.1));
    residue
}

/// The residue behind another, which is turned by `psi` for it.
fn grow(before: &Residue, phi: f64, psi: f64) -> (Residue, Residue) {
    let (n, ca, c) = (before.nitrogen, before.alpha, before.carbonyl);
    let mut before = *before;
    let nitrogen = beyond(n, ca, c, 1.335, 2.0351, psi);
    before.oxygen = beyond(n, ca, c, 1.229, 2.1014, psi + std::f64::consts::PI);
    let alpha = beyond(ca, c, nitrogen, 1.449, 2.1276, std::f64::consts::PI);
    let carbonyl = beyond(c, nitrogen, alpha, 1.522, 1.9216, phi);
    let beta = beyond(c, nitrogen, alpha, 1.526, 1.9146, phi - 2.1);
    let oxygen = beyond(nitrogen, alpha, carbonyl, 1.229, 2.1014, 2.0);
    let beta = Some(beta);
    (before, Residue { nitrogen, alpha, carbonyl, oxygen, beta, has_hydrogen: true, follows: true })
}

fn heavy(residue: &Residue) -> [V3; 5] {
    let r = residue;
    [r.nitrogen, r.alpha, r.carbonyl, r.oxygen, r.beta.unwrap_or(r.alpha)]
}

/// Whether there is room in the ball for a residue, and for the oxygen of the one before.
fn is_free(chain: &[Residue], before: &Residue, next: &Residue, radius: f64) -> bool {
    let centre = V3::new(0.0, 0.0, radius * 0.5);
    if (next.carbonyl - centre).square() > radius * radius {
        return false;
    }
    let others = &chain[..chain.len().saturating_sub(1)];
    let new = heavy(next).into_iter().chain([before.oxygen]);
    let apart = |new: V3| {
        others.iter().rev().enumerate().all(|(back, other)| {
            // Those near in the chain are held by their bonds, and may be nearer.
            let least: f64 = if back < 2 { 2.5 } else { 3.0 };
            (other.alpha - new).square() > 36.0
                || heavy(other).into_iter().all(|other| (other - new).square() > least * least)
        })
    };
    new.into_iter().all(apart)
}

/// The chain's atoms and bonds.
fn chain(residues: &[Residue]) -> (Chain, Vec<V3>) {
    let (mut chain, mut places) = (Chain::default(), Vec::new());
    let mut bonds: Vec<(usize, Bond)> = Vec::new();
    let mut angles: Vec<(usize, Angle)> = Vec::new();
    let mut torsions: Vec<(usize, Torsion)> = Vec::new();
    let mut before: Option<[u32; 3]> = None;
    for (number, residue) in residues.iter().enumerate() {
        let segment = number / SEGMENT;
        let mut atom = |kind, place| {
            chain.kinds.push(kind);
            places.push(place);
            places.len() as u32 - 1
        };
        let n = atom(Kind::Nitrogen, residue.nitrogen);
        let ca = atom(Kind::Alpha, residue.alpha);
        let c = atom(Kind::Carbonyl, residue.carbonyl);
        let o = atom(Kind::Oxygen, residue.oxygen);
        let cb = residue.beta.map(|beta| atom(Kind::Beta, beta));
        let previous = number.checked_sub(1).map(|at| &residues[at]);
        let h = previous.filter(|_| residue.has_hydrogen && residue.follows).map(|previous| {
            let at = beyond(previous.alpha, previous.carbonyl, residue.nitrogen, 1.01, 2.0909, 0.0);
            atom(Kind::Hydrogen, at)
        });
        let mut bond = |atoms, k, length| bonds.push((segment, Bond(atoms, k, length)));
        let mut angle =
            |atoms, k, degrees: f64| angles.push((segment, Angle(atoms, k, degrees.to_radians())));
        bond([n, ca], 337.0, 1.449);
        bond([ca, c], 317.0, 1.522);
        bond([c, o], 570.0, 1.229);
        angle([n, ca, c], 63.0, 110.1);
        angle([ca, c, o], 80.0, 120.4);
        if let Some(cb) = cb {
            bond([ca, cb], 260.0, 1.526);
            angle([n, ca, cb], 80.0, 109.7);
            angle([cb, ca, c], 63.0, 111.1);
        }
        if let Some(h) = h {
            bond([n, h], 434.0, 1.010);
            angle([h, n, ca], 38.0, 118.4);
        }
        if let Some([ca0, c0, o0]) = before.filter(|_| residue.follows) {
            bond([c0, n], 490.0, 1.335);
            angle([ca0, c0, n], 70.0, 116.6);
            angle([o0, c0, n], 80.0, 122.9);
            angle([c0, n, ca], 50.0, 121.9);
            h.into_iter().for_each(|h| angle([c0, n, h], 35.0, 119.8));
            for first in [ca0, o0] {
                for last in [Some(ca), h].into_iter().flatten() {
                    torsions.push((segment, Torsion([first, c0, n, last], 2.5)));
                }
            }
        }
        before = Some([ca, c, o]);
    }
    chain.segments = vec![Segment::default(); residues.len().div_ceil(SEGMENT)];
    let around = neighbours(places.len(), &bonds);
    bonds.into_iter().for_each(|(segment, bond)| chain.segments[segment].bonds.push(bond));
    angles.into_iter().for_each(|(segment, angle)| chain.segments[segment].angles.push(angle));
    torsions.into_iter().for_each(|(segment, torsion)| chain.segments[segment].torsions.push(torsion));
    let count = chain.segments.len();
    for atom in 0..places.len() {
        let (near, third) = near(&around, atom as u32);
        // About as many for each.
        let segment = &mut chain.segments[atom * count / places.len()];
        segment
            .distant
            .extend(third.into_iter().filter(|other| *other > atom as u32).map(|o| [atom as u32, o]));
        chain.near.push(near);
    }
    for segment in &mut chain.segments {
        let mut atoms = BTreeSet::new();
        segment.bonds.iter().for_each(|bond| atoms.extend(bond.0));
        segment.angles.iter().for_each(|angle| atoms.extend(angle.0));
        segment.torsions.iter().for_each(|torsion| atoms.extend(torsion.0));
        segment.distant.iter().for_each(|pair| atoms.extend(*pair));
        segment.atoms = atoms.into_iter().collect();
    }
    (chain, places)
}

fn neighbours(atoms: usize, bonds: &[(usize, Bond)]) -> Vec<Vec<u32>> {
    let mut around = vec![Vec::new(); atoms];
    for (_, Bond([a, b], ..)) in bonds {
        around[*a as usize].push(*b);
        around[*b as usize].push(*a);
    }
    around
}

/// The atoms within three bonds, in order, and those of them that are three bonds away and not less.
fn near(around: &[Vec<u32>], atom: u32) -> (Vec<u32>, Vec<u32>) {
    let mut all = BTreeSet::from([atom]);
    let mut last = vec![atom];
    for _ in 0..3 {
        let next: Vec<u32> = last.iter().flat_map(|at| &around[*at as usize]).copied().collect();
        last = next.into_iter().filter(|at| all.insert(*at)).collect();
    }
    (all.into_iter().collect(), last)
}

/// The edge of the cube, and where waters are: the sites of a lattice nearest to its middle, beside the chain.
fn sites(chain: &[V3], waters: usize) -> (f64, Vec<V3>) {
    let extent = (0..3).map(|axis| {
        let along = chain.iter().map(|place| place[axis]);
        let (low, high) = along.fold((0.0_f64, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
        high - low
    });
    let mut side = extent.fold(Grid::LEAST, f64::max).max(Grid::LEAST - CUTOFF) + CUTOFF;
    loop {
        let count = (side / LATTICE) as usize;
        let edge = side / count as f64;
        let middle = V3::ZERO.map(|_| side / 2.0);
        let mut free = Vec::new();
        for at in 0..count.pow(3) {
            let place =
                V3::new((at % count) as f64, (at / count % count) as f64, (at / count / count) as f64);
            let place = (place + V3::new(0.5, 0.5, 0.5)) * edge;
            if chain.iter().all(|atom| System::nearest(side, *atom - place).square() > 2.8 * 2.8) {
                free.push(place);
            }
        }
        if free.len() >= waters {
            // Ties in the order of the lattice: sorting is stable.
            free.sort_by(|a, b| (*a - middle).square().total_cmp(&(*b - middle).square()));
            free.truncate(waters);
            return (side, free);
        }
        side += LATTICE;
    }
}

/// A number of the normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let (a, b) = (1.0 - random.unit(), random.unit());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn direction(random: &mut Random) -> V3 {
    V3::new(normal(random), normal(random), normal(random)).unit()
}

/// The whole system. It is relaxed, and moved at 300 K for `steps` femtoseconds.
pub(super) fn system(residues: &[Residue], waters: usize, steps: usize, seed: u64) -> System {
    let mut random = Random::new(seed);
    let (chain, mut places) = chain(residues);
    let count = places.len().max(1) as f64;
    let middle = places.iter().fold(V3::ZERO, |sum, place| sum + *place) * count.recip();
    // The cube's middle does not depend on the chain's atoms but by its extent.
    let centred: Vec<V3> = places.iter().map(|place| *place - middle).collect();
    let (side, _) = sites(&centred, 0);
    let mut sites_of = |side: f64| {
        places = centred.iter().map(|place| *place + V3::ZERO.map(|_| side / 2.0)).collect();
        sites(&places, waters)
    };
    let mut found = sites_of(side);
    while found.0 > side + 1e-9 {
        // A larger cube has its middle elsewhere.
        let larger = found.0;
        found = sites_of(larger);
        if found.0 <= larger + 1e-9 {
            break;
        }
    }
    let (side, oxygens) = found;
    for oxygen in oxygens {
        let along = direction(&mut random);
        let aside = along.cross(direction(&mut random)).unit();
        let (sin, cos) = WATER_ANGLE.1.sin_cos();
        places.extend([
            oxygen,
            oxygen + along * WATER_BOND.1,
            oxygen + (along * cos + aside * sin) * WATER_BOND.1,
        ]);
    }
    let mut system = System { side, chain, speeds: vec![V3::ZERO; places.len()], places };
    settle(&mut system, steps, &mut random);
    system
}

fn settle(system: &mut System, steps: usize, random: &mut Random) {
    let mut serial = Serial::new(system);
    for round in 0..steps {
        // Less and less.
        serial.relax(0.1 * (1.0 - 0.9 * round as f64 / steps as f64));
    }
    let (places, _) = serial.state();
    system.places = places;
    let masses: Vec<f64> = (0..system.atoms()).map(|atom| system.kind(atom).mass()).collect();
    for (speed, mass) in system.speeds.iter_mut().zip(&masses) {
        let scale = (BOLTZMANN * TEMPERATURE / mass).sqrt();
        *speed = V3::new(normal(random), normal(random), normal(random)) * scale;
    }
    let momentum =
        system.speeds.iter().zip(&masses).fold(V3::ZERO, |sum, (speed, mass)| sum + *speed * *mass);
    let drift = momentum * masses.iter().sum::<f64>().recip();
    system.speeds.iter_mut().for_each(|speed| *speed -= drift);
    let mut serial = Serial::new(system);
    let motion = Motion::of(0);
    let warm = 1.5 * system.atoms() as f64 * BOLTZMANN * TEMPERATURE;
    for _ in 0..2 * steps {
        serial.step(motion);
        // Energy of further relaxation is taken out as it comes.
        let kinetic = serial.energy().kinetic;
        serial.scale((1.0 + 0.1 * (warm / kinetic - 1.0)).sqrt());
    }
    (system.places, system.speeds) = serial.state();
}
