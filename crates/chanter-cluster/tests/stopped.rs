//! A process of a node that is stopped is waited for, for longer than a silent peer on another node would be. It then
//! goes on where it was, and nothing is lost.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::shm::{Shm, ShmSlot};
use chanter_cluster::engine::socket::{Config, Sockets};
use chanter_cluster::engine::{ProcessId, Why};
use chanter_cluster::launcher::{Address, Launched, Secret, segment};
use chanter_cluster::{ANYONE, Inbox, Process, ThreadName};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const FOLDER: &str = "CHANTER_STOPPED_FOLDER";
const SEGMENT: &str = "CHANTER_STOPPED_SEGMENT";
const MESSAGE: u32 = 1;
/// Stops of the process, each longer than `config` waits for a peer on another node.
const STOPS: u32 = 6;
const STOP: Duration = Duration::from_millis(300);

/// A silent peer is lost after 100 ms, if at all.
fn config() -> Config {
    let mut config = Config::default();
    (config.heartbeat, config.suspect_after, config.lost_after) = (Duration::from_millis(10), 3, 10);
    (config.hello, config.start) = (Duration::from_secs(300), Duration::from_secs(300));
    config
}

/// Process `number` of the job.
async fn start(number: u32, listener: OwnedFd, folder: &Path, segment: Option<OwnedFd>) -> Process {
    let addresses = (0..2).map(|number| Address::Unix(folder.join(number.to_string()))).collect();
    let launched = Launched {
        number,
        addresses,
        listener,
        secret: Secret::new([7; 32]),
        segment: None,
        tls: None,
        is_open: false,
    };
    let slot = segment.map(|segment| ShmSlot::take(segment, ProcessId(number), 2).unwrap());
    let sockets = Sockets::start(launched, config()).await.unwrap();
    match slot {
        Some(slot) => Process::start(Shm::new(slot, sockets)),
        None => Process::start(sockets),
    }
}

/// The process that is stopped: it sends back what comes, until an empty message comes. Its standard input is the
/// listener.
#[test]
fn an_echo() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let listener = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let segment = std::env::var_os(SEGMENT)
        .map(|path| File::options().read(true).write(true).open(path).unwrap().into());
    Machine::builder().vps(2).build().unwrap().block_on(async move {
        let here = start(1, listener, Path::new(&folder), segment).await;
        let inbox = here.open("echo").unwrap();
        loop {
            let got = inbox.recv::<Vec<u8>>(ANYONE, MESSAGE).await.unwrap();
            let is_last = got.value.is_empty();
            inbox.send(got.from, MESSAGE, &got.value).await.unwrap();
            if is_last {
                break;
            }
        }
        here.leave().await;
    });
}

/// A process that is killed when dropped, also if it is stopped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn message(number: u32) -> Vec<u8> {
    let length = if number % 50 == 7 { 200_000 } else { 4 + number as usize % 1000 };
    let mut bytes = vec![number as u8; length];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends until `is_over`. Returns the number of messages.
async fn send(here: Arc<Inbox>, there: ThreadName, is_over: Arc<AtomicBool>) -> u32 {
    let mut number = 0;
    while !is_over.load(Ordering::SeqCst) {
        here.send(there, MESSAGE, &message(number)).await.unwrap();
        number += 1;
    }
    here.send(there, MESSAGE, &Vec::<u8>::new()).await.unwrap();
    number
}

fn is_waited_for(is_shared: bool) {
    let folder = tempfile::tempdir().unwrap();
    let [mine, theirs] = ["0", "1"].map(|name| UnixListener::bind(folder.path().join(name)).unwrap());
    let segment = is_shared.then(|| segment(2).unwrap());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "an_echo", "--test-threads", "1"]).env(FOLDER, folder.path());
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    if let Some(segment) = &segment {
        command.env(SEGMENT, format!("/proc/{}/fd/{}", std::process::id(), segment.as_raw_fd()));
    }
    let mut echo = Killed(command.spawn().unwrap());
    let pid = Pid::from_raw(echo.0.id() as i32);
    let echoed = Arc::new(AtomicU32::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let stopping = std::thread::spawn({
        let (echoed, is_over) = (Arc::clone(&echoed), Arc::clone(&is_over));
        move || {
            for stop in 0..STOPS {
                let before = echoed.load(Ordering::SeqCst);
                while echoed.load(Ordering::SeqCst) < before + 20 + stop {
                    std::thread::yield_now();
                }
                kill(pid, Signal::SIGSTOP).unwrap();
                std::thread::sleep(STOP);
                kill(pid, Signal::SIGCONT).unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
        }
    });
    Machine::builder().vps(2).build().unwrap().block_on(async move {
        // The other process opens the segment by this process's descriptor, so that stays open.
        let mine_too = segment.as_ref().map(|segment| segment.try_clone().unwrap());
        let here = start(0, mine.into(), folder.path(), mine_too).await;
        let inbox = Arc::new(here.inbox().unwrap());
        let there = here.lookup("echo@1").await.unwrap();
        let sending = spawn(send(Arc::clone(&inbox), there, is_over));
        for number in 0.. {
            let got = inbox.recv::<Vec<u8>>(there, MESSAGE).await.unwrap().value;
            if got.is_empty() {
                assert_eq!(sending.join().await.unwrap(), number);
                break;
            }
            assert!(matches!(here.down(1), None | Some(Why::Left)), "{:?}", here.down(1));
            assert!(got == message(number), "message {number}");
            echoed.store(number + 1, Ordering::SeqCst);
        }
        here.leave().await;
    });
    stopping.join().unwrap();
    assert!(echo.0.wait().unwrap().success());
}

#[test]
fn on_a_unix_socket_it_is_waited_for() {
    is_waited_for(false);
}

#[test]
fn in_the_memory_of_a_node_it_is_waited_for() {
    is_waited_for(true);
}
