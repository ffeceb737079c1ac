//! By hand: each half puts its numbers into a queue, six at a time; an OS thread for a half while there are some left.

use std::collections::VecDeque;
use std::thread;

use super::{EACH, PIECE, merged};

/// A message: a few of a half's numbers.
struct Few {
    count: u32,
    numbers: [u32; EACH],
}

pub(super) fn sorted(mut numbers: Vec<u32>, threads: usize) -> Vec<u32> {
    if numbers.len() <= PIECE {
        numbers.sort_unstable();
        return numbers;
    }
    let other = numbers.split_off(numbers.len() / 2);
    let [one, other] = if threads > 1 {
        let there = threads / 2;
        thread::scope(|scope| {
            let there = scope.spawn(move || half(other, there));
            let one = half(numbers, threads - threads / 2);
            [one, there.join().expect("a half is sorted")]
        })
    } else {
        [numbers, other].map(|numbers| half(numbers, 1))
    };
    merged(&whole(one), &whole(other))
}

fn half(numbers: Vec<u32>, threads: usize) -> VecDeque<Few> {
    let numbers = sorted(numbers, threads);
    let few = |few: &[u32]| {
        let mut numbers = [0; EACH];
        numbers[..few.len()].copy_from_slice(few);
        Few { count: few.len() as u32, numbers }
    };
    let mut queue = VecDeque::new();
    numbers.chunks(EACH).for_each(|numbers| queue.push_back(few(numbers)));
    queue
}

fn whole(mut from: VecDeque<Few>) -> Vec<u32> {
    let mut numbers = Vec::with_capacity(from.len() * EACH);
    while let Some(few) = from.pop_front() {
        numbers.extend_from_slice(&few.numbers[..few.count as usize]);
    }
    numbers
}
