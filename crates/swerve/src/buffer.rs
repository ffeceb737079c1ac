//! Buffers for what is read from files. An OS thread keeps some of those that it has dropped and
//! uses them again: to allocate and clear one costs more than to fill it from memory.

use std::cell::RefCell;

use bytes::Bytes;

/// Sizes of buffers: for small files, and for chunks.
const SIZES: [usize; 2] = [16 * 1024, 64 * 1024];
/// Largest number of buffers of each size that an OS thread keeps.
const KEPT: usize = 16;

thread_local! {
    static FREE: RefCell<[Vec<Vec<u8>>; SIZES.len()]> = const { RefCell::new([const { Vec::new() }; SIZES.len()]) };
}

/// Bytes to be filled.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` bytes, of any contents.
    pub(crate) fn take(len: usize) -> Buffer {
        let Some(class) = SIZES.iter().position(|size| len <= *size) else {
            return Buffer { bytes: vec![0; len], len };
        };
        let used = FREE.try_with(|free| free.borrow_mut()[class].pop()).ok().flatten();
        Buffer { bytes: used.unwrap_or_else(|| vec![0; SIZES[class]]), len }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// Its first `len` bytes.
    pub(crate) fn into_bytes(mut self, len: usize) -> Bytes {
        self.len = len.min(self.len);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(class) = SIZES.iter().position(|size| self.bytes.len() == *size) else { return };
        let bytes = std::mem::take(&mut self.bytes);
        // While the OS thread ends there is nowhere to keep it.
        let _ = FREE.try_with(|free| {
            let free = &mut free.borrow_mut()[class];
            if free.len() < KEPT {
                free.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_used_again() {
        let mut first = Buffer::take(100);
        first.as_mut().copy_from_slice(&[7; 100]);
        let place = first.as_ref().as_ptr();
        let bytes = first.into_bytes(60);
        assert_eq!(bytes, vec![7; 60]);
        let other = Buffer::take(100);
        assert_ne!(other.as_ref().as_ptr(), place, "it is in use");
        drop(bytes);
        assert_eq!(Buffer::take(SIZES[0]).as_ref().as_ptr(), place);
    }

    #[test]
    fn every_length_has_its_size() {
        for len in [0, 1, SIZES[0], SIZES[0] + 1, SIZES[1], SIZES[1] + 1] {
            assert_eq!(Buffer::take(len).as_mut().len(), len);
        }
    }
}
