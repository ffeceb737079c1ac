//! The product of two matrices, a thread for each element; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Random, Size, ensure};

/// A matrix, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// How many rows; a product has as many columns.
    side: usize,
    cells: Vec<i64>,
}

/// The two factors. The second one's columns lie together.
#[derive(Debug)]
pub struct Factors {
    a: Matrix,
    b_columns: Matrix,
}

impl Matrix {
    fn random(side: usize, width: usize, random: &mut Random) -> Self {
        Self { side, cells: (0..side * width).map(|_| random.below(200) as i64 - 100).collect() }
    }

    fn width(&self) -> usize {
        self.cells.len() / self.side
    }

    fn row(&self, row: usize) -> &[i64] {
        let width = self.width();
        &self.cells[row * width..][..width]
    }

    /// All elements are 0.
    pub(crate) fn zero(side: usize) -> Self {
        Self { side, cells: vec![0; side * side] }
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [i64]> {
        self.cells.chunks_exact_mut(self.side)
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: i64) {
        self.cells[row * self.side + column] = value;
    }

    fn times(&self, vector: &[i64]) -> Vec<i64> {
        (0..self.side).map(|row| dot(self.row(row), vector)).collect()
    }

    fn transposed(&self) -> Self {
        let cells = (0..self.cells.len()).map(|at| self.row(at % self.side)[at / self.side]);
        Self { side: self.width(), cells: cells.collect() }
    }
}

fn dot(one: &[i64], other: &[i64]) -> i64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

impl Factors {
    pub(crate) fn random(side: usize) -> Self {
        Self::random_of(side, side)
    }

    /// Factors that have `width` products for each element of the result.
    fn random_of(side: usize, width: usize) -> Self {
        let mut random = Random::new(1992);
        Self {
            a: Matrix::random(side, width, &mut random),
            b_columns: Matrix::random(side, width, &mut random),
        }
    }

    /// Freivalds' test: a wrong product passes with a probability of nearly 0.
    pub(crate) fn check(&self, product: &Matrix) -> Result<(), Failure> {
        let mut random = Random::new(7);
        let vector: Vec<_> = (0..self.side()).map(|_| random.below(1 << 20) as i64).collect();
        let want = self.a.times(&self.b_columns.transposed().times(&vector));
        ensure("the product by a vector", &product.times(&vector), &want)
    }

    pub(crate) fn side(&self) -> usize {
        self.a.side
    }

    /// One element of the product.
    pub(crate) fn element(&self, row: usize, column: usize) -> i64 {
        dot(self.a.row(row), self.b_columns.row(column))
    }
}

/// The program.
#[derive(Debug)]
pub struct MatrixElements;

impl Program for MatrixElements {
    const NAME: &'static str = "matrix-elements";
    const ABOUT: &'static str = "matrix multiply, a thread for each element";
    const FORMS: &'static [Form] = &[Form::Serial, Form::Synchronous, Form::Stolen, Form::Fibers];
    type Input = Factors;
    type Answer = Matrix;

    fn input(size: Size) -> Factors {
        match size {
            Size::Quick => Factors::random(8),
            Size::Paper => Factors::random(50),
            Size::Grain => Factors::random_of(50, 20_000),
        }
    }

    fn serial(input: &Factors) -> Matrix {
        serial::product(input)
    }

    async fn threads(input: Arc<Factors>, form: Form) -> Done<Matrix> {
        let threads = input.side() * input.side();
        let product = match form {
            Form::Stolen => chanter::by_delayed(input).await,
            Form::Fibers => chanter::by_fibers(input).await,
            _ => chanter::by_hosts(input).await,
        };
        Done::new(product).communications(threads as u64)
    }

    fn check(_: Size, input: &Factors, answer: &Matrix) -> Result<(), Failure> {
        input.check(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    /// Only the first fiber waits; each of the others begins on the stack that the one before it has just left.
    #[test]
    fn fibers_that_do_not_wait_share_a_stack() {
        let program = Entry::of::<MatrixElements>().prepare(Size::Quick).unwrap();
        let stats = program.run(&Load::new(Form::Fibers, 1)).unwrap().stats;
        assert_eq!((stats.fibers_created, stats.stacks_allocated), (65, 2));
        assert_eq!((stats.stacks_reused, stats.stacks_recycled), (63, 63));
    }
}
