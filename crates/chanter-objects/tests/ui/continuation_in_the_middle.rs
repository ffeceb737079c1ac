use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Order;

#[object]
impl Order {
    #[method(read)]
    async fn first(&self, k: Lazy<'_, u8>, value: u8) {
        k.fill(value)
    }

    #[method(read)]
    fn plain(&self, k: Lazy<'_, u8>) {
        k.fill(1)
    }
}

fn main() {}
