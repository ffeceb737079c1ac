//! A thread for each branching; or a fiber.

use std::future::Future;
use std::pin::Pin;

use chanter::prelude::*;

use super::{Below, Seedling, Tree};

pub(super) fn grow(seedling: Seedling, delayed: bool) -> Pin<Box<dyn Future<Output = Tree> + Send>> {
    Box::pin(async move {
        let (key, below) = seedling.grow();
        match below {
            Below::Nothing => Tree::leaf(key),
            Below::One(seedling) => Tree::with_one(key, grow(seedling, delayed).await),
            Below::Two(left, right) => {
                let left = grow(left, delayed);
                let left = if delayed { delay(left) } else { spawn(left) };
                let right = grow(right, delayed).await;
                let left = left.await.expect("a thread that grows a tree has one");
                Tree::with_two(key, left, right)
            }
        }
    })
}

/// The same on fibers, the caller one of them.
pub(super) fn grow_on_fibers(seedling: Seedling) -> Tree {
    let (key, below) = seedling.grow();
    match below {
        Below::Nothing => Tree::leaf(key),
        Below::One(seedling) => Tree::with_one(key, grow_on_fibers(seedling)),
        Below::Two(left, right) => {
            let left = spawn_fiber(move || grow_on_fibers(left));
            let right = grow_on_fibers(right);
            let left = left.join().sync_blocking().expect("a fiber that grows a tree has one");
            Tree::with_two(key, left, right)
        }
    }
}
