use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

#[object]
struct Alone;

fn main() {}
