//! One body after the other.

use super::{Body, Mass, Space, Tree};

pub(super) fn run(bodies: &[Body], steps: usize) -> Vec<Body> {
    let mut bodies = bodies.to_vec();
    for _ in 0..steps {
        let tree = tree(&bodies);
        bodies.iter_mut().for_each(|body| *body = body.moved(&tree));
    }
    bodies
}

pub(super) fn tree(bodies: &[Body]) -> Tree {
    let mut all: Vec<_> = bodies.iter().map(Mass::of).collect();
    Tree::of(Space::around(&all), &mut all)
}
