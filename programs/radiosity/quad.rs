//! Quadrilaterals, and whether one hides another.

use std::f64::consts::PI;

use crate::kit::V3;

/// How much of two quadrilaterals see each other's front, if nothing is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Facing {
    Away,
    /// One lies on both sides of the other's plane.
    Partly,
    Wholly,
}

/// A convex quadrilateral, seen from the side where its corners go round counter-clockwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quad {
    pub(super) corners: [V3; 4],
}

impl Quad {
    /// By the lengths of its sides, from 0 to 1 each.
    #[inline(always)]
    pub(super) fn point(&self, u: f64, v: f64) -> V3 {
        let [a, b, c, d] = self.corners;
        a * ((1.0 - u) * (1.0 - v)) + b * (u * (1.0 - v)) + c * (u * v) + d * ((1.0 - u) * v)
    }

    fn diagonals(&self) -> V3 {
        let [a, b, c, d] = self.corners;
        (c - a).cross(d - b)
    }

    pub(super) fn normal(&self) -> V3 {
        self.diagonals().unit()
    }

    pub(super) fn area(&self) -> f64 {
        0.5 * self.diagonals().length()
    }

    /// Its four quarters: the one of `u` and `v` below a half, then of `u` above, both, `v`.
    pub(super) fn quarters(&self) -> [Self; 4] {
        let at = |u: f64, v: f64| self.point(u, v);
        let (m, h) = (at(0.5, 0.5), [at(0.5, 0.0), at(1.0, 0.5), at(0.5, 1.0), at(0.0, 0.5)]);
        let [a, b, c, d] = self.corners;
        let quad = |corners| Self { corners };
        [
            quad([a, h[0], m, h[3]]),
            quad([h[0], b, h[1], m]),
            quad([m, h[1], c, h[2]]),
            quad([h[3], m, h[2], d]),
        ]
    }

    /// In which quarter a point of it is.
    pub(super) fn quarter(u: f64, v: f64) -> usize {
        match (u >= 0.5, v >= 0.5) {
            (false, false) => 0,
            (true, false) => 1,
            (true, true) => 2,
            (false, true) => 3,
        }
    }

    /// The middles of its quarters.
    pub(super) fn samples(&self) -> [V3; 4] {
        [self.point(0.25, 0.25), self.point(0.75, 0.25), self.point(0.75, 0.75), self.point(0.25, 0.75)]
    }

    /// How much of the other it faces, and is faced by.
    pub(super) fn facing(&self, other: &Self) -> Facing {
        let ahead = |one: &Self, other: &Self| {
            let (normal, from, tolerance) = (one.normal(), one.corners[0], 1e-6 * one.area().sqrt());
            let far = other.corners.map(|corner| (corner - from).dot(normal));
            (far.iter().any(|far| *far > tolerance), far.iter().all(|far| *far > -tolerance))
        };
        match (ahead(self, other), ahead(other, self)) {
            ((true, true), (true, true)) => Facing::Wholly,
            ((true, _), (true, _)) => Facing::Partly,
            _ => Facing::Away,
        }
    }

    /// Points near its corners.
    pub(super) fn near_corners(&self) -> [V3; 4] {
        const IN: f64 = 1.0 / 16.0;
        [(IN, IN), (1.0 - IN, IN), (1.0 - IN, 1.0 - IN), (IN, 1.0 - IN)].map(|(u, v)| self.point(u, v))
    }

    /// Where a ray meets it: how far, as a part of `along`.
    pub(super) fn hit(&self, from: V3, along: V3) -> Option<f64> {
        let [a, b, c, d] = self.corners;
        triangle(from, along, a, b, c).or_else(|| triangle(from, along, a, c, d))
    }

    /// `u` and `v` of a place on it (Newton's method on the bilinear map).
    pub(super) fn coordinates(&self, place: V3) -> (f64, f64) {
        let [a, b, c, d] = self.corners;
        let (mut u, mut v) = (0.5, 0.5);
        for _ in 0..6 {
            let off = place - self.point(u, v);
            let along_u = (b - a) * (1.0 - v) + (c - d) * v;
            let along_v = (d - a) * (1.0 - u) + (c - b) * u;
            let (uu, uv, vv) = (along_u.square(), along_u.dot(along_v), along_v.square());
            let (ou, ov) = (off.dot(along_u), off.dot(along_v));
            let det = (uu * vv - uv * uv).max(1e-300);
            u += (ou * vv - ov * uv) / det;
            v += (ov * uu - ou * uv) / det;
        }
        (u.clamp(0.0, 1.0), v.clamp(0.0, 1.0))
    }
}

