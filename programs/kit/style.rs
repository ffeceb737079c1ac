//! How threads are made and messages sent, for the programs of Featherweight Threads: each is written once, for
//! four ways of running it.

use std::future::Future;

use chanter::base::switches::DETACHED_ASEND;
use chanter::parasite::spawn_in_place;
use chanter::{Receiver, Sender, channel, spawn, spawn_parasite};

use super::Form;

/// A way to start threads, and to send.
pub trait Style: Send + Sync + 'static {
    /// The form that it is.
    const FORM: Form;

    /// Starts a thread of the program whose value nobody joins.
    fn start(future: impl Future<Output = ()> + Send + 'static);

    /// Sends a message; asynchronously, if the style is. A channel without receivers swallows it.
    fn send<T: Send + 'static>(to: &Sender<T>, message: T) -> impl Future<Output = ()> + Send;
}

/// Hosts that send synchronously.
#[derive(Debug)]
pub struct Synchronous;

impl Style for Synchronous {
    const FORM: Form = Form::Synchronous;

    fn start(future: impl Future<Output = ()> + Send + 'static) {
        drop(spawn(future));
    }

    async fn send<T: Send + 'static>(to: &Sender<T>, message: T) {
        drop(to.send(message).await);
    }
}

/// Hosts that send asynchronously, each message by a host.
#[derive(Debug)]
pub struct AsynchronousHosts;

impl Style for AsynchronousHosts {
    const FORM: Form = Form::AsynchronousHosts;

    fn start(future: impl Future<Output = ()> + Send + 'static) {
        drop(spawn(future));
    }

    async fn send<T: Send + 'static>(to: &Sender<T>, message: T) {
        let to = to.clone();
        drop(spawn(async move { drop(to.send(message).await) }));
    }
}

/// Parasites that send asynchronously: a message that nobody waits for is left in its channel.
#[derive(Debug)]
pub struct AsynchronousParasites;

impl Style for AsynchronousParasites {
    const FORM: Form = Form::AsynchronousParasites;

    #[inline]
    fn start(future: impl Future<Output = ()> + Send + 'static) {
        spawn_parasite(future);
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Sender<T>, message: T) {
        if DETACHED_ASEND {
            drop(to.asend(message));
        } else {
            PaperParasites::send(to, message).await;
        }
    }
}

/// Parasites that send asynchronously, each message by a parasite (Featherweight Threads, section 2.3). Such a parasite
/// begins where it is spawned, so messages keep their order.
#[derive(Debug)]
pub struct PaperParasites;

impl Style for PaperParasites {
    const FORM: Form = Form::PaperParasites;

    #[inline]
    fn start(future: impl Future<Output = ()> + Send + 'static) {
        spawn_parasite(future);
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Sender<T>, message: T) {
        // The parasite is the event itself, so its frame holds a handle and the message, each once.
        spawn_in_place(to.clone().into_send(message));
    }
}

/// Starts a thread that makes the call and answers over a channel of its own.
#[inline]
pub fn answers<S: Style, C>(call: impl FnOnce() -> C + Send + 'static) -> Receiver<C::Output>
where
    C: Future<Output: Send + 'static> + Send + 'static,
{
    let (to, answer) = channel();
    S::start(async move {
        let value = call().await;
        S::send(&to, value).await;
    });
    answer
}

/// The answer of such a thread.
///
/// # Panics
/// If it has ended without one.
#[inline]
pub async fn answer<T: Send + 'static>(from: Receiver<T>) -> T {
    from.recv().await.expect("a call answers")
}

/// A number of messages, as they come.
///
/// # Panics
/// The sender has gone.
pub async fn collect<T: Send + 'static>(from: &Receiver<T>, messages: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(messages);
    while all.len() < messages {
        all.push(from.recv().await.expect("somebody sends the message"));
    }
    all
}
