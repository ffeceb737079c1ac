//! Without threads: the standard library's sort, and merging halves.

use super::{PIECE, merge};

/// The standard library's sort, which merges nothing.
pub(super) fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}

/// The halves one after the other, in place, in two arrays.
pub(super) fn sorted_by_merging(mut numbers: Vec<u32>) -> Vec<u32> {
    let mut spare = numbers.clone();
    sort(&mut numbers, &mut spare);
    numbers
}

/// Sorts `numbers`; `spare` has as many places, and the same numbers.
fn sort(numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() <= PIECE {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (left, right) = spare.split_at_mut(middle);
    let (to_left, to_right) = numbers.split_at_mut(middle);
    sort(left, to_left);
    sort(right, to_right);
    merge(left, right, numbers);
}