/// Möller and Trumbore's test.
#[inline]
fn triangle(from: V3, along: V3, a: V3, b: V3, c: V3) -> Option<f64> {
    let (ab, ac) = (b - a, c - a);
    let p = along.cross(ac);
    let det = ab.dot(p);
    if det.abs() < 1e-300 {
        return None;
    }
    let inverse = det.recip();
    let t = from - a;
    let u = t.dot(p) * inverse;
    let q = t.cross(ab);
    let v = along.dot(q) * inverse;
    // A little wide, so that nothing passes between two.
    if u < -1e-9 || v < -1e-9 || u + v > 1.0 + 1e-9 {
        return None;
    }
    Some(ac.dot(q) * inverse)
}

/// Exchange from a point to another, by their normals: `cos cos / (pi r²)`.
#[inline]
pub(super) fn kernel(x: V3, normal_x: V3, y: V3, normal_y: V3) -> f64 {
    let between = y - x;
    let (cos_x, cos_y) = (between.dot(normal_x), -between.dot(normal_y));
    if cos_x <= 0.0 || cos_y <= 0.0 {
        return 0.0;
    }
    let square = between.square();
    cos_x * cos_y / (PI * square * square)
}

/// Boxes around boxes around quadrilaterals.
#[derive(Debug)]
pub(super) struct Occluders {
    quads: Vec<(Quad, u32)>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    low: V3,
    high: V3,
    /// Of a leaf: the first of its quads; else the second child. (The first one comes next.)
    first: u32,
    /// 0: not a leaf.
    count: u32,
}

const LEAF: usize = 3;

impl Occluders {
    pub(super) fn new(quads: impl Iterator<Item = Quad>) -> Self {
        let mut quads: Vec<_> = quads.zip(0..).collect();
        let mut nodes = Vec::new();
        let count = quads.len();
        divide(&mut quads, 0..count, &mut nodes);
        Self { quads, nodes }
    }

    /// Visits each whose box the ray meets, as long as `visit` says so.
    #[inline]
    fn walk(&self, from: V3, along: V3, mut visit: impl FnMut(&Quad, u32) -> bool) {
        if self.nodes.is_empty() {
            return;
        }
        let inverse = along.map(|x| x.recip());
        let (mut stack, mut top) = ([0_u32; 64], 1);
        while top > 0 {
            top -= 1;
            let at = stack[top] as usize;
            let node = &self.nodes[at];
            let (mut near, mut far) = (0.0_f64, f64::INFINITY);
            for axis in 0..3 {
                let a = (node.low[axis] - from[axis]) * inverse[axis];
                let b = (node.high[axis] - from[axis]) * inverse[axis];
                // `max` and `min` drop values that are no numbers, as for a ray within the plane of a side.
                near = near.max(a.min(b));
                far = far.min(a.max(b));
            }
            if near > far {
                continue;
            }
            if node.count == 0 {
                stack[top] = node.first;
                stack[top + 1] = at as u32 + 1;
                top += 2;
                continue;
            }
            let from = node.first as usize;
            if !self.quads[from..from + node.count as usize].iter().all(|(quad, number)| visit(quad, *number))
            {
                return;
            }
        }
    }

    /// Whether something stands between two points of surfaces.
    pub(super) fn are_hidden(&self, from: V3, to: V3) -> bool {
        let along = to - from;
        let mut hidden = false;
        self.walk(from, along, |quad, _| {
            // Neither surface itself.
            hidden = quad.hit(from, along).is_some_and(|t| t > 1e-6 && t < 1.0 - 1e-6);
            !hidden
        });
        hidden
    }

    /// The first that a ray meets, and how far away.
    pub(super) fn first(&self, from: V3, along: V3) -> Option<(usize, f64)> {
        let mut found: Option<(usize, f64)> = None;
        self.walk(from, along, |quad, number| {
            if let Some(t) = quad.hit(from, along).filter(|t| *t > 1e-9)
                && found.is_none_or(|(_, nearest)| t < nearest)
            {
                found = Some((number as usize, t));
            }
            true
        });
        found
    }
}

