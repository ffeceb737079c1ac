//! The product of two matrices, a thread for each row; see the folder's `README.md`.

mod by_hand;
mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size, Synchronous,
};
use crate::matrix_elements::{Factors, Matrix};

/// The program.
#[derive(Debug)]
pub struct MatrixRows;

impl Program for MatrixRows {
    const NAME: &'static str = "matrix-rows";
    const ABOUT: &'static str = "matrix multiply, a thread for each row and a message for each element";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
        Form::Forked,
        Form::ByHand,
    ];
    type Input = Factors;
    type Answer = Matrix;

    fn input(size: Size) -> Factors {
        match size {
            Size::Quick => Factors::random(20),
            Size::Paper | Size::Grain => Factors::random(500),
        }
    }

    fn serial(factors: &Factors) -> Matrix {
        serial::product(factors)
    }

    fn by_hand(factors: &Factors, threads: usize) -> Matrix {
        by_hand::product(factors, threads)
    }

    async fn threads(factors: Arc<Factors>, form: Form) -> Done<Matrix> {
        let messages = (factors.side() * factors.side()) as u64;
        let product = match form {
            Form::AsynchronousHosts => chanter::product::<AsynchronousHosts>(factors).await,
            Form::AsynchronousParasites => chanter::product::<AsynchronousParasites>(factors).await,
            Form::PaperParasites => chanter::product::<PaperParasites>(factors).await,
            Form::Forked => return Done::new(chanter::forked(&factors)),
            _ => chanter::product::<Synchronous>(factors).await,
        };
        Done::new(product).communications(messages)
    }

    fn check(_: Size, factors: &Factors, answer: &Matrix) -> Result<(), Failure> {
        factors.check(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    #[test]
    fn each_row_is_a_host_and_each_element_a_message() {
        let program = Entry::of::<MatrixRows>().prepare(Size::Quick).unwrap();
        // An asynchronous send is no thread.
        for (form, parasites, asends) in
            [(Form::PaperParasites, 20 * 20, 0), (Form::AsynchronousParasites, 0, 20 * 20)]
        {
            let stats = program.run(&Load::new(form, 1)).unwrap().stats;
            assert_eq!(stats.hosts_created, 1 + 20, "{form}");
            assert_eq!((stats.parasites_created, stats.left + stats.offered), (parasites, asends), "{form}");
        }
    }
}
