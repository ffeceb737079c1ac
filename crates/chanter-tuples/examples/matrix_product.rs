//! Linda's matrix product: workers find rows, columns and the next piece of work in a tuple space.
//!
//! Nobody is sent anything. A worker takes the counter of rows, puts it back with the next number, reads the row and
//! each column, and puts its row of the product. So any number of workers may come, and each works as fast as it can.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_tuples::{Any, TupleSpace};

const SIZE: usize = 48;
const WORKERS: usize = 4;

/// The kind of the tuple, its index, and its numbers.
type Space = TupleSpace<(&'static str, usize, Arc<[u64]>)>;

#[chanter::main]
async fn main() {
    let space = Space::new();
    let left = |row: usize, at: usize| (row * 7 + at * 3) as u64 % 10;
    let right = |at: usize, column: usize| (at * 5 + column) as u64 % 10;
    for n in 0..SIZE {
        space.put(("row", n, (0..SIZE).map(|at| left(n, at)).collect())).await;
        space.put(("column", n, (0..SIZE).map(|at| right(at, n)).collect())).await;
    }
    space.put(("next", 0, Arc::new([]))).await;
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn(work(space.clone()))).collect();

    for n in 0..SIZE {
        let (_, _, row) = space.take(("product", n, Any)).await;
        for (column, value) in row.iter().enumerate() {
            let expected: u64 = (0..SIZE).map(|at| left(n, at) * right(at, column)).sum();
            assert_eq!(*value, expected);
        }
    }
    let mut rows = Vec::new();
    for worker in workers {
        rows.push(worker.await.unwrap());
    }
    assert_eq!(rows.iter().sum::<usize>(), SIZE);
    println!("rows computed by each worker: {rows:?}");
}

/// Computes rows of the product until all have been given out. Returns the number of its rows.
async fn work(space: Space) -> usize {
    let mut rows = 0;
    loop {
        // One worker at a time has the counter.
        let (_, n, nothing) = space.take(("next", Any, Any)).await;
        space.put(("next", n + 1, nothing)).await;
        if n >= SIZE {
            return rows;
        }
        let (_, _, row) = space.read(("row", n, Any)).await;
        let mut product = Vec::with_capacity(SIZE);
        for column in 0..SIZE {
            let (_, _, column) = space.read(("column", column, Any)).await;
            product.push(row.iter().zip(column.iter()).map(|(a, b)| a * b).sum());
        }
        space.put(("product", n, product.into())).await;
        rows += 1;
    }
}
