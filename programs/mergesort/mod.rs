//! Merge sort, a thread for each half; see the folder's `README.md`.

mod by_hand;
mod chanter;
mod serial;

use std::sync::Arc;

use chanter_peer_kit::work::merge;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Random, Size,
    Synchronous, ensure,
};

/// Most numbers of a piece that is sorted at once.
const PIECE: usize = 16;

/// Numbers of a message.
const EACH: usize = 6;

/// The program.
#[derive(Debug)]
pub struct Mergesort;

impl Program for Mergesort {
    const NAME: &'static str = "mergesort";
    const ABOUT: &'static str = "merge sort, a thread for each half";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::SerialSame,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
        Form::Stolen,
        Form::Fibers,
        Form::Forked,
        Form::ByHand,
    ];
    type Input = Vec<u32>;
    type Answer = Vec<u32>;

    fn input(size: Size) -> Vec<u32> {
        let count = match size {
            Size::Quick => 2000,
            Size::Paper | Size::Grain => 1_000_000,
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

    fn by_hand(numbers: &Vec<u32>, threads: usize) -> Vec<u32> {
        by_hand::sorted(numbers.clone(), threads)
    }

    async fn threads(numbers: Arc<Vec<u32>>, form: Form) -> Done<Vec<u32>> {
        let own = numbers.to_vec();
        let sorted = match form {
            Form::Synchronous => chanter::sorted::<Synchronous>(own).await,
            Form::AsynchronousHosts => chanter::sorted::<AsynchronousHosts>(own).await,
            Form::AsynchronousParasites => chanter::sorted::<AsynchronousParasites>(own).await,
            Form::PaperParasites => chanter::sorted::<PaperParasites>(own).await,
            Form::Stolen => return Done::new(chanter::stolen(own).await),
            _ => return Done::new(chanter::forked(own)),
        };
        Done::new(sorted).communications(messages(numbers.len()))
    }

    fn check(_: Size, numbers: &Vec<u32>, answer: &Vec<u32>) -> Result<(), Failure> {
        let mut want = numbers.clone();
        want.sort_unstable();
        ensure("the sorted numbers", answer, &want)
    }
}

/// Messages that a thread receives that sorts this many numbers, and the threads below it.
fn messages(count: usize) -> u64 {
    if count <= PIECE {
        return 0;
    }
    let halves = [count / 2, count - count / 2];
    halves.iter().map(|&half| half.div_ceil(EACH) as u64 + messages(half)).sum()
}

/// Merges two sorted halves.
fn merged(one: &[u32], other: &[u32]) -> Vec<u32> {
    let mut both = vec![0; one.len() + other.len()];
    merge(one, other, &mut both);
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    /// In the paper's form each thread and each message is a parasite, so the runtime counts both.
    #[test]
    fn there_are_as_many_messages_as_are_counted() {
        let program = Entry::of::<Mergesort>().prepare(Size::Quick).unwrap();
        let run = program.run(&Load::new(Form::PaperParasites, 1)).unwrap();
        let halves = program.run(&Load::new(Form::Stolen, 1)).unwrap().stats.delayed;
        assert_eq!(halves, 254);
        assert_eq!(run.stats.parasites_created, halves + run.communications);
    }

    /// The paper has 2,698,766.
    #[test]
    fn a_million_numbers_take_as_many_messages_as_in_the_paper() {
        assert_eq!(messages(1_000_000), 2_732_888);
    }
}
