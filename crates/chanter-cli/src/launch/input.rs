//! The launcher's standard input, passed on to one process.

use std::io;
use std::thread;

use chanter::prelude::*;
use chanter::process::ChildStdin;

use super::streams;

/// Starts to pass it on, until either end is closed.
pub(super) fn forward(to: ChildStdin) -> io::Result<()> {
    let (chunks, read) = bounded(4);
    // An OS thread: whether a standard input can be waited for depends on what it is. It may outlive the job, in a
    // read that nobody answers; the process does not wait for it.
    thread::Builder::new().name("input".into()).spawn(move || {
        let mut buffer = [0; 16 << 10];
        loop {
            match streams::read(io::stdin(), &mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    if chunks.send(buffer[..read].to_vec()).sync_blocking().is_err() {
                        return;
                    }
                }
            }
        }
    })?;
    pass_on(to, read);
    Ok(())
}

/// Starts to write chunks to a process, until nobody sends more.
pub(super) fn pass_on(to: ChildStdin, chunks: Receiver<Vec<u8>>) {
    spawn(async move {
        while let Ok(chunk) = chunks.recv().await {
            // The process does not want more, or has ended.
            if write_all(&to, &chunk).await.is_err() {
                return;
            }
        }
    });
}

async fn write_all(to: &ChildStdin, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable()?.await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
