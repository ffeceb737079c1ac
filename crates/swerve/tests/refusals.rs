//! Bad input: refused, with the right status, without a byte from outside, and without harm to others.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use common::{find, serve, serve_with};
use swerve::Mode;

const SECRET: &str = "the-secret-that-must-not-leak";

#[test]
fn nothing_outside_is_served() {
    for mode in common::MODES {
        let served = serve(mode);
        let outside = served.dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), SECRET).unwrap();
        fs::write(served.dir.path().join("secret"), SECRET).unwrap();
        served.write("d/inside", "inside");
        symlink("../../outside/secret", served.path("d/relative")).unwrap();
        symlink(outside.join("secret"), served.path("absolute")).unwrap();
        symlink(&outside, served.path("directory")).unwrap();
        symlink("..", served.path("up")).unwrap();
        symlink("/", served.path("root")).unwrap();
        symlink("/proc/self/root", served.path("magic")).unwrap();
        fs::create_dir(served.path("indexed")).unwrap();
        symlink(outside.join("secret"), served.path("indexed/index.html")).unwrap();
        let whole = outside.join("secret");
        let whole = whole.to_str().unwrap();

        let mut paths: Vec<String> = [
            "/../secret",
            "/../outside/secret",
            "/d/../../secret",
            "/./../secret",
            "/%2e%2e/secret",
            "/%2E%2E/secret",
            "/.%2e/secret",
            "/%2e%2e%2fsecret",
            "/..%2fsecret",
            "/..%5csecret",
            "/..\\secret",
            "/%2e%2e%5csecret",
            "/%252e%252e/secret",
            "/%252e%252e%252fsecret",
            "/%25252e%25252e/secret",
            "/%c0%ae%c0%ae/secret",
            "/%u002e%u002e/secret",
            "/d/%00/../../secret",
            "/../secret%00.html",
            "/d/inside/../../../secret",
            "/....//secret",
            "/..;/secret",
            "/d/relative",
            "/absolute",
            "/directory",
            "/directory/",
            "/directory/secret",
            "/up/",
            "/up/secret",
            "/up/outside/secret",
            "/root/etc/passwd",
            "/magic/etc/passwd",
            "/indexed/",
            "/etc/passwd",
            "//etc/passwd",
            "/%2fetc%2fpasswd",
            "/%2f/etc/passwd",
            "/file:///etc/passwd",
            "http://test/../secret",
            "http://test/%2e%2e/secret",
        ]
        .map(String::from)
        .into();
        paths.push(whole.to_owned());
        paths.push(format!("/{whole}"));
        paths.push(whole.replace('/', "%2f"));
        for path in paths {
            for method in ["GET", "HEAD"] {
                let mut client = served.connect();
                client.ask(method, &path, "connection: close\r\n");
                let (all, _) = client.rest();
                let status = std::str::from_utf8(&all[9..12]).unwrap();
                assert!(matches!(status, "403" | "404" | "400"), "{method} {path}: {status}");
                assert!(find(&all, SECRET.as_bytes()).is_none(), "{method} {path} leaks");
                assert!(find(&all, b"root:").is_none(), "{method} {path} leaks");
            }
        }
        let listing = served.get("/");
        for name in ["absolute", "directory", "up", "root", "magic"] {
            assert!(!listing.text().contains(name), "{name} is listed");
        }
        assert_eq!(served.get("/d/inside").text(), "inside");
    }
}

#[test]
fn symlinks_that_stay_inside_are_served() {
    let served = serve(Mode::Parasites);
    served.write("d/f", "inside");
    symlink("d/f", served.path("relative")).unwrap();
    symlink(served.path("d"), served.path("absolute")).unwrap();
    assert_eq!(served.get("/relative").text(), "inside");
    assert_eq!(served.get("/absolute/f").text(), "inside");
    let to = served.get("/absolute");
    assert_eq!((to.status, to.header("location")), (302, Some("absolute/")));
}

