use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Both(u8);

#[object]
impl Both {
    #[method(mut)]
    fn set(&mut self) {
        self.0 = 1;
    }

    #[method(free)]
    fn get(&self) -> u8 {
        self.0
    }
}

fn main() {}
