//! A tuple that is read is copied.

use chanter_tuples::{Any, Data, TupleSpace};

struct Once;

fn main() {
    let space = TupleSpace::<(u32, Data<Once>)>::new();
    let _ = space.read((1, Any));
}
