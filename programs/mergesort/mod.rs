//! Merge sort, a thread for each half; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use chanter_peer_kit::work::merge;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, Program, Random, Size, Synchronous, ensure,
};

/// Pieces of so many numbers are sorted at once.
const PIECE: usize = 8;

/// The program.
#[derive(Debug)]
pub struct Mergesort;

impl Program for Mergesort {
    const NAME: &'static str = "mergesort";
    const ABOUT: &'static str = "merge sort, a thread for each half";
    const FORMS: &'static [Form] = &Form::ALL;
    type Input = Vec<u32>;
    type Answer = Vec<u32>;

    fn input(size: Size) -> Vec<u32> {
        let count = match size {
            Size::Quick => 2000,
            Size::Paper => 1_000_000,
        };
        let mut random = Random::new(2010);
        (0..count).map(|_| random.next_u64() as u32).collect()
    }

    fn serial(numbers: &Vec<u32>) -> Vec<u32> {
        serial::sorted(numbers.clone())
    }

    fn serial_same(numbers: &Vec<u32>) -> Vec<u32> {
        serial::sorted_by_merging(numbers.clone())
    }

    async fn threads(numbers: Arc<Vec<u32>>, form: Form) -> Done<Vec<u32>> {
        let own = numbers.to_vec();
        let sorted = match form {
            Form::Synchronous => chanter::sorted::<Synchronous>(own).await,
            Form::AsynchronousHosts => chanter::sorted::<AsynchronousHosts>(own).await,
            Form::AsynchronousParasites => chanter::sorted::<AsynchronousParasites>(own).await,
            Form::Stolen => chanter::stolen(own).await,
            _ => return Done::new(chanter::forked(own)),
        };
        Done::new(sorted).communications(halves(numbers.len()))
    }

    fn check(_: Size, numbers: &Vec<u32>, answer: &Vec<u32>) -> Result<(), Failure> {
        let mut want = numbers.clone();
        want.sort_unstable();
        ensure("the sorted numbers", answer, &want)
    }
}

/// How many halves there are altogether.
fn halves(count: usize) -> u64 {
    if count <= PIECE { 0 } else { 2 + halves(count / 2) + halves(count - count / 2) }
}

/// Merges two sorted halves.
fn merged(one: &[u32], other: &[u32]) -> Vec<u32> {
    let mut both = vec![0; one.len() + other.len()];
    merge(one, other, &mut both);
    both
}
