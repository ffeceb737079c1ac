use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Strange;

#[object]
impl Strange {
    #[method(read)]
    fn nobody() {}

    #[method(read)]
    fn owned(self) {}

    #[method(read)]
    fn writes(&mut self) {}

    #[method(mut)]
    fn reads(&self) {}

    #[method(write)]
    fn unknown(&self) {}
}

fn main() {}
