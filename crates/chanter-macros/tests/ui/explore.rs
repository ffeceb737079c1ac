//! The options of `explore`.

#[chanter::main(explore)]
async fn main() {}

#[chanter::test(explore, vps = 2)]
async fn with_processors() {}

#[chanter::test(explore(strategy = "luck"))]
async fn with_luck() {}

#[chanter::test(explore(depth = 2, strategy = "random"))]
async fn with_depth() {}

#[chanter::test(explore(seeds = 2))]
async fn with_seeds() {}

#[chanter::test(explore(seed = "2"))]
async fn with_a_text() {}

#[chanter::test(explore(seed = 1, seed = 2))]
async fn twice() {}
