//! What members bring to an operation, and what comes of it: values as bytes.

use std::ops::Deref;
use std::sync::Arc;

use postcard::ser_flavors::Flavor;
use serde::Serialize;

/// So many bytes each member has for itself.
const SHORT: usize = 24;

/// Bytes for all members. Few are copied, as all count who shares them: in words, which are moved faster than bytes are.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// So many, in place.
    Short(u64, [u64; SHORT / 8]),
    /// More.
    Shared(Arc<[u8]>),
}

impl Bytes {
    pub(super) const NONE: Self = Self::Short(0, [0; SHORT / 8]);

    /// Those of a value. `room`: where long ones are written.
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

/// The bytes that are in place.
#[inline]
pub(super) fn short(length: u64, words: &[u64; SHORT / 8]) -> &[u8] {
    &bytemuck::bytes_of(words)[..length as usize]
}

/// Writes short values in place, and others into the room.
struct Writer<'a> {
    length: usize,
    short: [u64; SHORT / 8],
    /// All, once they are too many.
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
        // Beyond the short ones from then on, if they are too many.
        self.length = end;
        if end > SHORT {
            self.spill(from, bytes);
        } else if bytes.len() <= 8 {
            // A number, mostly. Made in a register: words that were written by bytes are not read before these are in the cache.
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
            // A length is written before text, and takes up to two bytes.
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
            // A float takes eight bytes, a number of 64 bits up to ten.
            for number in [1, 300, 1 << 40, u64::MAX] {
                let value = (&[true; 16][..before], -0.1_f64, number);
                assert_eq!(*Bytes::of(&value, &mut room).unwrap(), *postcard::to_stdvec(&value).unwrap());
            }
        }
    }
}
