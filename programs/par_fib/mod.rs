//! Fibonacci numbers, a thread for each call; see the folder's `README.md`.

pub(crate) mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size,
    Synchronous, ensure,
};

/// The program.
#[derive(Debug)]
pub struct ParFib;

impl Program for ParFib {
    const NAME: &'static str = "par-fib";
    const ABOUT: &'static str = "Fibonacci numbers, a thread for each call";
    const FORMS: &'static [Form] = &Form::WITHOUT_SAME;
    type Input = u64;
    type Answer = u64;

    fn input(size: Size) -> u64 {
        match size {
            Size::Quick => 15,
            Size::Paper | Size::Grain => 27,
        }
    }

    fn serial(n: &u64) -> u64 {
        serial::fib(std::hint::black_box(*n))
    }

    async fn threads(n: Arc<u64>, form: Form) -> Done<u64> {
        let n = *n;
        let value = match form {
            Form::Synchronous => chanter::call::<Synchronous>(n).await,
            Form::AsynchronousHosts => chanter::call::<AsynchronousHosts>(n).await,
            Form::AsynchronousParasites => chanter::call::<AsynchronousParasites>(n).await,
            Form::PaperParasites => chanter::call::<PaperParasites>(n).await,
            Form::Stolen => chanter::stolen(n).await,
            _ => chanter::forked(n),
        };
        let messages = if matches!(form, Form::Stolen | Form::Forked) { 0 } else { calls(n) - 1 };
        Done::new(value).communications(messages)
    }

    fn check(size: Size, _: &u64, answer: &u64) -> Result<(), Failure> {
        let want = match size {
            Size::Quick => 610,
            Size::Paper | Size::Grain => 196_418,
        };
        ensure("the number", answer, &want)
    }
}

/// How many calls it takes.
fn calls(n: u64) -> u64 {
    2 * serial::fib(n + 1) - 1
}
