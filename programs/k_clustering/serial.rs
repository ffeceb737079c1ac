//! Without threads: as fast as it goes, and in the threads' own steps.

use super::{Block, Clusters, Nearest, Point, Points, Sum};

/// All centres for a few points, and then for the next.
pub(super) fn cluster(points: &Points) -> Clusters {
    by_rounds(points, |nearest, block, centres| nearest.compare(block, 0, centres))
}

/// One centre for all points of a block, and then the next, as the stages do it.
pub(super) fn cluster_by_stages(points: &Points) -> Clusters {
    by_rounds(points, |nearest, block, centres| {
        for (cluster, centre) in (0..).zip(centres) {
            nearest.compare(block, cluster, std::slice::from_ref(centre));
        }
    })
}

fn by_rounds(points: &Points, compare: impl Fn(&mut Nearest, &Block, &[Point])) -> Clusters {
    let mut clusters = points.begin();
    for _ in 0..points.rounds {
        let mut sums = vec![Sum::default(); points.clusters];
        for block in &points.blocks {
            let mut nearest = Nearest::new(block);
            compare(&mut nearest, block, &clusters.centres);
            nearest.add_to(&mut sums, block);
        }
        clusters.advance(&sums);
    }
    clusters
}
