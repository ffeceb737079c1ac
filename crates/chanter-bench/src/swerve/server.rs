//! The servers, each a process of its own, on the same 10 KB file.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::case::Failure;
use crate::process;

/// The file of the paper, 10 KB, by its name in the request.
pub(super) const FILE: &str = "10k.txt";
pub(crate) const LENGTH: usize = 10 * 1024;

/// Time that a server may take to listen, and to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that can be started.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Swerve in one of its forms; the log, if there is one, goes to `/dev/null`. Unless it `keeps` small files,
    /// it opens the file for each reply, as the peer does.
    Swerve { mode: &'static str, logs: bool, keeps: bool },
    /// Tokio and hyper.
    Peer { files: &'static str },
    /// The yardstick: `sendfile`, no access log, as many workers as virtual processors.
    Nginx,
}

/// A directory with the file in it.
pub(crate) struct Site {
    folder: TempDir,
    since: Instant,
}

/// Least age of the files that a server serves.
const AGE: Duration = Duration::from_secs(4);

impl Site {
    pub(crate) fn new() -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(broken)?;
        let text: String = ('a'..='z').cycle().take(LENGTH).collect();
        fs::create_dir(folder.path().join("www")).map_err(broken)?;
        fs::write(folder.path().join("www").join(FILE), text).map_err(broken)?;
        Ok(Self { folder, since: Instant::now() })
    }

    /// Waits until the file is as old as files are.
    pub(crate) fn ripen(&self) {
        sleep(AGE.saturating_sub(self.since.elapsed()));
    }

    /// The served folder.
    pub(crate) fn www(&self) -> PathBuf {
        self.folder.path().join("www")
    }
}

/// A server that listens, until it is dropped.
pub(super) struct Running {
    child: Child,
    pub(super) addr: SocketAddr,
}

impl Running {
    /// Starts a server and waits until it answers. `pinned` keeps it to the first core.
    pub(super) fn start(kind: Kind, vps: usize, site: &Site, pinned: bool) -> Result<Self, Failure> {
        let here = std::env::current_exe().map_err(broken)?;
        let vps = vps.to_string();
        let www = site.www();
        match kind {
            Kind::Swerve { mode, logs, keeps } => {
                let mut command = process::pinned(&here, pinned.then_some(process::Core::First));
                command.arg("serve").arg(&www).args(["--addr", "127.0.0.1:0", "--mode", mode, "--vps", &vps]);
                if !logs {
                    command.arg("--quiet");
                }
                if !keeps {
                    command.args(["--keep", "0"]);
                }
                let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(broken)?;
                Self::that_says_its_port(child, |child| Box::new(child.stderr.take().expect("piped")))
            }
            Kind::Peer { files } => {
                let mut command = process::pinned(&here, pinned.then_some(process::Core::First));
                command.arg("swerve-peer").arg(&www).args(["--vps", &vps, "--files", files]);
                let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(broken)?;
                Self::that_says_its_port(child, |child| Box::new(child.stdout.take().expect("piped")))
            }
            Kind::Nginx => Self::nginx(&vps, site, pinned),
        }
    }

    /// The port follows the last colon of the first line.
    fn that_says_its_port(
        child: Child,
        says: impl FnOnce(&mut Child) -> Box<dyn Read + Send>,
    ) -> Result<Self, Failure> {
        let mut running = Self { child, addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) };
        let mut lines = BufReader::new(says(&mut running.child));
        let mut line = String::new();
        lines.read_line(&mut line).map_err(broken)?;
        let digits = line.trim_end().trim_end_matches('/').rsplit(':').next().unwrap_or("");
        let port: u16 = digits.parse().map_err(|_| Failure::Broken(format!("no port in {line:?}")))?;
        running.addr.set_port(port);
        // Its later output would block it if nobody read it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        running.answers()
    }

    fn nginx(vps: &str, site: &Site, pinned: bool) -> Result<Self, Failure> {
        let program = process::find("nginx").ok_or_else(|| absent("nginx", "nginx-light"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let addr = port.map_err(broken)?;
        let folder = site.folder.path();
        let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
        let config = format!(
            "{user} worker_processes {vps}; worker_rlimit_nofile 20000; daemon off; error_log stderr crit;\n\
             pid {folder}/nginx.pid;\n\
             events {{ worker_connections 16384; }}\n\
             http {{\n\
             access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;\n\
             keepalive_timeout 65; keepalive_requests 1000000000; client_body_temp_path {folder}/body;\n\
             types {{ text/plain txt; }} charset utf-8;\n\
             server {{ listen {addr} backlog=4096; root {folder}/www; }}\n\
             }}\n",
            folder = folder.display(),
        );
        let path = folder.join("nginx.conf");
        fs::write(&path, config).map_err(broken)?;
        let child = process::pinned(&program, pinned.then_some(process::Core::First))
            .arg("-p")
            .arg(folder)
            .arg("-c")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(broken)?;
        Self { child, addr }.answers()
    }

    /// Waits until the server answers.
    fn answers(mut self) -> Result<Self, Failure> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::Unavailable(format!("the server ended at once ({status})")));
            }
            if ask(self.addr, "GET", "").is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200 ")) {
                return Ok(self);
            }
            sleep(Duration::from_millis(10));
        }
        Err(Failure::Broken(format!("no server answers at {}", self.addr)))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/{FILE}", self.addr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request for the file, on a connection of its own; the whole answer. `fields`: more header lines.