/// Where that is asked for, links lead wherever they lead; requests still do not.
#[test]
fn links_lead_outside_if_they_may() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| config.follow_links = true);
        let outside = served.dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "outside").unwrap();
        fs::write(outside.join(".hidden"), "hidden").unwrap();
        symlink("../outside/file", served.path("relative")).unwrap();
        symlink(outside.join("file"), served.path("absolute")).unwrap();
        symlink(&outside, served.path("directory")).unwrap();
        symlink("directory", served.path("in-two-steps")).unwrap();
        symlink("loop", served.path("loop")).unwrap();
        symlink("../nothing", served.path("dangling")).unwrap();
        for path in ["/relative", "/absolute", "/directory/file", "/in-two-steps/file"] {
            for _ in 0..2 {
                assert_eq!(served.get(path).text(), "outside", "{path}, {mode:?}");
            }
        }
        assert!(served.get("/directory/").text().contains("file"));
        let listing = served.get("/");
        for name in ["relative", "absolute", "directory"] {
            assert!(listing.text().contains(name), "{name} is not listed");
        }
        for (path, status) in [
            ("/../outside/file", 403),
            ("/..%2foutside%2ffile", 403),
            ("/directory/../outside/file", 403),
            ("/directory/.hidden", 404),
            ("/dangling", 404),
            ("/loop", 403),
        ] {
            assert_eq!(served.get(path).status, status, "{path}, {mode:?}");
        }
    }
}

/// Urgent data within a request ends no reading: what comes behind it is heard.
#[test]
fn a_request_with_urgent_data_is_answered() {
    for mode in common::MODES {
        let served = serve(mode);
        served.write("a", "a");
        let mut client = served.connect();
        for _ in 0..3 {
            client.send("GET /a HTTP/1.1\r\nhost: ");
            rustix::net::send(&client.stream, b"!", rustix::net::SendFlags::OOB).unwrap();
            client.send("test\r\n\r\n");
            assert_eq!(client.reply(false).text(), "a");
        }
    }
}

#[test]
fn malformed_requests() {
    let served = serve(Mode::Parasites);
    for bytes in [
        "GARBAGE\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /\r\nhost: test\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\nbad name: x\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        "GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        "POST / HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a:x\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n",
        "GET /a b HTTP/1.1\r\nhost: test\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\ncontent-length: +1\r\n\r\nx",
        "GET / HTTP/1.1\r\nhost: test\r\ncontent-length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\ncontent-length: 1, 2\r\n\r\nx",
        "GET / HTTP/1.1\r\nhost: test\r\ntransfer-encoding: gzip\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked, gzip\r\n\r\n",
        "GET / HTTP/1.0\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\nx: a\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nhost : test\r\n\r\n",
        "GET / HTTP/1.1\r\n host: test\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\nx: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\rx: y\r\n\r\n",
        "GET  / HTTP/1.1\r\nhost: test\r\n\r\n",
        "GET /\r\n",
        "GET /\r\n\r\n",
        "GET * HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n",
    ] {
        let mut client = served.connect();
        client.send(bytes);
        let (all, reset) = client.rest();
        let is_bad = all.starts_with(b"HTTP/1.1 400 ") || all.starts_with(b"HTTP/1.0 400 ");
        assert!(is_bad, "{bytes:?}: {}", String::from_utf8_lossy(&all));
        assert!(!reset, "{bytes:?}");
    }
}

#[test]
fn oversized_heads() {
    let served = serve(Mode::Parasites);
    let long = "x".repeat(200_000);
    let many: String = (0..1_000).map(|i| format!("x-{i}: y\r\n")).collect();
    for (bytes, statuses) in [
        (format!("GET / HTTP/1.1\r\nhost: test\r\nx: {long}\r\n\r\n"), &["431"][..]),
        (format!("GET / HTTP/1.1\r\nhost: test\r\n{many}\r\n"), &["431"]),
        (format!("GET /{long} HTTP/1.1\r\nhost: test\r\n\r\n"), &["414", "431"]),
    ] {
        let mut client = served.connect();
        client.send(&bytes);
        let (all, reset) = client.rest();
        let status = std::str::from_utf8(&all[9..12]).unwrap();
        assert!(statuses.contains(&status) && !reset, "{status}, {}", &bytes[..60]);
    }
    // Long requests within the limit are fine.
    let fine = format!("x: {}\r\n", "x".repeat(8_000));
    assert_eq!(served.request("GET", "/", &fine).status, 200);
}

