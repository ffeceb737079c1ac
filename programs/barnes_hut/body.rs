//! Bodies, and the space that they are in.

use std::ops::{Add, Mul, Sub};

use super::tree::{FAR, Tree};
use crate::kit::Random;

const STEP: f64 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vector {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
}

impl Vector {
    pub(super) const ZERO: Self = Self { x: 0.0, y: 0.0, z: 0.0 };

    pub(super) fn square(self) -> f64 {
        self.x * self.x + self.y * self.y + self.z * self.z
    }
}

impl Add for Vector {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

impl Sub for Vector {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }
}

impl Mul<f64> for Vector {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        Self { x: self.x * by, y: self.y * by, z: self.z * by }
    }
}

/// A body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    pub(super) mass: f64,
    pub(super) place: Vector,
    pub(super) speed: Vector,
}

impl Body {
    /// Bodies in a ball that turns.
    pub(super) fn ball(count: usize) -> Vec<Self> {
        let mut random = Random::new(1986);
        let mut body = || {
            let angle = random.unit() * std::f64::consts::TAU;
            let (height, radius) = (2.0 * random.unit() - 1.0, random.unit().cbrt());
            let across = radius * (1.0 - height * height).sqrt();
            let place = Vector { x: across * angle.cos(), y: across * angle.sin(), z: radius * height };
            let speed = Vector { x: -place.y, y: place.x, z: 0.0 } * 0.5;
            Self { mass: (0.5 + random.unit()) / count as f64, place, speed }
        };
        (0..count).map(|_| body()).collect()
    }

    /// Where it is after a step.
    pub(super) fn moved(self, tree: &Tree) -> Self {
        let speed = self.speed + tree.acceleration(self.place, FAR) * STEP;
        Self { speed, place: self.place + speed * STEP, ..self }
    }
}
