//! Threads of a phase: as many at a time as there are, and all are waited for.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use chanter::prelude::*;
use chanter_objects::{ObjectError, conc_for};
use serde::{Deserialize, Serialize};

/// The way in which threads are run (the paper's versions Base and Base+Stack; the carrier of messages is chosen by
/// the job).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Threads {
    /// Each is a context on the heap that is queued.
    Heap,
    /// Each begins as a call, and becomes a context when it blocks.
    Stack,
}

impl Threads {
    /// The form that suits long threads on the present machine. Of threads that begin as calls, one is queued for a
    /// searching processor now and then, which waits in between. If all are queued, each processor finds the next at
    /// once.
    pub fn for_long_ones() -> Self {
        match Machine::current() {
            Some(machine) if machine.vps() > 1 => Self::Heap,
            _ => Self::Stack,
        }
    }
}

/// Runs a thread for each number below `count`, all at a time.
pub async fn each<W, F>(threads: Threads, count: usize, world: &Arc<W>, method: impl Fn(Arc<W>, usize) -> F)
where
    F: Future<Output = Result<(), ObjectError>> + Send + 'static,
{
    let thread = |number| {
        let thread = method(Arc::clone(world), number);
        async move { thread.await.expect("objects live as long as their world") }
    };
    if threads == Threads::Stack {
        return conc_for(0..count, thread).await;
    }
    let threads: Vec<_> = (0..count).map(|number| spawn(thread(number))).collect();
    for thread in threads {
        thread.await.expect("objects live as long as their world");
    }
}

/// Makes a call, and waits for it: as a context of its own, or as a call.
pub async fn call<F>(threads: Threads, call: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    match threads {
        Threads::Stack => call.await,
        Threads::Heap => spawn(call).await.expect("a call that is made here ends"),
    }
}

/// Runs some threads at a time, and waits for all. Returns what they yield, in their order.
pub async fn all<F>(threads: Threads, all: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + Unpin + 'static,
{
    let mut outputs = Vec::new();
    if threads == Threads::Heap {
        let threads: Vec<_> = all.into_iter().map(spawn).collect();
        for thread in threads {
            outputs.push(Some(thread.await.expect("a thread that runs here ends")));
        }
        return outputs.into_iter().flatten().collect();
    }
    let mut waiting = Vec::new();
    for (at, mut thread) in all.into_iter().enumerate() {
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut thread).poll(cx))).await;
        match polled {
            Poll::Ready(output) => outputs.push(Some(output)),
            Poll::Pending => {
                outputs.push(None);
                waiting.push((at, thread));
            }
        }
    }
    poll_fn(|cx| {
        waiting.retain_mut(|(at, thread)| match Pin::new(thread).poll(cx) {
            Poll::Ready(output) => {
                outputs[*at] = Some(output);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
