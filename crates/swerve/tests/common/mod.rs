//! A server on a free port, and clients that speak to it byte by byte.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use chanter::prelude::Machine;
use swerve::{AccessLog, Config, ErrorLog, Mode, Server, Stop, Summary};
use tempfile::TempDir;

pub(crate) const MODES: [Mode; 4] = [Mode::Synchronous, Mode::Hosts, Mode::Parasites, Mode::PaperParasites];
pub(crate) const ASYNCHRONOUS: [Mode; 3] = [Mode::Hosts, Mode::Parasites, Mode::PaperParasites];

/// Longer than anything here should take, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// A running server and the directory it serves, `dir/served`.
pub(crate) struct Served {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: Stop,
    pub(crate) dir: TempDir,
    server: Option<JoinHandle<Summary>>,
}

/// Serves an empty directory.
pub(crate) fn serve(mode: Mode) -> Served {
    serve_with(mode, |_| ())
}

/// Serves an empty directory after `configure` has had its say.
pub(crate) fn serve_with(mode: Mode, configure: impl FnOnce(&mut Config)) -> Served {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("served")).unwrap();
    let mut config = Config::new(dir.path().join("served"), ([127, 0, 0, 1], 0).into());
    config.mode = mode;
    configure(&mut config);
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let machine = Machine::builder().vps(2).build().unwrap();
        machine.block_on(async move {
            let server = Server::bind(config).unwrap();
            tell.send((server.local_addr(), server.stop())).unwrap();
            server.run().await.unwrap()
        })
    });
    let (addr, stop) = told.recv_timeout(LONG).expect("the server starts");
    Served { addr, stop, dir, server: Some(server) }
}

impl Served {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("served").join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// One request on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, "")
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> Reply {
        let mut client = self.connect();
        client.ask(method, path, headers);
        client.reply(method == "HEAD")
    }

    /// Waits for the server to end by itself, and keeps its directory.
    pub(crate) fn ended_with_directory(mut self) -> TempDir {
        let dir = std::mem::replace(&mut self.dir, TempDir::new().unwrap());
        self.ended();
        dir
    }

    /// Waits for the server to end by itself.
    pub(crate) fn ended(mut self) -> Summary {
        let server = self.server.take().unwrap();
        let until = Instant::now() + LONG;
        while !server.is_finished() {
            assert!(Instant::now() < until, "the server does not stop");
            thread::sleep(Duration::from_millis(5));
        }
        server.join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.halt();
        if let Some(server) = self.server.take()
            && !thread::panicking()
        {
            server.join().unwrap();
        }
    }
}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&addr, LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// `headers` are whole lines, each with its `\r\n`.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str) {
        self.send(format!("{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n"));
    }

    pub(crate) fn shut_our_side(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads more; `false` at the end of the stream.
    fn more(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let n = loop {
            match self.stream.read(&mut bytes) {
                // A signal, or a debugger.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => break read?,
            }
        };
        self.buffer.extend_from_slice(&bytes[..n]);
        Ok(n > 0)
    }

    /// The head of the next answer.
    pub(crate) fn head(&mut self) -> Reply {
        let head = self.up_to(b"\r\n\r\n");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Reply { status, headers, body: Vec::new() }
    }

    /// The next answer; `of_head`: to a HEAD, so without a body.
    pub(crate) fn reply(&mut self, of_head: bool) -> Reply {
        let mut reply = self.head();
        if of_head || reply.status == 304 {
            return reply;
        }
        let len = reply.header("content-length").expect("a length").parse().unwrap();
        reply.body = self.exactly(len);
        reply
    }

    /// The next `len` bytes.
    pub(crate) fn exactly(&mut self, len: usize) -> Vec<u8> {
        while self.buffer.len() < len {
            assert!(self.more().unwrap(), "the connection ended within a body");
        }
        self.buffer.drain(..len).collect()
    }

    /// The body of an answer that comes in chunks (RFC 9112, 7.1), to its end.
    pub(crate) fn chunked(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.up_to(b"\r\n");
            let len = usize::from_str_radix(line.trim_end(), 16).unwrap();
            while self.buffer.len() < len + 2 {
                assert!(self.more().unwrap(), "the connection ended within a chunk");
            }
            body.extend(self.buffer.drain(..len));
            assert_eq!(self.buffer.drain(..2).as_slice(), b"\r\n");
            if len == 0 {
                return body;
            }
        }
    }

    fn up_to(&mut self, end: &[u8]) -> String {
        let at = loop {
            if let Some(at) = find(&self.buffer, end) {
                break at;
            }
            assert!(self.more().unwrap(), "the connection ended too early");
        };
        String::from_utf8(self.buffer.drain(..at + end.len()).collect()).unwrap()
    }

    /// Everything up to the end of the stream. A reset counts as an end, and is told.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        loop {
            match self.more() {
                Ok(true) => {}
                Ok(false) => return (std::mem::take(&mut self.buffer), false),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.buffer), true);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Whether another byte comes before the end.
    pub(crate) fn goes_on(&mut self) -> bool {
        !self.buffer.is_empty() || self.more().unwrap_or(false)
    }

    /// Whether the server closes the connection without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.rest().0.is_empty()
    }
}

pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Bytes that no two places of a file, and no two files, have in common.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// An access log that a test can read.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn log(&self) -> AccessLog {
        AccessLog::To(Box::new(self.clone()))
    }

    /// The same as an error log.
    pub(crate) fn errors(&self) -> Option<ErrorLog> {
        Some(ErrorLog::to(Box::new(self.clone())).unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Waits until something is written.
    pub(crate) fn wait_for(&self, what: &str) {
        let until = Instant::now() + 4 * LONG;
        while !self.text().contains(what) {
            assert!(Instant::now() < until, "not written: {what}; but {}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}