#[test]
fn other_methods() {
    let served = serve(Mode::Parasites);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"] {
        let reply = served.request(method, "/", "");
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    // The client of a large upload reads the refusal rather than a reset.
    let mut client = served.connect();
    client.send("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 500000\r\n\r\n");
    client.send(vec![b'x'; 500_000]);
    assert_eq!(client.reply(false).status, 405);
    assert!(!client.rest().1, "reset");
}

#[test]
fn a_body_on_a_get_is_ignored_and_not_taken_for_a_request() {
    let served = serve(Mode::Parasites);
    served.write("a", "a");
    let mut client = served.connect();
    let smuggled = "GET /b HTTP/1.1\r\nhost: test\r\n\r\n";
    client.ask("GET", "/a", &format!("content-length: {}\r\n", smuggled.len()));
    client.send(smuggled);
    assert_eq!(client.reply(false).text(), "a");
    client.send("GET /a HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    let (all, _) = client.rest();
    assert!(find(&all, b" 404 ").is_none());
}

#[test]
fn slow_heads_time_out() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| config.head_timeout = Duration::from_millis(300));
        let began = Instant::now();
        let mut client = served.connect();
        // A dribbled request goes on with the path: never wrong, however late it is read.
        client.send("GET /");
        // Dribbling does not buy time.
        let mut stream = client.stream.try_clone().unwrap();
        let dribble = std::thread::spawn(move || {
            use std::io::Write;
            loop {
                std::thread::sleep(Duration::from_millis(20));
                if stream.write_all(b"x").is_err() {
                    break;
                }
            }
        });
        let (all, _) = client.rest();
        let took = began.elapsed();
        assert!(all.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&all));
        assert!(took >= Duration::from_millis(300), "{took:?}");
        drop(client);
        dribble.join().unwrap();
    }
}

#[test]
fn silence_ends_a_connection() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| {
            config.keep_alive = Duration::from_millis(300);
            config.head_timeout = Duration::from_millis(300);
        });
        served.write("a", "a");
        // Before the first request, and after it.
        let began = Instant::now();
        assert!(served.connect().is_closed());
        assert!(began.elapsed() >= Duration::from_millis(290), "{:?}", began.elapsed());
        let mut client = served.connect();
        client.ask("GET", "/a", "");
        assert_eq!(client.reply(false).text(), "a");
        let began = Instant::now();
        assert!(client.is_closed());
        assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
    }
}

#[test]
fn a_client_that_does_not_take_its_answer_is_let_go() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| config.stall_timeout = Duration::from_millis(300));
        served.write("large", common::noise(64_000_000, 5));
        // A server that has no core for long is given more time.
        let is_cut = (1..7).any(|round| {
            let mut client = served.connect();
            client.ask("GET", "/large", "");
            client.head();
            std::thread::sleep(Duration::from_secs(1 << round));
            client.rest().0.len() < 64_000_000
        });
        assert!(is_cut, "it was sent whole");
    }
}

/// A connection that is not to be kept ends with its first answer, which says so; and no answer is lost.
#[test]
fn connections_that_are_not_kept_lose_no_answer() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| config.keep_alive = Duration::ZERO);
        served.write("a", "a");
        let large = common::noise(300_000, 7);
        served.write("large", &large);
        for _ in 0..20 {
            for (path, content) in [("/a", &b"a"[..]), ("/large", &large)] {
                let mut client = served.connect();
                client.ask("GET", path, "");
                let reply = client.reply(false);
                assert_eq!(reply.header("connection"), Some("close"));
                assert!(reply.body == content);
                assert_eq!(client.rest(), (Vec::new(), false));
            }
        }
        // A client has the time of a head, though connections are not kept.
        let mut late = served.connect();
        std::thread::sleep(Duration::from_millis(100));
        late.ask("GET", "/a", "");
        assert_eq!(late.reply(false).text(), "a");
    }
}

