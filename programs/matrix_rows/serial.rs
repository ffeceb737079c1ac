//! One row after the other.

use crate::matrix_elements::{Factors, Matrix};

pub(super) fn product(factors: &Factors) -> Matrix {
    let side = factors.side();
    let mut product = Matrix::zero(side);
    for (row, cells) in product.rows_mut().enumerate() {
        for (column, cell) in cells.iter_mut().enumerate() {
            *cell = factors.element(row, column);
        }
    }
    product
}
