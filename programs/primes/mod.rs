//! The first primes, by a chain of futures; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Size, ensure};

/// Primes that each future adds to the list.
const EACH: usize = 2;

/// Adds the next prime, given those below it.
fn extend(primes: &mut Vec<u32>) {
    let mut candidate = match primes.last() {
        None => 2,
        Some(2) => 3,
        Some(last) => last + 2,
    };
    while !is_next(candidate, primes) {
        candidate += 2;
    }
    primes.push(candidate);
}

fn is_next(candidate: u32, primes: &[u32]) -> bool {
    primes
        .iter()
        .take_while(|&&prime| prime * prime <= candidate)
        .all(|prime| !candidate.is_multiple_of(*prime))
}

/// The program.
#[derive(Debug)]
pub struct Primes;

impl Program for Primes {
    const NAME: &'static str = "primes";
    const ABOUT: &'static str = "the first primes, by a chain of futures";
    const FORMS: &'static [Form] =
        &[Form::Serial, Form::SerialSame, Form::Synchronous, Form::Stolen, Form::Fibers];
    /// How many futures.
    type Input = usize;
    type Answer = Vec<u32>;

    fn input(size: Size) -> usize {
        match size {
            Size::Quick => 60 / EACH,
            Size::Paper | Size::Grain => 3000 / EACH,
        }
    }

    fn serial(futures: &usize) -> Vec<u32> {
        serial::primes(*futures)
    }

    fn serial_same(futures: &usize) -> Vec<u32> {
        serial::primes_by_division(*futures)
    }

    async fn threads(futures: Arc<usize>, form: Form) -> Done<Vec<u32>> {
        match form {
            Form::Fibers => chanter::primes_on_fibers(*futures).await,
            _ => chanter::primes(*futures, form == Form::Stolen).await,
        }
    }

    fn check(size: Size, futures: &usize, answer: &Vec<u32>) -> Result<(), Failure> {
        ensure("how many primes", &answer.len(), &(futures * EACH))?;
        let last = match size {
            Size::Quick => 281,
            Size::Paper | Size::Grain => 27_449,
        };
        ensure("the last prime", &answer.last(), &Some(&last))
    }
}
