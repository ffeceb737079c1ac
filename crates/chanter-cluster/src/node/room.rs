//! The room of a send window: how many messages and bytes it lets through.
//!
//! INV-WINDOW: the messages sent and not given back have at most `BYTES`, or less than `SLACK` without the longest of
//! them. It stays so: a send goes over `BYTES` only where less than `SLACK` is before it, and while more is under way
//! none is let through. The same then holds for each subset of these messages, such as the messages that the receiver
//! keeps. A subset has at most one message longer than `SLACK`, as two of them are more than `BYTES`. So the receiver
//! can check its sender against the window in any order of arrival, and [`Kept`] does. (Messages of several threads
//! may leave in another order than the window let them through.)

/// Size of a window: messages, and (in `BYTES`) bytes, on their way from a process to an inbox.
const MESSAGES: u32 = 64;
const BYTES: u64 = 256 * 1024;
/// Bytes that may have been received before their sender is told. A message too long for the rest of the window goes
/// if fewer bytes than these are before it: those may be received already, and untold.
const SLACK: u64 = BYTES / 2;
/// Credit from which a message to the sender's process carries it: messages, and (in `SOME_BYTES`) bytes.
const SOME_MESSAGES: u32 = MESSAGES / 4;
const SOME_BYTES: u64 = BYTES / 16;

// INV-WINDOW relies on this.
const _: () = assert!(BYTES == 2 * SLACK);

/// A count of those messages from one process to one inbox that are in one place. It is the receiver's side of
/// INV-WINDOW.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    messages: u32,
    /// Bytes of the messages that are not long.
    bytes: u64,
    /// Whether one of the messages is long: more than [`SLACK`] bytes.
    has_long: bool,
}

impl Kept {
    /// Counts an arriving message of `length` bytes. False: no window has let it through.
    #[inline(always)]
    pub(crate) fn takes(&mut self, length: u64) -> bool {
        let is_long = length > SLACK;
        let bytes = if is_long { self.bytes } else { self.bytes + length };
        let has_room = match (is_long, self.has_long) {
            (true, true) => false,
            (false, false) => bytes <= BYTES,
            _ => bytes < SLACK,
        };
        if !has_room || self.messages >= MESSAGES {
            return false;
        }
        *self = Self { messages: self.messages + 1, bytes, has_long: self.has_long || is_long };
        true
    }

    /// Whether a short message more would be too many.
    pub(crate) fn is_full(&self) -> bool {
        let mut with_one_more = *self;
        !with_one_more.takes(SLACK)
    }

    /// Counts that a message of `length` bytes, which was taken, goes.
    #[inline(always)]
    pub(crate) fn gives(&mut self, length: u64) {
        self.messages = self.messages.saturating_sub(1);
        if length > SLACK {
            self.has_long = false;
        } else {
            self.bytes = self.bytes.saturating_sub(length);
        }
    }
}

/// Whether a message of `length` bytes may follow `messages` messages with `bytes` bytes.
#[inline]
pub(crate) fn has_room(messages: u32, bytes: u64, length: u64) -> bool {
    messages < MESSAGES && (bytes < SLACK || bytes + length <= BYTES)
}

/// Whether enough has been received that the sender must be told at once.
#[inline]
pub(crate) fn is_due(messages: u32, bytes: u64) -> bool {
    messages >= MESSAGES / 2 || bytes >= SLACK
}

/// Whether enough has been received that the next message to the sender's process should carry the credit.
#[inline]
pub(crate) fn is_worth_saying(messages: u32, bytes: u64) -> bool {
    messages >= SOME_MESSAGES || bytes >= SOME_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Credit that is not yet due must not hold a message back when nothing is left to receive.
    #[test]
    fn there_is_room_for_any_message_when_all_are_received_and_none_is_due() {
        for messages in 0..=MESSAGES {
            for bytes in [0, 1, SLACK - 1, SLACK, SLACK + 1, BYTES / 2, BYTES] {
                let is_due = is_due(messages, bytes);
                for length in [0, 1, BYTES - SLACK, BYTES, 10 * BYTES] {
                    assert!(is_due || has_room(messages, bytes, length), "{messages}, {bytes}, {length}");
                }
            }
        }
    }

    #[test]
    fn what_is_due_was_worth_saying_before() {
        for (messages, bytes) in [(MESSAGES / 2, 0), (0, SLACK)] {
            assert!(is_due(messages, bytes) && is_worth_saying(messages, bytes));
            assert!(!is_due(messages / 2, bytes / 2));
        }
        assert!(is_worth_saying(SOME_MESSAGES, 0) && is_worth_saying(0, SOME_BYTES));
        assert!(!is_worth_saying(SOME_MESSAGES - 1, SOME_BYTES - 1));
    }

    #[test]
    fn a_window_is_bounded() {
        assert!(!has_room(MESSAGES, 0, 0));
        assert!(has_room(MESSAGES - 1, BYTES - 1, 1));
        assert!(!has_room(1, BYTES - 1, 2));
        assert!(!has_room(1, SLACK, BYTES), "a long one waits");
        let mut kept = Kept::default();
        assert_eq!((0..2 * MESSAGES).filter(|_| kept.takes(0)).count(), MESSAGES as usize);
        for (lengths, last) in [
            (&[SLACK, SLACK - 1][..], 2),
            (&[SLACK - 1, 10 * BYTES], 1),
            (&[10 * BYTES], SLACK),
            (&[10 * BYTES], SLACK + 1),
            (&[SLACK], SLACK + 1),
        ] {
            let mut kept = Kept::default();
            assert!(lengths.iter().all(|length| kept.takes(*length)), "{lengths:?}");
            assert!(!kept.takes(last), "{lengths:?}, {last}");
        }
    }

    /// INV-WINDOW: all messages that a window lets through are taken, in any order of arrival, of receipt and of
    /// giving back.
    #[test]
    fn what_was_let_through_is_taken_in_any_order() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut over, mut most) = (0, 0);
        for _ in 0..3000 {
            let (mut messages, mut bytes) = (0, 0);
            let (mut on_their_way, mut come, mut received) = (Vec::new(), Vec::new(), Vec::new());
            let mut kept = Kept::default();
            for _ in 0..300 {
                let length = match random.u8(..8) {
                    0..4 => random.u64(..SLACK / 16),
                    4 => SLACK - 1 + random.u64(..3),
                    5 => random.u64(..3 * BYTES),
                    6 => BYTES - bytes.min(BYTES),
                    _ => random.u64(..SLACK),
                };
                match random.u8(..8) {
                    0..4 if has_room(messages, bytes, length) => {
                        (messages, bytes) = (messages + 1, bytes + length);
                        on_their_way.push(length);
                        over += u32::from(bytes > BYTES);
                    }
                    0..6 if !on_their_way.is_empty() => {
                        let length = on_their_way.swap_remove(random.usize(..on_their_way.len()));
                        assert!(kept.takes(length), "{length}: {kept:?}, {come:?}");
                        come.push(length);
                        most = most.max(come.len());
                    }
                    6 if !come.is_empty() => {
                        let length = come.swap_remove(random.usize(..come.len()));
                        kept.gives(length);
                        received.push(length);
                    }
                    7 => {
                        messages -= received.len() as u32;
                        bytes -= received.drain(..).sum::<u64>();
                    }
                    _ => {}
                }
            }
            come.iter().for_each(|length| kept.gives(*length));
            assert_eq!(kept, Kept::default());
        }
        assert!(over > 1000 && most > 10, "{over} over the window, {most} at a time");
    }
}
