//! A loop of an `async fn` awaits at its checkpoint: what it keeps has to be `Send`, if the thread may move.

use std::rc::Rc;

#[chanter::checkpoints]
async fn keeps_what_is_not_send() -> u32 {
    let count = Rc::new(1);
    let mut sum = 0;
    for _ in 0..3 {
        sum += *count;
    }
    sum
}

fn main() {
    chanter::spawn(keeps_what_is_not_send());
}
