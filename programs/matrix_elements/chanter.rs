//! A thread for each element.

use std::sync::Arc;

use chanter::prelude::*;

use super::{Factors, Matrix};

/// Elements that run whenever a policy pleases.
pub(super) async fn by_hosts(factors: Arc<Factors>) -> Matrix {
    gather_product(&factors, |row, column, factors| spawn(async move { factors.element(row, column) })).await
}

/// Elements that run when they are asked for.
pub(super) async fn by_delayed(factors: Arc<Factors>) -> Matrix {
    gather_product(&factors, |row, column, factors| delay(async move { factors.element(row, column) })).await
}

async fn gather_product(
    factors: &Arc<Factors>,
    make: impl Fn(usize, usize, Arc<Factors>) -> Thread<i64>,
) -> Matrix {
    let side = factors.side();
    let mut elements = Vec::with_capacity(side * side);
    for at in 0..side * side {
        elements.push(make(at / side, at % side, Arc::clone(factors)));
    }
    let mut cells = Vec::with_capacity(side * side);
    for element in elements {
        cells.push(element.await.expect("an element is a number"));
    }
    Matrix { side, cells }
}

/// Elements on fibers, whose values a fiber demands.
pub(super) async fn by_fibers(factors: Arc<Factors>) -> Matrix {
    let gather = move || {
        let side = factors.side();
        let element = |at| {
            let factors = Arc::clone(&factors);
            spawn_fiber(move || factors.element(at / side, at % side))
        };
        let elements: Vec<_> = (0..side * side).map(element).collect();
        let value = |element: Thread<i64>| element.join().sync_blocking().expect("an element is a number");
        Matrix { side, cells: elements.into_iter().map(value).collect() }
    };
    spawn_fiber(gather).await.expect("the elements are a matrix")
}
