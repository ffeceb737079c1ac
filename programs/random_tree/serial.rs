//! One node after the other.

use super::{Below, Seedling, Tree};

pub(super) fn grow(seedling: Seedling) -> Tree {
    let (key, below) = seedling.grow();
    match below {
        Below::Nothing => Tree::leaf(key),
        Below::One(seedling) => Tree::with_one(key, grow(seedling)),
        Below::Two(left, right) => Tree::with_two(key, grow(left), grow(right)),
    }
}
