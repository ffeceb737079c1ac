//! The tree of cubes.

use super::body::{Body, Vector};

/// A group is far if its cube's side is less than this part of its distance.
pub(super) const FAR: f64 = 0.5;
/// Bodies do not come closer than this, squared.
const SOFT: f64 = 1e-4;
/// Cubes are not divided further than this: bodies at one place would be never apart.
const DEEPEST: u32 = 48;

/// A mass that attracts: a body, or several together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mass {
    mass: f64,
    centre: Vector,
}

impl Mass {
    pub(super) fn of(body: &Body) -> Self {
        Self { mass: body.mass, centre: body.place }
    }

    /// Several, added in their order. One alone stays exactly where it is.
    fn sum(mut all: impl Iterator<Item = Self>) -> Self {
        let first = all.next().unwrap_or(Self { mass: 0.0, centre: Vector::ZERO });
        let Some(second) = all.next() else { return first };
        let begin = (first.mass, first.centre * first.mass);
        let (mass, moment) = std::iter::once(second)
            .chain(all)
            .fold(begin, |(mass, m), one| (mass + one.mass, m + one.centre * one.mass));
        Self { mass, centre: moment * (1.0 / mass) }
    }
}

/// A part of space: a cube.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    middle: Vector,
    half: f64,
    /// How often the whole was halved.
    depth: u32,
}

impl Space {
    /// One that holds all bodies.
    pub(super) fn around(bodies: &[Mass]) -> Self {
        let reach = |far: f64, mass: &Mass| {
            [mass.centre.x, mass.centre.y, mass.centre.z].iter().fold(far, |far, at| far.max(at.abs()))
        };
        Self { middle: Vector::ZERO, half: bodies.iter().fold(0.0, reach) + 1e-9, depth: 0 }
    }

    /// One of its eight parts.
    fn octant(self, index: usize) -> Self {
        let half = self.half / 2.0;
        let off = |bit: usize| if index & bit == 0 { -half } else { half };
        let middle = self.middle + Vector { x: off(1), y: off(2), z: off(4) };
        Self { middle, half, depth: self.depth + 1 }
    }

    /// Which of the parts a place is in.
    fn octant_of(self, place: Vector) -> usize {
        let beyond = |at: f64, middle: f64| usize::from(at >= middle);
        beyond(place.x, self.middle.x)
            + 2 * beyond(place.y, self.middle.y)
            + 4 * beyond(place.z, self.middle.z)
    }

    /// Whether a cube with this number of bodies stays whole.
    fn is_leaf(self, bodies: usize) -> bool {
        bodies == 1 || self.depth == DEEPEST
    }

    /// Divides the bodies among the parts; the bodies of a part keep their order. `None`: the cube stays whole.
    pub(super) fn divide(self, bodies: &mut [Mass]) -> Option<[(Self, &mut [Mass]); 8]> {
        if self.is_leaf(bodies.len()) {
            return None;
        }
        bodies.sort_by_key(|body| self.octant_of(body.centre));
        let mut rest = bodies;
        Some(std::array::from_fn(|index| {
            let end = rest.partition_point(|body| self.octant_of(body.centre) <= index);
            let (these, others) = std::mem::take(&mut rest).split_at_mut(end);
            rest = others;
            (self.octant(index), these)
        }))
    }
}

/// A cube with its contents.
#[derive(Clone, Debug, PartialEq)]
struct Cube {
    all: Mass,
    side: f64,
    /// How much further on in the list each part is; 0: nothing is in it.
    below: [u32; 8],
    is_leaf: bool,
}

/// The tree of a cube that has bodies in it: the cube first, then the trees of its parts, in their order. So trees of
/// parts that were made elsewhere are put together as they are.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tree {
    cubes: Vec<Cube>,
}

impl Tree {
    /// The tree of some bodies; none has an empty one.
    pub(super) fn of(space: Space, bodies: &mut [Mass]) -> Self {
        let mut tree = Self { cubes: Vec::with_capacity(2 * bodies.len()) };
        if !bodies.is_empty() {
            tree.add(space, bodies);
        }
        tree
    }

    fn add(&mut self, space: Space, bodies: &mut [Mass]) {
        let place = self.cubes.len();
        self.push(space, Mass::sum(bodies.iter().copied()), true);
        let Some(parts) = space.divide(bodies) else { return };
        self.cubes[place].is_leaf = false;
        for (index, (space, bodies)) in parts.into_iter().enumerate() {
            if !bodies.is_empty() {
                self.cubes[place].below[index] = (self.cubes.len() - place) as u32;
                self.add(space, bodies);
            }
        }
        self.weigh(place);
    }

