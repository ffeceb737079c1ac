//! `chanter serve` as a process: what it says, how it ends, and what signals do to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(240);

fn chanter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
    command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server; killed when dropped.
struct Served {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    addr: String,
}

impl Served {
    fn start(dir: &TempDir, args: &[&str]) -> Served {
        let mut child = chanter().arg(dir.path()).args(["--addr", "127.0.0.1:0"]).args(args).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        // The limit on descriptors may be the subject of a line before this one.
        while !said.contains("http://") {
            said.clear();
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended without a word");
        }
        let addr = said.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
        Served { child, stderr, addr }
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    fn get(&self, path: &str) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
        stream
    }

    /// The exit code and what was written, once the process has ended by itself.
    fn ended(mut self) -> (Option<i32>, String, String) {
        let until = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        (status.code(), out, err)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn one_line_and_code_2(output: &Output, mentions: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("cannot")).collect();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].contains(mentions), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_missing_directory_is_one_line_and_code_2() {
    let output = chanter().args(["/no/such/directory", "--addr", "127.0.0.1:0"]).output().unwrap();
    one_line_and_code_2(&output, "/no/such/directory");
}

#[test]
fn a_busy_port_is_one_line_and_code_2() {
    let dir = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let output = chanter().arg(dir.path()).args(["--addr", &addr]).output().unwrap();
    one_line_and_code_2(&output, &addr);
}

#[test]
fn an_address_that_is_none_is_one_line_and_code_2() {
    let dir = TempDir::new().unwrap();
    let output = chanter().arg(dir.path()).args(["--addr", "nonsense"]).output().unwrap();
    one_line_and_code_2(&output, "nonsense");
}

#[test]
fn it_serves_logs_and_ends_well_on_either_signal() {
    for (signal, mode) in [("INT", "hosts"), ("TERM", "parasites")] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("a"), "hello").unwrap();
        let served = Served::start(&dir, &["--mode", mode]);
        let answer = read_all(served.get("/a"));
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"\r\n\r\nhello"));
        let idle = served.connect();
        served.signal(signal);
        assert!(read_all(idle).is_empty());
        let (code, out, _) = served.ended();
        assert_eq!(code, Some(0));
        assert_eq!(out.lines().count(), 1, "{out}");
        assert!(out.contains("\"GET /a HTTP/1.1\" 200 5 "), "{out}");
    }
}

#[test]
fn quiet_is_quiet() {
    let dir = TempDir::new().unwrap();
    let served = Served::start(&dir, &["--quiet", "--vps", "1"]);
    assert!(read_all(served.get("/")).starts_with(b"HTTP/1.1 200 OK\r\n"));
    served.signal("TERM");
    let (code, out, _) = served.ended();
    assert_eq!((code, out.as_str()), (Some(0), ""));
}

/// More than the buffers of both sockets hold, so that the server cannot be through with it.
const LARGE: usize = 48_000_000;

#[test]
fn a_download_survives_sigterm() {
    for mode in ["hosts", "parasites"] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("large"), vec![b'x'; LARGE]).unwrap();
        let served = Served::start(&dir, &["--mode", mode, "--grace", "600"]);
        let mut download = served.get("/large");
        let mut first = [0; 1000];
        download.read_exact(&mut first).unwrap();
        served.signal("TERM");
        thread::sleep(Duration::from_millis(300));
        let head = first.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(first.len() - head + read_all(download).len(), LARGE);
        assert_eq!(served.ended().0, Some(0));
    }
}

#[test]
fn a_second_signal_cuts() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("large"), vec![b'x'; LARGE]).unwrap();
    let served = Served::start(&dir, &["--grace", "600"]);
    let mut download = served.get("/large");
    download.read_exact(&mut [0; 1000]).unwrap();
    served.signal("INT");
    // Two signals are one if the first has not been heard: it closes the port.
    let until = Instant::now() + LONG;
    while TcpStream::connect(&served.addr).is_ok() {
        assert!(Instant::now() < until, "the port stays open");
        thread::sleep(Duration::from_millis(5));
    }
    served.signal("INT");
    let (code, _, err) = served.ended();
    assert_eq!(code, Some(0));
    assert!(err.contains("cut 1 connection"), "{err}");
}
