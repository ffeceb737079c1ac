//! The first primes, by a chain of futures; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Size, ensure};

/// Primes that each future adds to the list.
const EACH: usize = 2;

/// The search for primes: the input.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// How many futures.
    futures: usize,
    /// Each future looks through numbers of its own before it demands the list, so that futures work at the same time.
    apart: bool,
}

/// The first number that nobody looks through: the 3000th prime is just below.
const END: u32 = 27_450;

impl Search {
    /// Adds the primes of a future to the list, which `before` gives.
    fn extended(self, index: usize, found: Vec<u32>, mut primes: Vec<u32>) -> Vec<u32> {
        debug_assert!(self.apart || index * EACH == primes.len());
        primes.extend(found);
        if !self.apart {
            (0..EACH).for_each(|_| extend(&mut primes));
        }
        primes
    }

    /// The primes among a future's own numbers, if it has some. They are found by dividing each number by all numbers
    /// up to a third of it, which is as much work as in the paper.
    fn found_by(self, index: usize) -> Vec<u32> {
        if !self.apart {
            return Vec::new();
        }
        let from = |index: usize| END * index as u32 / self.futures as u32;
        (from(index).max(2)..from(index + 1)).filter(|&number| has_no_divisor(number)).collect()
    }
}

fn has_no_divisor(number: u32) -> bool {
    let odd = (3..=number / 3).step_by(2);
    number == 2 || !number.is_multiple_of(2) && !odd.into_iter().any(|divisor| number.is_multiple_of(divisor))
}

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
    type Input = Search;
    type Answer = Vec<u32>;

    fn input(size: Size) -> Search {
        match size {
            Size::Quick => Search { futures: 60 / EACH, apart: false },
            Size::Paper | Size::Grain => Search { futures: 3000 / EACH, apart: size == Size::Grain },
        }
    }

    fn serial(search: &Search) -> Vec<u32> {
        serial::primes(*search)
    }

    fn serial_same(search: &Search) -> Vec<u32> {
        serial::primes_by_division(*search)
    }

    async fn threads(search: Arc<Search>, form: Form) -> Done<Vec<u32>> {
        match form {
            Form::Fibers => chanter::primes_on_fibers(*search).await,
            _ => chanter::primes(*search, form == Form::Stolen).await,
        }
    }

    fn check(size: Size, search: &Search, answer: &Vec<u32>) -> Result<(), Failure> {
        ensure("how many primes", &answer.len(), &(search.futures * EACH))?;
        let last = match size {
            Size::Quick => 281,
            Size::Paper | Size::Grain => 27_449,
        };
        ensure("the last prime", &answer.last(), &Some(&last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    /// On one processor nobody else begins them, so each is stolen by the one after it.
    #[test]
    fn all_futures_but_the_last_are_stolen_whatever_their_grain() {
        for size in [Size::Paper, Size::Grain] {
            let program = Entry::of::<Primes>().prepare(size).unwrap();
            let run = program.run(&Load::new(Form::Stolen, 1)).unwrap();
            assert_eq!((run.stats.hosts_created, run.stats.stolen), (1501, 1500));
        }
    }

    /// See `docs/limits.md`.
    #[test]
    fn a_fiber_that_waits_for_the_next_one_has_a_stack_of_its_own() {
        let program = Entry::of::<Primes>().prepare(Size::Quick).unwrap();
        let run = program.run(&Load::new(Form::Fibers, 1)).unwrap();
        assert_eq!((run.at_once, run.stats.stacks_allocated, run.stats.stacks_reused), (31, 31, 0));
        // Futures take no stack.
        let run = program.run(&Load::new(Form::Stolen, 1)).unwrap();
        assert_eq!((run.at_once, run.stats.stacks_allocated), (31, 0));
    }
}
