//! The access log: complete when somebody reads it, harmless when nobody does.

mod common;

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
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
    // Long lines: fourteen fill a batch, and there are two batches before a post has to wait.
    let agent = format!("user-agent: {}\r\n", "x".repeat(20_000));
    let began = Instant::now();
    for _ in 0..40 {
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

/// A log that takes its time: a little at once, and not at once.
struct Slow(Lines);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_millis(10));
        self.0.write(&bytes[..bytes.len().min(64 * 1024)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// More requests than there is room for records, from clients that are faster than the log: they wait for it.
#[test]
fn a_slow_log_loses_nothing() {
    const CLIENTS: usize = 8;
    const EACH: usize = 2_000;
    for mode in MODES {
        let lines = Lines::default();
        let log = AccessLog::To(Box::new(Slow(lines.clone())));
        let served = serve_with(mode, |config| config.log = log);
        served.write("a", "a");
        let agent = "x".repeat(1_500);
        let request = format!("GET /a HTTP/1.1\r\nhost: test\r\nuser-agent: {agent}\r\n\r\n");
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let mut client = served.connect();
                let mut stream = client.stream.try_clone().unwrap();
                let many = request.repeat(20);
                scope.spawn(move || (0..EACH / 20).for_each(|_| stream.write_all(many.as_bytes()).unwrap()));
                scope.spawn(move || {
                    for _ in 0..EACH {
                        assert_eq!(client.reply(false).text(), "a");
                    }
                });
            }
        });
        served.stop.ease();
        assert_eq!(served.ended().lines_lost, 0, "{mode:?}");
        assert_eq!(lines.text().lines().count(), CLIENTS * EACH);
    }
}

/// A disk that is full after this number of bytes, until it is told otherwise.
struct Full {
    lines: Lines,
    room: usize,
    more: Receiver<()>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 && self.more.try_recv().is_ok() {
            self.room = usize::MAX;
        }
        let most = self.room.min(bytes.len()).min(100);
        if most == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= most;
        self.lines.write(&bytes[..most])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A failure to write is told, and the lines are written later: every line, whole and once.
#[test]
fn a_full_disk_costs_no_line() {
    for mode in MODES {
        let (lines, errors) = (Lines::default(), Lines::default());
        let (empty, more) = channel();
        let full = Full { lines: lines.clone(), room: 1_234, more };
        let served = serve_with(mode, |config| {
            config.log = AccessLog::To(Box::new(full));
            config.errors = errors.errors();
        });
        served.write("a", "a");
        let mut client = served.connect();
        for i in 0..100 {
            client.ask("GET", &format!("/a?{i}-"), "");
            client.reply(false);
        }
        errors.wait_for("cannot write the access log");
        assert_eq!(lines.text().len(), 1_234);
        empty.send(()).unwrap();
        errors.wait_for("the access log is written again");
        client.ask("GET", "/a?last", "");
        client.reply(false);
        drop(client);
        served.stop.ease();
        assert_eq!(served.ended().lines_lost, 0);
        let text = lines.text();
        assert_eq!(text.lines().count(), 101);
        assert!(
            text.lines()
                .all(|line| line.starts_with("127.0.0.1 - - [") && line.ends_with("200 1 \"-\" \"-\""))
        );
        assert!((0..100).all(|i| text.matches(&format!("/a?{i}- ")).count() == 1));
        // Once for each time, and not for each try.
        assert_eq!(errors.text().lines().count(), 2, "{}", errors.text());
    }
}

/// Lost lines are told while it happens, and counted to the line.
#[test]
fn what_a_stuck_log_loses_is_told() {
    /// Blocks until it is released, for good.
    struct Gate(Lines, Receiver<()>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.1.recv();
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    for mode in MODES {
        let (lines, errors) = (Lines::default(), Lines::default());
        let (release, released) = channel();
        let served = serve_with(mode, |config| {
            config.log = AccessLog::To(Box::new(Gate(lines.clone(), released)));
            config.errors = errors.errors();
        });
        served.write("a", "a");
        let mut client = served.connect();
        let agent = format!("user-agent: {}\r\n", "x".repeat(20_000));
        let mut asked = 0;
        let mut ask = |many: usize| {
            for _ in 0..many {
                client.ask("GET", "/a", &agent);
                assert_eq!(client.reply(false).text(), "a");
            }
            asked += many;
        };
        // More than two batches hold; and then one that comes when the log is known to be stuck.
        ask(40);
        errors.wait_for("the access log takes no lines: ");
        ask(1);
        drop(release);
        errors.wait_for("the access log takes lines again: ");
        ask(1);
        drop(client);
        served.stop.ease();
        let lost = served.ended().lines_lost;
        assert!(lost > 0);
        assert_eq!(lines.text().lines().count() as u64 + lost, asked as u64);
        assert!(errors.text().contains(&format!("takes lines again: {lost} were lost")), "{}", errors.text());
    }
}

/// A writer that panics ends the log, and nothing else.
#[test]
fn a_log_whose_writer_panics() {
    struct Panics;

    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("as it should");
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    for mode in MODES {
        let errors = Lines::default();
        let served = serve_with(mode, |config| {
            config.log = AccessLog::To(Box::new(Panics));
            config.errors = errors.errors();
        });
        served.write("a", "a");
        assert_eq!(served.get("/a").text(), "a");
        errors.wait_for("panicked");
        assert_eq!(served.get("/a").text(), "a");
        errors.wait_for("1 are lost so far");
        served.stop.ease();
        assert_eq!(served.ended().lines_lost, 2);
    }
}
