//! The places of a process's objects, by number.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::gate::Gate;

/// So many places the first block has; each has twice as many as the one before.
const FIRST: usize = 256;
const BLOCKS: usize = 24;

/// Blocks of places, which stay where they are.
static BLOCKS_OF_GATES: [OnceLock<Box<[Gate]>>; BLOCKS] = [const { OnceLock::new() }; BLOCKS];
static FREE: Mutex<Free> = Mutex::new(Free { places: Vec::new(), next: 0 });

/// The places that no object has.
struct Free {
    places: Vec<u32>,
    /// The first that never had one.
    next: u32,
}

/// In which block a place is, and where there.
fn place(slot: u32) -> (usize, usize) {
    let at = slot as usize / FIRST + 1;
    let block = at.ilog2() as usize;
    (block, slot as usize - FIRST * ((1 << block) - 1))
}

/// The gate of a place that was given away before; `None` for one that never was.
#[inline]
pub(crate) fn gate(slot: u32) -> Option<&'static Gate> {
    let (block, at) = place(slot);
    BLOCKS_OF_GATES.get(block)?.get()?.get(at)
}

/// A place for an object.
///
/// # Panics
/// There are more than four thousand million objects.
pub(crate) fn take() -> (u32, &'static Gate) {
    let slot = {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        match free.places.pop() {
            Some(slot) => slot,
            None => {
                free.next += 1;
                free.next - 1
            }
        }
    };
    let (block, at) = place(slot);
    let block = BLOCKS_OF_GATES
        .get(block)
        .expect("too many objects")
        .get_or_init(|| (0..FIRST << block).map(|_| Gate::new()).collect());
    (slot, &block[at])
}

/// No object has it any more.
pub(crate) fn give_back(slot: u32) {
    // A place whose generations are used up is not given away again.
    if gate(slot).is_some_and(|gate| !gate.is_used_up()) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).places.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for slot in 0..20_000 {
            assert_eq!(place(slot), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(u32::MAX).0, BLOCKS, "beyond the last block");
        assert!(gate(u32::MAX).is_none());
    }
}
