//! Threads of every kind, in one world.

use std::future::Future;
use std::pin::Pin;

use chanter::prelude::*;

use super::machine;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Host,
    Pinned,
    Local,
    Parasite,
    Fiber,
    Os,
    Tokio,
}

pub(crate) const KINDS: [Kind; 7] =
    [Kind::Host, Kind::Pinned, Kind::Local, Kind::Parasite, Kind::Fiber, Kind::Os, Kind::Tokio];

pub(crate) struct World {
    machine: Machine,
    tokio: tokio::runtime::Runtime,
}

impl World {
    pub(crate) fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        Self { machine: machine(2), tokio }
    }

    /// Runs `body` on a thread of this kind; ready when it has ended. A body that
    /// panics is `Dropped`.
    pub(crate) fn run(
        &self,
        kind: Kind,
        body: impl Future<Output = ()> + Send + 'static,
    ) -> chanter::channel::IntoRecv<()> {
        let (done, ended) = bounded(1);
        let body: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            body.await;
            done.try_send(()).unwrap();
        });
        match kind {
            Kind::Host => drop(self.machine.spawn(body)),
            // Miri switches no stacks.
            Kind::Fiber if cfg!(miri) => drop(self.machine.spawn(body)),
            Kind::Pinned => drop(self.machine.spawn_on(0, body)),
            Kind::Local => {
                drop(self.machine.spawn_on(1, async { drop(spawn_local(body)) }));
            }
            Kind::Parasite => drop(self.machine.spawn(async { spawn_parasite(body) })),
            Kind::Fiber => drop(self.machine.spawn_fiber(|| chanter::block_on(body))),
            Kind::Os => drop(std::thread::spawn(|| futures::executor::block_on(body))),
            Kind::Tokio => drop(self.tokio.spawn(body)),
        }
        ended.into_recv()
    }

    /// Runs the bodies that `make` makes, on every pair of kinds.
    #[track_caller]
    pub(crate) fn pairs<A, B>(&self, make: impl Fn() -> (A, B))
    where
        A: Future<Output = ()> + Send + 'static,
        B: Future<Output = ()> + Send + 'static,
    {
        for one in KINDS {
            for other in KINDS {
                let (a, b) = make();
                let ended = (self.run(one, a), self.run(other, b));
                assert_eq!(ended.0.sync_blocking(), Ok(()), "{one:?} with {other:?}");
                assert_eq!(ended.1.sync_blocking(), Ok(()), "{other:?} with {one:?}");
            }
        }
    }
}
