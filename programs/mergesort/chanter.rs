//! A thread for each half.

use std::future::Future;

use chanter::prelude::*;

use super::{EACH, PIECE, merged};
use crate::kit::Style;
use crate::peers::chanter::merge;

/// A message: a few of a half's numbers, and where among them they stand. (Hosts' messages may overtake each other.)
struct Few {
    at: u32,
    count: u32,
    numbers: [u32; EACH],
}

impl Few {
    fn new(at: usize, few: &[u32]) -> Self {
        let mut numbers = [0; EACH];
        numbers[..few.len()].copy_from_slice(few);
        Self { at: at as u32, count: few.len() as u32, numbers }
    }
}

/// The halves are threads that send their numbers, sorted, a few at a time.
pub(super) fn sorted<S: Style>(mut numbers: Vec<u32>) -> impl Future<Output = Vec<u32>> + Send {
    async move {
        if numbers.len() <= PIECE {
            numbers.sort_unstable();
            return numbers;
        }
        let other = numbers.split_off(numbers.len() / 2);
        let counts = [numbers.len(), other.len()];
        let [one, other] = [numbers, other].map(half::<S>);
        merged(&whole(one, counts[0]).await, &whole(other, counts[1]).await)
    }
}

fn half<S: Style>(numbers: Vec<u32>) -> Receiver<Few> {
    let (to, from) = channel();
    S::start(async move {
        let numbers = sorted::<S>(numbers).await;
        for (index, few) in numbers.chunks(EACH).enumerate() {
            S::send(&to, Few::new(index * EACH, few)).await;
        }
    });
    from
}

async fn whole(from: Receiver<Few>, count: usize) -> Vec<u32> {
    let mut numbers = vec![0; count];
    for _ in 0..count.div_ceil(EACH) {
        let few = from.recv().await.expect("a half sends all its numbers");
        let count = few.count as usize;
        numbers[few.at as usize..][..count].copy_from_slice(&few.numbers[..count]);
    }
    numbers
}

/// The halves are delayed threads.
pub(super) fn stolen(mut numbers: Vec<u32>) -> impl Future<Output = Vec<u32>> + Send {
    async move {
        if numbers.len() <= PIECE {
            numbers.sort_unstable();
            return numbers;
        }
        let other = numbers.split_off(numbers.len() / 2);
        let (one, other) = (delay(stolen(numbers)), delay(stolen(other)));
        merged(&value(one).await, &value(other).await)
    }
}

async fn value(half: Thread<Vec<u32>>) -> Vec<u32> {
    half.await.expect("a half is sorted")
}

/// The halves are forks, in place.
pub(super) fn forked(mut numbers: Vec<u32>) -> Vec<u32> {
    let mut spare = numbers.clone();
    sort(&mut numbers, &mut spare);
    numbers
}

fn sort(numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() <= PIECE {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (left, right) = spare.split_at_mut(middle);
    let (to_left, to_right) = numbers.split_at_mut(middle);
    fork_join(|| sort(left, to_left), || sort(right, to_right));
    merge((left, right, numbers));
}
