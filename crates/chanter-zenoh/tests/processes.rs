//! The fate of messages when a process is killed or stopped. This program is the test, and also the processes when it
//! has been started as one.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Process};
use chanter_engine::Why;
use chanter_zenoh::{Config, Zenoh};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const RUN: &str = "CHANTER_TEST_RUN";
const DATA: u32 = 1;
/// Nobody waits for longer, unless something hangs.
const PATIENCE: Duration = Duration::from_secs(240);

fn main() {
    if let Ok(name) = std::env::var(RUN) {
        return process(&name);
    }
    let kills: u32 = std::env::var("CHANTER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    hello();
    for round in 0..kills {
        killed(round);
    }
    stopped_for_a_while();
    stopped_for_good();
    println!("all 4 tests passed, with {kills} kills");
}

/// A process that the test has started.
struct ChildProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ChildProcess {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The next line that it says.
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Lines until this one.
    fn until(&mut self, wanted: &str) {
        loop {
            match self.says() {
                line if line == wanted => return,
                line if line.is_empty() => panic!("it has ended, and never said {wanted:?}"),
                _ => {}
            }
        }
    }

    fn succeeds(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

fn start(name: &str, count: u32) -> Vec<ChildProcess> {
    let (job, port) = (common::job(name), common::free_port());
    let start = |number: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(RUN, name).env("CHANTER_ZENOH_JOB", &job).env("CHANTER_ZENOH_SCOUTING", "0");
        command.env("CHANTER_ZENOH_NUMBER", number.to_string()).env("CHANTER_ZENOH_COUNT", count.to_string());
        match number {
            0 => command.env("CHANTER_ZENOH_LISTEN", format!("tcp/127.0.0.1:{port}")),
            _ => command
                .env("CHANTER_ZENOH_LISTEN", "tcp/127.0.0.1:0")
                .env("CHANTER_ZENOH_CONNECT", format!("tcp/127.0.0.1:{port}")),
        };
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        ChildProcess { child, lines }
    };
    (0..count).map(start).collect()
}

fn hello() {
    for mut process in start("hello", 3) {
        process.until("done");
        process.succeeds();
    }
    println!("test hello ... ok");
}

/// Process 2 is killed while the others send to it, and it to them.
fn killed(round: u32) {
    let mut processes = start("killed", 3);
    processes.iter_mut().for_each(|process| process.until("begun"));
    std::thread::sleep(Duration::from_millis(50 + u64::from(round * 37 % 300)));
    processes[2].signal(Signal::SIGKILL);
    let killed = Instant::now();
    for process in &mut processes[..2] {
        process.until("lost");
        let knew = killed.elapsed();
        let account = process.says();
        process.until("done");
        process.succeeds();
        println!("test killed {round} ... ok: known after at most {knew:?}, {account}");
    }
}

/// Nothing is lost by it.
fn stopped_for_a_while() {
    let mut processes = start("stopped", 3);
    processes.iter_mut().for_each(|process| process.until("begun"));
    processes[2].signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1500));
    processes[2].signal(Signal::SIGCONT);
    for process in &mut processes {
        process.until("done");
        process.succeeds();
    }
    println!("test stopped for a while ... ok");
}

fn stopped_for_good() {
    let mut processes = start("silent", 3);
    processes.iter_mut().for_each(|process| process.until("begun"));
    processes[2].signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    for process in &mut processes[..2] {
        process.until("lost");
        println!("known after at most {:?}", stopped.elapsed());
        process.until("done");
    }
    println!("test stopped for good ... ok");
}

fn config() -> Config {
    let mut config = Config::from_env().unwrap().expect("the test has said it");
    config.start = PATIENCE;
    config
}

fn process(name: &str) {
    let machine = Machine::builder().vps(1).build().unwrap();
    machine.block_on_local(async {
        match name {
            "hello" => hello_process().await,
            "killed" => killed_process().await,
            "stopped" => stopped_process().await,
            "silent" => silent_process().await,
            other => panic!("no test is called {other}"),
        }
    });
    println!("done");
}

async fn hello_process() {
    let here = Process::start(Zenoh::start(config()).await.unwrap());
    let me = here.open("greeter").unwrap();
    if here.number() == 0 {
        let mut names = Vec::new();
        for _ in 1..here.count() {
            names.push(me.recv::<String>(ANYONE, DATA).await.unwrap().value);
        }
        names.sort();
        assert_eq!(names, ["hello from 1", "hello from 2"]);
    } else {
        let to = here.lookup("greeter@0").await.unwrap();
        me.send(to, DATA, &format!("hello from {}", here.number())).await.unwrap();
    }
    here.leave().await;
}

