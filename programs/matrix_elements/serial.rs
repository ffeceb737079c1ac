//! One element after the other.

use super::{Factors, Matrix};

pub(super) fn product(factors: &Factors) -> Matrix {
    let side = factors.side();
    let cells = (0..side * side).map(|at| factors.element(at / side, at % side));
    Matrix { side, cells: cells.collect() }
}
