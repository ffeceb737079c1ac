//! `hyper` on Chanter: its runtime traits for our streams, threads and timers.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_io::AsyncWrite;
use hyper::rt::{self, ReadBufCursor, Sleep};

use crate::event::after::{After, after, at};
use crate::event::{Event, Sync};
use crate::io::TcpStream;
#[cfg(unix)]
use crate::io::UnixStream;
use crate::thread::{spawn, spawn_parasite};

/// Runs `hyper`'s futures as hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F> rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(spawn(future));
    }
}

/// Runs `hyper`'s futures as parasites.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParasiteExecutor;

impl<F: Future + Send + 'static> rt::Executor<F> for ParasiteExecutor {
    fn execute(&self, future: F) {
        spawn_parasite(future);
    }
}

/// `hyper`'s timers, as events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeping { wait: Box::pin(after(duration).sync()) })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeping { wait: Box::pin(at(deadline).sync()) })
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        *sleep = self.sleep_until(deadline);
    }
}

/// A timer that can be moved: the wait is pinned on the heap.
struct Sleeping {
    wait: Pin<Box<Sync<After>>>,
}

// SAFETY: a shared `Sleeping` can do nothing at all.
unsafe impl std::marker::Sync for Sleeping {}

impl fmt::Debug for Sleeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleeping")
    }
}

impl Future for Sleeping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.wait.as_mut().poll(cx)
    }
}

impl Sleep for Sleeping {}

macro_rules! hyper_stream {
    ($stream:ty) => {
        impl rt::Read for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut buffer: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: the OS only writes to it, and nothing is read from it.
                let space = unsafe { buffer.as_mut() };
                let read = self.poll_read_uninit(cx, space);
                read.map_ok(|count| {
                    // SAFETY: the OS has written that many bytes.
                    unsafe { buffer.advance(count) };
                })
            }
        }

        impl rt::Write for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &[u8],
            ) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write(self, cx, buffer)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_flush(self, cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_close(self, cx)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write_vectored(self, cx, buffers)
            }
        }
    };
}

hyper_stream!(TcpStream);
#[cfg(unix)]
hyper_stream!(UnixStream);
