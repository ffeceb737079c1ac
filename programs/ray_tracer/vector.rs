//! Places, directions and colours.

use std::ops::{Add, Mul, Neg, Sub};

/// A place, or a direction: to the right, up, and away. Or a colour: red, green and blue, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vector {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
}

pub(super) const fn vector(x: f64, y: f64, z: f64) -> Vector {
    Vector { x, y, z }
}

impl Add for Vector {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        vector(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vector {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Vector {
    type Output = Self;

    fn neg(self) -> Self {
        self * -1.0
    }
}

impl Mul<f64> for Vector {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        vector(self.x * by, self.y * by, self.z * by)
    }
}

impl Vector {
    pub(super) fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub(super) fn unit(self) -> Self {
        self * (1.0 / self.dot(self).sqrt())
    }

    pub(super) fn mirrored(self, normal: Self) -> Self {
        self - normal * (2.0 * self.dot(normal))
    }
}
