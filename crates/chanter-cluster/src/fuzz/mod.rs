//! The readers of bytes from other processes, each as a function of bytes, for fuzzers and for the driver here.
//!
//! A target panics if a promise is broken. The tests replay its corpus, `corpus/TARGET/`, and then mutate it.
//! `CHANTER_FUZZ` is the number of inputs to try (20,000 by default), and `CHANTER_FUZZ_SEED` selects them. A failing
//! input is printed in hexadecimal; to try it again, make it a file of the target's corpus.

pub mod control;
#[cfg(test)]
mod driver;
pub mod frames;
pub mod header;
pub mod hello;
pub mod link;
pub mod requests;
pub mod segment;

/// A reader of an input, from its beginning. After the end it reads zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next `length` bytes, or all that are left.
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