    /// Joins the trees of a cube's parts. The result is the same, to the last bit, as that of [`of`](Self::of).
    pub(super) fn join(space: Space, parts: [Self; 8]) -> Self {
        let count = parts.iter().map(|part| part.cubes.len()).sum::<usize>();
        let mut tree = Self { cubes: Vec::with_capacity(1 + count) };
        tree.push(space, Mass { mass: 0.0, centre: Vector::ZERO }, false);
        for (index, part) in parts.into_iter().enumerate() {
            if !part.cubes.is_empty() {
                tree.cubes[0].below[index] = tree.cubes.len() as u32;
                tree.cubes.extend(part.cubes);
            }
        }
        tree.weigh(0);
        tree
    }

    fn push(&mut self, space: Space, all: Mass, is_leaf: bool) {
        self.cubes.push(Cube { all, side: 2.0 * space.half, below: [0; 8], is_leaf });
    }

    /// Adds up the parts of a cube in an order that does not depend on the order of their making.
    fn weigh(&mut self, place: usize) {
        let cube = &self.cubes[place];
        let parts = cube.below.iter().filter(|&&on| on > 0);
        let all = Mass::sum(parts.map(|&on| self.cubes[place + on as usize].all));
        self.cubes[place].all = all;
    }

    /// Acceleration of a body at `place` by the whole. Groups are far that are seen under less than `far`.
    pub(super) fn acceleration(&self, place: Vector, far: f64) -> Vector {
        let mut sum = Vector::ZERO;
        if !self.cubes.is_empty() {
            self.walk(0, place, far, &mut sum);
        }
        sum
    }

    fn walk(&self, at: usize, place: Vector, far: f64, sum: &mut Vector) {
        let cube = &self.cubes[at];
        let apart = cube.all.centre - place;
        if cube.is_leaf || cube.side * cube.side < far * far * apart.square() {
            *sum = *sum + pull(apart, cube.all.mass);
            return;
        }
        for on in cube.below.into_iter().filter(|&on| on > 0) {
            self.walk(at + on as usize, place, far, sum);
        }
    }
}

/// Acceleration by a mass at the distance `apart`. Nothing to itself.
pub(super) fn pull(apart: Vector, mass: f64) -> Vector {
    let square = apart.square() + SOFT;
    apart * (mass / (square * square.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(bodies: &[Body]) -> Tree {
        let mut all: Vec<_> = bodies.iter().map(Mass::of).collect();
        Tree::of(Space::around(&all), &mut all)
    }

    /// Acceleration by all bodies, each by itself, and the sum of the sizes.
    fn direct(bodies: &[Body], place: Vector) -> (Vector, f64) {
        bodies.iter().fold((Vector::ZERO, 0.0), |(sum, size), body| {
            let one = pull(body.place - place, body.mass);
            (sum + one, size + one.square().sqrt())
        })
    }

    #[test]
    fn forces_are_those_of_all_pairs_within_the_error_of_the_angle() {
        for count in [1, 2, 9, 100, 400] {
            let bodies = Body::ball(count);
            let tree = tree(&bodies);
            for body in &bodies {
                let (exact, size) = direct(&bodies, body.place);
                let off = |far: f64| (tree.acceleration(body.place, far) - exact).square().sqrt();
                // No group is far: the same sum, in another order.
                assert!(off(0.0) <= 1e-12 * size, "{count}: {} of {size}", off(0.0));
                // The first term that a group's centre of mass leaves out is quadratic in the angle.
                for far in [0.1, FAR, 0.8] {
                    assert!(off(far) <= far * far * size, "{count}, {far}: {} of {size}", off(far));
                }
            }
        }
    }

    #[test]
    fn a_tree_of_parts_made_apart_is_the_same_to_the_last_bit() {
        let mut all: Vec<_> = Body::ball(300).iter().map(Mass::of).collect();
        let space = Space::around(&all);
        let whole = Tree::of(space, &mut all.clone());
        let parts = space.divide(&mut all).unwrap().map(|(space, bodies)| Tree::of(space, bodies));
        assert_eq!(Tree::join(space, parts), whole);
        assert!(whole.cubes.len() > 300);
    }

    #[test]
    fn bodies_at_one_place_are_a_tree_too() {
        let same = [Body::ball(1)[0]; 3];
        let tree = tree(&same);
        assert_eq!(tree.cubes.len() as u32, DEEPEST + 1);
        assert!(tree.acceleration(same[0].place, FAR).square() < 1e-18);
    }
}
