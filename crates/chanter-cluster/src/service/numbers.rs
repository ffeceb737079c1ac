//! Numbers of requests, which no other process can guess.
//!
//! A call may be answered, or said to be forwarded, by a process of which its caller has not heard yet. The caller
//! recognizes such a process by the number of the request, which only processes with the request have. So each number
//! is 64 random bits, and tells nothing about others.

/// Numbers that are drawn at once, since a system call costs as much as some tens of numbers.
const AT_ONCE: usize = 128;

/// A source of numbers of requests.
pub(super) struct Numbers {
    drawn: [u8; 8 * AT_ONCE],
    /// Number of drawn numbers that are left.
    left: usize,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { drawn: [0; 8 * AT_ONCE], left: 0 }
    }
}

impl Numbers {
    /// The next number.
    ///
    /// # Panics
    /// The OS has no random numbers. (The standard library's hash maps panic then, too.)
    pub(super) fn draw(&mut self) -> u64 {
        if self.left == 0 {
            getrandom::fill(&mut self.drawn).expect("the OS has random numbers");
            self.left = AT_ONCE;
        }
        self.left -= 1;
        let (numbers, _) = self.drawn.as_chunks_mut::<8>();
        // The number is not kept here.
        u64::from_ne_bytes(std::mem::take(&mut numbers[self.left]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_differ_in_all_their_bits() {
        let mut numbers = Numbers::default();
        let drawn: Vec<u64> = (0..4 * AT_ONCE).map(|_| numbers.draw()).collect();
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
        for bit in 0..64 {
            let set = drawn.iter().filter(|number| *number >> bit & 1 == 1).count();
            // 512 throws of a coin: fewer than one run in 10^20 has less than 100.
            assert!((100..=412).contains(&set), "bit {bit} is set in {set} of 512");
        }
    }
}
