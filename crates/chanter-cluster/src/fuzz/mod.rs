//! What reads bytes of other processes, each as a function of bytes: for fuzzers, and for the driver here.
//!
//! A target panics if what it tries has broken a promise. Its corpus, `corpus/TARGET/`, is replayed by the tests, and then
//! mutated: `CHANTER_FUZZ` says how many inputs are tried (20,000), `CHANTER_FUZZ_SEED` which ones. An input that fails is
//! printed in hexadecimal: give it to the target again as a file of its corpus.

pub mod control;
#[cfg(test)]
mod driver;
pub mod frames;
pub mod header;
pub mod hello;
pub mod link;
pub mod requests;
pub mod segment;

/// Reads an input from its beginning. After its end everything is 0.
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

    /// So many bytes, or all that are left.
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
