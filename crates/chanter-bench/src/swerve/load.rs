//! Load of a server: `wrk`, `httperf`, and many silent connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;

use super::server::{FILE, LENGTH, Running, absent, broken};
use crate::case::{Failure, Outcome, Sample};
use crate::process::{self, Core, CpuTime};

/// Connections that `wrk` keeps busy.
const CONNECTIONS: usize = 64;

/// Connections a second that `httperf` opens. The paper used 2500, of which its best server answered 2230.
pub(super) const RATES: [u32; 7] = [2_500, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000];

/// Time that `httperf` may take beyond the time that it should take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The name under which the replies a second at a rate are recorded.
pub(super) fn at_rate(rate: u32) -> String {
    format!("replies_at_{rate:05}")
}

/// Prints the numbers of `wrk` as one line, because its own report is for people and has no p99.9.
const SCRIPT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"micros":%d,"bytes":%d,"errors":%d,"p50":%d,"p99":%d,"p999":%d}\n',
    summary.requests, summary.duration, summary.bytes,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"#;

#[derive(Deserialize)]
struct Wrk {
    requests: u64,
    micros: u64,
    bytes: u64,
    errors: u64,
    p50: f64,
    p99: f64,
    p999: f64,
}

/// Keeps 64 connections busy for some seconds: replies, and how long they took.
pub(super) fn wrk(server: &Running, seconds: u64, pinned: bool) -> Outcome {
    let program = process::find("wrk").ok_or_else(|| absent("wrk", "wrk"))?;
    let folder = tempfile::tempdir().map_err(broken)?;
    let script = folder.path().join("report.lua");
    std::fs::write(&script, SCRIPT).map_err(broken)?;
    let before = CpuTime::of(server.pid());
    let output = process::pinned(&program, pinned.then_some(Core::Last))
        .args(["-t", "1", "-c", &CONNECTIONS.to_string(), "-d", &format!("{seconds}s"), "-s"])
        .arg(&script)
        .arg(server.url())
        .output()
        .map_err(broken)?;
    let after = CpuTime::of(server.pid());
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or("");
    let found: Wrk = serde_json::from_str(line).map_err(|_| {
        Failure::Broken(format!("wrk says {text:?}, {}", String::from_utf8_lossy(&output.stderr)))
    })?;
    if found.requests == 0 || found.errors > 0 || found.bytes < found.requests * LENGTH as u64 {
        return Err(Failure::Wrong(format!("wrk had {} errors: {line}", found.errors)));
    }
    let sample = Sample::new(found.requests, Duration::from_micros(found.micros))
        .with("replies_per_s", found.requests as f64 / found.micros as f64 * 1e6)
        .with("p50_us", found.p50)
        .with("p99_us", found.p99)
        .with("p999_us", found.p999);
    Ok(match (before, after) {
        (Some(before), Some(after)) => {
            let per_reply = |seconds: f64| seconds * 1e6 / found.requests as f64;
            sample
                .with("cpu_us_per_reply", per_reply(after.total() - before.total()))
                .with("own_us_per_reply", per_reply(after.user - before.user))
        }
        _ => sample,
    })
}

/// Opens `connections` connections at each rate, with one request each, as the paper does: the replies
/// a second that came of it.
pub(super) fn httperf(server: &Running, connections: u64, pinned: bool) -> Outcome {
    let program = process::find("httperf").ok_or_else(|| absent("httperf", "httperf"))?;
    let (mut replies, mut seconds, mut best) = (0.0, 0.0, 0.0_f64);
    let mut rates = Vec::new();
    for rate in RATES {
        let mut command = process::pinned(&program, pinned.then_some(Core::Last));
        command
            .args(["--server", "127.0.0.1", "--port", &server.addr.port().to_string()])
            .args(["--uri", &format!("/{FILE}"), "--timeout", "5"])
            .args(["--num-conns", &connections.to_string(), "--rate", &rate.to_string()]);
        // Without `--hog`, so that the kernel chooses the ports: on the loopback it takes those again that
        // linger. `httperf` itself would look for a free one for ever once 60,000 had been used.
        let limit = PATIENCE + Duration::from_secs(connections / u64::from(rate));
        let output = process::output_within(&mut command, limit).map_err(broken)?.ok_or_else(|| {
            Failure::Unavailable(format!("httperf did not end within {} s", limit.as_secs()))
        })?;
        let found = Httperf::read(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
            Failure::Broken(format!("httperf says {}", String::from_utf8_lossy(&output.stderr)))
        })?;
        if found.replies != found.good {
            return Err(Failure::Wrong(format!("{} replies, {} of them good", found.replies, found.good)));
        }
        let per_second = found.replies / found.seconds;
        rates.push((rate, per_second));
        replies += found.replies;
        seconds += found.seconds;
        best = best.max(per_second);
        // Closed connections linger in the kernel for a while.
        sleep(Duration::from_millis(200));
    }
    let sample =
        Sample::new(replies as u64, Duration::from_secs_f64(seconds)).with("replies_per_s_best", best);
    Ok(rates.into_iter().fold(sample, |sample, (rate, replies)| sample.with(&at_rate(rate), replies)))
}

