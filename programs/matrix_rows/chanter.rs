//! A thread for each row.

use std::sync::Arc;

use chanter::prelude::*;

use crate::kit::Style;
use crate::matrix_elements::{Factors, Matrix};

/// An element's place, and its value.
type Element = (usize, usize, i64);

/// Each element is a message.
pub(super) async fn product<S: Style>(factors: Arc<Factors>) -> Matrix {
    let side = factors.side();
    let (to, elements) = channel::<Element>();
    for row in 0..side {
        let (to, factors) = (to.clone(), Arc::clone(&factors));
        // A row computes for long: it is a host in any style.
        drop(spawn(async move {
            for column in 0..side {
                S::send(&to, (row, column, factors.element(row, column))).await;
            }
        }));
    }
    drop(to);
    let mut product = Matrix::zero(side);
    while let Ok((row, column, value)) = elements.recv().await {
        product.set(row, column, value);
    }
    product
}

/// Each row is a fork, and writes where the result is.
pub(super) fn forked(factors: &Factors) -> Matrix {
    let mut product = Matrix::zero(factors.side());
    let mut rows: Vec<&mut [i64]> = product.rows_mut().collect();
    compute(factors, 0, &mut rows);
    drop(rows);
    product
}

fn compute(factors: &Factors, first: usize, rows: &mut [&mut [i64]]) {
    match rows {
        [] => (),
        [row] => {
            for (column, cell) in row.iter_mut().enumerate() {
                *cell = factors.element(first, column);
            }
        }
        rows => {
            let middle = rows.len() / 2;
            let (upper, lower) = rows.split_at_mut(middle);
            fork_join(|| compute(factors, first, upper), || compute(factors, first + middle, lower));
        }
    }
}
