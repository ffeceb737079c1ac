//! One body after the other.

use super::{Body, Tree};

pub(super) fn run(bodies: &[Body], steps: usize) -> Vec<Body> {
    let mut bodies = bodies.to_vec();
    for _ in 0..steps {
        let tree = Tree::of(&bodies);
        bodies.iter_mut().for_each(|body| *body = body.moved(&tree));
    }
    bodies
}
