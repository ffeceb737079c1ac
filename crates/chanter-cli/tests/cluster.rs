//! Processes that `chanter launch` has started and that talk by the engine of sockets. This program is both the test
//! and, when it has been launched, the processes.

#![cfg(unix)]

#[path = "cluster/objects.rs"]
mod objects;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::engine::socket::{Config, Sockets};
use chanter_cluster::engine::{Change, Engine, Lane, Leave, Polled, ProcessId, Sink, Why};
use chanter_cluster::launcher::Launched;
use chanter_cluster::supervise::{Place, Restart, Supervisor};
use chanter_cluster::wire::{Body, Header, Kind};
use chanter_cluster::{Begun, CallError, Context, Down, Process, remote, service};
use nix::sys::signal::{Signal, raise};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

const RUN: &str = "CHANTER_TEST_RUN";
const ROUNDS: u64 = 100;
const COUNT: u32 = 4;

fn main() {
    match std::env::var(RUN) {
        Ok(name) => process(&name),
        Err(_) => {
            for (name, test) in [
                ("ring", ring as fn()),
                ("tls", tls),
                ("death", death),
                ("supervised", supervised),
                ("objects", objects::test),
                ("alone", alone),
            ] {
                test();
                println!("test {name} ... ok");
            }
        }
    }
}

fn launch(name: &str, args: &[&str]) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
    command.args(["launch", "-n", &COUNT.to_string()]).args(args).arg(this).env(RUN, name).output().unwrap()
}

fn lines(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    lines
}

/// A token goes around, and has counted its steps; all leave well.
fn ring() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key, authority] = certificate(folder.path());
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &authority];
    let named = [&tls[..], &["--tls-name", "127.0.0.1"]].concat();
    let hosts = hosts(folder.path());
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let tls_on_hosts = [&hosts[..], &named].concat();
    for args in [&[][..], &["--tcp"], &tls, &named, &hosts, &tls_on_hosts] {
        let output = launch("ring", args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""));
        assert_eq!(lines(&output), [format!("[0] {} steps", ROUNDS * u64::from(COUNT))]);
    }
}

/// Arguments of a job over two hosts, with two processes each.
fn hosts(folder: &Path) -> Vec<String> {
    let file = folder.join("hosts");
    std::fs::write(&file, "127.0.0.1 slots=2\n127.0.0.2 slots=2").unwrap();
    let file = file.into_os_string().into_string().unwrap();
    let chanter = env!("CARGO_BIN_EXE_chanter");
    ["--hosts", &file, "--by", "env HOST={host}", "--remote-chanter", chanter].map(str::to_owned).into()
}

/// TLS files for processes on the loopback interface: their certificate, its key, and the authority's.
fn certificate(folder: &Path) -> [String; 3] {
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "a job's authority");
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let texts = [("cert", certificate.pem()), ("key", key.serialize_pem()), ("ca", authority.pem())];
    texts.map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    })
}

/// Files that are not there, or of no use, end the job with a word.
fn tls() {
    let missing = launch("ring", &["--tls-cert", "/none", "--tls-key", "/none", "--tls-ca", "/none"]);
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said.starts_with("chanter: cannot start a job: /none: No such file"), "{said}");
    let half = launch("ring", &["--tls-cert", "/none"]);
    assert!(String::from_utf8_lossy(&half.stderr).contains("--tls-key"));
}

/// One is killed; the others hear what it said before, then of its death, and go on with each other.
fn death() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = hosts(folder.path());
    let hosts: Vec<&str> = ["--keep-going"].into_iter().chain(hosts.iter().map(String::as_str)).collect();
    for args in [&["--keep-going"][..], &["--keep-going", "--tcp"], &hosts] {
        let output = launch("death", args);
        let said = String::from_utf8_lossy(&output.stderr);
        // Without what the launcher of a node says of it.
        let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("chanter: host ")).collect();
        let expected = ["chanter: process 3 failed (signal 9 SIGKILL)"];
        assert_eq!((output.status.code(), &said[..]), (Some(137), &expected[..]));
        let survivor = |number, others| format!("[{number}] process 3 said 3, then died; heard {others}");
        assert_eq!(lines(&output), [survivor(0, "1, 2"), survivor(1, "0, 2"), survivor(2, "0, 1")]);
    }
}

/// Threads of other processes, one of which is killed: who watches is told, a link ends the other one, a supervisor starts its
/// child again elsewhere.
fn supervised() {
    for args in [&["--keep-going"][..], &["--keep-going", "--tcp"], &["--keep-going", "--no-segment"]] {
        let output = launch("supervised", args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*said),
            (Some(137), "chanter: process 1 failed (signal 9 SIGKILL)\n")
        );
        let lines = lines(&output);
        assert!(
            lines.len() == 1
                && lines[0].starts_with("[0] process 1 died, the link held, the child is in 2; "),
            "{lines:?}"
        );
    }
}

/// Waits.
#[remote]
async fn wait(context: &Context) -> u32 {
    never::<()>().await;
    context.here().number()
}

/// Ends the process as nothing else does.
#[service]
async fn die() {
    raise(Signal::SIGKILL).unwrap();
}

