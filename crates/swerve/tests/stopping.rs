//! Shutdown, limits and crowds.

mod common;

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use common::{Client, MODES, noise, serve, serve_with};

/// More than the buffers of both sockets, so that the server cannot be through with it.
const LARGE: usize = 48_000_000;

#[test]
fn a_download_in_flight_is_finished() {
    for mode in MODES {
        let served = serve_with(mode, |config| config.grace = Duration::from_secs(600));
        let content = noise(LARGE, 11);
        served.write("large", &content);
        let mut client = served.connect();
        client.ask("GET", "/large", "");
        let length = client.head();
        assert_eq!(length.header("content-length"), Some(LARGE.to_string().as_str()));
        let mut idle = served.connect();
        idle.ask("HEAD", "/large", "");
        idle.reply(true);
        let mut silent = served.connect();

        served.stop.ease();
        // A client without an outstanding answer is let go at once, and the port is closed.
        assert!(idle.is_closed() && silent.is_closed());
        let until = Instant::now() + common::LONG;
        while TcpStream::connect(served.addr).is_ok() {
            assert!(Instant::now() < until, "the port stays open");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(200));
        let (body, reset) = client.rest();
        assert!(body == content && !reset);
        drop(client);
        let summary = served.ended();
        assert_eq!(summary.cut, 0);
        assert!(summary.connections >= 2);
    }
}

/// A request that was sent before the order is answered, however little of it the server has seen.
#[test]
fn a_request_sent_before_the_order_is_answered() {
    for mode in MODES {
        for round in 0..20 {
            let served = serve(mode);
            served.write("a", "a");
            let mut kept = served.connect();
            kept.ask("GET", "/a", "");
            kept.reply(false);
            let mut silent = served.connect();
            // Let some rounds begin with connections that the server has not taken yet.
            if round % 2 == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            let mut new = served.connect();
            for client in [&mut kept, &mut silent, &mut new] {
                client.ask("GET", "/a", "");
            }
            served.stop.ease();
            for client in [&mut kept, &mut silent, &mut new] {
                assert_eq!(client.reply(false).text(), "a");
            }
            drop((kept, silent, new));
            assert_eq!(served.ended().cut, 0);
        }
    }
}

#[test]
fn the_time_of_grace_is_bounded() {
    for mode in MODES {
        let served = serve_with(mode, |config| config.grace = Duration::from_millis(400));
        served.write("large", noise(LARGE, 12));
        let mut client = served.connect();
        client.ask("GET", "/large", "");
        client.head();
        let began = Instant::now();
        served.stop.ease();
        let summary = served.ended();
        assert_eq!(summary.cut, 1);
        assert!(began.elapsed() >= Duration::from_millis(400));
        assert!(client.rest().0.len() < LARGE);
    }
}

#[test]
fn a_second_order_cuts() {
    for mode in MODES {
        let served = serve_with(mode, |config| config.grace = Duration::from_secs(600));
        served.write("large", noise(LARGE, 13));
        let mut client = served.connect();
        client.ask("GET", "/large", "");
        client.head();
        served.stop.ease();
        thread::sleep(Duration::from_millis(100));
        served.stop.halt();
        assert_eq!(served.ended().cut, 1);
    }
}

#[test]
fn a_server_without_clients_stops_at_once() {
    for mode in MODES {
        // `ended` waits for less than that.
        let served = serve_with(mode, |config| config.grace = Duration::from_secs(600));
        served.stop.ease();
        let summary = served.ended();
        assert_eq!((summary.connections, summary.cut), (0, 0));
    }
}

/// Whether nothing comes for a while.
fn waits(client: &mut Client) -> bool {
    client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let waited = client.stream.read(&mut [0]).unwrap_err().kind();
    client.stream.set_read_timeout(Some(common::LONG)).unwrap();
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(waited, WouldBlock | TimedOut | Interrupted)
}

