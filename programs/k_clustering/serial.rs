//! One block after the other.

use super::{Clusters, Nearest, Point, Points, Sum};

pub(super) fn cluster(points: &Points) -> Clusters {
    let mut clusters = points.begin();
    for _ in 0..points.rounds {
        let mut sums = vec![Sum::default(); points.clusters];
        for block in &points.blocks {
            let mut nearest = Nearest::new(block.len());
            // Point by point: what is nearest so far stays in registers.
            for (at, point) in block.iter().enumerate() {
                (nearest.distances[at], nearest.clusters[at]) = find(*point, &clusters.centres);
            }
            nearest.add_to(&mut sums, block);
        }
        clusters.advance(&sums);
    }
    clusters
}

fn find(point: Point, centres: &[Point]) -> (f64, u64) {
    let mut nearest = (f64::INFINITY, 0);
    for (cluster, centre) in (0..).zip(centres) {
        let distance = point.distance(*centre);
        if distance < nearest.0 {
            nearest = (distance, cluster);
        }
    }
    nearest
}
