//! A thread for each branching.

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
