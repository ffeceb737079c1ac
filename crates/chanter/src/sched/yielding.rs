//! `yield_now`: a thread lets others go first.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets the other threads of the virtual processor run first. (With the default policy these are all that wait
/// already, except in one turn of 64.)
///
/// ```
/// # chanter::block_on(async {
/// chanter::yield_now().await;
/// # });
/// ```
pub fn yield_now() -> Yield {
    Yield { done: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Yield {
    done: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.done, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
