//! K-means, a server for each stage; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, Program, Random, Size, Synchronous, ensure,
};

/// A place. Its numbers are whole, and so small that all sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    x: f64,
    y: f64,
}

impl Point {
    /// The square of their distance.
    fn distance(self, other: Self) -> f64 {
        let (x, y) = (self.x - other.x, self.y - other.y);
        x * x + y * y
    }
}

/// What is to be divided.
#[derive(Debug)]
pub struct Points {
    blocks: Vec<Arc<[Point]>>,
    clusters: usize,
    rounds: usize,
}

/// What is known of the points of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    points: f64,
    x: f64,
    y: f64,
    /// Squared distances from the centre.
    spread: f64,
}

/// The end of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    centres: Vec<Point>,
    sizes: Vec<f64>,
    /// The sum of squared distances, in each round so far.
    spreads: Vec<f64>,
}

impl Points {
    /// Points around as many places as there are clusters.
    fn random(blocks: usize, block: usize, clusters: usize, rounds: usize) -> Self {
        let mut random = Random::new(2012);
        let places: Vec<_> = (0..clusters).map(|_| Self::somewhere(&mut random, 100_000)).collect();
        let mut point = || {
            let place = places[random.below(clusters as u64) as usize];
            let off = Self::somewhere(&mut random, 6_000);
            Point { x: place.x + off.x - 3_000.0, y: place.y + off.y - 3_000.0 }
        };
        let blocks = (0..blocks).map(|_| (0..block).map(|_| point()).collect()).collect();
        Self { blocks, clusters, rounds }
    }

    const fn somewhere(random: &mut Random, bound: u64) -> Point {
        Point { x: random.below(bound) as f64, y: random.below(bound) as f64 }
    }

    /// The first centres: points far apart in the list.
    fn begin(&self) -> Clusters {
        let all: Vec<Point> = self.blocks.iter().flat_map(|block| block.iter().copied()).collect();
        let step = all.len() / self.clusters;
        let centres = all.into_iter().step_by(step).take(self.clusters).collect();
        Clusters { centres, sizes: vec![0.0; self.clusters], spreads: Vec::new() }
    }

    /// A message for each block and stage, and one more for each block.
    fn communications(&self) -> u64 {
        (self.rounds * self.blocks.len() * (self.clusters + 1)) as u64
    }
}

impl Clusters {
    /// A round is over.
    fn advance(&mut self, sums: &[Sum]) {
        for ((centre, size), sum) in self.centres.iter_mut().zip(&mut self.sizes).zip(sums) {
            if sum.points > 0.0 {
                *centre = Point { x: (sum.x / sum.points).trunc(), y: (sum.y / sum.points).trunc() };
            }
            *size = sum.points;
        }
        self.spreads.push(sums.iter().map(|sum| sum.spread).sum());
    }
}

/// What is known of a block of points so far: how far the nearest centre is from each, and which it is.
struct Nearest {
    distances: Box<[f64]>,
    clusters: Box<[u64]>,
}

impl Nearest {
    fn new(points: usize) -> Self {
        Self { distances: vec![f64::INFINITY; points].into(), clusters: vec![0; points].into() }
    }

    /// Compares each point with one more centre.
    fn compare(&mut self, points: &[Point], cluster: usize, centre: Point) {
        for ((point, nearest), of) in points.iter().zip(&mut self.distances).zip(&mut self.clusters) {
            let distance = point.distance(centre);
            if distance < *nearest {
                (*nearest, *of) = (distance, cluster as u64);
            }
        }
    }

    fn add_to(&self, sums: &mut [Sum], points: &[Point]) {
        for ((point, distance), cluster) in points.iter().zip(&self.distances).zip(&self.clusters) {
            let sum = &mut sums[*cluster as usize];
            sum.points += 1.0;
            sum.x += point.x;
            sum.y += point.y;
            sum.spread += distance;
        }
    }
}

/// The program.
#[derive(Debug)]
pub struct KClustering;

impl Program for KClustering {
    const NAME: &'static str = "k-clustering";
    const ABOUT: &'static str = "k-means, a server for each stage";
    const FORMS: &'static [Form] =
        &[Form::Serial, Form::Synchronous, Form::AsynchronousHosts, Form::AsynchronousParasites];
    type Input = Points;
    type Answer = Clusters;

    fn input(size: Size) -> Points {
        match size {
            Size::Quick => Points::random(16, 32, 5, 4),
            Size::Paper => Points::random(64, 256, 32, 24),
        }
    }

    fn serial(points: &Points) -> Clusters {
        serial::cluster(points)
    }

    async fn threads(points: Arc<Points>, form: Form) -> Done<Clusters> {
        let clusters = match form {
            Form::Synchronous => chanter::cluster::<Synchronous>(&points).await,
            Form::AsynchronousHosts => chanter::cluster::<AsynchronousHosts>(&points).await,
            _ => chanter::cluster::<AsynchronousParasites>(&points).await,
        };
        Done::new(clusters).communications(points.communications())
    }

    fn check(_: Size, points: &Points, answer: &Clusters) -> Result<(), Failure> {
        let count: usize = points.blocks.iter().map(|block| block.len()).sum();
        ensure("the points of all clusters", &answer.sizes.iter().sum(), &(count as f64))?;
        let grows = answer.spreads.windows(2).find(|pair| pair[1] > pair[0] * (1.0 + 1e-6));
        ensure("a round that spreads them more", &grows, &None)
    }
}
