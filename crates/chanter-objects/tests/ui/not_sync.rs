use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Counts(std::cell::Cell<u8>);

#[object]
impl Counts {
    #[method(read)]
    fn get(&self) -> u8 {
        self.0.get()
    }
}

fn main() {}
