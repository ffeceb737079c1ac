//! A thread for each row.

use std::sync::Arc;

use chanter::prelude::*;

use crate::kit::Style;
use crate::matrix_elements::{Factors, Matrix};

/// Each element is a message, over the channel of its row.
pub(super) async fn product<S: Style>(factors: Arc<Factors>) -> Matrix {
    let side = factors.side();
    let rows: Vec<_> = (0..side).map(|row| begin::<S>(Arc::clone(&factors), row)).collect();
    let mut product = Matrix::zero(side);
    for (row, elements) in rows.into_iter().enumerate() {
        while let Ok((column, value)) = elements.recv().await {
            product.set(row, column, value);
        }
    }
    product
}

/// A row computes for long: it is a host in any style. It sends each element with its column, since messages of hosts
/// may overtake each other.
fn begin<S: Style>(factors: Arc<Factors>, row: usize) -> Receiver<(usize, i64)> {
    let (to, elements) = channel();
    drop(spawn(async move {
        for column in 0..factors.side() {
            S::send(&to, (column, factors.element(row, column))).await;
        }
    }));
    elements
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
