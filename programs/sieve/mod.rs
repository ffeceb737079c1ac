//! The sieve of Eratosthenes, a thread for each stage; see the folder's `README.md`.

mod chanter;
pub(crate) mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size, Synchronous, ensure,
};

/// The numbers that are sieved: those from 2 to this one.
pub type Last = u32;

/// The program, for as many primes as one of the papers has.
#[derive(Debug)]
pub struct Sieve<const PRIMES: usize>;

/// As many as Featherweight Threads has.
pub type Sieve3000 = Sieve<3000>;

/// As many as Parallel Concurrent ML has.
pub type Sieve2000 = Sieve<2000>;

impl<const PRIMES: usize> Program for Sieve<PRIMES> {
    const NAME: &'static str = if PRIMES == 3000 { "sieve" } else { "sieve-2000" };
    const ABOUT: &'static str = "the sieve of Eratosthenes, a thread for each stage";
    /// The numbers must come in order. Messages that hosts send do not keep it.
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::SerialSame,
        Form::Synchronous,
        Form::AsynchronousParasites,
        Form::PaperParasites,
    ];
    type Input = Last;
    type Answer = Vec<u32>;

    fn input(size: Size) -> Last {
        match (size, PRIMES) {
            (Size::Quick, _) => 173,
            (Size::Paper | Size::Grain, 3000) => 27_449,
            (Size::Paper | Size::Grain, _) => 17_389,
        }
    }

    fn serial(last: &Last) -> Vec<u32> {
        serial::primes(*last)
    }

    fn serial_same(last: &Last) -> Vec<u32> {
        serial::primes_by_stages(*last)
    }

    async fn threads(last: Arc<Last>, form: Form) -> Done<Vec<u32>> {
        match form {
            Form::AsynchronousParasites => chanter::primes::<AsynchronousParasites>(*last).await,
            Form::PaperParasites => chanter::primes::<PaperParasites>(*last).await,
            _ => chanter::primes::<Synchronous>(*last).await,
        }
    }

    fn check(size: Size, last: &Last, answer: &Vec<u32>) -> Result<(), Failure> {
        let primes = if size == Size::Quick { 40 } else { PRIMES };
        ensure("how many primes", &answer.len(), &primes)?;
        ensure("the last prime", &answer.last(), &Some(last))
    }
}
