//! Numbers instead of addresses, so that reports of one schedule are the same each time.

use std::collections::HashMap;

use super::Waiting;

/// The numbers of channels and of locks, each from 1 in the order in which they
/// were first named.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    channels: HashMap<usize, usize>,
    locks: HashMap<usize, usize>,
}

impl Numbers {
    /// Replaces the addresses in `waits` by numbers.
    pub(crate) fn number(&mut self, waits: &mut [Waiting]) {
        let number = |numbers: &mut HashMap<usize, usize>, address| {
            let next = numbers.len() + 1;
            *numbers.entry(address).or_insert(next)
        };
        for wait in waits {
            match wait {
                Waiting::Send { channel } | Waiting::Receive { channel } => {
                    *channel = number(&mut self.channels, *channel);
                }
                Waiting::Lock { lock, .. } => *lock = number(&mut self.locks, *lock),
                _ => (),
            }
        }
    }
}
