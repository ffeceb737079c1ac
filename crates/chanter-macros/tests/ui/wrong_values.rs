#[chanter::main(vps = 0)]
async fn zero() {}

#[chanter::main(vps = -1)]
async fn negative() {}

#[chanter::main(vps = "two")]
async fn text() {}

#[chanter::main(vps)]
async fn no_number() {}

#[chanter::main(name = 7)]
async fn number() {}

#[chanter::main(crate = "chanter")]
async fn quoted() {}

#[chanter::main(vps = 1, vps = 2)]
async fn twice() {}

#[chanter::main(vps = 1 name = "server")]
async fn no_comma() {}

#[chanter::test(limit = "soon")]
async fn no_seconds() {}

#[chanter::main(limit = 60)]
async fn limited() {}

fn main() {}

#[chanter::main(policy)]
async fn policy_without_value() {}

#[chanter::test(local)]
async fn tests_are_local() {}
