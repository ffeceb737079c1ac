//! Output of all processes, merged by one OS thread. A reader that does not read stalls nothing else.

use std::io;
use std::thread;

use chanter::prelude::*;
use chanter::process::ChildOutput;

use super::lines::Lines;
use super::streams;

/// Largest number of blocks, of all processes, that wait for the writer. Beyond it the processes wait.
const WAITING: usize = 64;
/// Bytes that are read at once.
const AT_ONCE: usize = 64 << 10;

/// One of the launcher's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// Whole lines.
struct Block {
    stream: Stream,
    lines: Vec<u8>,
}

/// The writer of lines. It ends when all clones have been dropped.
#[derive(Clone)]
pub(super) struct Output {
    blocks: Sender<Block>,
}

impl Output {
    /// Starts the writer. The receiver gets an error if nobody reads the standard output any more, and is closed when
    /// all has been written.
    pub(super) fn start() -> io::Result<(Self, Receiver<io::Error>)> {
        let (blocks, written) = bounded(WAITING);
        let (ends, ended) = mailbox();
        thread::Builder::new().name("output".into()).spawn(move || {
            while let Ok(Block { stream, lines }) = written.recv().sync_blocking() {
                let result = match stream {
                    Stream::Out => streams::write_all(io::stdout(), &lines),
                    // If the stream is closed, nobody reads the message.
                    Stream::Err => streams::write_all(io::stderr(), &lines).or(Ok(())),
                };
                if let Err(error) = result {
                    let _ = ends.try_send(error);
                    return;
                }
            }
        })?;
        Ok((Self { blocks }, ended))
    }

    /// Writes these lines, after the earlier ones. No error shows if nobody reads them.
    pub(super) async fn say(&self, stream: Stream, lines: Vec<u8>) {
        if !lines.is_empty() {
            let _ = self.blocks.send(Block { stream, lines }).await;
        }
    }

    /// Passes on one stream of a process, until the stream ends or, once the process is `over`, is empty. A
    /// descendant that has escaped may hold it open for ever.
    pub(super) async fn forward(
        self,
        from: ChildOutput,
        stream: Stream,
        mut lines: Lines,
        over: impl Event<Output = ()> + Clone,
    ) {
        let mut buffer = vec![0; AT_ONCE];
        let mut is_over = false;
        loop {
            match from.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.say(stream, lines.feed(&buffer[..read])).await,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_over => {
                    is_over = choose((from.readable().wrap(|_| false), over.clone().wrap(|()| true))).await;
                }
                Err(_) => break,
            }
            if self.blocks.is_closed() {
                return;
            }
        }
        self.say(stream, lines.end()).await;
    }
}
