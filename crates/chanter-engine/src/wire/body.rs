//! A message's bytes, with room for its header in front of them.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use super::header::{ACKNOWLEDGEMENT_AT, AGAIN, FLAGS_AT, Header, LENGTH, NUMBERED, SEQUENCE_AT};

/// A value that travels with a body within a process, beside its bytes. Engines neither read nor send it.
#[doc(hidden)]
pub type Attachment = Arc<dyn Any + Send + Sync>;

/// Sizes of the memory of bodies that each OS thread keeps and reuses: most bodies that are made and dropped fit one
/// of them. (Each is a size and the bytes that a value's encoding adds.)
const SIZES: [usize; 3] = [64, 1024 + 64, 8 * 1024 + 64];
/// Largest number of frames of each size that an OS thread keeps.
const MOST: [usize; BARE + 1] = [64, 32, 16, 64];
/// Index of the frames that are kept without memory.
const BARE: usize = SIZES.len();

thread_local! {
    /// Frames with memory of each size, and behind them frames without.
    #[expect(clippy::vec_box, reason = "they are given away one by one")]
    static KEPT: RefCell<[Vec<Box<Frame>>; BARE + 1]> = const { RefCell::new([const { Vec::new() }; BARE + 1]) };
}

/// The body of a message, in a buffer with headroom: the sender writes the header in front, without a copy.
///
/// A body is one pointer, since it is moved often. A value of several words that were just written one by one makes
/// each move in larger words wait for all of them.
#[derive(Clone)]
pub struct Body(ManuallyDrop<Box<Frame>>);

/// The memory to which a body points.
#[derive(Clone, Default)]
struct Frame {
    /// The first [`LENGTH`] bytes are the header's.
    bytes: Vec<u8>,
    attachment: Option<Attachment>,
}

/// An empty frame, with memory for a header and `capacity` bytes.
#[inline]
fn frame(capacity: usize) -> Box<Frame> {
    let Some(which) = SIZES.iter().position(|size| capacity <= *size) else {
        return bare(Vec::with_capacity(LENGTH + capacity));
    };
    // An OS thread that is ending has none.
    let kept = KEPT.try_with(|kept| kept.borrow_mut()[which].pop()).ok().flatten();
    kept.unwrap_or_else(|| bare(Vec::with_capacity(LENGTH + SIZES[which])))
}

/// A frame with the given memory.
#[inline(never)]
fn bare(bytes: Vec<u8>) -> Box<Frame> {
    let kept = KEPT.try_with(|kept| kept.borrow_mut()[BARE].pop()).ok().flatten();
    let mut frame = kept.unwrap_or_default();
    frame.bytes = bytes;
    frame
}

/// Keeps a frame for reuse, with its memory if that has one of the [`SIZES`].
#[inline]
fn keep(mut frame: Box<Frame>) {
    frame.attachment = None;
    let which = SIZES.iter().position(|size| frame.bytes.capacity() == LENGTH + size).unwrap_or(BARE);
    if which == BARE {
        frame.bytes = Vec::new();
    } else {
        frame.bytes.clear();
    }
    let _ = KEPT.try_with(|kept| {
        let kept = &mut kept.borrow_mut()[which];
        if kept.len() < MOST[which] {
            kept.push(frame);
        }
    });
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes
    }
}

impl Eq for Body {}

impl Body {
    fn of(frame: Box<Frame>) -> Self {
        Self(ManuallyDrop::new(frame))
    }

