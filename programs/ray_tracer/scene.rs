//! What there is to see, and how a ray sees it.

use std::ops::{Add, Mul, Neg, Sub};

/// A place, or a direction: to the right, up, and away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vector {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
}

/// How bright, from 0 to 1.
type Light = f64;

const fn vector(x: f64, y: f64, z: f64) -> Vector {
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
    fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    fn unit(self) -> Self {
        self * (1.0 / self.dot(self).sqrt())
    }

    fn mirrored(self, normal: Self) -> Self {
        self - normal * (2.0 * self.dot(normal))
    }
}

#[derive(Clone, Copy, Debug)]
struct Ball {
    centre: Vector,
    radius: f64,
    mirrors: f64,
}

/// Where a ray comes from, and where it goes, at length 1.
#[derive(Clone, Copy, Debug)]
struct Ray {
    from: Vector,
    to: Vector,
}

/// What a ray meets.
struct Hit {
    place: Vector,
    normal: Vector,
    colour: Light,
    mirrors: f64,
}

const BALLS: [Ball; 7] = [
    Ball { centre: vector(0.0, 1.0, 5.0), radius: 1.0, mirrors: 0.3 },
    Ball { centre: vector(-2.1, 0.7, 6.0), radius: 0.7, mirrors: 0.6 },
    Ball { centre: vector(2.1, 0.7, 6.0), radius: 0.7, mirrors: 0.6 },
    Ball { centre: vector(-1.0, 0.35, 3.6), radius: 0.35, mirrors: 0.5 },
    Ball { centre: vector(1.0, 0.35, 3.6), radius: 0.35, mirrors: 0.5 },
    Ball { centre: vector(-1.3, 1.4, 8.5), radius: 1.4, mirrors: 0.8 },
    Ball { centre: vector(1.7, 1.3, 9.5), radius: 1.3, mirrors: 0.8 },
];
const EYE: Vector = vector(0.0, 1.4, 0.0);
/// Towards the light.
const LIGHT: Vector = vector(-1.0, 1.6, -1.0);
const SKY: Light = 0.7;
const DARK: Light = 0.12;
/// What is nearer than this is the place that a ray comes from.
const NEAR: f64 = 1e-6;
const MOST_MIRRORS: u32 = 4;

impl Ball {
    /// How far along the ray it is met.
    fn meets(&self, ray: Ray) -> Option<f64> {
        let off = self.centre - ray.from;
        let along = off.dot(ray.to);
        let inside = self.radius * self.radius - (off.dot(off) - along * along);
        if inside < 0.0 {
            return None;
        }
        let half = inside.sqrt();
        [along - half, along + half].into_iter().find(|&length| length > NEAR)
    }
}

impl Ray {
    fn nearest(self) -> Option<Hit> {
        let mut nearest: Option<(f64, &Ball)> = None;
        for ball in &BALLS {
            if let Some(length) = ball.meets(self)
                && nearest.is_none_or(|(least, _)| length < least)
            {
                nearest = Some((length, ball));
            }
        }
        if let Some((length, ball)) = nearest {
            let place = self.from + self.to * length;
            let normal = (place - ball.centre).unit();
            return Some(Hit { place, normal, colour: 0.6, mirrors: ball.mirrors });
        }
        let length = -self.from.y / self.to.y;
        if !(length > NEAR && length < 200.0) {
            return None;
        }
        let place = self.from + self.to * length;
        let is_light = (place.x.floor() + place.z.floor()).rem_euclid(2.0) < 1.0;
        let colour = if is_light { 0.9 } else { 0.35 };
        Some(Hit { place, normal: vector(0.0, 1.0, 0.0), colour, mirrors: 0.15 })
    }

    fn sees(self, mirrors: u32) -> Light {
        let Some(hit) = self.nearest() else { return SKY };
        let light = LIGHT.unit();
        let from = hit.place + hit.normal * (2.0 * NEAR);
        let shadow = Ray { from, to: light };
        let is_lit = !BALLS.iter().any(|ball| ball.meets(shadow).is_some());
        let direct = if is_lit { hit.normal.dot(light).max(0.0) } else { 0.0 };
        let own = hit.colour * (DARK + (1.0 - DARK) * direct);
        if mirrors == MOST_MIRRORS || hit.mirrors == 0.0 {
            return own;
        }
        let mirrored = Ray { from, to: self.to.mirrored(hit.normal) }.sees(mirrors + 1);
        own * (1.0 - hit.mirrors) + mirrored * hit.mirrors
    }
}

/// The brightness of a pixel: from 0 to 255. Rows count from the top.
pub(super) fn pixel(side: usize, row: usize, column: usize) -> u8 {
    let part = |at: usize| (at as f64 + 0.5) / side as f64 - 0.5;
    let to = vector(part(column), -part(row) - 0.05, 0.9).unit();
    (Ray { from: EYE, to }.sees(0) * 255.0).round() as u8
}