/// Each sends numbers to each, for as long as both are there, and accounts for them. The numbers come from 0, without
/// a gap (D1, D3), and only the last ones may be lost (D2).
async fn killed_process() {
    let mut config = config();
    // Only the end of its connections tells.
    config.heartbeat = Duration::from_secs(60);
    let here = Process::start(Zenoh::start(config).await.unwrap());
    let me = here.open("numbers").unwrap();
    let others: Vec<u32> = (0..here.count()).filter(|number| *number != here.number()).collect();
    let sending: Vec<_> = others
        .iter()
        .map(|&other| {
            let here = here.clone();
            spawn(async move {
                let from = here.inbox().unwrap();
                let to = here.lookup(&format!("numbers@{other}")).await.unwrap();
                let mut number = 0_u64;
                let limit = if other == 2 || here.number() == 2 { u64::MAX } else { 20_000 };
                while number < limit && from.send(to, DATA, &number).await.is_ok() {
                    number += 1;
                }
                let account = if other == 2 { Some(from.returned(2).await) } else { None };
                (other, number, account)
            })
        })
        .collect();
    let mut expected = [0_u64; 3];
    let (mut has_begun, mut has_said) = (false, false);
    // Of the other that lives all, of the killed one a prefix.
    let living = 1 - here.number().min(1);
    while here.number() == 2 || expected[living as usize] < 20_000 || here.down(2).is_none() {
        if let Some(got) = me.recv::<u64>(ANYONE, DATA).timeout(Duration::from_millis(20)).await {
            let got = got.unwrap();
            let from = got.from.process.0 as usize;
            assert_eq!(got.value, expected[from], "from {from}");
            expected[from] += 1;
        }
        if !has_begun && others.iter().all(|other| expected[*other as usize] > 0) {
            has_begun = true;
            println!("begun");
        }
        if !has_said && here.down(2).is_some() {
            assert_eq!(here.down(2), Some(Why::Died));
            has_said = true;
            println!("lost");
        }
    }
    for sending in sending {
        let (other, sent, account) = sending.join().await.unwrap();
        let Some(account) = account else {
            assert_eq!((other, sent), (living, 20_000));
            continue;
        };
        let numbers = |message: &chanter_cluster::Unsent| message.value::<u64>().unwrap();
        let unsent: Vec<u64> = account.unsent.iter().map(numbers).collect();
        let unknown = account.unknown.len() as u64;
        // Taken, then unknown, then unsent: in order, and all.
        let first = sent - unsent.len() as u64;
        assert_eq!(unsent, (first..sent).collect::<Vec<_>>());
        assert!(unknown <= first);
        println!(
            "of {sent} sent {} were taken, {unknown} are unknown, {} came back",
            first - unknown,
            unsent.len()
        );
    }
    here.leave().await;
}

async fn stopped_process() {
    let mut config = config();
    (config.heartbeat, config.suspect_after, config.lost_after) = (Duration::from_millis(50), 4, 20_000);
    let here = Process::start(Zenoh::start(config).await.unwrap());
    let me = here.open("numbers").unwrap();
    let count = 30_000_u64;
    println!("begun");
    if here.number() == 2 {
        for number in 0..count {
            assert_eq!(me.recv::<u64>(ANYONE, DATA).await.unwrap().value, number);
        }
        me.send(here.lookup("numbers@0").await.unwrap(), DATA, &count).await.unwrap();
    } else if here.number() == 0 {
        let to = here.lookup("numbers@2").await.unwrap();
        for number in 0..count {
            me.send(to, DATA, &number).await.unwrap();
        }
        assert_eq!(me.recv::<u64>(ANYONE, DATA).await.unwrap().value, count);
    }
    here.leave().await;
}

async fn silent_process() {
    let mut config = config();
    (config.heartbeat, config.suspect_after, config.lost_after) = (Duration::from_millis(50), 4, 40);
    let here = Process::start(Zenoh::start(config).await.unwrap());
    println!("begun");
    while here.down(2).is_none() {
        after(Duration::from_millis(2)).await;
    }
    assert_eq!(here.down(2), Some(Why::Unreachable));
    println!("lost");
    here.leave().await;
}
