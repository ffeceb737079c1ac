//! Places and directions in space.

use std::ops::{Add, AddAssign, Index, IndexMut, Mul, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A place, a direction, or three numbers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct V3(pub [f64; 3]);

impl V3 {
    /// The origin.
    pub const ZERO: Self = Self([0.0; 3]);

    /// From its coordinates.
    #[inline(always)]
    pub const fn new(x: f64, y: f64, z: f64) -> Self {
        Self([x, y, z])
    }

    /// The scalar product.
    #[inline(always)]
    pub fn dot(self, other: Self) -> f64 {
        self.0[0] * other.0[0] + self.0[1] * other.0[1] + self.0[2] * other.0[2]
    }

    /// The vector product.
    #[inline(always)]
    pub fn cross(self, other: Self) -> Self {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        Self([b * z - c * y, c * x - a * z, a * y - b * x])
    }

    /// The square of its length.
    #[inline(always)]
    pub fn square(self) -> f64 {
        self.dot(self)
    }

    /// Its length.
    #[inline(always)]
    pub fn length(self) -> f64 {
        self.square().sqrt()
    }

    /// Its direction, of length 1.
    #[inline(always)]
    pub fn unit(self) -> Self {
        self * self.length().recip()
    }

    /// Coordinate by coordinate.
    #[inline(always)]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self(self.0.map(f))
    }

    /// Coordinate by coordinate, of two.
    #[inline(always)]
    pub fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self(std::array::from_fn(|at| f(self.0[at], other.0[at])))
    }
}

impl Add for V3 {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl AddAssign for V3 {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for V3 {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl SubAssign for V3 {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for V3 {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|x| -x)
    }
}

impl Mul<f64> for V3 {
    type Output = Self;

    #[inline(always)]
    fn mul(self, by: f64) -> Self {
        self.map(|x| x * by)
    }
}

impl Index<usize> for V3 {
    type Output = f64;

    #[inline(always)]
    fn index(&self, axis: usize) -> &f64 {
        &self.0[axis]
    }
}

impl IndexMut<usize> for V3 {
    #[inline(always)]
    fn index_mut(&mut self, axis: usize) -> &mut f64 {
        &mut self.0[axis]
    }
}
