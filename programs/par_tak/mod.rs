//! Takeuchi's function, a thread for each call; see the folder's `README.md`.

pub(crate) mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size,
    Synchronous, ensure,
};

/// The arguments.
pub type Arguments = [i64; 3];

/// The program.
#[derive(Debug)]
pub struct ParTak;

impl Program for ParTak {
    const NAME: &'static str = "par-tak";
    const ABOUT: &'static str = "Takeuchi's function, a thread for each call";
    const FORMS: &'static [Form] = &Form::WITHOUT_SAME;
    type Input = Arguments;
    type Answer = i64;

    fn input(size: Size) -> Arguments {
        match size {
            Size::Quick => [10, 6, 2],
            Size::Paper | Size::Grain => [20, 5, 0],
        }
    }

    fn serial(input: &Arguments) -> i64 {
        serial::tak(std::hint::black_box(*input))
    }

    async fn threads(input: Arc<Arguments>, form: Form) -> Done<i64> {
        let arguments = *input;
        let value = match form {
            Form::Synchronous => chanter::call::<Synchronous>(arguments).await,
            Form::AsynchronousHosts => chanter::call::<AsynchronousHosts>(arguments).await,
            Form::AsynchronousParasites => chanter::call::<AsynchronousParasites>(arguments).await,
            Form::PaperParasites => chanter::call::<PaperParasites>(arguments).await,
            Form::Stolen => chanter::stolen(arguments).await,
            _ => return Done::new(chanter::forked(arguments)),
        };
        let (_, calls) = serial::counted(arguments);
        Done::new(value).communications(calls - 1)
    }

    fn check(size: Size, input: &Arguments, answer: &i64) -> Result<(), Failure> {
        let (want, calls) = match size {
            Size::Quick => (3, 1733),
            Size::Paper | Size::Grain => (5, 297_361),
        };
        ensure("how many calls", &serial::counted(*input).1, &calls)?;
        ensure("the value", answer, &want)
    }
}

/// The arguments of the three calls that a call begins with; `None`: it makes none.
fn inner([x, y, z]: Arguments) -> Option<[Arguments; 3]> {
    (y < x).then_some([[x - 1, y, z], [y - 1, z, x], [z - 1, x, y]])
}