struct Httperf {
    replies: f64,
    good: f64,
    seconds: f64,
}

impl Httperf {
    /// `Total: connections 20000 requests 20000 replies 20000 test-duration 8.000 s` and
    /// `Reply status: 1xx=0 2xx=20000 …`.
    fn read(text: &str) -> Option<Self> {
        let total = text.lines().find(|line| line.starts_with("Total: "))?;
        let words: Vec<&str> = total.split_whitespace().collect();
        let after = |word: &str| words.iter().skip_while(|w| **w != word).nth(1)?.parse::<f64>().ok();
        let status = text.lines().find(|line| line.starts_with("Reply status: "))?;
        let good = status.split_whitespace().find_map(|word| word.strip_prefix("2xx="))?.parse().ok()?;
        Some(Self { replies: after("replies")?, good, seconds: after("test-duration")? })
    }
}

/// Holds `crowd` connections that have asked once and are silent since: bytes of memory for each.
pub(super) fn idle(server: &Running, crowd: u64) -> Outcome {
    let allowed = swerve::raise_descriptor_limit(crowd as usize).allowed;
    if allowed < crowd + 64 {
        return Err(Failure::Unavailable(format!("only {allowed} descriptors are allowed")));
    }
    let unknown = || Failure::Unavailable("no /proc here to tell of memory".to_owned());
    // The memory for the first few is not counted.
    let warm = connect(server, 16)?;
    sleep(Duration::from_millis(100));
    let before = process::resident(server.pid()).ok_or_else(unknown)?;
    let began = std::time::Instant::now();
    let connections = connect(server, crowd)?;
    let took = began.elapsed();
    sleep(Duration::from_millis(300));
    let after = process::resident(server.pid()).ok_or_else(unknown)?;
    drop((warm, connections));
    let bytes = (after - before) / crowd as f64;
    Ok(Sample::new(crowd, took).with_bytes(bytes))
}

fn connect(server: &Running, crowd: u64) -> Result<Vec<TcpStream>, Failure> {
    let mut connections = Vec::new();
    for _ in 0..crowd {
        let mut stream = TcpStream::connect(server.addr).map_err(broken)?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(broken)?;
        write!(stream, "GET /{FILE} HTTP/1.1\r\nhost: bench\r\n\r\n").map_err(broken)?;
        let mut answer = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let read = stream.read(&mut bytes).map_err(broken)?;
            answer.extend_from_slice(&bytes[..read]);
            let body =
                answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| answer.len() - at - 4);
            match body {
                Some(LENGTH) => break,
                _ if read == 0 => return Err(Failure::Wrong("the answer is cut short".to_owned())),
                _ => {}
            }
        }
        connections.push(stream);
    }
    Ok(connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_httperf_is_read() {
        let text = "httperf --client=0/1\n\nTotal: connections 100 requests 99 replies 98 test-duration 0.500 s\n\n\
                    Reply status: 1xx=0 2xx=97 3xx=0 4xx=1 5xx=0\n";
        let found = Httperf::read(text).expect("it is a report");
        assert_eq!((found.replies, found.good, found.seconds), (98.0, 97.0, 0.5));
        assert!(Httperf::read("Total: nothing").is_none());
    }
}
