//! The bytes of an input, read as numbers.

/// A reader of an input, from its beginning. After the end it reads zeros.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next 32-bit number.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next 64-bit number.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next `length` bytes, or all that are left.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
