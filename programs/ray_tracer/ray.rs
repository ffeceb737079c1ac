//! How a ray sees a scene.

use super::scene::{Ball, Scene};
use super::vector::{Vector, vector};

/// Where a ray comes from, and where it goes, at length 1.
#[derive(Clone, Copy, Debug)]
struct Ray {
    from: Vector,
    to: Vector,
}

/// A hit of a ray.
struct Hit {
    place: Vector,
    normal: Vector,
    colour: Vector,
    mirrors: f64,
}

/// Least distance of a hit. A nearer one is the place that the ray comes from.
const NEAR: f64 = 1e-6;
/// Most distance of a visible hit.
const FAR: f64 = 200.0;

impl Ball {
    /// How far along the ray it is met.
    fn meets(&self, ray: Ray) -> Option<f64> {
        let (centre, radius) = (self.centre, self.radius);
        let off = centre - ray.from;
        let along = off.dot(ray.to);
        let inside = radius * radius - (off.dot(off) - along * along);
        if inside < 0.0 {
            return None;
        }
        let half = inside.sqrt();
        [along - half, along + half].into_iter().find(|&length| length > NEAR)
    }
}

impl Ray {
    fn nearest(self, scene: &Scene) -> Option<Hit> {
        let mut nearest: Option<(f64, &Ball)> = None;
        for ball in &scene.balls {
            if let Some(length) = ball.meets(self)
                && nearest.is_none_or(|(least, _)| length < least)
            {
                nearest = Some((length, ball));
            }
        }
        if let Some((length, ball)) = nearest {
            let place = self.from + self.to * length;
            let normal = (place - ball.centre).unit();
            return Some(Hit { place, normal, colour: ball.colour, mirrors: ball.mirrors });
        }
        let length = -self.from.y / self.to.y;
        if !(length > NEAR && length < FAR) {
            return None;
        }
        let place = self.from + self.to * length;
        let is_odd = (place.x.floor() + place.z.floor()).rem_euclid(2.0) >= 1.0;
        let colour = scene.floor.colours[usize::from(is_odd)];
        Some(Hit { place, normal: vector(0.0, 1.0, 0.0), colour, mirrors: scene.floor.mirrors })
    }

    fn sees(self, scene: &Scene, mirrored: u32) -> Vector {
        let Some(hit) = self.nearest(scene) else { return scene.sky };
        let light = scene.light.towards;
        let from = hit.place + hit.normal * (2.0 * NEAR);
        let shadow = Ray { from, to: light };
        let is_lit = !scene.balls.iter().any(|ball| ball.meets(shadow).is_some());
        let direct = if is_lit { hit.normal.dot(light).max(0.0) } else { 0.0 };
        let dark = scene.light.shadow;
        let own = hit.colour * (dark + (1.0 - dark) * direct);
        if mirrored == scene.mirrored || hit.mirrors == 0.0 {
            return own;
        }
        let seen = Ray { from, to: self.to.mirrored(hit.normal) }.sees(scene, mirrored + 1);
        own * (1.0 - hit.mirrors) + seen * hit.mirrors
    }
}

/// Red, green and blue of a pixel, from 0 to 255. Rows count from the top.
pub(super) fn pixel(scene: &Scene, side: usize, row: usize, column: usize) -> [u8; 3] {
    let part = |at: usize| (at as f64 + 0.5) / side as f64 - 0.5;
    let to = vector(part(column), -part(row) - 0.05, 0.9).unit();
    bytes(Ray { from: scene.eye, to }.sees(scene, 0))
}

/// A colour as a picture has it.
pub(super) fn bytes(colour: Vector) -> [u8; 3] {
    [colour.x, colour.y, colour.z].map(|part| (part * 255.0).round() as u8)
}
