//! A field that is not compared is matched by `Any` only.

use chanter_tuples::TupleSpace;

fn main() {
    let space = TupleSpace::<(u32, f64)>::new();
    let _ = space.take((1, 2.0));
}
