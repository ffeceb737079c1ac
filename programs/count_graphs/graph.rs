//! Graphs, and the search for their symmetries.

use crate::kit::Random;

/// A graph of at most 32 nodes: the neighbours of each as bits.
#[derive(Clone, Debug)]
pub struct Graph {
    neighbours: Vec<u32>,
    /// How many symmetries it has, if that is known.
    pub(super) known: Option<u64>,
}

impl Graph {
    fn new(nodes: usize, known: Option<u64>, edges: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut neighbours = vec![0; nodes];
        for (one, other) in edges {
            neighbours[one] |= 1 << other;
            neighbours[other] |= 1 << one;
        }
        Self { neighbours, known }
    }

    fn cycle(nodes: usize) -> Self {
        Self::new(nodes, Some(2 * nodes as u64), (0..nodes).map(|at| (at, (at + 1) % nodes)))
    }

    fn path(nodes: usize) -> Self {
        Self::new(nodes, Some(2), (1..nodes).map(|at| (at - 1, at)))
    }

    fn complete(nodes: usize) -> Self {
        let edges = (0..nodes).flat_map(|one| (0..one).map(move |other| (one, other)));
        Self::new(nodes, Some(factorial(nodes)), edges)
    }

    fn bipartite(side: usize) -> Self {
        let edges = (0..side).flat_map(|one| (0..side).map(move |other| (one, side + other)));
        Self::new(2 * side, Some(2 * factorial(side) * factorial(side)), edges)
    }

    /// A cycle, and a hub that all its nodes are joined to.
    fn wheel(spokes: usize) -> Self {
        let rim = (0..spokes).map(|at| (at, (at + 1) % spokes));
        let edges = rim.chain((0..spokes).map(|at| (at, spokes)));
        Self::new(spokes + 1, Some(2 * spokes as u64), edges)
    }

    fn cube(dimensions: usize) -> Self {
        let nodes = 1 << dimensions;
        let edges = (0..nodes).flat_map(|at| (0..dimensions).map(move |bit| (at, at ^ (1 << bit))));
        Self::new(nodes, Some(factorial(dimensions) << dimensions), edges)
    }

    fn petersen() -> Self {
        let edges = (0..5).flat_map(|at| [(at, (at + 1) % 5), (at, at + 5), (at + 5, (at + 2) % 5 + 5)]);
        Self::new(10, Some(120), edges)
    }

    fn random(nodes: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pairs = (0..nodes).flat_map(|one| (0..one).map(move |other| (one, other)));
        let edges: Vec<_> = pairs.filter(|_| random.below(2) == 0).collect();
        Self::new(nodes, None, edges)
    }

    /// The set, as many as are wanted.
    pub(super) fn set(count: usize) -> Vec<Self> {
        let all = (0..).map(|at: usize| {
            let grown = at / 8 % 4;
            match at % 8 {
                0 => Self::cycle(10 + 4 * grown),
                1 => Self::path(10 + 4 * grown),
                2 => Self::complete(5 + grown),
                3 => Self::bipartite(3 + grown % 3),
                4 => Self::wheel(9 + 4 * grown),
                5 => Self::cube(2 + grown % 3),
                6 => Self::petersen(),
                _ => Self::random(12 + 4 * grown, at as u64),
            }
        });
        all.take(count).collect()
    }

    pub(super) fn nodes(&self) -> usize {
        self.neighbours.len()
    }

    /// The symmetries that take the first node to one of `images`.
    pub(super) fn symmetries(&self, images: impl Iterator<Item = usize>) -> u64 {
        let mut taken = vec![0; self.nodes()];
        images.map(|image| self.extend(&mut taken, 0, 0, image)).sum()
    }

    /// The symmetries that take the first `node` nodes to those in `taken`, and `node` to `image`.
    fn extend(&self, taken: &mut [usize], used: u32, node: usize, image: usize) -> u64 {
        if used & (1 << image) != 0 || !self.agree(taken, node, image) {
            return 0;
        }
        taken[node] = image;
        if node + 1 == self.nodes() {
            return 1;
        }
        let used = used | 1 << image;
        (0..self.nodes()).map(|next| self.extend(taken, used, node + 1, next)).sum()
    }

    /// Whether `image` is joined to the images of just those that `node` is joined to.
    fn agree(&self, taken: &[usize], node: usize, image: usize) -> bool {
        let (here, there) = (self.neighbours[node], self.neighbours[image]);
        here.count_ones() == there.count_ones()
            && (0..node).all(|before| (here >> before) & 1 == (there >> taken[before]) & 1)
    }
}

fn factorial(n: usize) -> u64 {
    (1..=n as u64).product()
}
