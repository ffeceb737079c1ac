//! Each process says its number: the shortest program. Alone, unless the environment says otherwise.

fn main() -> Result<(), chanter_zenoh::StartError> {
    chanter_zenoh::run(async |here| {
        println!("process {} of {}", here.number(), here.count());
    })
}
