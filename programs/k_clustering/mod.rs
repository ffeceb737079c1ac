//! K-means, a server for each stage; see the folder's `README.md`.

mod by_hand;
mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Random, Size,
    Synchronous, ensure,
};

/// A place. Its numbers are whole and small: they are exact, and so are sums of them, and of squared distances, in
/// twice as many bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    x: f32,
    y: f32,
}

impl Point {
    /// The square of their distance.
    #[inline]
    fn distance(self, other: Self) -> f32 {
        let (x, y) = (self.x - other.x, self.y - other.y);
        x * x + y * y
    }
}

/// Points that are looked at together: their state fits the registers.
const LANES: usize = 8;

/// Points whose equal coordinates lie together, so that one instruction takes several.
#[derive(Clone, Copy, Debug)]
struct Group {
    xs: [f32; LANES],
    ys: [f32; LANES],
}

/// Points that travel together.
#[derive(Debug)]
struct Block(Box<[Group]>);

impl Block {
    /// A block of `groups * LANES` points.
    fn of(groups: usize, mut point: impl FnMut() -> Point) -> Self {
        let group = |_| {
            let points: [Point; LANES] = std::array::from_fn(|_| point());
            Group { xs: points.map(|point| point.x), ys: points.map(|point| point.y) }
        };
        Self((0..groups).map(group).collect())
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        self.0.iter().flat_map(|group| std::iter::zip(group.xs, group.ys)).map(|(x, y)| Point { x, y })
    }
}

/// The input.
#[derive(Debug)]
pub struct Points {
    blocks: Vec<Arc<Block>>,
    clusters: usize,
    rounds: usize,
}

/// Sums over the points of one cluster.
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
        let mut block = || Arc::new(Block::of(block / LANES, &mut point));
        Self { blocks: (0..blocks).map(|_| block()).collect(), clusters, rounds }
    }

    const fn somewhere(random: &mut Random, bound: u64) -> Point {
        Point { x: random.below(bound) as f32, y: random.below(bound) as f32 }
    }

    /// The first centres: points far apart in the list.
    fn begin(&self) -> Clusters {
        let all: Vec<Point> = self.blocks.iter().flat_map(|block| block.points()).collect();
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
                let mean = |of: f64| (of / sum.points).trunc() as f32;
                *centre = Point { x: mean(sum.x), y: mean(sum.y) };
            }
            *size = sum.points;
        }
        self.spreads.push(sums.iter().map(|sum| sum.spread).sum());
    }
}

/// State of a group so far: the nearest centre of each point, and its distance.
#[derive(Clone, Copy)]
struct Known {
    distances: [f32; LANES],
    clusters: [u32; LANES],
}

/// State of a block.
struct Nearest(Box<[Known]>);

impl Nearest {
    fn new(block: &Block) -> Self {
        let nothing = Known { distances: [f32::INFINITY; LANES], clusters: [0; LANES] };
        Self(vec![nothing; block.0.len()].into())
    }

    /// Compares each point with more centres, which are numbered from `first`: all of them for a group, and then for
    /// the next.
    fn compare(&mut self, block: &Block, first: u32, centres: &[Point]) {
        for (group, known) in block.0.iter().zip(&mut self.0) {
            let Known { mut distances, mut clusters } = *known;
            for (cluster, centre) in (first..).zip(centres) {
                for lane in 0..LANES {
                    let distance = Point { x: group.xs[lane], y: group.ys[lane] }.distance(*centre);
                    let is_nearer = distance < distances[lane];
                    // No branch: all lanes go the same way.
                    distances[lane] = if is_nearer { distance } else { distances[lane] };
                    clusters[lane] = if is_nearer { cluster } else { clusters[lane] };
                }
            }
            *known = Known { distances, clusters };
        }
    }

    fn add_to(&self, sums: &mut [Sum], block: &Block) {
        let known = self.0.iter().flat_map(|known| std::iter::zip(known.distances, known.clusters));
        for (point, (distance, cluster)) in block.points().zip(known) {
            let sum = &mut sums[cluster as usize];
            sum.points += 1.0;
            sum.x += f64::from(point.x);
            sum.y += f64::from(point.y);
            sum.spread += f64::from(distance);
        }
    }
}

/// The program.
#[derive(Debug)]
pub struct KClustering;

impl Program for KClustering {
    const NAME: &'static str = "k-clustering";
    const ABOUT: &'static str = "k-means, a server for each stage";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::SerialSame,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
        Form::ByHand,
    ];
    type Input = Points;
    type Answer = Clusters;

    fn input(size: Size) -> Points {
        match size {
            Size::Quick => Points::random(16, 32, 5, 4),
            Size::Paper | Size::Grain => Points::random(64, 256, 32, 24),
        }
    }

    fn serial(points: &Points) -> Clusters {
        serial::cluster(points)
    }

    fn serial_same(points: &Points) -> Clusters {
        serial::cluster_by_stages(points)
    }

    fn by_hand(points: &Points, threads: usize) -> Clusters {
        by_hand::cluster(points, threads)
    }

    async fn threads(points: Arc<Points>, form: Form) -> Done<Clusters> {
        let clusters = match form {
            Form::Synchronous => chanter::cluster::<Synchronous>(&points).await,
            Form::AsynchronousHosts => chanter::cluster::<AsynchronousHosts>(&points).await,
            Form::AsynchronousParasites => chanter::cluster::<AsynchronousParasites>(&points).await,
            _ => chanter::cluster::<PaperParasites>(&points).await,
        };
        Done::new(clusters).communications(points.communications())
    }

    fn check(_: Size, points: &Points, answer: &Clusters) -> Result<(), Failure> {
        let count: usize = points.blocks.iter().map(|block| block.0.len() * LANES).sum();
        ensure("the points of all clusters", &answer.sizes.iter().sum(), &(count as f64))?;
        let grows = answer.spreads.windows(2).find(|pair| pair[1] > pair[0] * (1.0 + 1e-6));
        ensure("a round that spreads them more", &grows, &None)
    }
}