async fn supervisor(here: Process) {
    let me = here.open("me").unwrap();
    if here.number() > 0 {
        let first = here.lookup("me@0").await.unwrap();
        me.recv::<()>(first, 0).await.unwrap();
        return;
    }
    let mut others = Vec::new();
    for process in 1..here.count() {
        others.push(here.lookup(&format!("me@{process}")).await.unwrap());
    }
    let watched = here.at(1).spawn(wait()).await.unwrap();
    let linked = here.at(2).spawn(wait()).await.unwrap();
    linked.link(&watched).await.unwrap();
    let team = Supervisor::one_for_one()
        .child("child", Place::AnyProcess, Restart::Always, wait())
        .child("next", Place::AnyProcess, Restart::Always, wait())
        .start(&here)
        .await
        .unwrap();
    assert_eq!(team.child("next").unwrap().process, ProcessId(1), "by turns");
    let clock = Instant::now();
    let killed = here.at(1).call(die()).await;
    let lost = CallError::Lost { process: ProcessId(1), why: Why::Died, begun: Begun::Unknown };
    assert_eq!(killed, Err(lost));
    assert_eq!(watched.down().await, Down::ProcessLost(ProcessId(1), Why::Died));
    let known = clock.elapsed();
    assert_eq!(linked.down().await, Down::Cancelled);
    while team.child("next").is_none_or(|thread| thread.process == ProcessId(1)) {
        yield_now().await;
    }
    println!(
        "process 1 died, the link held, the child is in {}; known after {known:.1?}",
        team.child("next").unwrap().process.0
    );
    team.stop().await.unwrap();
    for other in others {
        // One is dead.
        let _ = me.send(other, 0, &()).await;
    }
}

/// Without a launcher there is no job.
fn alone() {
    assert!(Launched::from_env().unwrap().is_none());
}

/// The view of one process.
#[derive(Default)]
struct Seen {
    /// From whom, and the number in its header.
    came: Vec<(u32, u64)>,
    changes: Vec<(ProcessId, Change)>,
    /// How many had come before the first change.
    before: usize,
}

impl Sink for Seen {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        self.came.push((from.0, Header::decode(frame.frame(), 0).unwrap().request));
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        // A machine that is slow makes peers suspect.
        if matches!(change, Change::Down(_)) {
            if self.changes.is_empty() {
                self.before = self.came.len();
            }
            self.changes.push((peer, change));
        }
    }
}

struct ChildProcess {
    engine: Sockets,
    seen: Seen,
}

impl ChildProcess {
    fn send(&self, to: u32, request: u64) {
        let mut body = Body::with_capacity(0);
        body.set_header(&Header { request, ..Header::new(Kind::Message) });
        self.engine.try_send(ProcessId(to), Lane::User, body).unwrap();
    }

    async fn until(&mut self, what: impl Fn(&Seen) -> bool) {
        while !what(&self.seen) {
            if self.engine.poll(16, &mut self.seen) == Polled::Nothing {
                self.engine.news().await;
            }
        }
    }

    async fn leave(mut self) {
        self.engine.leave(Leave::Drain);
        let ended = self.engine.ended();
        while !choose((self.engine.news().wrap(|()| false), ended.clone().wrap(|()| true))).await {
            while self.engine.poll(16, &mut self.seen) != Polled::Nothing {}
        }
    }
}

fn process(name: &str) {
    if name == "supervised" || name == "objects" {
        return block_on(async {
            let here = Process::launched().await.unwrap();
            match name {
                "objects" => objects::process(&here).await,
                _ => supervisor(here.clone()).await,
            }
            here.leave().await;
        });
    }
    block_on(async {
        let engine = Sockets::from_launcher(Config::default()).await.unwrap().expect("there is a launcher");
        assert!(Launched::from_env().unwrap().is_none(), "the listener is given once");
        let mut process = ChildProcess { engine, seen: Seen::default() };
        let me = process.engine.me().0;
        match name {
            "ring" => {
                if me == 0 {
                    process.send(1, 1);
                }
                for round in 0..ROUNDS as usize {
                    process.until(|seen| seen.came.len() > round).await;
                    let steps = process.seen.came[round].1;
                    if me != 0 || round + 1 < ROUNDS as usize {
                        process.send((me + 1) % COUNT, steps + 1);
                    } else {
                        println!("{steps} steps");
                    }
                }
            }
            "death" => {
                let others = (0..COUNT).filter(|number| *number != me);
                if me == 3 {
                    // Has heard all, so all have heard of each other, and hears nothing more.
                    process.until(|seen| seen.came.len() == 3).await;
                    others.for_each(|to| process.send(to, 3));
                    raise(Signal::SIGKILL).unwrap();
                }
                process.send(3, u64::from(me));
                process.until(|seen| !seen.changes.is_empty()).await;
                assert_eq!(process.seen.changes, [(ProcessId(3), Change::Down(Why::Died))]);
                let last = process.seen.came.iter().position(|(from, _)| *from == 3).unwrap();
                assert!(last < process.seen.before);
                let said = process.seen.came[last].1;
                (0..3).filter(|to| *to != me).for_each(|to| process.send(to, u64::from(me)));
                process.until(|seen| seen.came.len() == 3).await;
                let mut heard: Vec<String> = process
                    .seen
                    .came
                    .iter()
                    .filter(|(from, _)| *from != 3)
                    .map(|(from, _)| from.to_string())
                    .collect();
                heard.sort();
                println!("process 3 said {said}, then died; heard {}", heard.join(", "));
            }
            other => panic!("no such program: {other}"),
        }
        process.leave().await;
    });
}
