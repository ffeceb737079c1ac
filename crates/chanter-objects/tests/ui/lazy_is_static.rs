use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Thief;

#[object]
impl Thief {
    #[method(read)]
    async fn steal(&self, k: Lazy<'static, u8>) {
        std::thread::spawn(move || k.fill(1));
    }
}

fn main() {}
