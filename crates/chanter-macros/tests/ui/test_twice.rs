#[chanter::test]
#[test]
async fn waits() {}

fn main() {}
