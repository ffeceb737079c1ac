//! Light from part to part: the links, and the light that each brings (Hanrahan, Salzman, Aupperle 1991).

use super::Plan;
use super::quad::{Facing, Quad, kernel};
use super::scene::Scene;
use super::surface::{Code, DEEPEST, Link, View, WHOLE, depth, part};
use crate::kit::V3;

/// A part of a surface that exists, or would if it were divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) surface: u32,
    pub(super) code: Code,
    quad: Quad,
    area: f64,
    /// Of the smallest element around it.
    bright: f64,
}

impl View {
    /// A part that exists, or else the smallest element around it.
    pub(super) fn part(&self, surface: u32, code: Code) -> Part {
        let at = self.shape.find(code);
        let element = &self.shape.elements[at];
        Part { surface, code, quad: element.quad, area: element.area, bright: self.bright(at) }
    }

    /// The quarters of a part, which exist or would if it were divided.
    pub(super) fn quarters(&self, of: &Part) -> [Part; 4] {
        let quads = of.quad.quarters();
        std::array::from_fn(|at| {
            let (code, quad) = (part(of.code, at), quads[at]);
            let bright = self.bright(self.shape.find(code));
            Part { surface: of.surface, code, quad, area: quad.area(), bright }
        })
    }

    /// How bright an element is, in its strongest colour.
    pub(super) fn bright(&self, at: usize) -> f64 {
        let colour = self.light[at];
        colour[0].max(colour[1]).max(colour[2])
    }
}

/// Result of one thread: links of a surface, and the divisions to be made.
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

impl Found {
    /// That part is to be divided.
    pub(super) fn divided(&mut self, larger: Larger, (to, from): (&Part, &Part)) {
        match larger {
            Larger::To => self.own.push(to.code),
            Larger::From => self.others.push((from.surface, from.code)),
        }
    }

    /// Adds what another thread has found.
    pub(super) fn append(&mut self, mut other: Self) {
        self.links.append(&mut other.links);
        self.own.append(&mut other.own);
        self.others.append(&mut other.others);
        self.rays += other.rays;
    }

    /// The parts that were found, each once.
    pub(super) fn finish(mut self) -> Self {
        self.own.sort_unstable();
        self.own.dedup();
        self.others.sort_unstable();
        self.others.dedup();
        self
    }
}

/// The larger of two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Larger {
    /// The one that gets light.
    To,
    /// The one that gives it.
    From,
}

/// Knowledge of the light from one part to another.
pub(super) enum Exchange {
    /// There is none.
    Nothing,
    /// Enough.
    Known(Link),
    /// Too little: that one is to be divided.
    Divided(Larger),
}

impl Plan {
    /// Whether a link is accurate enough, if the part from which light comes is so bright.
    pub(super) fn is_accurate(&self, link: &Link, bright: f64) -> bool {
        link.spread * bright <= self.most
    }

    /// The larger of two, if it is not too small to be divided.
    pub(super) fn larger(&self, to: &Part, from: &Part) -> Option<Larger> {
        let (larger, which) = if to.area >= from.area { (to, Larger::To) } else { (from, Larger::From) };
        (larger.area > self.accuracy.smallest && depth(larger.code) < DEEPEST).then_some(which)
    }

    /// Computes the light from one part to another. Counts the pairs of points that it looks at.
    ///
    /// It stays a function of its own, so that all forms of the program run the same code here.
    #[inline(never)]
    pub(super) fn exchange(&self, scene: &Scene, to: &Part, from: &Part, rays: &mut u64) -> Exchange {
        let facing = to.quad.facing(&from.quad);
        if facing == Facing::Away {
            return Exchange::Nothing;
        }
        let exchange = to.area * from.area * from.bright;
        let points = [Points::of(&to.quad), Points::of(&from.quad)];
        let mut pairs = Pairs::of(&points[0], &points[1]);
        if facing == Facing::Partly {
            // The points may all lie behind the other's plane, and parts not.
            pairs.most = pairs.most.max(most_near_corners(&to.quad, &from.quad));
        }
        if (pairs.most - pairs.least) * exchange > self.most
            && let Some(larger) = self.larger(to, from)
        {
            return Exchange::Divided(larger);
        }
        if pairs.most == 0.0 {
            return Exchange::Nothing;
        }
        *rays += 16;
        let seen = pairs.seen(scene, &points);
        // A partly visible part is uncertain. A part that no ray has met is a little uncertain, too.
        let hidden = match seen.count {
            16 => 0.0,
            0 => 0.1 * pairs.mean,
            _ => pairs.mean,
        };
        let spread = to.area * from.area * (pairs.most - pairs.least + hidden);
        if spread * from.bright > self.most
            && let Some(larger) = self.larger(to, from)
        {
            return Exchange::Divided(larger);
        }
        Exchange::Known(Link {
            to: (to.code, 0),
            surface: from.surface,
            from: (from.code, 0),
            factor: from.area * seen.part * fine(&to.quad, &from.quad, &pairs, 2),
            spread,
        })
    }
}

