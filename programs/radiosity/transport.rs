//! Light from part to part: the links, and the light that each brings (Hanrahan, Salzman, Aupperle 1991).

use super::Accuracy;
use super::quad::{Facing, Quad, kernel};
use super::scene::Scene;
use super::surface::{Code, DEEPEST, Link, View, WHOLE, depth, part};
use crate::kit::V3;

/// A part of a surface that exists, or would if it were divided.
#[derive(Clone, Copy)]
struct Part {
    surface: u32,
    code: Code,
    quad: Quad,
    area: f64,
    /// Of the smallest element around it.
    bright: f64,
}

impl Part {
    fn quarters(&self, view: &View) -> [Self; 4] {
        let quads = self.quad.quarters();
        std::array::from_fn(|at| {
            let (code, quad) = (part(self.code, at), quads[at]);
            let bright = strongest(view.light[view.shape.find(code)]);
            Self { surface: self.surface, code, quad, area: quad.area(), bright }
        })
    }
}

fn strongest(colour: V3) -> f64 {
    colour[0].max(colour[1]).max(colour[2])
}

/// Result of one thread: the links of one surface with a block of others, and the divisions to be made.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) links: Vec<Link>,
    /// Parts of the surface itself.
    pub(super) own: Vec<Code>,
    /// Parts of the others.
    pub(super) others: Vec<(u32, Code)>,
    /// How many pairs of points were looked at.
    pub(super) rays: u64,
}

/// Refines links: each is divided until it is accurate enough.
pub(super) struct Refining<'a> {
    pub(super) scene: &'a Scene,
    /// An exchange that is more uncertain is divided.
    pub(super) most: f64,
    pub(super) accuracy: Accuracy,
    pub(super) own: &'a View,
    pub(super) number: u32,
    pub(super) found: Found,
}

impl Refining<'_> {
    /// Of two surfaces that are not linked yet.
    pub(super) fn begin(&mut self, other: u32, view: &View) {
        let to = self.part_of(self.number, WHOLE, self.own);
        let from = self.part_of(other, WHOLE, view);
        self.refine(to, from, view);
    }

    /// Of a link that there is.
    pub(super) fn again(&mut self, link: &Link, view: &View) {
        let bright = strongest(view.light[link.from.1 as usize]);
        if link.spread * bright <= self.most {
            self.found.links.push(link.clone());
            return;
        }
        let to = self.part_of(self.number, link.to.0, self.own);
        let from = self.part_of(link.surface, link.from.0, view);
        if !self.divide(to, from, view) {
            self.found.links.push(link.clone());
        }
    }

    fn part_of(&self, surface: u32, code: Code, view: &View) -> Part {
        let at = view.shape.find(code);
        let element = &view.shape.elements[at];
        Part { surface, code, quad: element.quad, area: element.area, bright: strongest(view.light[at]) }
    }

    fn refine(&mut self, to: Part, from: Part, view: &View) {
        let facing = to.quad.facing(&from.quad);
        if facing == Facing::Away {
            return;
        }
        let exchange = to.area * from.area * from.bright;
        let mut pairs = Pairs::of(&to.quad, &from.quad);
        if facing == Facing::Partly {
            // The points may all lie behind the other's plane, and parts not.
            pairs.most = pairs.most.max(most_near_corners(&to.quad, &from.quad));
        }
        if (pairs.most - pairs.least) * exchange > self.most && self.divide(to, from, view) {
            return;
        }
        if pairs.most == 0.0 {
            return;
        }
        self.found.rays += 16;
        let seen = pairs.seen(self.scene);
        // A partly visible part is uncertain. A part that no ray has met is a little uncertain, too.
        let hidden = match seen.count {
            16 => 0.0,
            0 => 0.1 * pairs.mean,
            _ => pairs.mean,
        };
        let spread = to.area * from.area * (pairs.most - pairs.least + hidden);
        if spread * from.bright > self.most && self.divide(to, from, view) {
            return;
        }
        self.found.links.push(Link {
            to: (to.code, 0),
            surface: from.surface,
            from: (from.code, 0),
            factor: from.area * seen.part * fine(&to.quad, &from.quad, &pairs, 2),
            spread,
        });
    }

    /// Divides the larger of two, if it is not too small.
    fn divide(&mut self, to: Part, from: Part, view: &View) -> bool {
        let larger = if to.area >= from.area { &to } else { &from };
        if larger.area <= self.accuracy.smallest || depth(larger.code) >= DEEPEST {
            return false;
        }
        if to.area >= from.area {
            self.found.own.push(to.code);
            to.quarters(self.own).into_iter().for_each(|to| self.refine(to, from, view));
        } else {
            self.found.others.push((from.surface, from.code));
            from.quarters(view).into_iter().for_each(|from| self.refine(to, from, view));
        }
        true
    }

    /// The parts that were found, each once.
    pub(super) fn finish(mut self) -> Found {
        self.found.own.sort_unstable();
        self.found.own.dedup();
        self.found.others.sort_unstable();
        self.found.others.dedup();
        self.found
    }
}

