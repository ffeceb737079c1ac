//! A host for each graph, an implicit thread for each part of its search.

use std::sync::Arc;

use chanter::prelude::*;

use super::{Graph, PARTS};
use crate::kit::{Style, collect};

pub(super) async fn count<S: Style>(graphs: &[Arc<Graph>]) -> Vec<u64> {
    let (tx, rx) = channel();
    for (index, graph) in graphs.iter().enumerate() {
        let (graph, tx) = (Arc::clone(graph), tx.clone());
        spawn(async move {
            let number = symmetries::<S>(graph).await;
            S::send(&tx, (index, number)).await;
        });
    }
    let mut numbers = collect(&rx, graphs.len()).await;
    numbers.sort_unstable();
    numbers.into_iter().map(|(_, number)| number).collect()
}

async fn symmetries<S: Style>(graph: Arc<Graph>) -> u64 {
    let (tx, rx) = channel();
    for part in 0..PARTS {
        let (graph, tx) = (Arc::clone(&graph), tx.clone());
        S::start(async move {
            let number = graph.symmetries((part..graph.nodes()).step_by(PARTS));
            S::send(&tx, number).await;
        });
    }
    collect(&rx, PARTS).await.into_iter().sum()
}