/// Refines links: each is divided until it is accurate enough.
pub(super) struct Refining<'a> {
    pub(super) scene: &'a Scene,
    pub(super) plan: Plan,
    pub(super) own: &'a View,
    pub(super) number: u32,
    pub(super) found: Found,
}

impl Refining<'_> {
    /// Of two surfaces that are not linked yet.
    pub(super) fn begin(&mut self, other: u32, view: &View) {
        let (to, from) = (self.own.part(self.number, WHOLE), view.part(other, WHOLE));
        self.refine(&to, &from, view);
    }

    /// Of a link that there is.
    pub(super) fn again(&mut self, link: &Link, view: &View) {
        if !self.plan.is_accurate(link, view.bright(link.from.1 as usize)) {
            let (to, from) = (self.own.part(self.number, link.to.0), view.part(link.surface, link.from.0));
            if let Some(larger) = self.plan.larger(&to, &from) {
                return self.divide(larger, &to, &from, view);
            }
        }
        self.found.links.push(link.clone());
    }

    fn refine(&mut self, to: &Part, from: &Part, view: &View) {
        match self.plan.exchange(self.scene, to, from, &mut self.found.rays) {
            Exchange::Nothing => (),
            Exchange::Known(link) => self.found.links.push(link),
            Exchange::Divided(larger) => self.divide(larger, to, from, view),
        }
    }

    fn divide(&mut self, larger: Larger, to: &Part, from: &Part, view: &View) {
        self.found.divided(larger, (to, from));
        match larger {
            Larger::To => self.own.quarters(to).iter().for_each(|to| self.refine(to, from, view)),
            Larger::From => view.quarters(from).iter().for_each(|from| self.refine(to, from, view)),
        }
    }
}

/// Four points of a part, and its normal.
struct Points {
    points: [V3; 4],
    normal: V3,
}

impl Points {
    fn of(quad: &Quad) -> Self {
        Self { points: quad.samples(), normal: quad.normal() }
    }
}

/// The kernel between four points of one and four of another.
struct Pairs {
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
    let with_points = |quad: Quad| (quad, Points::of(&quad));
    let (quarters, others) = (to.quarters().map(with_points), from.quarters().map(with_points));
    let mut sum = 0.0;
    for (to, points) in &quarters {
        let of = |(from, points2): &(Quad, Points)| fine(to, from, &Pairs::of(points, points2), levels - 1);
        sum += others.iter().map(of).sum::<f64>();
    }
    sum / 16.0
}

impl Pairs {
    fn of(to: &Points, from: &Points) -> Self {
        // Loops: `map` of an array is a call for each of its items, if the compiler does not inline it.
        let mut kernels = [[0.0; 4]; 4];
        for (kernels, x) in kernels.iter_mut().zip(&to.points) {
            for (of, y) in kernels.iter_mut().zip(&from.points) {
                *of = kernel(*x, to.normal, *y, from.normal);
            }
        }
        let all = || kernels.iter().flatten().copied();
        Self {
            kernels,
            least: all().fold(f64::INFINITY, f64::min),
            most: all().fold(0.0, f64::max),
            mean: all().sum::<f64>() / 16.0,
        }
    }

    fn seen(&self, scene: &Scene, [to, from]: &[Points; 2]) -> Seen {
        let (mut count, mut sum) = (0, 0.0);
        for (x, kernels) in to.points.iter().zip(&self.kernels) {
            for (y, kernel) in from.points.iter().zip(kernels) {
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
