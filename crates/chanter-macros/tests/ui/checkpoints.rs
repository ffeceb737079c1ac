//! Checkpoints go into the loops of a function.

#[chanter::checkpoints]
fn has_no_loop(numbers: &[u32]) -> u32 {
    numbers.iter().sum()
}

#[chanter::checkpoints]
const fn may_run_in_the_compiler() {
    let mut n = 0;
    while n < 3 {
        n += 1;
    }
}

#[chanter::checkpoints]
struct NotAFunction;

#[chanter::checkpoints(every = 100)]
fn has_no_such_argument() {
    loop {}
}

fn main() {}
