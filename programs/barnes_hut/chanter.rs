//! A thread for each large part of the tree, and for each body and step.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use chanter::prelude::*;

use super::{Body, Mass, Space, Tree};
use crate::kit::{Done, Style};

/// Parts of a tree, and how many messages brought them.
type Grown = (Tree, u64);

pub(super) async fn run<S: Style>(bodies: &[Body], steps: usize) -> Done<Vec<Body>> {
    let mut bodies = bodies.to_vec();
    let mut messages = 0;
    let (tx, rx) = channel();
    for _ in 0..steps {
        let all: Vec<_> = bodies.iter().map(Mass::of).collect();
        let (space, share) = (Space::around(&all), bodies.len() / 4);
        let (tree, more) = grow::<S>(space, all, share).await;
        messages += more + bodies.len() as u64;
        let tree = Arc::new(tree);
        for (index, body) in bodies.iter().copied().enumerate() {
            let (tree, tx) = (Arc::clone(&tree), tx.clone());
            spawn(async move { S::send(&tx, (index, body.moved(&tree))).await });
        }
        for _ in 0..bodies.len() {
            let (index, body) = rx.recv().await.expect("each body is sent");
            bodies[index] = body;
        }
    }
    Done::new(bodies).communications(messages)
}

/// The tree of a cube; each part of one that has more than `share` bodies is a thread's.
fn grow<S: Style>(
    space: Space,
    mut bodies: Vec<Mass>,
    share: usize,
) -> Pin<Box<dyn Future<Output = Grown> + Send>> {
    Box::pin(async move {
        if bodies.len() <= share {
            return (Tree::of(space, &mut bodies), 0);
        }
        let Some(parts) = space.divide(&mut bodies) else { return (Tree::of(space, &mut bodies), 0) };
        let (tx, rx) = channel();
        let mut begun = 0;
        for (index, (space, bodies)) in parts.into_iter().enumerate() {
            if !bodies.is_empty() {
                let (tx, bodies) = (tx.clone(), bodies.to_vec());
                begun += 1;
                spawn(async move {
                    let grown = grow::<S>(space, bodies, share).await;
                    S::send(&tx, (index, grown)).await;
                });
            }
        }
        let mut parts: [Tree; 8] = Default::default();
        let mut messages = begun;
        for _ in 0..begun {
            let (index, (part, more)) = rx.recv().await.expect("each part is sent");
            parts[index] = part;
            messages += more;
        }
        (Tree::join(space, parts), messages)
    })
}
