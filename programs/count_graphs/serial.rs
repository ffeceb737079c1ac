//! One graph after the other.

use std::sync::Arc;

use super::Graph;

pub(super) fn count(graphs: &[Arc<Graph>]) -> Vec<u64> {
    graphs.iter().map(|graph| graph.symmetries(0..graph.nodes())).collect()
}
