//! Cost of a stopped receiver for the others. Process 0 sends to process 1 as fast as possible. Then process 2 is
//! stopped, and gets messages as well.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Process};
use chanter_zenoh::{Config, Zenoh};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zenoh::Wait;
use zenoh::qos::CongestionControl;

use super::children::{Child, Failure, Outcome, broken, say};
use super::raw::{free_port, message, number, session};

const TAG: u32 = 1;
/// How long is counted.
const TIME: Duration = Duration::from_millis(500);
/// Until the stopped process takes nothing any more.
const SETTLE: Duration = Duration::from_millis(300);

/// Messages a millisecond to process 1, in each round: while all run, and while process 2 is stopped and sent to.
pub(crate) fn measure(engine: &str, rounds: usize) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let port = free_port().map_err(broken)?.to_string();
    let start = |number: u32| Child::start(&["stopped", engine, &number.to_string(), &port]);
    let (mut sender, mut receiver, mut victim) = (start(0)?, start(1)?, start(2)?);
    for child in [&mut sender, &mut receiver, &mut victim] {
        if child.says()? != "up" {
            return Err(format!("{engine}: not connected"));
        }
    }
    let signal = |signal| kill(Pid::from_raw(victim.id() as i32), signal).map_err(broken);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        sender.tell("alone")?;
        alone.push(sender.says()?.parse().map_err(broken)?);
        signal(Signal::SIGSTOP)?;
        sender.tell("both")?;
        beside.push(sender.says()?.parse().map_err(broken)?);
        signal(Signal::SIGCONT)?;
        // Messages on their way there come now.
        thread::sleep(SETTLE);
    }
    sender.tell("end")?;
    match receiver.says()?.as_str() {
        "all came" => Ok((alone, beside)),
        said => Err(format!("{engine}: process 1 says {said:?}")),
    }
}

pub(crate) fn process(engine: &str, number: &str, port: &str) -> Outcome {
    let number: u32 = number.parse().map_err(broken)?;
    match engine {
        "credits" => {
            let machine = Machine::builder().vps(1).build().map_err(broken)?;
            machine.block_on_local(async {
                let config = Config::new("stopped", number, 3).scouting(false);
                let config = match number {
                    0 => config.listen([format!("tcp/127.0.0.1:{port}")]),
                    _ => config.listen(["tcp/127.0.0.1:0"]).connect([format!("tcp/127.0.0.1:{port}")]),
                };
                let here = Process::start(Zenoh::start(config).await.map_err(broken)?);
                if number == 0 { send_by_credits(here).await } else { take_by_credits(here).await }
            })
        }
        _ if number == 0 => send_raw(port),
        _ => take_raw(number, port),
    }
}

/// Orders for the sender, one after the other; `None`: the end.
fn told() -> Option<bool> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).ok()?;
    match line.trim() {
        "alone" => Some(false),
        "both" => Some(true),
        _ => None,
    }
}

async fn send_by_credits(here: Process) -> Outcome {
    let sent = Arc::new(AtomicU64::new(0));
    let (goes_on, is_sent_to) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let first = here.lookup("takes@1").await.map_err(broken)?;
    let second = here.lookup("takes@2").await.map_err(broken)?;
    let (from, count, going) = (here.inbox().map_err(broken)?, Arc::clone(&sent), Arc::clone(&goes_on));
    let streaming = spawn(async move {
        let mut at = 0;
        while going.load(Ordering::Relaxed) {
            from.send(first, TAG, &message(at)).await.map_err(broken)?;
            at += 1;
            count.store(at, Ordering::Relaxed);
        }
        from.send(first, TAG, &message(u64::MAX)).await.map_err(broken)
    });
    let (from, sends) = (here.inbox().map_err(broken)?, Arc::clone(&is_sent_to));
    let other = spawn(async move {
        let mut at = 0;
        loop {
            if sends.load(Ordering::Relaxed) {
                if from.send(second, TAG, &message(at)).await.is_err() {
                    return;
                }
                at += 1;
            } else {
                after(Duration::from_millis(1)).await;
            }
        }
    });
    say("up");
    while let Some(both) = spawn_blocking(told).join().await.map_err(broken)? {
        is_sent_to.store(both, Ordering::Relaxed);
        after(SETTLE).await;
        let (before, clock) = (sent.load(Ordering::Relaxed), Instant::now());
        after(TIME).await;
        let many = sent.load(Ordering::Relaxed) - before;
        say(many as f64 / clock.elapsed().as_secs_f64() / 1e3);
        is_sent_to.store(false, Ordering::Relaxed);
    }
    goes_on.store(false, Ordering::Relaxed);
    streaming.join().await.map_err(broken)??;
    let _ = other.cancel().await;
    here.leave().await;
    Ok(())
}

