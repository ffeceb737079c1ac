//! A pattern has as many fields as the tuple.

use chanter_tuples::{Any, TupleSpace};

fn main() {
    let space = TupleSpace::<(u32, u32, u32)>::new();
    let _ = space.take((1, Any));
}
