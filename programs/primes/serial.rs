//! Without threads: over an array, and as the futures do it.

use super::{EACH, Search};
use crate::sieve::serial::primes as sieved;

/// The sieve of Eratosthenes.
pub(super) fn primes(search: Search) -> Vec<u32> {
    let count = search.futures * EACH;
    let mut primes = sieved(beyond(count));
    primes.truncate(count);
    primes
}

/// A number that is not below the prime of this index: n (ln n + ln ln n), from six on (Rosser, 1941).
fn beyond(index: usize) -> u32 {
    let n = index.max(6) as f64;
    (n * (n.ln() + n.ln().ln())).ceil() as u32
}

/// The findings of the futures, one after the other.
pub(super) fn primes_by_division(search: Search) -> Vec<u32> {
    (0..search.futures)
        .fold(Vec::new(), |primes, index| search.extended(index, search.found_by(index), primes))
}
