//! A server for each stage.

use std::sync::Arc;

use chanter::prelude::*;

use super::{Clusters, Nearest, Point, Points, Sum};
use crate::kit::Style;

/// A block on its way.
struct Block {
    points: Arc<[Point]>,
    nearest: Nearest,
}

pub(super) async fn cluster<S: Style>(points: &Points) -> Clusters {
    let mut clusters = points.begin();
    for _ in 0..points.rounds {
        let sums = round::<S>(points, &clusters.centres).await;
        clusters.advance(&sums);
    }
    clusters
}

async fn round<S: Style>(points: &Points, centres: &[Point]) -> Vec<Sum> {
    let blocks = points.blocks.len();
    let (source, mut last) = channel();
    for (cluster, centre) in centres.iter().copied().enumerate() {
        let (tx, rx) = channel();
        let before = std::mem::replace(&mut last, rx);
        spawn(async move {
            for _ in 0..blocks {
                let mut block: Block = before.recv().await.expect("the stage before sends each block");
                block.nearest.compare(&block.points, cluster, centre);
                S::send(&tx, block).await;
            }
        });
    }
    let all = points.blocks.clone();
    spawn(async move {
        for points in all {
            let nearest = Nearest::new(points.len());
            S::send(&source, Block { points, nearest }).await;
        }
    });
    let mut sums = vec![Sum::default(); centres.len()];
    for _ in 0..blocks {
        let block = last.recv().await.expect("the last stage sends each block");
        block.nearest.add_to(&mut sums, &block.points);
    }
    sums
}
