//! Light in rooms whose surfaces are diffuse, by hierarchical radiosity; see the folder's `README.md`.

mod chanter;
mod picture;
mod plain;
mod processes;
mod progress;
mod quad;
mod rayon;
mod reference;
mod scene;
mod serial;
mod surface;
mod transport;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Size, V3, ensure};

pub use picture::picture;
pub use processes::process;
pub use progress::Progress;
pub use scene::Scene;
use surface::{Code, Links, View};

/// How accurate light is to be.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy {
    /// The uncertainty that an exchange may have, as a part of all that the lights give.
    pub part: f64,
    /// The area of elements that are not divided.
    pub smallest: f64,
    /// How often links are refined, by the light that is known then.
    pub rounds: usize,
    /// How often light is passed on after each.
    pub bounces: usize,
}

impl Accuracy {
    /// For tests.
    pub const fn coarse() -> Self {
        Self { part: 2e-3, smallest: 400.0, rounds: 3, bounces: 6 }
    }
}

/// How the work is divided.
#[derive(Clone, Copy, Debug)]
struct Plan {
    accuracy: Accuracy,
    /// Most uncertainty of an exchange.
    most: f64,
    surfaces: usize,
    blocks: usize,
}

impl Plan {
    fn of(scene: &Scene, accuracy: Accuracy) -> Self {
        let surfaces = scene.surfaces();
        Self { accuracy, most: accuracy.part * scene.power(), surfaces, blocks: surfaces.min(16) }
    }

    /// Which surfaces a block has.
    fn block(self, block: usize) -> Range<usize> {
        self.surfaces * block / self.blocks..self.surfaces * (block + 1) / self.blocks
    }
}

/// The light of a scene. Two are equal if all their elements are as bright, to the last bit.
#[derive(Clone)]
pub struct Solution {
    surfaces: Vec<(View, Vec<Links>)>,
    rays: u64,
}

impl PartialEq for Solution {
    fn eq(&self, other: &Self) -> bool {
        let light = |solution: &Self| -> Vec<Arc<Vec<V3>>> {
            solution.surfaces.iter().map(|(view, _)| Arc::clone(&view.light)).collect()
        };
        self.rays == other.rays && light(self) == light(other)
    }
}

impl fmt::Debug for Solution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (elements, links) = (self.elements(), self.links());
        write!(f, "Solution({elements} elements, {links} links, {} rays)", self.rays)
    }
}

/// Emitted light of the strongest colour, and its whereabouts.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    /// By the lights.
    pub emitted: f64,
    /// By surfaces.
    pub absorbed: f64,
    /// The part of the light that escapes through openings; in a closed room, the part that form factors lack.
    pub escaped: f64,
}

impl Balance {
    /// Missing light, as a part of the emitted light.
    pub fn error(self) -> f64 {
        ((self.emitted - self.absorbed - self.escaped) / self.emitted).abs()
    }
}

impl Solution {
    fn new(surfaces: Vec<(View, Vec<Links>)>, rays: u64) -> Self {
        Self { surfaces, rays }
    }

    /// Elements that are not divided further.
    pub fn elements(&self) -> usize {
        self.surfaces.iter().map(|(view, _)| view.shape.leaves().count()).sum()
    }

    /// Links.
    pub fn links(&self) -> usize {
        self.surfaces.iter().flat_map(|(_, links)| links).map(|links| links.len()).sum()
    }

    /// Pairs of points whose visibility was asked.
    pub fn rays(&self) -> u64 {
        self.rays
    }

    /// The mean radiosity of each surface.
    fn means(&self) -> Vec<V3> {
        self.surfaces.iter().map(|(view, _)| view.light[0]).collect()
    }

    /// The mean brightness of lit parts, without the lights: the exposure of a picture.
    fn mean_of_lit(&self, scene: &Scene) -> f64 {
        let (mut sum, mut area) = (0.0, 0.0);
        for ((light, quad), paint) in self.means().into_iter().zip(&scene.quads).zip(&scene.paints) {
            if paint.emission == V3::ZERO {
                sum += light[0].max(light[1]).max(light[2]) * quad.area();
                area += quad.area();
            }
        }
        (sum / area).max(1e-12)
    }

    /// The violation of reciprocity by form factors: the relative difference between the exchange from one part to
    /// another, and back. Returns the worst of all links whose reverse is there, and the number of those links.
    pub fn reciprocity(&self) -> (f64, usize) {
        let area = |surface: u32, at: u32| self.surfaces[surface as usize].0.shape.elements[at as usize].area;
        let mut known: HashMap<(u32, Code, u32, Code), f64> = HashMap::new();
        let (mut worst, mut pairs) = (0.0_f64, 0);
        for (number, (_, links)) in self.surfaces.iter().enumerate() {
            for link in links.iter().flat_map(|links| links.iter()) {
                let number = number as u32;
                let exchange = link.factor * area(number, link.to.1);
                if let Some(other) = known.get(&(link.surface, link.from.0, number, link.to.0)) {
                    let scale = exchange.abs().max(other.abs()).max(1e-300);
                    worst = worst.max((exchange - other).abs() / scale);
                    pairs += 1;
                }
                known.insert((number, link.to.0, link.surface, link.from.0), exchange);
            }
        }
        (worst, pairs)
    }

    /// Exchange between whole surfaces, by the links of either side, which are divided differently. The result is the
    /// sum of the differences, as a part of all.
    pub fn exchange(&self) -> f64 {
        let count = self.surfaces.len();
        let mut exchanged = vec![0.0; count * count];
        for (number, (view, links)) in self.surfaces.iter().enumerate() {
            for link in links.iter().flat_map(|links| links.iter()) {
                let area = view.shape.elements[link.to.1 as usize].area;
                exchanged[number * count + link.surface as usize] += link.factor * area;
            }
        }
        let (mut off, mut all) = (0.0, 0.0);
        for a in 0..count {
            for b in 0..a {
                let (one, other) = (exchanged[a * count + b], exchanged[b * count + a]);
                off += (one - other).abs();
                all += 0.5 * (one + other);
            }
        }
        off / all
    }

