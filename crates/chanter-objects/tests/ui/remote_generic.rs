//! Other processes know methods by their names.

use chanter_objects::object;

struct Patch<T>(T);

#[object(remote)]
impl<T: Send + 'static> Patch<T> {
    #[method(read)]
    fn area(&self) -> f64 {
        1.0
    }
}

struct Plain;

#[object(remote)]
impl Plain {
    #[method(read)]
    fn with<F: FnOnce()>(&self, f: F) {
        f()
    }
}

fn main() {}
