//! The cells of a process: what it keeps of continuations that it has sent away (see `sent.rs`).

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chanter::Sender;

/// The cells of a process.
#[derive(Default)]
pub(super) struct Cells(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    last: u64,
    /// Makes the cells' numbers, which cannot be guessed.
    numbers: RandomState,
    pub(super) cells: HashMap<u64, Cell>,
}

impl State {
    pub(super) fn new_number(&mut self) -> u64 {
        loop {
            self.last += 1;
            let number = self.numbers.hash_one(self.last);
            if !self.cells.contains_key(&number) {
                return number;
            }
        }
    }
}

type Fill = Box<dyn FnOnce(&[u8]) + Send>;

pub(super) struct Cell {
    /// Determines the promise by a value's bytes.
    pub(super) fill: Fill,
    /// Carries the reports of holders. Closed with the cell.
    pub(super) holders: Sender<Holder>,
}

/// A report that a process has the continuation. Of two reports, that of the higher rank is the newer one.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) process: u32,
    pub(super) rank: u32,
}

impl Cells {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, cell: u64) -> Option<Cell> {
        self.lock().cells.remove(&cell)
    }
}
