//! Plain data in the buffer in which it travels.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use chanter_engine::wire::Body;

use super::contents::Contents;

/// Numbers that are all of one type, in the buffer in which a message travels: sent and received without a copy on
/// either side. (Engines may still copy: MPI's rings copy messages of up to 8 KiB, and shared memory is written and
/// read.)
///
/// It is filled like a slice, given away by [`Inbox::send_buffer`](crate::Inbox::send_buffer), and comes out of
/// [`Inbox::recv_buffer`](crate::Inbox::recv_buffer). For less than some kilobytes [`Plain`](crate::Plain) does as well, and is a value like
/// any other.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::{ANYONE, Buffer, local};
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let here = local(1).remove(0);
/// let (me, other) = (here.inbox().unwrap(), here.inbox().unwrap());
/// let mut grid = Buffer::<f64>::zeroed(1 << 16);
/// grid[7] = 0.5;
/// me.send_buffer(other.name(), 1, grid).await.unwrap();
/// let got = other.recv_buffer::<f64>(ANYONE, 1).await.unwrap().value;
/// assert_eq!((got.len(), got[7]), (1 << 16, 0.5));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Buffer<T> {
    bytes: Place,
    kind: PhantomData<fn() -> T>,
}

/// The place of the numbers.
enum Place {
    /// In a body, with the alignment of `T`.
    InPlace(Body),
    /// In memory of their own, since that of the body is not aligned for `T`. No known allocator gives such memory.
    Moved(Box<Moved>),
}

/// Bytes in memory that is aligned to 16 bytes.
struct Moved {
    words: Vec<u128>,
    length: usize,
}

impl Moved {
    #[cold]
    fn of(bytes: &[u8]) -> Box<Self> {
        MOVED.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let words = vec![0; bytes.len().div_ceil(size_of::<u128>())];
        let mut moved = Box::new(Self { words, length: bytes.len() });
        moved.bytes_mut().copy_from_slice(bytes);
        moved
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}

/// Number of bytes that were copied because they were not aligned.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// Number of bytes of buffers that were copied because they were not aligned, for measurements.
#[doc(hidden)]
pub fn moved() -> u64 {
    MOVED.load(Ordering::Relaxed)
}

impl<T: Pod> Buffer<T> {
    /// A buffer of `length` zeros.
    ///
    /// # Panics
    /// `T` has no size, or must be aligned to more than 16 bytes.
    pub fn zeroed(length: usize) -> Self {
        assert!(size_of::<T>() > 0 && align_of::<T>() <= 16, "no plain numbers");
        Self::of_body(Body::zeroed(length * size_of::<T>()))
    }

    /// A buffer with a copy of these numbers.
    ///
    /// # Panics
    /// `T` has no size, or must be aligned to more than 16 bytes.
    pub fn copied_from(numbers: &[T]) -> Self {
        let mut buffer = Self::zeroed(numbers.len());
        buffer.copy_from_slice(numbers);
        buffer
    }

    /// A buffer of a body whose length is a multiple of the size of `T`.
    #[inline]
    fn of_body(body: Body) -> Self {
        let is_in_place = body.as_ptr().addr().is_multiple_of(align_of::<T>());
        let bytes = if is_in_place { Place::InPlace(body) } else { Place::Moved(Moved::of(&body)) };
        Self { bytes, kind: PhantomData }
    }

    /// The buffer that a message has brought.
    #[inline]
    pub(crate) fn read(body: Body) -> Result<Self, Box<(Body, String)>> {
        let is_aligned = size_of::<T>() > 0 && align_of::<T>() <= 16;
        let is_ours = body.is_buffer() && !body.is_of_other_order();
        if is_ours && is_aligned && body.len().is_multiple_of(size_of::<T>()) {
            Ok(Self::of_body(body))
        } else {
            Err(Self::is_none(body))
        }
    }

    #[cold]
    fn is_none(body: Body) -> Box<(Body, String)> {
        let why = if !body.is_buffer() {
            "it is a value, not a buffer: receive it with `recv`".to_owned()
        } else if body.is_of_other_order() {
            "a buffer of a machine with another byte order".to_owned()
        } else {
            format!("a buffer of {} bytes is no whole number of such values", body.len())
        };
        Box::new((body, why))
    }

    /// The body that is sent.
    pub(crate) fn into_body(self) -> Body {
        let mut body = match self.bytes {
            Place::InPlace(body) => body,
            Place::Moved(moved) => {
                MOVED.fetch_add(moved.length as u64, Ordering::Relaxed);
                Body::copied_from(moved.bytes())
            }
        };
        body.set_buffer();
        body
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.bytes {
            Place::InPlace(body) => bytemuck::cast_slice(body),
            Place::Moved(moved) => bytemuck::cast_slice(moved.bytes()),
        }
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.bytes {
            Place::InPlace(body) => bytemuck::cast_slice_mut(body.bytes_mut()),
            Place::Moved(moved) => bytemuck::cast_slice_mut(moved.bytes_mut()),
        }
    }
}

impl<T: Pod> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::copied_from(self)
    }
}

impl<T: Pod + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::BIG_ENDIAN;
    use super::*;

    #[test]
    fn it_travels_as_it_lies() {
        let buffer = Buffer::copied_from(&[1.5_f64, -2.0, f64::MAX]);
        let place = buffer.as_ptr().addr();
        let body = buffer.into_body();
        let again = Body::of_frame(body.into_frame()).unwrap();
        let buffer = Buffer::<f64>::read(again).unwrap();
        assert_eq!(buffer.as_ptr().addr(), place);
        assert_eq!(*buffer, [1.5, -2.0, f64::MAX]);
    }

    #[test]
    fn what_is_no_such_buffer_is_refused() {
        let of = |numbers: &[u8]| Buffer::copied_from(numbers).into_body();
        assert!(Buffer::<u32>::read(of(&[1, 2, 3])).unwrap_err().1.contains("no whole number"));
        assert!(Buffer::<()>::read(of(&[])).is_err());
        let value = crate::wire::encode(&7_u8).unwrap();
        assert!(Buffer::<u8>::read(value).unwrap_err().1.contains("receive it with `recv`"));
        let mut other = of(&[1, 2]);
        other.set_flags(other.flags() ^ BIG_ENDIAN);
        assert!(Buffer::<u8>::read(other).unwrap_err().1.contains("byte order"));
    }

    /// Memory that is aligned to single bytes only, which an allocator may give.
    #[test]
    fn memory_that_is_not_aligned_is_moved_once() {
        let before = moved();
        let buffer = Buffer::<u64> {
            bytes: Place::Moved(Box::new(Moved { words: vec![5; 2], length: 24 })),
            kind: PhantomData,
        };
        assert_eq!(*buffer, [5, 0, 5]);
        let mut buffer = Buffer::<u64>::read(buffer.into_body()).unwrap();
        assert_eq!(moved() - before, 24);
        buffer[1] = 9;
        assert_eq!(*buffer.clone(), [5, 9, 5]);
    }
}
