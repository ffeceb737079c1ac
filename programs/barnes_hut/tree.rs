//! The tree of squares.

use super::body::{Body, Vector};

/// A group is far if its square's side is less than this part of its distance.
const FAR: f64 = 0.5;
/// Bodies do not come closer than this, squared.
const SOFT: f64 = 1e-4;
/// Squares are not divided further than this: bodies at one place would be never apart.
const DEEPEST: u32 = 48;

/// A square with what is in it: the mass, and its centre.
#[derive(Debug)]
struct Square {
    mass: f64,
    centre: Vector,
    side: f64,
    /// Four squares, by their places in the list; none if one body, or several at one place, are in it.
    below: [u32; 4],
    is_leaf: bool,
}

/// The tree of one step; its first square is the whole.
#[derive(Debug)]
pub(super) struct Tree {
    squares: Vec<Square>,
}

const NONE: u32 = u32::MAX;

impl Tree {
    pub(super) fn of(bodies: &[Body]) -> Self {
        let reach =
            bodies.iter().fold(0.0_f64, |r, body| r.max(body.place.x.abs()).max(body.place.y.abs())) + 1e-9;
        let mut tree = Self { squares: Vec::with_capacity(2 * bodies.len()) };
        let mut all: Vec<&Body> = bodies.iter().collect();
        tree.add(&mut all, Vector { x: 0.0, y: 0.0 }, reach, 0);
        tree
    }

    /// Adds the square around `middle` that holds `bodies`; returns its place.
    fn add(&mut self, bodies: &mut [&Body], middle: Vector, half: f64, depth: u32) -> u32 {
        if bodies.is_empty() {
            return NONE;
        }
        let mass: f64 = bodies.iter().map(|body| body.mass).sum();
        let moment = bodies.iter().fold(Vector::ZERO, |m, body| m + body.place * body.mass);
        let is_leaf = bodies.len() == 1 || depth == DEEPEST;
        let place = self.squares.len() as u32;
        let (centre, side) = (moment * (1.0 / mass), 2.0 * half);
        self.squares.push(Square { mass, centre, side, below: [NONE; 4], is_leaf });
        if !is_leaf {
            let quarter = |body: &&Body| {
                usize::from(body.place.x >= middle.x) + 2 * usize::from(body.place.y >= middle.y)
            };
            bodies.sort_by_key(quarter);
            let mut rest = bodies;
            for index in 0..4 {
                let end = rest.partition_point(|body| quarter(body) <= index);
                let (these, others) = std::mem::take(&mut rest).split_at_mut(end);
                let off = |bit: usize| if index & bit == 0 { -half / 2.0 } else { half / 2.0 };
                let at = Vector { x: middle.x + off(1), y: middle.y + off(2) };
                self.squares[place as usize].below[index] = self.add(these, at, half / 2.0, depth + 1);
                rest = others;
            }
        }
        place
    }

    /// What the whole does to a body at `place`.
    pub(super) fn acceleration(&self, place: Vector) -> Vector {
        let mut sum = Vector::ZERO;
        self.walk(0, place, &mut sum);
        sum
    }

    fn walk(&self, square: u32, place: Vector, sum: &mut Vector) {
        let Some(square) = self.squares.get(square as usize) else { return };
        let apart = square.centre - place;
        if square.is_leaf || square.side * square.side < FAR * FAR * apart.square() {
            *sum = *sum + pull(apart, square.mass);
            return;
        }
        for below in square.below {
            self.walk(below, place, sum);
        }
    }
}

/// What a mass at the distance `apart` does. Nothing to itself.
pub(super) fn pull(apart: Vector, mass: f64) -> Vector {
    let square = apart.square() + SOFT;
    apart * (mass / (square * square.sqrt()))
}