pub(crate) fn ask(addr: SocketAddr, method: &str, fields: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("{method} /{FILE} HTTP/1.1\r\nhost: bench\r\n{fields}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

pub(crate) fn broken(error: std::io::Error) -> Failure {
    Failure::Broken(error.to_string())
}

/// A program that is not here, and the package that has it.
pub(super) fn absent(program: &str, package: &str) -> Failure {
    Failure::Unavailable(format!("no `{program}` here (Debian's `{package}`; `--setup` installs it)"))
}

/// Whether the peer gives Swerve's answers, byte for byte, except for the date and the order of headers.
pub(super) fn compare(site: &Site) -> Result<(), Failure> {
    let swerve =
        Running::start(Kind::Swerve { mode: "parasites", logs: false, keeps: true }, 1, site, false)?;
    let tag = field(&ask(swerve.addr, "HEAD", "").map_err(broken)?, "etag");
    let date = field(&ask(swerve.addr, "HEAD", "").map_err(broken)?, "last-modified");
    let questions = [
        ("GET", String::new()),
        ("HEAD", String::new()),
        ("GET", format!("if-none-match: {tag}\r\n")),
        ("GET", "if-none-match: \"other\"\r\n".to_owned()),
        ("GET", format!("if-modified-since: {date}\r\n")),
        ("GET", "range: bytes=100-199\r\n".to_owned()),
        ("GET", format!("range: bytes=10000-\r\nif-range: {tag}\r\n")),
        ("GET", "range: bytes=0-9\r\nif-range: \"other\"\r\n".to_owned()),
    ];
    for files in ["in-place", "pool"] {
        let peer = Running::start(Kind::Peer { files }, 1, site, false)?;
        for (method, fields) in &questions {
            let ours = without_date(&ask(swerve.addr, method, fields).map_err(broken)?);
            let theirs = without_date(&ask(peer.addr, method, fields).map_err(broken)?);
            if ours != theirs {
                let shown =
                    |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned();
                return Err(Failure::Wrong(format!(
                    "{method} with {fields:?} is answered {:?} by Swerve and {:?} by the peer ({files})",
                    shown(&ours),
                    shown(&theirs)
                )));
            }
        }
    }
    Ok(())
}

fn head(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(answer.len());
    &answer[..end]
}

fn field(answer: &[u8], name: &str) -> String {
    let head = String::from_utf8_lossy(head(answer));
    let of =
        |line: &str| line.split_once(": ").filter(|field| field.0 == name).map(|field| field.1.to_owned());
    head.lines().find_map(of).unwrap_or_default()
}

/// The answer without its date; headers say the same in any order.
fn without_date(answer: &[u8]) -> Vec<u8> {
    let length = head(answer).len();
    let mut lines: Vec<_> =
        answer[..length].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
    lines.retain(|line| !line.starts_with(b"date: "));
    lines[1..].sort_unstable();
    let mut all = lines.join(&b'\n');
    all.extend_from_slice(&answer[length..]);
    all
}

/// Names of the bench's programs, and their packages.
pub(super) const PACKAGES: [(&str, &str); 3] =
    [("wrk", "wrk"), ("httperf", "httperf"), ("nginx", "nginx-light")];

/// Installs missing programs. Only for root, where there is `apt-get`; otherwise prints which are missing.
pub(super) fn setup() {
    let missing: Vec<_> =
        PACKAGES.into_iter().filter(|(program, _)| process::find(program).is_none()).collect();
    if missing.is_empty() {
        return;
    }
    let names: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    if !nix::unistd::geteuid().is_root() || !Path::new("/usr/bin/apt-get").exists() {
        eprintln!("chanter: cannot install {}: that takes root and apt-get", names.join(", "));
        return;
    }
    eprintln!("chanter: installing {}", names.join(", "));
    let done = Command::new("apt-get")
        .args(["install", "-y", "--no-install-recommends"])
        .args(&names)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status();
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("chanter: apt-get failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_all_that_may_differ() {
        let one = b"HTTP/1.1 200 OK\r\netag: \"x\"\r\ndate: Mon\r\n\r\ndate: body";
        let two = b"HTTP/1.1 200 OK\r\netag: \"x\"\r\ndate: Tue\r\n\r\ndate: body";
        let other = b"HTTP/1.1 200 OK\r\netag: \"y\"\r\ndate: Mon\r\n\r\ndate: body";
        assert_eq!(without_date(one), without_date(two));
        assert_ne!(without_date(one), without_date(other));
        assert!(without_date(one).ends_with(b"date: body"));
        assert_eq!(field(one, "etag"), "\"x\"");
    }
}
