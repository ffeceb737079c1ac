//! A thread that ends with its owner.

use chanter::prelude::*;

/// A thread that is cancelled when this is dropped.
pub(super) struct Cancelled(pub(super) Thread<()>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        // The answer is not awaited.
        drop(self.0.cancel());
    }
}
