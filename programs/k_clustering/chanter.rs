//! A server for each stage.

use std::sync::Arc;

use chanter::prelude::*;

use super::{Block, Clusters, Nearest, Point, Points, Sum};
use crate::kit::Style;

/// A block on its way, and the facts about it.
struct Travelling {
    block: Arc<Block>,
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
    for (cluster, centre) in (0..).zip(centres.iter().copied()) {
        let (tx, rx) = channel();
        let before = std::mem::replace(&mut last, rx);
        spawn(async move {
            for _ in 0..blocks {
                let mut here: Travelling = before.recv().await.expect("the stage before sends each block");
                here.nearest.compare(&here.block, cluster, &[centre]);
                S::send(&tx, here).await;
            }
        });
    }
    let all = points.blocks.clone();
    spawn(async move {
        for block in all {
            let nearest = Nearest::new(&block);
            S::send(&source, Travelling { block, nearest }).await;
        }
    });
    let mut sums = vec![Sum::default(); centres.len()];
    for _ in 0..blocks {
        let here = last.recv().await.expect("the last stage sends each block");
        here.nearest.add_to(&mut sums, &here.block);
    }
    sums
}
