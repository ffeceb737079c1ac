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

    /// Passes on one stream of a process, until it ends.
    pub(super) async fn forward<E: Event<Output = ()> + Clone>(
        self,
        mut from: Source<E>,
        stream: Stream,
        mut lines: Lines,
    ) {
        while let Some(bytes) = from.read().await {
            self.say(stream, lines.feed(bytes)).await;
            if self.blocks.is_closed() {
                return;
            }
        }
        self.say(stream, lines.end()).await;
    }
}

/// One stream of a process. It ends where the stream ends or, once the process is `over`, is empty. A descendant that
/// has escaped may hold it open for ever.
pub(super) struct Source<E> {
    from: ChildOutput,
    over: E,
    is_over: bool,
    buffer: Vec<u8>,
    /// Number of bytes at the start of the buffer that were read too early.
    kept: usize,
}

impl<E: Event<Output = ()> + Clone> Source<E> {
    pub(super) fn new(from: ChildOutput, over: E) -> Self {
        Self { from, over, is_over: false, buffer: vec![0; AT_ONCE], kept: 0 }
    }

    /// The next bytes; `None` at the end.
    async fn read(&mut self) -> Option<&[u8]> {
        let kept = std::mem::take(&mut self.kept);
        if kept > 0 {
            return Some(&self.buffer[..kept]);
        }
        loop {
            match self.from.try_read(&mut self.buffer) {
                Ok(0) => return None,
                Ok(read) => return Some(&self.buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.is_over => {
                    let readable = self.from.readable().wrap(|_| false);
                    self.is_over = choose((readable, self.over.clone().wrap(|()| true))).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// The first line, with its end; or its beginning, if it is longer than `longest` bytes or the stream ends within
    /// it. Bytes after it are read next.
    pub(super) async fn first_line(&mut self, longest: usize) -> Vec<u8> {
        let mut line = Vec::new();
        while line.len() <= longest {
            let Some(bytes) = self.read().await else { break };
            let end = bytes.iter().position(|&byte| byte == b'\n').map(|end| end + 1);
            line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if let Some(end) = end {
                let read = bytes.len();
                self.buffer.copy_within(end..read, 0);
                self.kept = read - end;
                break;
            }
        }
        line
    }
}
