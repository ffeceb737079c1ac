//! Lengths of large frames, in classes. A receive that is posted before its frame is announced has room for the
//! longest of its class. So no frame that comes there is too long. Bodies of 2^n bytes, and of 1/8 more each, fill
//! their class.

use chanter_engine::Lane;
use chanter_engine::wire::LENGTH;

/// Binary logarithm of the bytes of the first class, and the number of classes until lengths have doubled.
const FIRST: u32 = 9;
const STEPS: usize = 8;

/// A class of frames, in a lane: MPI's tag of their bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class(u16);

impl Class {
    /// Class of a frame of this length in bytes, with its header; at most 2^31.
    pub(super) fn of(lane: Lane, length: usize) -> Self {
        let body = length.saturating_sub(LENGTH).max(1 << FIRST);
        // The last length that is in the octave begins the next.
        let octave = (body - 1).ilog2().max(FIRST - 1);
        let step = (1_usize << octave) / STEPS;
        let at = (body - (1 << octave)).div_ceil(step);
        let number = (octave - (FIRST - 1)) as usize * STEPS + at;
        Self((number as u16) << 2 | lane as u16)
    }

    pub(super) fn tag(self) -> u16 {
        self.0
    }

    /// Bytes of the longest frame.
    pub(super) fn longest(self) -> usize {
        let number = usize::from(self.0 >> 2);
        let (octave, at) = ((number - 1) / STEPS, (number - 1) % STEPS + 1);
        let base = 1_usize << (octave as u32 + FIRST - 1);
        LENGTH + base + at * (base / STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_fits_into_its_class_and_not_into_the_one_before() {
        let lengths = (0..200_000).chain((17..31).flat_map(|power| {
            let body = LENGTH + (1 << power);
            [body - 1, body, body + 1, body + body / 3]
        }));
        for length in lengths {
            let class = Class::of(Lane::Bulk, length);
            assert!(length <= class.longest(), "{length}: {class:?} {}", class.longest());
            assert!(class.tag() < 1 << 15, "MPI's tags have room for it");
            let wasted = class.longest() - length;
            assert!(length < LENGTH + (1 << FIRST) || wasted <= length / STEPS, "{length}: {wasted}");
            assert_eq!(class, Class::of(Lane::Bulk, class.longest()));
            assert_ne!(class, Class::of(Lane::Bulk, class.longest() + 1));
        }
    }

    #[test]
    fn powers_of_two_fill_their_class() {
        for power in FIRST..=30 {
            let length = LENGTH + (1 << power);
            assert_eq!(Class::of(Lane::User, length).longest(), length);
        }
    }

    #[test]
    fn lanes_have_classes_of_their_own() {
        assert_ne!(Class::of(Lane::User, 5000), Class::of(Lane::Control, 5000));
    }
}
