#[chanter::test]
fn waits() {}

#[chanter::main]
fn main() {}
