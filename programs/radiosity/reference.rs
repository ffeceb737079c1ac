//! Light by other means than links, to check the hierarchy with.

use std::f64::consts::TAU;

use super::quad::{Facing, Quad, kernel};
use super::scene::Scene;
use crate::kit::{Random, V3};

/// The mean radiosity of each surface, by particles that lights send out and surfaces absorb or send on.
pub(super) fn traced(scene: &Scene, particles: usize, seed: u64) -> Vec<V3> {
    let mut random = Random::new(seed);
    let powers: Vec<f64> = std::iter::zip(&scene.quads, &scene.paints)
        .map(|(quad, paint)| paint.emission[0].max(paint.emission[1]).max(paint.emission[2]) * quad.area())
        .collect();
    let all: f64 = powers.iter().sum();
    let mut came = vec![V3::ZERO; scene.quads.len()];
    for (light, power) in powers.iter().enumerate().filter(|(_, power)| **power > 0.0) {
        let count = (particles as f64 * power / all).ceil() as usize;
        let quad = &scene.quads[light];
        let part = scene.paints[light].emission * (quad.area() / count as f64);
        for _ in 0..count {
            let mut carried = part;
            let (mut at, mut place) = (light, place_on(quad, &mut random));
            loop {
                let along = direction(scene.quads[at].normal(), &mut random);
                let from = place + along * 1e-7;
                let Some((hit, far)) = scene.occluders.first(from, along) else { break };
                // Its back absorbs all.
                if along.dot(scene.quads[hit].normal()) >= 0.0 {
                    break;
                }
                came[hit] += carried;
                let paint = scene.paints[hit].reflectance;
                let goes_on = paint[0].max(paint[1]).max(paint[2]);
                if random.unit() >= goes_on {
                    break;
                }
                carried = carried.zip(paint, |carried, part| carried * part / goes_on);
                (at, place) = (hit, from + along * far);
            }
        }
    }
    (0..scene.quads.len())
        .map(|at| {
            let (paint, area) = (&scene.paints[at], scene.quads[at].area());
            paint.emission + came[at].zip(paint.reflectance, |came, part| came * part / area)
        })
        .collect()
}

fn place_on(quad: &Quad, random: &mut Random) -> V3 {
    // Two triangles.
    let [a, b, c, d] = quad.corners;
    let one = (b - a).cross(c - a).length();
    let other = (c - a).cross(d - a).length();
    let third = if random.unit() * (one + other) < one { b } else { d };
    let (mut u, mut v) = (random.unit(), random.unit());
    if u + v > 1.0 {
        (u, v) = (1.0 - u, 1.0 - v);
    }
    a + (c - a) * u + (third - a) * v
}

/// By Lambert's law.
fn direction(normal: V3, random: &mut Random) -> V3 {
    let (turn, square) = (TAU * random.unit(), random.unit());
    let aside = if normal[0].abs() < 0.5 { V3::new(1.0, 0.0, 0.0) } else { V3::new(0.0, 1.0, 0.0) };
    let e = normal.cross(aside).unit();
    let f = normal.cross(e);
    (e * turn.cos() + f * turn.sin()) * square.sqrt() + normal * (1.0 - square).sqrt()
}

/// A part of a surface.
struct Part {
    number: usize,
    quad: Quad,
    normal: V3,
    area: f64,
    middle: V3,
    /// The longest of its diagonals.
    long: f64,
}

impl Part {
    fn of(number: usize, quad: Quad) -> Self {
        let [a, b, c, d] = quad.corners;
        let long = (c - a).length().max((d - b).length());
        let middle = quad.point(0.5, 0.5);
        Self { number, quad, normal: quad.normal(), area: quad.area(), middle, long }
    }

    fn quarters(&self) -> [Self; 4] {
        self.quad.quarters().map(|quad| Self::of(self.number, quad))
    }
}

/// How often parts that are near each other are divided for their form factor.
const DEPTH: u32 = 3;

/// The mean of the kernel over two parts, as far as nothing hides one from the other. If they are near for their
/// size, it is the mean over their quarters, since the kernel is unbounded where they touch.
fn exchange(scene: &Scene, to: &Part, from: &Part, depth: u32) -> f64 {
    if to.quad.facing(&from.quad) == Facing::Away {
        return 0.0;
    }
    let reach = 1.5 * (to.long + from.long);
    if depth > 0 && (to.middle - from.middle).square() < reach * reach {
        let others = from.quarters();
        let quarters = to.quarters();
        let pairs = quarters.iter().flat_map(|to| others.iter().map(move |from| (to, from)));
        return pairs.map(|(to, from)| exchange(scene, to, from, depth - 1)).sum::<f64>() / 16.0;
    }
    let (points, points2) = (to.quad.samples(), from.quad.samples());
    let pair = |x: V3, y: V3| match kernel(x, to.normal, y, from.normal) {
        kernel if kernel > 0.0 && !scene.occluders.are_hidden(x, y) => kernel,
        _ => 0.0,
    };
    points.iter().flat_map(|x| points2.iter().map(move |y| pair(*x, *y))).sum::<f64>() / 16.0
}

/// Light by parts that are all as small, each of which sees each: surfaces are divided until no part is larger than `most`. The mean
/// radiosity of each surface.
pub(super) fn uniform(scene: &Scene, most: f64, bounces: usize) -> Vec<V3> {
    let mut parts = Vec::new();
    for (number, quad) in scene.quads.iter().enumerate() {
        let mut of_one = vec![Part::of(number, *quad)];
        while of_one[0].area > most {
            of_one = of_one.iter().flat_map(Part::quarters).collect();
        }
        parts.extend(of_one);
    }
    let count = parts.len();
    let mut factors = vec![0.0_f32; count * count];
    for to in 0..count {
        for from in 0..to {
            let (one, other) = (&parts[to], &parts[from]);
            if one.number != other.number {
                let value = exchange(scene, one, other, DEPTH);
                factors[to * count + from] = (value * other.area) as f32;
                factors[from * count + to] = (value * one.area) as f32;
            }
        }
    }
    let mut light: Vec<V3> = parts.iter().map(|part| scene.paints[part.number].emission).collect();
    for _ in 0..bounces {
        let came = |row: &[f32]| {
            row.iter().zip(&light).fold(V3::ZERO, |sum, (f, light)| sum + *light * f64::from(*f))
        };
        let shines = |(part, row): (&Part, &[f32])| {
            let paint = &scene.paints[part.number];
            paint.emission + came(row).zip(paint.reflectance, |light, part| light * part)
        };
        light = parts.iter().zip(factors.chunks_exact(count)).map(shines).collect();
    }
    let mut means = vec![(V3::ZERO, 0.0); scene.quads.len()];
    for (part, light) in parts.iter().zip(&light) {
        means[part.number].0 += *light * part.area;
        means[part.number].1 += part.area;
    }
    means.into_iter().map(|(sum, area)| sum * area.recip()).collect()
}
