//! Memory of large bodies that were sent, for those that come. New memory from the system costs more than to copy it,
//! as each of its pages is a fault.

use super::in_flight::Sent;

/// Largest number of buffers, and of bytes of all together.
const MOST: usize = 8;
const MOST_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(super) struct BufferPool {
    free: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// Keeps the buffer of a message that was sent, if it was a whole body.
    pub(super) fn put_sent(&mut self, sent: Sent) {
        if let Sent::Whole(body) = sent {
            self.put(body.into_frame());
        }
    }

    /// Keeps the memory of a body, unless there is enough.
    pub(super) fn put(&mut self, mut body: Vec<u8>) {
        if self.free.len() < MOST && self.bytes + body.capacity() <= MOST_BYTES {
            body.clear();
            self.bytes += body.capacity();
            self.free.push(body);
        }
    }

    /// A buffer with room for `length` bytes, and not for many more. It is empty if the pool has none.
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        let fits = |room: &Vec<u8>| (length..=4 * length).contains(&room.capacity());
        match self.free.iter().rposition(fits) {
            Some(at) => {
                let room = self.free.swap_remove(at);
                self.bytes -= room.capacity();
                room
            }
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_room_for_what_comes() {
        let mut buffer_pool = BufferPool::default();
        buffer_pool.put(vec![1; 1000]);
        assert_eq!(buffer_pool.take(1001).capacity(), 0);
        assert_eq!(buffer_pool.take(200).capacity(), 0, "too much would be kept for it");
        let room = buffer_pool.take(900);
        assert!(room.is_empty() && room.capacity() >= 1000);
        assert_eq!((buffer_pool.free.len(), buffer_pool.bytes), (0, 0));
    }

    #[test]
    fn not_everything_is_kept() {
        let mut buffer_pool = BufferPool::default();
        (0..20).for_each(|_| buffer_pool.put(vec![0; 100_000]));
        assert_eq!(buffer_pool.free.len(), MOST);
        buffer_pool.put(vec![0; MOST_BYTES]);
        assert!(buffer_pool.bytes <= MOST_BYTES);
    }
}