/// The kernel between four points of one and four of another.
struct Pairs {
    points: [[V3; 4]; 2],
    kernels: [[f64; 4]; 4],
    least: f64,
    most: f64,
    mean: f64,
}

/// The points that nothing hides: their number, and their part of the kernel's mean.
struct Seen {
    count: usize,
    part: f64,
}

/// The most of the kernel between points near the corners of one and of another.
fn most_near_corners(to: &Quad, from: &Quad) -> f64 {
    let (points, normal, normal2) = (from.near_corners(), to.normal(), from.normal());
    let most_of = |x: V3| points.iter().fold(0.0, |most: f64, y| most.max(kernel(x, normal, *y, normal2)));
    to.near_corners().into_iter().fold(0.0, |most, x| most.max(most_of(x)))
}

/// The mean of the kernel, by more points where it differs much: where two touch, four points of each say too much.
fn fine(to: &Quad, from: &Quad, pairs: &Pairs, levels: u32) -> f64 {
    if levels == 0 || pairs.most - pairs.least <= pairs.mean {
        return pairs.mean;
    }
    let others = from.quarters();
    let quarter = |to: &Quad| {
        let of = |from: &Quad| fine(to, from, &Pairs::of(to, from), levels - 1);
        others.iter().map(of).sum::<f64>()
    };
    to.quarters().iter().map(quarter).sum::<f64>() / 16.0
}

impl Pairs {
    fn of(to: &Quad, from: &Quad) -> Self {
        let points = [to.samples(), from.samples()];
        let (normal, normal2) = (to.normal(), from.normal());
        let kernels = points[0].map(|x| points[1].map(|y| kernel(x, normal, y, normal2)));
        let all = || kernels.iter().flatten().copied();
        Self {
            points,
            kernels,
            least: all().fold(f64::INFINITY, f64::min),
            most: all().fold(0.0, f64::max),
            mean: all().sum::<f64>() / 16.0,
        }
    }

    fn seen(&self, scene: &Scene) -> Seen {
        let (mut count, mut sum) = (0, 0.0);
        for (x, kernels) in self.points[0].iter().zip(&self.kernels) {
            for (y, kernel) in self.points[1].iter().zip(kernels) {
                // A part that faces away brings nothing, whether hidden or not.
                let is_seen = *kernel == 0.0 || !scene.occluders.are_hidden(*x, *y);
                count += usize::from(is_seen);
                sum += if is_seen { *kernel / 16.0 } else { 0.0 };
            }
        }
        // If the points see nothing of each other, nothing is known of the rest.
        Seen { count, part: if self.mean > 0.0 { sum / self.mean } else { 1.0 } }
    }
}

/// The light that links bring to elements.
pub(super) fn gather<'a>(gathered: &mut [V3], links: &[Link], light: impl Fn(u32) -> &'a [V3]) {
    let mut from = (u32::MAX, &[][..]);
    for link in links {
        if from.0 != link.surface {
            from = (link.surface, light(link.surface));
        }
        gathered[link.to.1 as usize] += from.1[link.from.1 as usize] * link.factor;
    }
}
