use chanter_objects::{Lazy, Owner, Ref, object};

#[allow(dead_code)]
fn used(_: Option<(Owner<u8>, Ref<u8>, Lazy<'_, u8>)>) {}

struct Thief {
    kept: Option<Lazy<'static, u8>>,
}

#[object]
impl Thief {
    #[method(mut)]
    async fn steal(&mut self, k: Lazy<'_, u8>) {
        self.kept = Some(k);
    }
}

fn main() {}
