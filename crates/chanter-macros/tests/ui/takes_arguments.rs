#[chanter::test]
async fn waits(forever: bool) {
    while forever {}
}

#[chanter::main]
async fn main(args: Vec<String>) {
    println!("{args:?}");
}
