//! A thread for each body and step.

use std::sync::Arc;

use chanter::prelude::*;

use super::{Body, Tree};
use crate::kit::Style;

pub(super) async fn run<S: Style>(bodies: &[Body], steps: usize) -> Vec<Body> {
    let mut bodies = bodies.to_vec();
    let (tx, rx) = channel();
    for _ in 0..steps {
        let tree = Arc::new(Tree::of(&bodies));
        for (index, body) in bodies.iter().copied().enumerate() {
            let (tree, tx) = (Arc::clone(&tree), tx.clone());
            spawn(async move { S::send(&tx, (index, body.moved(&tree))).await });
        }
        for _ in 0..bodies.len() {
            let (index, body) = rx.recv().await.expect("each body is sent");
            bodies[index] = body;
        }
    }
    bodies
}