/// Requests are answered, however short the patience.
#[test]
fn what_was_asked_in_one_go_is_answered() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| config.keep_alive = Duration::from_nanos(1));
        served.write("a", "a");
        for _ in 0..10 {
            let mut client = served.connect();
            client.send("GET /a HTTP/1.1\r\nhost: test\r\n\r\n".repeat(100));
            for _ in 0..100 {
                assert_eq!(client.reply(false).text(), "a");
            }
            assert_eq!(client.rest(), (Vec::new(), false));
        }
    }
}

/// The rest of a request that came in part behind another has no more time than any other head.
#[test]
fn a_head_begun_behind_another_times_out() {
    for mode in common::MODES {
        let served = serve_with(mode, |config| {
            config.head_timeout = Duration::from_millis(300);
            config.keep_alive = Duration::from_secs(600);
        });
        served.write("a", "a");
        for begun in ["G", "GET /a HTTP/1.1\r\nhost: test\r\n", "GET /a HTTP/1.1\r\nhost: test\r\n\r"] {
            let mut client = served.connect();
            client.send(format!("GET /a HTTP/1.1\r\nhost: test\r\n\r\n{begun}"));
            assert_eq!(client.reply(false).text(), "a");
            assert!(client.rest().0.starts_with(b"HTTP/1.1 408 "));
        }
        // One that is whole has all the time of silence: it is still there.
        let mut client = served.connect();
        client.ask("GET", "/a", "");
        assert_eq!(client.reply(false).text(), "a");
        std::thread::sleep(Duration::from_millis(900));
        client.ask("GET", "/a", "");
        assert_eq!(client.reply(false).text(), "a");
    }
}

/// Nothing is believed that follows a body: who sent it may have seen its end elsewhere.
#[test]
fn a_body_ends_the_connection() {
    let served = serve(Mode::Parasites);
    served.write("a", "a");
    for (head, status) in [
        ("GET /a HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\n\r\nxyz", 200),
        ("GET /a HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\n\r\n", 200),
        ("GET /a HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 200),
        ("POST /a HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\n\r\nxyz", 405),
        // RFC 9112, 6.1 lets the second rule over the first, if the connection ends.
        (
            "GET /a HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            200,
        ),
        ("GET /a HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nxyz", 200),
        ("PUT /a HTTP/1.1\r\nhost: test\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n", 405),
    ] {
        let mut client = served.connect();
        client.send(head);
        let reply = client.reply(false);
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{head:?}");
        assert_eq!(client.rest(), (Vec::new(), false), "{head:?}");
    }
}

/// Requests that RFC 9112 lets pass, or that HTTP/1.0 wrote otherwise.
#[test]
fn unusual_requests_that_are_none_the_worse() {
    let served = serve(Mode::Parasites);
    served.write("a", "a");
    for (request, kept) in [
        ("GET /a HTTP/1.0\r\n\r\n", false),
        ("GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", true),
        ("GET /a HTTP/1.1\r\nhost:\r\n\r\n", true),
        ("GET /a HTTP/1.1\r\nhost: [::1]:80\r\n\r\n", true),
        ("GET http://test/a HTTP/1.1\r\nhost: test\r\n\r\n", true),
        ("GET /a HTTP/1.1\nhost: test\n\n", true),
        ("\r\nGET /a HTTP/1.1\r\nhost: test\r\n\r\n", true),
        ("GET /a HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n", false),
        ("GET /a HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n", true),
    ] {
        let mut client = served.connect();
        client.send(request);
        assert_eq!(client.reply(false).text(), "a", "{request:?}");
        if kept {
            client.ask("GET", "/a", "connection: close\r\n");
            assert_eq!(client.reply(false).text(), "a", "{request:?}");
        }
        assert_eq!(client.rest(), (Vec::new(), false), "{request:?}");
    }
}
