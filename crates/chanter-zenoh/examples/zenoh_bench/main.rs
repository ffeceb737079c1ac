//! Measures the engine of Zenoh beside Zenoh alone, the engine of sockets, and QUIC, in one run:
//! `cargo run --release --example zenoh_bench -- [--rounds N] [--json FILE] [ROW..]`.
//!
//! Each measurement has processes of its own, and rounds take turns; results are checked. Ratios are of medians.

mod children;
mod engines;
mod quic;
mod raw;
mod report;
mod stopped;

use std::process::ExitCode;

use children::{Child, Failure, Outcome};
use report::{Measured, Verdict};

/// Trips of a round.
const TRIPS: u64 = 4000;
/// Bytes of a message, without the header that each has.
const BYTES: usize = 1024;

/// Ways to carry a message and its answer: a name for both processes, and a description.
const WAYS: [(&str, &str); 10] = [
    ("tcp", "blocking sockets, TCP, two OS threads"),
    ("quic", "QUIC (quinn, Tokio), one stream"),
    ("zenoh", "Zenoh alone, TCP: a callback puts the answer"),
    ("zenoh-threads", "the same between threads: one takes and answers"),
    ("zenoh-machine", "the same, and both threads are Chanter's"),
    ("zenoh-express", "by callback, `express`: never batched"),
    ("sockets", "Chanter's engine of sockets, TCP"),
    ("sockets-threads", ".. and two threads with inboxes above it"),
    ("credits", "Chanter's engine of Zenoh: under credits"),
    ("credits-threads", ".. and two threads with inboxes above it"),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "child") {
        return children::run(&args[1..]);
    }
    match measure(&args) {
        Ok(all_hold) if all_hold => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(2),
        Err(error) => {
            eprintln!("zenoh_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &[String]) -> Result<bool, Failure> {
    let (mut rounds, mut json, mut rows) = (5, None, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--rounds" => rounds = value()?.parse::<usize>().map_err(|error| error.to_string())?.max(1),
            "--json" => json = Some(value()?.clone()),
            row => rows.push(row.to_owned()),
        }
    }
    let wants = |row: &str| rows.is_empty() || rows.iter().any(|wanted| wanted == row);
    let mut measured: Vec<Measured> = Vec::new();
    if wants("round-trip") {
        let mut samples = vec![Vec::new(); WAYS.len()];
        for round in 0..rounds {
            // Each round begins elsewhere.
            for at in 0..WAYS.len() {
                let at = (at + round) % WAYS.len();
                samples[at].push(round_trip(WAYS[at].0)?);
            }
        }
        let rows = WAYS.iter().zip(samples);
        measured
            .extend(rows.map(|((way, what), samples)| Measured::new("round-trip", way, what, "us", samples)));
    }
    if wants("stopped") {
        for (engine, what) in [
            ("credits", "Chanter's engine of Zenoh"),
            ("zenoh-block", "Zenoh alone, `Block`, one thread puts to both"),
        ] {
            let (alone, beside) = stopped::measure(engine, rounds)?;
            let name = |which: &str| format!("{engine}, {which}");
            measured.push(Measured::new("stopped", &name("all run"), what, "msg/ms", alone));
            measured.push(Measured::new("stopped", &name("one is stopped"), what, "msg/ms", beside));
        }
    }
    if wants("killed") {
        let mut samples = vec![Vec::new(); 2];
        for _ in 0..rounds {
            for (at, way) in ["sockets", "credits"].into_iter().enumerate() {
                samples[at].push(killed(way)?);
            }
        }
        let rows = [("sockets", "Chanter's engine of sockets"), ("credits", "Chanter's engine of Zenoh")];
        let rows = rows.iter().zip(samples);
        measured.extend(rows.map(|((way, what), samples)| Measured::new("killed", way, what, "ms", samples)));
    }
    let verdicts = Verdict::all(&measured);
    print!("{}", report::table(&measured, &verdicts));
    if let Some(file) = json {
        std::fs::write(&file, report::json(&measured, &verdicts))
            .map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(verdicts.iter().all(Verdict::holds))
}

/// Microseconds of a trip.
fn round_trip(way: &str) -> Result<f64, Failure> {
    let mut echo = Child::start(&[way, "echo"])?;
    let address = echo.says()?;
    let mut caller = Child::start(&[way, "call", &address])?;
    let nanoseconds: f64 = caller.says()?.parse().map_err(|_| format!("{way}: no result"))?;
    caller.ends()?;
    echo.ends()?;
    Ok(nanoseconds / TRIPS as f64 / 1e3)
}

/// Milliseconds from a kill until the other process knows.
fn killed(way: &str) -> Result<f64, Failure> {
    let mut echo = Child::start(&[way, "wait"])?;
    let address = echo.says()?;
    let mut other = Child::start(&[way, "watch", &address])?;
    if other.says()? != "up" {
        return Err(format!("{way}: it is not connected"));
    }
    let begin = std::time::Instant::now();
    echo.kill();
    match other.says()?.as_str() {
        "down" => {}
        said => return Err(format!("{way}: it says {said:?}")),
    }
    let elapsed = begin.elapsed();
    other.ends()?;
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// Task of a child, by its name.
fn role(args: &[&str]) -> Outcome {
    match args {
        ["tcp", "echo"] => raw::tcp_echo(),
        ["tcp", "call", address] => raw::tcp_call(address),
        ["quic", "echo"] => quic::echo(),
        ["quic", "call", address] => quic::call(address),
        ["zenoh", "echo"] => raw::zenoh_echo(false),
        ["zenoh", "call", address] => raw::zenoh_call(address, false),
        ["zenoh-threads", "echo"] => raw::zenoh_echo_of_thread(),
        ["zenoh-threads", "call", address] => raw::zenoh_call(address, false),
        ["zenoh-machine", "echo"] => raw::zenoh_in_machine(None),
        ["zenoh-machine", "call", address] => raw::zenoh_in_machine(Some(address)),
        ["zenoh-express", "echo"] => raw::zenoh_echo(true),
        ["zenoh-express", "call", address] => raw::zenoh_call(address, true),
        [way, role @ ("echo" | "wait")] => engines::first(way, role),
        [way, role @ ("call" | "watch"), address] => engines::second(way, role, address),
        ["stopped", engine, number, port] => stopped::process(engine, number, port),
        other => Err(format!("no child does {other:?}")),
    }
}
