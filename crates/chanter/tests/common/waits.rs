//! Waits on channels, of every shape.

use std::future::Future;
use std::pin::Pin;

use chanter::prelude::*;

use super::{Payload, millis};

pub(crate) type Receive = Pin<Box<dyn Future<Output = Result<Payload, Closed>> + Send>>;
pub(crate) type Send_ = Pin<Box<dyn Future<Output = Result<(), SendError<Payload>>> + Send>>;

/// A receive alone, and in choices of every shape.
pub(crate) fn receives(rx: &Receiver<Payload>) -> Vec<(&'static str, Receive)> {
    let (keep, silent) = channel::<Payload>();
    let silent = silent.into_recv().wrap(move |message| {
        let _keep = &keep;
        message
    });
    vec![
        ("single", Box::pin(rx.clone().into_recv().sync())),
        ("wrapped", Box::pin(rx.clone().into_recv().wrap(|r| r).sync())),
        (
            "guarded",
            Box::pin({
                let rx = rx.clone();
                guard(move || rx.into_recv()).sync()
            }),
        ),
        ("boxed", Box::pin(rx.clone().into_recv().boxed().sync())),
        ("choice", Box::pin(choose((rx.clone().into_recv(), never())).sync())),
        ("choice of two", Box::pin(choose((rx.clone().into_recv(), rx.clone().into_recv())).sync())),
        (
            "choice with time",
            Box::pin(
                choose((after(millis(3_600_000)).wrap(|()| Err(Closed)), rx.clone().into_recv())).sync(),
            ),
        ),
        ("choice with a silent channel", Box::pin(choose_biased((silent, rx.clone().into_recv())).sync())),
        (
            "nested choice",
            Box::pin(choose(vec![choose((never(), rx.clone().into_recv())).boxed(), never().boxed()]).sync()),
        ),
        (
            "nacked",
            Box::pin({
                let rx = rx.clone();
                choose((with_nack(move |_| rx.into_recv()), never())).sync()
            }),
        ),
    ]
}

pub(crate) fn sends(tx: &Sender<Payload>, make: impl Fn() -> Payload) -> Vec<(&'static str, Send_)> {
    vec![
        ("single", Box::pin(tx.clone().into_send(make()).sync())),
        ("wrapped", Box::pin(tx.clone().into_send(make()).wrap(|r| r).sync())),
        (
            "guarded",
            Box::pin({
                let (tx, message) = (tx.clone(), make());
                guard(move || tx.into_send(message)).sync()
            }),
        ),
        ("choice", Box::pin(choose((tx.clone().into_send(make()), never())).sync())),
        (
            "choice of two",
            Box::pin(choose((tx.clone().into_send(make()), tx.clone().into_send(make()))).sync()),
        ),
        (
            "choice with time",
            Box::pin(
                choose((tx.clone().into_send(make()), after(millis(3_600_000)).wrap(|()| Ok(())))).sync(),
            ),
        ),
        ("boxed", Box::pin(choose(vec![tx.clone().into_send(make()).boxed(), never().boxed()]).sync())),
    ]
}

pub(crate) type Make = fn() -> (Sender<Payload>, Receiver<Payload>);

pub(crate) const FLAVOURS: [Make; 3] = [channel, || bounded(2), mailbox];
pub(crate) const RECEIVES: usize = 10;
pub(crate) const SENDS: usize = 7;

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Any event alone, and in choices of every shape. All commit to `make`'s.
pub(crate) fn shapes<E>(make: impl Fn() -> E) -> Vec<(&'static str, Waiting<E::Output>)>
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    const HOUR: std::time::Duration = millis(3_600_000);
    let (one, two) = (make(), make());
    let nacked = with_nack(move |_| one);
    vec![
        ("single", Box::pin(make().sync())),
        ("wrapped", Box::pin(make().wrap(|output| output).sync())),
        ("guarded", Box::pin(guard(move || two).sync())),
        ("boxed", Box::pin(make().boxed().sync())),
        ("choice", Box::pin(choose((make(), never())).sync())),
        ("choice of two", Box::pin(choose([make(), make()]).sync())),
        ("timeout", Box::pin(make().timeout(HOUR).wrap(|output| output.expect("an hour")).sync())),
        ("nested", Box::pin(choose(vec![choose((never(), make())).boxed(), never().boxed()]).sync())),
        ("nacked", Box::pin(choose((nacked, never())).sync())),
    ]
}

/// How many shapes there are.
pub(crate) const SHAPES: usize = 9;