    /// An empty body, with room for `capacity` bytes.
    #[inline]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut frame = frame(capacity);
        frame.bytes.extend_from_slice(&[0; LENGTH]);
        Self::of(frame)
    }

    /// A body of `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        Self::of(bare(vec![0; LENGTH + length]))
    }

    /// A body with a copy of these bytes.
    pub fn copied_from(bytes: &[u8]) -> Self {
        let mut body = Self::with_capacity(bytes.len());
        body.0.bytes.extend_from_slice(bytes);
        body
    }

    /// The body of a frame that has arrived, with its header. `None` if it is too short for a header.
    pub fn of_frame(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() >= LENGTH).then(|| Self::of(bare(bytes)))
    }

    /// The body of a frame that `fill` appends: at most `length` bytes, with the header. `None` if it is too short
    /// for a header.
    #[inline]
    pub fn filled(length: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Option<Self> {
        let mut frame = frame(length.saturating_sub(LENGTH));
        fill(&mut frame.bytes);
        let body = Self::of(frame);
        (body.frame().len() >= LENGTH).then_some(body)
    }

    /// Appends a byte to the body.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.0.bytes.push(byte);
    }

    /// Appends to the body.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if bytes.len() > self.0.bytes.capacity() - self.0.bytes.len() {
            self.grow(bytes.len());
        }
        self.0.bytes.extend_from_slice(bytes);
    }

    /// Appends a few bytes that were just written one by one. A read of all at once would make the processor wait for
    /// all of those writes.
    #[doc(hidden)]
    #[inline(always)]
    pub fn extend_slowly(&mut self, bytes: &[u8]) {
        if bytes.len() > self.0.bytes.capacity() - self.0.bytes.len() {
            self.grow(bytes.len());
        }
        let length = self.0.bytes.len();
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: there is room for `bytes.len()` bytes behind ours, and the two do not overlap. (Volatile, since
            // the compiler would otherwise read them all at once.)
            unsafe {
                self.0.bytes.as_mut_ptr().add(length + at).write(std::ptr::from_ref(byte).read_volatile())
            };
        }
        // SAFETY: `bytes.len()` bytes have just been written behind `length`, within the capacity.
        unsafe { self.0.bytes.set_len(length + bytes.len()) };
    }

    /// Makes room for `more` bytes. (A vector's own growth would give memory that is kept back to the allocator.)
    #[cold]
    fn grow(&mut self, more: usize) {
        let needed = self.0.bytes.len() - LENGTH + more;
        let mut larger = frame(needed.max(2 * (self.0.bytes.capacity() - LENGTH)));
        larger.bytes.extend_from_slice(&self.0.bytes);
        larger.attachment = self.0.attachment.take();
        keep(std::mem::replace(&mut *self.0, larger));
    }

    /// The bytes of the body, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes[LENGTH..]
    }

    /// The flags of the header. They are there before the header is written.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.0.bytes[FLAGS_AT]
    }

    /// Writes the flags of the header, and nothing else of it.
    #[inline]
    pub fn set_flags(&mut self, flags: u8) {
        self.0.bytes[FLAGS_AT] = flags;
    }

    #[doc(hidden)]
    #[inline]
    pub fn attachment(&self) -> Option<&Attachment> {
        self.0.attachment.as_ref()
    }

    #[doc(hidden)]
    #[inline]
    pub fn take_attachment(&mut self) -> Option<Attachment> {
        self.0.attachment.take()
    }

    #[doc(hidden)]
    #[inline]
    pub fn set_attachment(&mut self, attachment: Option<Attachment>) {
        self.0.attachment = attachment;
    }

    /// Writes the header in front.
    #[inline]
    pub fn set_header(&mut self, header: &Header) {
        self.0.bytes[..LENGTH].copy_from_slice(&header.encode());
    }

    /// Gives the frame, whose header has been written, its number in the link.
    pub(crate) fn set_sequence(&mut self, sequence: u32) {
        self.0.bytes[FLAGS_AT] |= NUMBERED;
        self.0.bytes[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_le_bytes());
    }

    /// Says that the link has sent the frame before.
    pub(crate) fn set_again(&mut self) {
        self.0.bytes[FLAGS_AT] |= AGAIN;
    }

    /// Clears the link's fields in the header, as they were before the link had the frame.
    pub(crate) fn clear_link(&mut self) {
        self.0.bytes[FLAGS_AT] &= !(NUMBERED | AGAIN);
        self.0.bytes[SEQUENCE_AT..ACKNOWLEDGEMENT_AT + 4].fill(0);
    }

    /// Writes the acknowledgement into the header that has been written.
    pub(crate) fn set_acknowledgement(&mut self, acknowledgement: u32) {
        let place = ACKNOWLEDGEMENT_AT..ACKNOWLEDGEMENT_AT + 4;
        self.0.bytes[place].copy_from_slice(&acknowledgement.to_le_bytes());
    }

    /// Shortens the body to `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.0.bytes.truncate(LENGTH + length);
    }

    /// Header and body, as they are sent; not a copy.
    pub fn into_frame(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0.bytes)
    }

    /// Header and body, as they are sent.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Body {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the frame is taken once, here in `drop`, and not used afterwards.
        keep(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl Deref for Body {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0.bytes[LENGTH..]
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn the_header_is_written_in_front_without_a_copy() {
        let mut body = Body::with_capacity(5);
        body.extend_from_slice(b"hello");
        let place = body.as_ptr();
        let header = Header { length: 5, ..Header::new(Kind::Message) };
        body.set_header(&header);
        assert_eq!(body.as_ptr(), place);
        assert_eq!(Header::decode(body.frame(), 5), Ok(header));
        assert_eq!(&*body, b"hello");
        assert_eq!(&body.frame()[LENGTH..], b"hello");
    }

    #[test]
    fn memory_that_is_kept_brings_nothing_along() {
        let mut body = Body::copied_from(&[7; 900]);
        body.set_flags(u8::MAX);
        body.set_attachment(Some(Arc::new(7)));
        let place = body.as_ptr();
        drop(body);
        let again = Body::with_capacity(900);
        assert_eq!(again.as_ptr(), place, "as no other thread takes what this one keeps");
        assert!(again.is_empty() && again.attachment().is_none() && again.flags() == 0);
        // Frames whose memory has gone elsewhere, or is of no size that is kept, are kept without.
        let frame = again.into_frame();
        assert_eq!(frame.len(), LENGTH);
        drop(Body::copied_from(&[7; 100_000]));
        assert!(Body::of_frame(frame).unwrap().is_empty());
    }

    #[test]
    fn a_frame_that_is_filled_has_a_header_at_least() {
        let filled = |length| Body::filled(length, |frame| frame.resize(length, 1));
        assert!(filled(LENGTH - 1).is_none());
        assert_eq!(*filled(LENGTH + 3).unwrap(), [1; 3]);
        let twice_as_long = Body::filled(LENGTH + 1, |frame| frame.resize(LENGTH + 3000, 2)).unwrap();
        assert_eq!(*twice_as_long, [2; 3000]);
    }
}
