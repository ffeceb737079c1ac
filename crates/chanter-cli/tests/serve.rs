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
    stderr: Box<dyn BufRead>,
    addr: String,
}

impl Served {
    fn start(dir: &TempDir, args: &[&str]) -> Served {
        Served::start_as(chanter(), dir, args)
    }

    fn start_as(mut command: Command, dir: &TempDir, args: &[&str]) -> Served {
        let mut child = command.arg(dir.path()).args(["--addr", "127.0.0.1:0"]).args(args).spawn().unwrap();
        let mut stderr = Box::new(BufReader::new(child.stderr.take().unwrap()));
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
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut out).unwrap();
        }
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

#[cfg(target_os = "linux")]
fn limit_descriptors(pid: u32, most: usize) {
    let limit = format!("--nofile={most}:");
    let done = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().unwrap();
    assert!(done.success());
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

/// Nobody reads its errors any more, and clients make it have some.
#[cfg(target_os = "linux")]
#[test]
fn a_server_without_descriptors_and_without_a_stderr_goes_on() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "hello").unwrap();
    let mut served = Served::start(&dir, &[]);
    assert!(read_all(served.get("/a")).ends_with(b"hello"));
    // Lines meet a closed pipe from now on.
    drop(std::mem::replace(&mut served.stderr, Box::new(std::io::empty())));
    let pid = served.child.id();
    // It keeps those that it has, and gets no other.
    limit_descriptors(pid, 3);
    let waits = served.get("/a");
    // It has no descriptor for this one, some times over.
    thread::sleep(Duration::from_millis(300));
    assert!(served.child.try_wait().unwrap().is_none(), "it has ended");
    limit_descriptors(pid, 1024);
    assert!(read_all(waits).ends_with(b"hello"));
    served.signal("TERM");
    assert_eq!(served.ended().0, Some(0));
}

/// A log that cannot be written: the server serves, tells, and ends well.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_for_a_log_harms_nobody() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "hello").unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = chanter();
    command.stdout(full);
    let served = Served::start_as(command, &dir, &[]);
    for _ in 0..5 {
        assert!(read_all(served.get("/a")).ends_with(b"hello"));
    }
    served.signal("TERM");
    let (code, _, err) = served.ended();
    assert_eq!(code, Some(0));
    assert!(err.contains("cannot write the access log"), "{err}");
    assert!(err.contains("5 lines of the access log were lost"), "{err}");
}

/// Nor does one that cannot be told anything at all, from the start to the end.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_for_everything_harms_nobody() {
    let dir = TempDir::new().unwrap();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut child =
        chanter().arg(dir.path()).args(["--addr", &port]).stdout(full()).stderr(full()).spawn().unwrap();
    let until = Instant::now() + 4 * LONG;
    let stream = loop {
        match TcpStream::connect(&port) {
            Ok(stream) => break stream,
            Err(_) => {
                assert!(child.try_wait().unwrap().is_none() && Instant::now() < until, "it does not serve")
            }
        }
        thread::sleep(Duration::from_millis(5));
    };
    write!(&stream, "GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    assert!(read_all(stream).starts_with(b"HTTP/1.1 200 "));
    let served = Served { child, stderr: Box::new(std::io::empty()), addr: port };
    served.signal("TERM");
    assert_eq!(served.ended().0, Some(0));
}

/// A terminal that goes, or a session that ends, is an order to stop.
#[test]
fn sighup_stops_it_with_grace() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("large"), vec![b'x'; LARGE]).unwrap();
    let served = Served::start(&dir, &["--grace", "100"]);
    let mut download = served.get("/large");
    let mut first = [0; 1000];
    download.read_exact(&mut first).unwrap();
    served.signal("HUP");
    let head = first.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(first.len() - head + read_all(download).len(), LARGE);
    assert_eq!(served.ended().0, Some(0));
}

/// Under `nohup` it outlives its terminal.
#[test]
fn an_ignored_sighup_stays_ignored() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "hello").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_chanter"), "serve"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let served = Served::start_as(command, &dir, &[]);
    served.signal("HUP");
    assert!(read_all(served.get("/a")).ends_with(b"hello"));
    served.signal("TERM");
    assert_eq!(served.ended().0, Some(0));
}

/// A link that leads outside is followed only if that is asked for.
#[test]
fn links_lead_outside_if_they_are_to_be_followed() {
    let (dir, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("a"), "outside").unwrap();
    std::os::unix::fs::symlink(outside.path().join("a"), dir.path().join("link")).unwrap();
    let without = Served::start(&dir, &[]);
    assert!(read_all(without.get("/link")).starts_with(b"HTTP/1.1 403 "));
    let with = Served::start(&dir, &["--follow-links"]);
    assert!(read_all(with.get("/link")).ends_with(b"outside"));
}

#[test]
fn limits_that_serve_nobody_are_refused() {
    for (option, value) in [("--max-connections", "0"), ("--head-timeout", "0"), ("--stall-timeout", "0")] {
        let output = chanter().args([option, value, "--addr", "127.0.0.1:0"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(option), "{said}");
    }
}
