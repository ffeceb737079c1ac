//! A thread for each half.

use std::future::Future;

use chanter::prelude::*;

use super::{PIECE, merged};
use crate::kit::{Style, answer, answers};
use crate::peers::chanter::merge;

/// The halves are threads that answer over channels.
pub(super) fn sorted<S: Style>(mut numbers: Vec<u32>) -> impl Future<Output = Vec<u32>> + Send {
    async move {
        if numbers.len() <= PIECE {
            numbers.sort_unstable();
            return numbers;
        }
        let other = numbers.split_off(numbers.len() / 2);
        let one = answers::<S, _>(move || sorted::<S>(numbers));
        let other = answers::<S, _>(move || sorted::<S>(other));
        merged(&answer(one).await, &answer(other).await)
    }
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
