//! A tuple goes to other threads.

use std::rc::Rc;

use chanter_tuples::{Data, TupleSpace};

fn main() {
    let space = TupleSpace::new();
    let _ = space.put((1, Data(Rc::new(1))));
}
