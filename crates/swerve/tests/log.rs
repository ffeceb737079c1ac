//! The access log: complete when somebody reads it, harmless when nobody does.

mod common;

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{ASYNCHRONOUS, Lines, MODES, serve_with};
use swerve::{AccessLog, Mode};

#[test]
fn one_line_for_each_request() {
    for mode in MODES {
        let lines = Lines::default();
        let served = serve_with(mode, |config| config.log = lines.log());
        served.write("a", "hello");
        served.request("GET", "/a?q", "user-agent: me \"x\"\r\nreferer: http://r/\r\n");
        served.request("HEAD", "/a", "");
        served.request("GET", "/nothing", "");
        served.request("POST", "/a", "");
        let mut client = served.connect();
        client.send("garbage\r\n\r\n");
        client.rest();
        served.stop.ease();
        assert_eq!(served.ended().lines_lost, 0);

        let text = lines.text();
        let mut logged: Vec<&str> = text.lines().collect();
        assert_eq!(logged.len(), 5, "{text}");
        let strip = |line: &str| {
            let (from, rest) = line.split_once(" [").unwrap();
            assert_eq!(from, "127.0.0.1 - -");
            rest.split_once("] ").unwrap().1.to_owned()
        };
        logged.sort_by_key(|line| strip(line));
        let logged: Vec<String> = logged.into_iter().map(strip).collect();
        assert_eq!(
            logged,
            [
                "\"-\" 400 0 \"-\" \"-\"",
                "\"GET /a?q HTTP/1.1\" 200 5 \"http://r/\" \"me \\\"x\\\"\"",
                "\"GET /nothing HTTP/1.1\" 404 14 \"-\" \"-\"",
                "\"HEAD /a HTTP/1.1\" 200 0 \"-\" \"-\"",
                "\"POST /a HTTP/1.1\" 405 23 \"-\" \"-\"",
            ]
        );
    }
}

#[test]
fn no_line_is_lost_under_load() {
    for mode in MODES {
        let lines = Lines::default();
        let served = serve_with(mode, |config| config.log = lines.log());
        served.write("a", "a");
        std::thread::scope(|scope| {
            for c in 0..4 {
                let mut client = served.connect();
                scope.spawn(move || {
                    for i in 0..500 {
                        client.ask("GET", &format!("/a?{c}-{i}"), "");
                        client.reply(false);
                    }
                });
            }
        });
        served.stop.ease();
        assert_eq!(served.ended().lines_lost, 0);
        let text = lines.text();
        for c in 0..4 {
            for i in 0..500 {
                assert!(text.contains(&format!("/a?{c}-{i} ")), "{c}-{i}");
            }
        }
        assert_eq!(text.lines().count(), 2_000);
    }
}

/// A log that blocks until it is released.
struct Stuck(Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In the synchronous form a connection waits for the log, which is its point, but not for ever.
#[test]
fn the_synchronous_form_waits_for_the_log_in_reason() {
    let (release, released) = channel();
    let log = AccessLog::To(Box::new(Stuck(released)));
    let served = serve_with(Mode::Synchronous, |config| config.log = log);
    served.write("a", "a");
    let mut client = served.connect();
    // Long lines: four fill a batch, and there are two batches before a post has to wait.
    let agent = format!("user-agent: {}\r\n", "x".repeat(20_000));
    let began = Instant::now();
    for _ in 0..11 {
        client.ask("GET", "/a", &agent);
        assert_eq!(client.reply(false).text(), "a");
    }
    assert!(began.elapsed() > Duration::from_millis(900), "nobody waited: {:?}", began.elapsed());
    drop(client);
    served.stop.ease();
    assert!(served.ended().lines_lost > 0);
    drop(release);
}

#[test]
fn a_log_that_nobody_reads_blocks_nobody() {
    for mode in ASYNCHRONOUS {
        let (release, released) = channel();
        let served = serve_with(mode, |config| config.log = AccessLog::To(Box::new(Stuck(released))));
        served.write("a", "a");
        let mut client = served.connect();
        // More than the queue, the batch and the posts that may wait, all together.
        for _ in 0..24 {
            let many = "GET /a HTTP/1.1\r\nhost: test\r\n\r\n".repeat(500);
            client.send(many);
            for _ in 0..500 {
                assert_eq!(client.reply(false).text(), "a");
            }
        }
        // Nor does it keep the server from stopping.
        drop(client);
        served.stop.ease();
        assert!(served.ended().lines_lost > 0);
        drop(release);
    }
}