fn divide(quads: &mut [(Quad, u32)], range: std::ops::Range<usize>, nodes: &mut Vec<Node>) {
    let all = &mut quads[range.clone()];
    if all.is_empty() {
        return;
    }
    let none = (V3::ZERO.map(|_| f64::INFINITY), V3::ZERO.map(|_| f64::NEG_INFINITY));
    let corners = || all.iter().flat_map(|(quad, _)| quad.corners);
    let (low, high) = corners().fold(none, |(low, high), c| (low.zip(c, f64::min), high.zip(c, f64::max)));
    let margin = (high - low).length() * 1e-9;
    let (low, high) = (low.map(|x| x - margin), high.map(|x| x + margin));
    let at = nodes.len();
    nodes.push(Node { low, high, first: range.start as u32, count: all.len() as u32 });
    if all.len() <= LEAF {
        return;
    }
    let size = high - low;
    let axis = (0..3).max_by(|a, b| size[*a].total_cmp(&size[*b])).unwrap_or(0);
    let middle = |quad: &Quad| quad.corners.iter().map(|corner| corner[axis]).sum::<f64>();
    all.sort_by(|(a, _), (b, _)| middle(a).total_cmp(&middle(b)));
    let half = range.start + range.len() / 2;
    divide(quads, range.start..half, nodes);
    nodes[at].first = nodes.len() as u32;
    nodes[at].count = 0;
    divide(quads, half..range.end, nodes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Random;

    fn square(at: f64) -> Quad {
        let corners =
            [V3::new(0.0, 0.0, at), V3::new(1.0, 0.0, at), V3::new(1.0, 1.0, at), V3::new(0.0, 1.0, at)];
        Quad { corners }
    }

    #[test]
    fn quarters_make_up_the_whole() {
        let quad = square(0.0);
        let sum: f64 = quad.quarters().iter().map(Quad::area).sum();
        assert!((sum - quad.area()).abs() < 1e-12 && (quad.area() - 1.0).abs() < 1e-12);
        assert_eq!(quad.normal(), V3::new(0.0, 0.0, 1.0));
        for (u, v) in [(0.1, 0.2), (0.9, 0.3), (0.7, 0.8), (0.2, 0.6)] {
            let (u2, v2) = quad.coordinates(quad.point(u, v));
            assert!((u - u2).abs() < 1e-9 && (v - v2).abs() < 1e-9);
            let quarter = quad.quarters()[Quad::quarter(u, v)];
            let (u, v) = quarter.coordinates(quad.point(u, v));
            assert!(u > 0.0 && u < 1.0 && v > 0.0 && v < 1.0);
        }
    }

    #[test]
    fn boxes_find_what_a_look_at_all_finds() {
        let mut random = Random::new(4);
        let mut place = || V3::new(random.unit(), random.unit(), random.unit());
        let quads: Vec<Quad> = (0..60)
            .map(|_| {
                let (a, e, f) = (place(), place() * 0.3, place() * 0.3);
                Quad { corners: [a, a + e, a + e + f, a + f] }
            })
            .collect();
        let occluders = Occluders::new(quads.iter().copied());
        for _ in 0..500 {
            let (from, to) = (place(), place());
            let along = to - from;
            let hits = quads.iter().filter_map(|quad| quad.hit(from, along));
            let hidden = hits.clone().any(|t| t > 1e-6 && t < 1.0 - 1e-6);
            assert_eq!(occluders.are_hidden(from, to), hidden);
            let nearest = hits.filter(|t| *t > 1e-9).fold(f64::INFINITY, f64::min);
            assert_eq!(occluders.first(from, along).map_or(f64::INFINITY, |(_, t)| t), nearest);
        }
    }

    #[test]
    fn parallel_squares_have_the_published_form_factor() {
        // Two unit squares, one unit apart: 0.19982.
        let (one, other) = (square(0.0), square(1.0));
        let (up, down) = (V3::new(0.0, 0.0, 1.0), V3::new(0.0, 0.0, -1.0));
        let steps = 24;
        let points = |quad: Quad| {
            (0..steps * steps).map(move |at| {
                let part = |x: usize| (x as f64 + 0.5) / steps as f64;
                quad.point(part(at % steps), part(at / steps))
            })
        };
        let sum: f64 = points(one).map(|x| points(other).map(|y| kernel(x, up, y, down)).sum::<f64>()).sum();
        assert!((sum / (steps as f64).powi(4) - 0.199_82).abs() < 2e-4);
    }
}
