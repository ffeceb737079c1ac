use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Leaky {
    value: u8,
}

#[object]
impl Leaky {
    #[method(read)]
    async fn value(&self, _other: &u8) -> &u8 {
        &self.value
    }
}

fn main() {}
