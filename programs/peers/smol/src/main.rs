//! smol: its executor, driven by as many OS threads as there are processors; see `README.md`.

use std::future::Future;
use std::process::ExitCode;
use std::thread;

use async_executor::Executor;
use chanter_peer_kit::channels::{AsyncChannel, Flume};
use chanter_peer_kit::tasks::{self, Tasks};
use chanter_peer_kit::{Program, System};
use futures_lite::future;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static EXECUTOR: Executor<'static> = Executor::new();

struct Smol;

impl Tasks for Smol {
    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        EXECUTOR.spawn(future)
    }

    // smol's tasks end when their handle is dropped.
    fn start(future: impl Future<Output = ()> + Send + 'static) {
        EXECUTOR.spawn(future).detach();
    }
}

impl Smol {
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        future::block_on(EXECUTOR.run(EXECUTOR.spawn(work)))
    }
}

impl System for Smol {
    const PROGRAMS: &'static [Program<Self>] = &[
        Program::new("spawn", |smol, n| smol.run(tasks::spawn::<Self>(n))),
        Program::new("ping-pong/async-channel", |smol, n| {
            smol.run(tasks::ping_pong::<Self, AsyncChannel>(n))
        }),
        Program::new("ping-pong/flume", |smol, n| smol.run(tasks::ping_pong::<Self, Flume>(n))),
        Program::new("parallel-ping-pong/async-channel", |smol, n| {
            smol.run(tasks::parallel_ping_pong::<Self, AsyncChannel>(n))
        }),
        Program::new("parallel-ping-pong/flume", |smol, n| {
            smol.run(tasks::parallel_ping_pong::<Self, Flume>(n))
        }),
        Program::new("send/async-channel", |smol, n| smol.run(tasks::send::<Self, AsyncChannel>(n))),
        Program::new("send/flume", |smol, n| smol.run(tasks::send::<Self, Flume>(n))),
        Program::new("choose/async-channel", |smol, n| smol.run(tasks::choose::<Self, AsyncChannel>(n))),
        Program::new("choose/flume", |smol, n| smol.run(tasks::choose::<Self, Flume>(n))),
        Program::new("sieve/async-channel", |smol, n| smol.run(tasks::sieve::<Self, AsyncChannel>(n))),
        Program::new("sieve/flume", |smol, n| smol.run(tasks::sieve::<Self, Flume>(n))),
        Program::new("fib-channel/async-channel", |smol, n| {
            smol.run(tasks::fib_channel::<Self, AsyncChannel>(n))
        }),
        Program::new("fib-channel/flume", |smol, n| smol.run(tasks::fib_channel::<Self, Flume>(n))),
        Program::new("fib-join", |smol, n| smol.run(tasks::fib_join::<Self>(n))),
        Program::new("tak-join", |smol, n| smol.run(tasks::tak_join::<Self>(n))),
        Program::sort("mergesort", |smol, numbers| smol.run(tasks::sorted::<Self>(numbers))),
    ];

    fn start(processors: usize) -> Self {
        for _ in 1..processors {
            // The other driver is the thread of `run`.
            thread::spawn(|| future::block_on(EXECUTOR.run(future::pending::<()>())));
        }
        Self
    }
}

fn main() -> ExitCode {
    chanter_peer_kit::main::<Smol>()
}
