//! Threads that declare which channels they hold.

use std::future::poll_fn;
use std::pin::pin;

use crate::channel::{Receiver, Sender};
use crate::frame::report::{Held, Waits};
use crate::sched::Worker;

/// Runs `body`, which borrows `handles`, and declares to [`partial`](super::partial) that they are held here, and
/// only here.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::deadlock::holding;
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// let sender = spawn(holding(tx, async |tx| tx.send(7).await));
/// assert_eq!(rx.recv().await, Ok(7));
/// sender.await.unwrap().unwrap();
/// # });
/// ```
///
/// The declaration counts if a thread of a machine awaits this future in its own frame. It does not count in a box,
/// under another executor, or if the thread's future takes more than two kilobytes. Then this only runs `body`. A
/// clone that `body` makes is a handle that nobody has declared to hold.
///
/// **Cancel safety.** As that of `body`. The handles are dropped after it.
pub async fn holding<H: Holds, R>(handles: H, body: impl AsyncFnOnce(&H) -> R) -> R {
    let mut body = pin!(body(&handles));
    poll_fn(|cx| {
        if let Some(vp) = Worker::current() {
            vp.answer(|waits| waits.hold(&handles));
        }
        body.as_mut().poll(cx)
    })
    .await
}

impl Waits {
    #[cold]
    fn hold<H: Holds>(&mut self, handles: &H) {
        let mut inventory = Inventory(Vec::new());
        handles.tell(&mut inventory);
        self.held.push((std::ptr::from_ref(handles) as usize, inventory.0));
    }
}

/// A value that [`holding`] can hold: senders, receivers, and tuples, arrays, vectors and options of them.
///
/// Only this crate implements it: the owner of a value of such a type owns each handle in it.
#[allow(private_interfaces, reason = "sealed: an inventory is made here")]
pub trait Holds {
    #[doc(hidden)]
    fn tell(&self, inventory: &mut Inventory);
}

/// Handles that were found. The type cannot be named elsewhere.
pub(crate) struct Inventory(Vec<Held>);

macro_rules! holds {
    ($([$($generics:tt)*] $type:ty: |$this:ident, $inventory:ident| $tell:expr;)*) => {$(
        #[allow(private_interfaces, reason = "as the trait's")]
        impl<$($generics)*> Holds for $type {
            fn tell(&self, $inventory: &mut Inventory) {
                let $this = self;
                $tell
            }
        }
    )*};
}

holds! {
    [T] Sender<T>: |this, inventory| inventory.0.push(this.held());
    [T] Receiver<T>: |this, inventory| inventory.0.push(this.held());
    [H: Holds] Option<H>: |this, inventory| this.iter().for_each(|each| each.tell(inventory));
    [H: Holds] Vec<H>: |this, inventory| this.iter().for_each(|each| each.tell(inventory));
    [H: Holds, const N: usize] [H; N]: |this, inventory| this.iter().for_each(|each| each.tell(inventory));
}

macro_rules! tuples {
    ($first:ident $($more:ident)*) => {
        holds! {
            [$first: Holds $(, $more: Holds)*] ($first, $($more,)*): |this, inventory| {
                #[allow(non_snake_case, reason = "named after their types")]
                let ($first, $($more,)*) = this;
                $first.tell(inventory);
                $($more.tell(inventory);)*
            };
        }
        tuples! { $($more)* }
    };
    () => {};
}

tuples! { A B C D E F G H I J K L }
