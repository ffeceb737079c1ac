#[chanter::main]
struct Main;

fn main() {}
