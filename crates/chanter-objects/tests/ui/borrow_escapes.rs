use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Leaky {
    value: u8,
}

#[object]
impl Leaky {
    #[method(read)]
    fn value(&self) -> &u8 {
        &self.value
    }

    #[method(read)]
    async fn one_of<'a>(&'a self, other: &'a u8) -> &'a u8 {
        if *other > 0 { other } else { &self.value }
    }
}

fn main() {}
