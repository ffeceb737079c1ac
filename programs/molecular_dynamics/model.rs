//! Atoms, and the forces between them.
//!
//! Lengths in Å, energies in kcal/mol, masses in atomic units; the unit of time is then 48.888 fs. The water is TIP3P
//! (Jorgensen et al., 1983) with harmonic bonds and angle. The chain has united atoms with the charges and radii of
//! OPLS (Jorgensen and Tirado-Rives, 1988). Its bonds and angles come from AMBER (Weiner et al., 1984), as OPLS has
//! them.

use crate::kit::V3;

/// Coulomb's constant, kcal Å / mol e².
pub(super) const COULOMB: f64 = 332.063_71;
/// Boltzmann's constant, kcal / mol K.
pub(super) const BOLTZMANN: f64 = 0.001_987_204;
/// A femtosecond.
pub(super) const FEMTOSECOND: f64 = 1.0 / 48.888_21;
/// Nothing acts beyond, but bonds.
pub(super) const CUTOFF: f64 = 9.0;
/// Lists of neighbours hold until an atom has moved by half of this.
pub(super) const SKIN: f64 = 1.0;

/// A kind of atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Nitrogen,
    /// Of the chain's nitrogen.
    Hydrogen,
    /// With one hydrogen, which is a part of it.
    Alpha,
    /// With three.
    Beta,
    Carbonyl,
    Oxygen,
    WaterOxygen,
    WaterHydrogen,
}

pub(super) const KINDS: usize = 8;

/// Mass, charge, and Lennard-Jones' sigma and epsilon, by kind.
const TABLE: [(f64, f64, f64, f64); KINDS] = [
    (14.007, -0.57, 3.25, 0.170),
    (1.008, 0.37, 0.0, 0.0),
    (13.019, 0.20, 3.80, 0.080),
    (15.035, 0.0, 3.91, 0.160),
    (12.011, 0.50, 3.75, 0.105),
    (15.999, -0.50, 2.96, 0.210),
    (15.999, -0.834, 3.150_61, 0.1521),
    (1.008, 0.417, 0.0, 0.0),
];

impl Kind {
    pub(super) const ALL: [Self; KINDS] = [
        Self::Nitrogen,
        Self::Hydrogen,
        Self::Alpha,
        Self::Beta,
        Self::Carbonyl,
        Self::Oxygen,
        Self::WaterOxygen,
        Self::WaterHydrogen,
    ];

    pub(super) fn mass(self) -> f64 {
        TABLE[self as usize].0
    }
}

/// Forces between two kinds. Both forces are shifted to end at the cut-off with their energies, so nothing jumps
/// there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    c12: f64,
    c6: f64,
    charges: f64,
    /// The unshifted force and energy at the cut-off.
    force_there: f64,
    energy_there: f64,
}

impl Mix {
    fn of(one: Kind, other: Kind) -> Self {
        let ((_, q, sigma, epsilon), (_, q2, sigma2, epsilon2)) =
            (TABLE[one as usize], TABLE[other as usize]);
        // OPLS: geometric means of both.
        let s6 = (sigma * sigma2).powi(3);
        let e4 = 4.0 * (epsilon * epsilon2).sqrt();
        let (c12, c6, charges) = (e4 * s6 * s6, e4 * s6, COULOMB * q * q2);
        let inverse = CUTOFF.recip();
        let i6 = inverse.powi(6);
        Self {
            c12,
            c6,
            charges,
            force_there: (12.0 * c12 * i6 - 6.0 * c6) * i6 * inverse + charges * inverse * inverse,
            energy_there: (c12 * i6 - c6) * i6 + charges * inverse,
        }
    }

    /// All that it is, for a program in C.
    pub(super) fn numbers(&self) -> [f64; 5] {
        [self.c12, self.c6, self.charges, self.force_there, self.energy_there]
    }

    /// The energy, and the force divided by the distance, at a distance with this square, which is below the
    /// cut-off's.
    #[inline(always)]
    pub(super) fn at(&self, square: f64) -> (f64, f64) {
        let inverse2 = square.recip();
        let inverse = inverse2.sqrt();
        let distance = square * inverse;
        let i6 = inverse2 * inverse2 * inverse2;
        let (attraction, repulsion) = (self.c6 * i6, self.c12 * i6 * i6);
        let coulomb = self.charges * inverse;
        let force = (12.0 * repulsion - 6.0 * attraction + coulomb) * inverse2 - self.force_there * inverse;
        let energy =
            repulsion - attraction + coulomb - self.energy_there + (distance - CUTOFF) * self.force_there;
        (energy, force)
    }
}

/// All of them: `[one][other]`.
pub(super) type Mixes = [[Mix; KINDS]; KINDS];

pub(super) fn mixes() -> Mixes {
    Kind::ALL.map(|one| Kind::ALL.map(|other| Mix::of(one, other)))
}

/// Two atoms of the chain: stiffness and length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bond(pub(super) [u32; 2], pub(super) f64, pub(super) f64);

/// Three: stiffness, and the angle at the middle one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Angle(pub(super) [u32; 3], pub(super) f64, pub(super) f64);

/// Four, around the bond of the middle two: `height * (1 + cos(2 angle - pi))`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Torsion(pub(super) [u32; 4], pub(super) f64);

/// A part of the chain whose bonds one thread computes.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    pub(super) bonds: Vec<Bond>,
    pub(super) angles: Vec<Angle>,
    pub(super) torsions: Vec<Torsion>,
    /// Atoms three bonds apart, which act on each other by half.
    pub(super) distant: Vec<[u32; 2]>,
    /// Its atoms, in order.
    pub(super) atoms: Vec<u32>,
}

/// The chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub(super) kinds: Vec<Kind>,
    pub(super) segments: Vec<Segment>,
    /// By atom, in order: those within three bonds, which no list has.
    pub(super) near: Vec<Vec<u32>>,
}

pub(super) const WATER_BOND: (f64, f64) = (450.0, 0.9572);
/// 104.52 degrees.
pub(super) const WATER_ANGLE: (f64, f64) = (55.0, 1.824_218_134);
/// How far an atom of a water may be from its oxygen.
pub(super) const WATER_REACH: f64 = 1.1;

/// The model at the beginning. The chain's atoms come first, then three for each water: oxygen, hydrogens.
#[derive(Clone, Debug)]
pub struct System {
    /// The edge of the cube, which repeats in all directions.
    pub(super) side: f64,
    pub(super) chain: Chain,
    pub(super) places: Vec<V3>,
    pub(super) speeds: Vec<V3>,
}

impl System {
    /// How many atoms.
    pub fn atoms(&self) -> usize {
        self.places.len()
    }

    /// How many of them are the chain's.
    pub fn chain_atoms(&self) -> usize {
        self.chain.kinds.len()
    }

    pub(super) fn kind(&self, atom: usize) -> Kind {
        match atom.checked_sub(self.chain.kinds.len()) {
            None => self.chain.kinds[atom],
            Some(at) if at % 3 == 0 => Kind::WaterOxygen,
            Some(_) => Kind::WaterHydrogen,
        }
    }

    /// The nearest image of a distance.
    pub(super) fn nearest(side: f64, distance: V3) -> V3 {
        distance.map(|x| x - side * (x / side).round())
    }
}
