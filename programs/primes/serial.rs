//! One prime after the other.

use super::{EACH, extend};

pub(super) fn primes(futures: usize) -> Vec<u32> {
    let mut primes = Vec::new();
    for _ in 0..futures * EACH {
        extend(&mut primes);
    }
    primes
}
