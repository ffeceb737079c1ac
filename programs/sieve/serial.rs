//! An array instead of a pipeline.

pub(super) fn primes(last: u32) -> Vec<u32> {
    let mut is_composite = vec![false; last as usize + 1];
    let mut primes = Vec::new();
    for number in 2..=last {
        if is_composite[number as usize] {
            continue;
        }
        primes.push(number);
        for multiple in (u64::from(number) * u64::from(number)..=u64::from(last)).step_by(number as usize) {
            is_composite[multiple as usize] = true;
        }
    }
    primes
}
