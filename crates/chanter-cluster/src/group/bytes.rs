//! The values of an operation, as bytes.

use std::ops::Deref;
use std::sync::Arc;

use postcard::ser_flavors::Flavor;
use serde::Serialize;

/// Number of bytes that each member has in place.
const SHORT: usize = 24;

/// Bytes for all members. Few bytes are copied, since sharing them costs every member a counter. They are held in
/// words, which move faster than bytes.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// Bytes in place, with their number.
    Short(u64, [u64; SHORT / 8]),
    /// More bytes, shared.
    Shared(Arc<[u8]>),
}

impl Bytes {
    pub(super) const NONE: Self = Self::Short(0, [0; SHORT / 8]);

    /// Copies bytes.
    pub(super) fn copied(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT {
            return Self::Shared(bytes.into());
        }
        let mut short = [0; SHORT / 8];
        bytemuck::bytes_of_mut(&mut short)[..bytes.len()].copy_from_slice(bytes);
        Self::Short(bytes.len() as u64, short)
    }

    /// Encodes a value. `room`: buffer for long encodings.
    pub(super) fn of<T: Serialize>(value: &T, room: &mut Vec<u8>) -> Result<Self, postcard::Error> {
        room.clear();
        postcard::serialize_with_flavor(value, Writer { length: 0, short: [0; SHORT / 8], long: room })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(length, words) => short(*length, words),
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The bytes in place.
#[inline]
pub(super) fn short(length: u64, words: &[u64; SHORT / 8]) -> &[u8] {
    &bytemuck::bytes_of(words)[..length as usize]
}

/// A writer that writes short values in place, and longer ones into the room.
struct Writer<'a> {
    length: usize,
    short: [u64; SHORT / 8],
    /// All bytes, once they are too many to be in place.
    long: &'a mut Vec<u8>,
}

impl Writer<'_> {
    #[cold]
    fn spill(&mut self, from: usize, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(short(from as u64, &self.short));
        }
        self.long.extend_from_slice(bytes);
    }
}

impl Flavor for Writer<'_> {
    type Output = Bytes;

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let (from, end) = (self.length, self.length + bytes.len());
        // The length stays above `SHORT` once there are too many bytes.
        self.length = end;
        if end > SHORT {
            self.spill(from, bytes);
        } else if bytes.len() <= 8 {
            // Mostly a number. It is made in a register, as a word that was written by bytes cannot be read before
            // they reach the cache.
            let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let (at, shift) = (from / 8, from % 8 * 8);
            if let Some(word) = self.short.get_mut(at) {
                *word |= (number << shift).to_le();
            }
            if shift > 0
                && let Some(word) = self.short.get_mut(at + 1)
            {
                *word |= (number >> (64 - shift)).to_le();
            }
        } else {
            bytemuck::bytes_of_mut(&mut self.short)[from..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    #[inline]
    fn finalize(self) -> postcard::Result<Bytes> {
        Ok(match self.length {
            0..=SHORT => Bytes::Short(self.length as u64, self.short),
            _ => Bytes::Shared((&**self.long).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_was_written() {
        let mut room = Vec::new();
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 1000] {
            // A text's length comes before it, and takes up to two bytes.
            for head in ["", "a", "twenty-two-bytes-of-it", "twenty-three-bytes-here"] {
                let value = (head, "x".repeat(length), 7_u64);
                let bytes = Bytes::of(&value, &mut room).unwrap();
                assert_eq!(*bytes, *postcard::to_stdvec(&value).unwrap());
                assert_eq!(matches!(bytes, Bytes::Short(..)), bytes.len() <= SHORT);
            }
        }
        assert!(Bytes::NONE.is_empty());
    }

    #[test]
    fn numbers_lie_across_words() {
        let mut room = Vec::new();
        for before in 0..16 {
            // A float takes eight bytes, and a number of 64 bits up to ten.
            for number in [1, 300, 1 << 40, u64::MAX] {
                let value = (&[true; 16][..before], -0.1_f64, number);
                assert_eq!(*Bytes::of(&value, &mut room).unwrap(), *postcard::to_stdvec(&value).unwrap());
            }
        }
    }
}
