//! Events as streams, on any executor.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::{FusedStream, Stream};

use super::{Event, Sync};

/// The endless stream of the results of `make`'s events, one after another.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::repeat;
/// # use futures::{StreamExt, executor::block_on};
/// let (tx, rx) = mailbox();
/// (0..3).for_each(|n| tx.try_send(n).unwrap());
/// let twice = repeat(|| rx.recv().wrap(|n| 2 * n.unwrap()));
/// assert_eq!(block_on(twice.take(3).collect::<Vec<_>>()), [0, 2, 4]);
/// ```
///
/// **Cancel safety.** Between two polls the stream may hold a synchronization, which may commit in that time. Its
/// result waits in the stream. Dropping the stream gives a message back. So do not keep a stream that you do not
/// poll, while other threads want the same messages. A [`Receiver`](crate::Receiver) is a stream, too, and holds no
/// synchronization between two polls.
///
/// # Panics
/// A poll panics if `make`, a guard, or the function of a `wrap` panics. The stream can be polled again, and then
/// makes a new event.
pub fn repeat<F, E>(make: F) -> Repeat<F, E>
where
    F: FnMut() -> E,
    E: Event,
{
    Repeat { make, sync: None }
}

/// The stream of [`repeat`] and [`Event::into_stream`].
#[must_use = "streams do nothing unless polled"]
pub struct Repeat<F, E: Event> {
    make: F,
    /// The current synchronization, which is pinned.
    sync: Option<Sync<E>>,
}

impl<F, E: Event> fmt::Debug for Repeat<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeat").field("waits", &self.sync.is_some()).finish_non_exhaustive()
    }
}

impl<F: FnMut() -> E, E: Event> Stream for Repeat<F, E> {
    type Item = E::Output;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E::Output>> {
        // SAFETY: `sync` is polled and dropped in place, and `make` is not pinned.
        let (make, mut sync) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.make, Pin::new_unchecked(&mut this.sync))
        };
        if sync.is_none() {
            let event = make();
            sync.set(Some(event.sync()));
        }
        let mut clear = Clear { sync: sync.as_mut(), armed: true };
        let poll = clear.sync.as_mut().as_pin_mut().map_or(Poll::Pending, |sync| sync.poll(cx));
        clear.armed = poll.is_ready();
        poll.map(Some)
    }
}

/// A guard that ends a synchronization which is over, or has panicked.
struct Clear<'a, E: Event> {
    sync: Pin<&'a mut Option<Sync<E>>>,
    armed: bool,
}

impl<E: Event> Drop for Clear<'_, E> {
    fn drop(&mut self) {
        if self.armed {
            self.sync.set(None);
        }
    }
}

/// The stream never ends.
impl<F: FnMut() -> E, E: Event> FusedStream for Repeat<F, E> {
    fn is_terminated(&self) -> bool {
        false
    }
}
