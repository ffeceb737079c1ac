//! Without threads: over an array, and as the futures do it.

use super::{EACH, extend};
use crate::sieve::serial::primes as sieved;

/// The sieve of Eratosthenes.
pub(super) fn primes(futures: usize) -> Vec<u32> {
    let count = futures * EACH;
    let mut primes = sieved(beyond(count));
    primes.truncate(count);
    primes
}

/// A number that is not below the prime of this index: n (ln n + ln ln n), from six on (Rosser, 1941).
fn beyond(index: usize) -> u32 {
    let n = index.max(6) as f64;
    (n * (n.ln() + n.ln().ln())).ceil() as u32
}

/// One prime after the other, each candidate divided by those found.
pub(super) fn primes_by_division(futures: usize) -> Vec<u32> {
    let mut primes = Vec::new();
    for _ in 0..futures * EACH {
        extend(&mut primes);
    }
    primes
}
