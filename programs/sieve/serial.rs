//! Without threads: over an array, and through the stages.

/// The array's numbers are struck out, and none is divided.
pub(crate) fn primes(last: u32) -> Vec<u32> {
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

/// Each number goes from stage to stage until one divides it, as in the pipeline.
pub(super) fn primes_by_stages(last: u32) -> Vec<u32> {
    let mut stages: Vec<u32> = Vec::new();
    for number in 2..=last {
        if stages.iter().all(|prime| number % prime != 0) {
            stages.push(number);
        }
    }
    stages
}
