//! By hand: OS threads take the rows in turn, and send each element over a channel of the standard library.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::matrix_elements::{Factors, Matrix};

/// An element's column, and its value.
type Element = (usize, i64);

pub(super) fn product(factors: &Factors, threads: usize) -> Matrix {
    let side = factors.side();
    let (to, rows): (Vec<_>, Vec<_>) = (0..side).map(|_| mpsc::channel()).unzip();
    let (next, to) = (AtomicUsize::new(0), &to);
    // ORDER: Relaxed: it only divides the rows.
    let next_row = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|row| *row < side);
    let work = || {
        while let Some(row) = next_row() {
            send_row(factors, row, &to[row]);
        }
    };
    let mut product = Matrix::zero(side);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
        for (row, elements) in rows.iter().enumerate() {
            for (column, value) in elements.iter().take(side) {
                product.set(row, column, value);
            }
        }
    });
    product
}

fn send_row(factors: &Factors, row: usize, to: &Sender<Element>) {
    for column in 0..factors.side() {
        to.send((column, factors.element(row, column))).expect("the receiver waits for all");
    }
}