    /// Whereabouts of the light.
    pub fn balance(&self, scene: &Scene) -> Balance {
        let emitted = scene.emitted();
        let colour = (0..3).max_by(|a, b| emitted[*a].total_cmp(&emitted[*b])).unwrap_or(0);
        let mut balance = Balance { emitted: emitted[colour], absorbed: 0.0, escaped: 0.0 };
        for ((view, links), paint) in self.surfaces.iter().zip(&scene.paints) {
            let elements = &view.shape.elements;
            // Form factors and light that come to each element and those around it.
            let (mut seen, mut came) = (vec![0.0; elements.len()], vec![0.0; elements.len()]);
            for link in links.iter().flat_map(|links| links.iter()) {
                seen[link.to.1 as usize] += link.factor;
                let light = &self.surfaces[link.surface as usize].0.light;
                came[link.to.1 as usize] += link.factor * light[link.from.1 as usize][colour];
            }
            for (at, element) in elements.iter().enumerate() {
                let first = element.first as usize;
                if first > 0 {
                    for part in first..first + 4 {
                        seen[part] += seen[at];
                        came[part] += came[at];
                    }
                } else {
                    balance.absorbed += element.area * (1.0 - paint.reflectance[colour]) * came[at];
                    balance.escaped += element.area * view.light[at][colour] * (1.0 - seen[at]);
                }
            }
        }
        balance
    }

    /// The mean difference to another solution's means, as a part of their mean.
    fn difference(&self, scene: &Scene, others: &[V3]) -> f64 {
        let (mut off, mut all) = (0.0, 0.0);
        for ((light, other), (quad, paint)) in
            self.means().into_iter().zip(others).zip(scene.quads.iter().zip(&scene.paints))
        {
            // The emission of lights is given.
            for colour in 0..3 {
                off += (light[colour] - other[colour]).abs() * quad.area();
                all += (other[colour] - paint.emission[colour]) * quad.area();
            }
        }
        off / all
    }

    /// How far it is from the light by elements that are all as small (of that area at most), in the mean of surfaces.
    pub fn off_uniform(&self, scene: &Scene, area: f64) -> f64 {
        self.difference(scene, &reference::uniform(scene, area, 40))
    }

    /// Distance from the light by this number of particles, in the mean of surfaces.
    pub fn off_traced(&self, scene: &Scene, particles: usize) -> f64 {
        self.difference(scene, &reference::traced(scene, particles, 1))
    }
}

/// The light of a scene, without threads.
pub fn solve(scene: &Scene, accuracy: Accuracy) -> Solution {
    serial::run(scene, accuracy)
}

/// The light of a scene, by objects on the present machine.
pub async fn solve_on(scene: Arc<Scene>, accuracy: Accuracy, progress: Arc<Progress>) -> Solution {
    chanter::run(scene, accuracy, progress).await.expect("surfaces live as long as their world")
}

/// A scene, and how accurate its light is to be.
#[derive(Debug)]
pub struct Input {
    /// The scene.
    pub scene: Arc<Scene>,
    /// How accurately.
    pub accuracy: Accuracy,
}

/// The program.
#[derive(Debug)]
pub struct Radiosity;

impl Program for Radiosity {
    const NAME: &'static str = "radiosity";
    const ABOUT: &'static str = "light in a room, an object for each surface";
    const FORMS: &'static [Form] = &[Form::Serial, Form::Rayon, Form::Objects];
    type Input = Input;
    type Answer = Solution;

    fn input(size: Size) -> Input {
        let accuracy = match size {
            Size::Quick => Accuracy { part: 1e-2, smallest: 4_000.0, rounds: 2, bounces: 4 },
            Size::Paper | Size::Grain => Accuracy { part: 1e-4, smallest: 30.0, rounds: 4, bounces: 8 },
        };
        Input { scene: Arc::new(Scene::cornell()), accuracy }
    }

    fn serial(input: &Input) -> Solution {
        serial::run(&input.scene, input.accuracy)
    }

    fn rayon(input: &Input) -> Solution {
        rayon::run(&input.scene, input.accuracy)
    }

    async fn threads(input: Arc<Input>, _: Form) -> Done<Solution> {
        let solution = solve_on(Arc::clone(&input.scene), input.accuracy, Arc::default());
        Done::new(solution.await)
    }

    fn check(size: Size, input: &Input, answer: &Solution) -> Result<(), Failure> {
        check(&input.scene, answer, if size == Size::Quick { 0.1 } else { 0.02 })
    }
}

/// Checks two properties that any solution has: reciprocity, and that no light is lost by more than a part.
///
/// # Errors
/// [`Failure::Wrong`].
pub fn check(scene: &Scene, solution: &Solution, most: f64) -> Result<(), Failure> {
    let (worst, pairs) = solution.reciprocity();
    let is_mutual = worst < 1e-9 && (pairs > 0 || scene.surfaces() < 2);
    ensure(&format!("whether {pairs} pairs of links that differ by {worst} are mutual"), &is_mutual, &true)?;
    let (exchange, balance) = (solution.exchange(), solution.balance(scene));
    ensure(&format!("whether exchanges that differ by {exchange} are mutual"), &(exchange < most), &true)?;
    ensure(&format!("whether {balance:?} is balanced"), &(balance.error() < most), &true)
}

#[cfg(test)]
mod tests;