/// A server that is full of idle connections has room for newcomers: the longest idle ones go.
#[test]
fn a_full_server_lets_the_longest_idle_go() {
    for mode in MODES {
        let served = serve_with(mode, |config| {
            config.max_connections = 4;
            config.keep_alive = Duration::from_secs(600);
        });
        served.write("a", "a");
        let ask = |client: &mut Client| {
            client.ask("GET", "/a", "");
            assert_eq!(client.reply(false).text(), "a");
        };
        let mut held: Vec<Client> = (0..4).map(|_| served.connect()).collect();
        // Each is idle for less long than the one before it.
        for at in [2, 0, 1, 3] {
            ask(&mut held[at]);
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut newcomers = Vec::new();
        for at in [2, 0] {
            let mut client = served.connect();
            ask(&mut client);
            newcomers.push(client);
            assert_eq!(held[at].rest(), (Vec::new(), false), "{at} is closed, and not reset");
        }
        for client in held.iter_mut().skip(1).step_by(2).chain(&mut newcomers) {
            ask(client);
        }
    }
}

/// Those that have never spoken go, too, once they have had a moment; and many come one after the other.
#[test]
fn a_full_server_lets_the_silent_go() {
    for mode in MODES {
        let served = serve_with(mode, |config| {
            config.max_connections = 3;
            config.keep_alive = Duration::from_secs(600);
        });
        served.write("a", "a");
        let mut silent: Vec<Client> = (0..3).map(|_| served.connect()).collect();
        for _ in 0..20 {
            let mut client = served.connect();
            client.ask("GET", "/a", "");
            assert_eq!(client.reply(false).text(), "a");
            silent.push(client);
        }
        assert!(silent[0].is_closed());
    }
}

/// Who has a request is not closed for a newcomer; who ends one is, once nobody has been idle for longer.
#[test]
fn a_full_server_ends_no_request_for_a_newcomer() {
    for mode in MODES {
        let served = serve_with(mode, |config| {
            config.max_connections = 2;
            config.keep_alive = Duration::from_secs(600);
            config.head_timeout = Duration::from_secs(600);
            config.stall_timeout = Duration::from_secs(600);
        });
        let content = noise(LARGE, 13);
        served.write("large", &content);
        served.write("a", "a");
        let mut download = served.connect();
        download.ask("GET", "/large", "");
        let length = download.head().header("content-length").unwrap().parse::<usize>().unwrap();
        let mut begun = served.connect();
        begun.send("GET /a HTTP/1.1\r\nhost:");
        let mut newcomer = served.connect();
        newcomer.ask("GET", "/a", "");
        assert!(waits(&mut newcomer));
        begun.send(" test\r\n\r\n");
        assert_eq!(begun.reply(false).text(), "a");
        assert_eq!(newcomer.reply(false).text(), "a");
        assert_eq!(begun.rest(), (Vec::new(), false));
        // The download goes on to its end.
        let body = download.exactly(length);
        assert!(body == content, "other bytes");
        download.ask("GET", "/a", "");
        assert_eq!(download.reply(false).text(), "a");
    }
}

/// Clients that keep their connections and ask again and again, more of them than there may be: all are served in the
/// end, and no answer is lost but that of a request which meets its connection's end, as ever.
#[test]
fn more_clients_than_connections_are_all_served() {
    const CLIENTS: usize = 12;
    const REQUESTS: usize = 40;
    for mode in MODES {
        let served = &serve_with(mode, |config| {
            config.max_connections = 3;
            config.keep_alive = Duration::from_secs(600);
        });
        served.write("a", "a");
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = served.connect();
                    let mut answered = 0;
                    while answered < REQUESTS {
                        let request = "GET /a HTTP/1.1\r\nhost: test\r\n\r\n";
                        if client.try_send(request).is_ok() && client.goes_on() {
                            assert_eq!(client.reply(false).text(), "a");
                            answered += 1;
                        } else {
                            client = served.connect();
                        }
                    }
                });
            }
        });
    }
}

/// Beyond the limit, connections wait in the kernel, and are served when there is room.
#[test]
fn a_full_server_makes_clients_wait() {
    for mode in MODES {
        let served = serve_with(mode, |config| config.max_connections = 4);
        served.write("a", "a");
        let mut held: Vec<Client> = (0..4).map(|_| served.connect()).collect();
        for client in &mut held {
            client.ask("GET", "/a", "");
            client.reply(false);
            // It is not idle.
            client.send("GET /a");
        }
        let mut fifth = served.connect();
        fifth.ask("GET", "/a", "");
        assert!(waits(&mut fifth));
        held.pop();
        assert_eq!(fifth.reply(false).text(), "a");
    }
}

#[test]
fn a_crowd_of_idle_connections() {
    for mode in MODES {
        let allowed = swerve::raise_descriptor_limit(4_000).allowed;
        // Both ends are in this process.
        let crowd = usize::try_from(allowed.saturating_sub(200) / 2).unwrap().min(1_500);
        // `ended` waits for less than that.
        let served = serve_with(mode, |config| config.grace = Duration::from_secs(600));
        served.write("a", "a");
        let mut held: Vec<Client> = (0..crowd).map(|_| served.connect()).collect();
        // Half have asked once, half have never spoken.
        for client in held.iter_mut().step_by(2) {
            client.ask("GET", "/a", "");
        }
        for client in held.iter_mut().step_by(2) {
            assert_eq!(client.reply(false).text(), "a");
        }
        assert_eq!(served.get("/a").text(), "a");
        for client in &mut held {
            client.ask("GET", "/a", "");
        }
        for client in &mut held {
            assert_eq!(client.reply(false).text(), "a");
        }
        served.stop.ease();
        let summary = served.ended();
        assert_eq!(summary.cut, 0);
        assert!(summary.connections > crowd as u64);
    }
}

/// Stalled downloads, more than may be under way at a time, hold up neither small requests nor other downloads.
#[test]
fn stalled_downloads_hold_up_nobody() {
    for mode in MODES {
        let served = serve(mode);
        let content = noise(LARGE, 14);
        served.write("large", &content);
        served.write("a", "a");
        let crowd = 5 * thread::available_parallelism().map_or(1, usize::from).min(20) + 10;
        let mut held: Vec<Client> = (0..crowd).map(|_| served.connect()).collect();
        for client in &mut held {
            client.ask("GET", "/large", "");
        }
        for client in &mut held {
            client.head();
        }
        assert_eq!(served.get("/a").text(), "a");
        assert!(served.get("/large").body == content);
        // A stalled client can go on.
        let mut last = held.pop().unwrap();
        let (body, reset) = {
            last.shut_our_side();
            last.rest()
        };
        assert!(body == content && !reset);
    }
}