async fn take_by_credits(here: Process) -> Outcome {
    let me = here.open("takes").map_err(broken)?;
    say("up");
    let mut expected = 0;
    loop {
        let got = me.recv::<Vec<u8>>(ANYONE, TAG).await.map_err(broken)?.value;
        match number(&got) {
            Some(u64::MAX) => break,
            Some(at) if at == expected => expected += 1,
            other => return Err(format!("{other:?} in place of {expected}")),
        }
    }
    say("all came");
    here.leave().await;
    Ok(())
}

fn key(number: u32) -> String {
    format!("bench/takes/{number}")
}

fn send_raw(port: &str) -> Outcome {
    let session = session(&format!("\"tcp/127.0.0.1:{port}\""), "").map_err(broken)?;
    let publisher =
        |number| session.declare_publisher(key(number)).congestion_control(CongestionControl::Block).wait();
    let (first, second) = (publisher(1).map_err(broken)?, publisher(2).map_err(broken)?);
    for publisher in [&first, &second] {
        while !publisher.matching_status().wait().map_err(broken)?.matching() {
            thread::sleep(Duration::from_millis(10));
        }
    }
    let (sent, goes_on, both) = (AtomicU64::new(0), AtomicBool::new(true), AtomicBool::new(false));
    thread::scope(|scope| {
        let streaming = scope.spawn(|| {
            for at in 0.. {
                if !goes_on.load(Ordering::Relaxed) {
                    break;
                }
                first.put(message(at)).wait().map_err(broken)?;
                sent.store(at + 1, Ordering::Relaxed);
                if both.load(Ordering::Relaxed) {
                    second.put(message(at)).wait().map_err(broken)?;
                }
            }
            first.put(message(u64::MAX)).wait().map_err(broken)
        });
        say("up");
        while let Some(to_both) = told() {
            both.store(to_both, Ordering::Relaxed);
            thread::sleep(SETTLE);
            let (before, clock) = (sent.load(Ordering::Relaxed), Instant::now());
            thread::sleep(TIME);
            let many = sent.load(Ordering::Relaxed) - before;
            say(many as f64 / clock.elapsed().as_secs_f64() / 1e3);
            both.store(false, Ordering::Relaxed);
        }
        goes_on.store(false, Ordering::Relaxed);
        streaming.join().map_err(|_| "the sender has panicked".to_owned())?
    })?;
    // The process stays until it is ended, since its messages are still on their way.
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn take_raw(me: u32, port: &str) -> Outcome {
    let session = session("", &format!("\"tcp/127.0.0.1:{port}\"")).map_err(broken)?;
    let takes = session.declare_subscriber(key(me)).wait().map_err(broken)?;
    say("up");
    let mut expected = 0;
    loop {
        let sample = takes.recv().map_err(broken)?;
        match number(&sample.payload().to_bytes()) {
            Some(u64::MAX) => break,
            Some(at) if at == expected || me == 2 => expected = at + 1,
            other => return Err(format!("{other:?} in place of {expected}")),
        }
    }
    say("all came");
    thread::sleep(Duration::from_secs(60));
    Ok(())
}
