//! Tokio: the current-thread runtime on one processor, the multi-threaded one on two; see `README.md`.

use std::future::Future;
use std::process::ExitCode;

use chanter_peer_kit::channels::{Flume, Kanal, Mpsc};
use chanter_peer_kit::tasks::{self, Tasks};
use chanter_peer_kit::{Program, System, work};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Tokio {
    runtime: Runtime,
}

impl Tasks for Tokio {
    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        let task = tokio::spawn(future);
        async move { task.await.expect("no task panics or is aborted") }
    }
}

impl Tokio {
    /// Runs `work` as a task, because the future of `block_on` is not on a worker.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(async { Self::spawn(work).await })
    }
}

impl System for Tokio {
    const PROGRAMS: &'static [Program<Self>] = &[
        Program::new("spawn", |tokio, n| tokio.run(tasks::spawn::<Self>(n))),
        Program::new("ping-pong/tokio", |tokio, n| tokio.run(tasks::ping_pong::<Self, Mpsc>(n))),
        Program::new("ping-pong/flume", |tokio, n| tokio.run(tasks::ping_pong::<Self, Flume>(n))),
        Program::new("ping-pong/kanal", |tokio, n| tokio.run(tasks::ping_pong::<Self, Kanal>(n))),
        Program::new("parallel-ping-pong/tokio", |tokio, n| {
            tokio.run(tasks::parallel_ping_pong::<Self, Mpsc>(n))
        }),
        Program::new("parallel-ping-pong/flume", |tokio, n| {
            tokio.run(tasks::parallel_ping_pong::<Self, Flume>(n))
        }),
        Program::new("parallel-ping-pong/kanal", |tokio, n| {
            tokio.run(tasks::parallel_ping_pong::<Self, Kanal>(n))
        }),
        Program::new("send/tokio", |tokio, n| tokio.run(tasks::send::<Self, Mpsc>(n))),
        Program::new("send/flume", |tokio, n| tokio.run(tasks::send::<Self, Flume>(n))),
        Program::new("send/kanal", |tokio, n| tokio.run(tasks::send::<Self, Kanal>(n))),
        Program::new("choose/select!", |tokio, n| tokio.run(select(n))),
        Program::new("choose/tokio", |tokio, n| tokio.run(tasks::choose::<Self, Mpsc>(n))),
        Program::new("choose/flume", |tokio, n| tokio.run(tasks::choose::<Self, Flume>(n))),
        Program::new("choose/kanal", |tokio, n| tokio.run(tasks::choose::<Self, Kanal>(n))),
        Program::new("sieve/tokio", |tokio, n| tokio.run(tasks::sieve::<Self, Mpsc>(n))),
        Program::new("sieve/flume", |tokio, n| tokio.run(tasks::sieve::<Self, Flume>(n))),
        Program::new("sieve/kanal", |tokio, n| tokio.run(tasks::sieve::<Self, Kanal>(n))),
        Program::new("fib-channel/tokio", |tokio, n| tokio.run(tasks::fib_channel::<Self, Mpsc>(n))),
        Program::new("fib-channel/flume", |tokio, n| tokio.run(tasks::fib_channel::<Self, Flume>(n))),
        Program::new("fib-channel/kanal", |tokio, n| tokio.run(tasks::fib_channel::<Self, Kanal>(n))),
        Program::new("fib-join", |tokio, n| tokio.run(tasks::fib_join::<Self>(n))),
        Program::new("tak-join", |tokio, n| tokio.run(tasks::tak_join::<Self>(n))),
        Program::sort("mergesort", |tokio, numbers| tokio.run(tasks::sorted::<Self>(numbers))),
    ];

    fn start(processors: usize) -> Self {
        let runtime = match processors {
            1 => Builder::new_current_thread().build(),
            _ => Builder::new_multi_thread().worker_threads(processors).build(),
        };
        Self { runtime: runtime.expect("the operating system has threads") }
    }
}

/// `choose` by `tokio::select!`, whose losers may be dropped.
async fn select(messages: u64) -> u64 {
    let mut all: Vec<_> = tasks::producers::<Tokio, Mpsc>(messages).collect();
    let [a, b, c, d, e, f, g, h] = &mut all[..] else { return 0 };
    let mut sum = 0;
    for _ in 0..messages {
        // A channel that is closed and empty yields `None`, which the pattern leaves out of the choice.
        let got = tokio::select! {
            Some(got) = a.recv() => got,
            Some(got) = b.recv() => got,
            Some(got) = c.recv() => got,
            Some(got) = d.recv() => got,
            Some(got) = e.recv() => got,
            Some(got) = f.recv() => got,
            Some(got) = g.recv() => got,
            Some(got) = h.recv() => got,
            else => break,
        };
        sum += got;
    }
    work::low(sum)
}

fn main() -> ExitCode {
    chanter_peer_kit::main::<Tokio>()
}
