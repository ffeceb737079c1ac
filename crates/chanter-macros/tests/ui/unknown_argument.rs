#[chanter::test(threads = 2)]
async fn waits() {}

#[chanter::main(vps = 1, flavor = "current_thread")]
async fn main() {}
