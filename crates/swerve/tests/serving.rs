//! The served bytes are those of the files, in both modes.

mod common;

use std::thread;
use std::time::Duration;

use common::{Client, MODES, files_below, noise, serve, serve_with};
use swerve::Mode;

/// Sizes around the chunk of the file processor, which is 64 KiB.
const SIZES: [usize; 9] = [0, 1, 1_000, 65_535, 65_536, 65_537, 131_072, 1_000_003, 9_000_001];

#[test]
fn a_tree_of_files_byte_by_byte() {
    for mode in MODES {
        let served = serve(mode);
        for (i, size) in SIZES.into_iter().enumerate() {
            served.write(&format!("d{}/file {i}.bin", i % 3), noise(size, i as u64));
        }
        served.write("ünï/%41&<>\"'+;=?#.txt", "odd");
        let root = served.path("");
        let mut client = served.connect();
        for path in files_below(&root) {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let url: String = name
                .bytes()
                .map(|b| match b {
                    b'/' | b'.' | b'0'..=b'9' | b'a'..=b'z' => char::from(b).to_string(),
                    b => format!("%{b:02x}"),
                })
                .collect();
            client.ask("GET", &format!("/{url}"), "");
            let reply = client.reply(false);
            assert_eq!(reply.status, 200, "{name}");
            assert!(reply.body == std::fs::read(&path).unwrap(), "{name}: other bytes");
        }
    }
}

/// Pages that memory does not hold come by way of the disk threads.
#[cfg(target_os = "linux")]
#[test]
fn bytes_that_only_the_disk_has() {
    use rustix::fs::{Advice, fadvise};
    for mode in MODES {
        let served = serve(mode);
        for (name, size) in [("small", 10_000), ("large", 3_000_000)] {
            let content = noise(size, 21);
            served.write(name, &content);
            let file = std::fs::File::open(served.path(name)).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            assert!(served.get(&format!("/{name}")).body == content, "{name}: other bytes");
        }
    }
}

#[test]
fn many_clients_at_once() {
    for mode in MODES {
        let served = &serve(mode);
        let content = noise(300_000, 7);
        served.write("large", &content);
        served.write("small", "small");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut client = served.connect();
                    for _ in 0..20 {
                        client.ask("GET", "/large", "");
                        client.ask("GET", "/small", "");
                        assert!(client.reply(false).body == content);
                        assert_eq!(client.reply(false).text(), "small");
                    }
                });
            }
        });
    }
}

#[test]
fn head_is_get_without_the_body() {
    let served = serve(Mode::Parasites);
    served.write("a.html", "<p>hello</p>");
    served.write("large", noise(200_000, 1));
    let mut client = served.connect();
    for path in ["/a.html", "/large", "/", "/nothing"] {
        client.ask("GET", path, "");
        let get = client.reply(false);
        client.ask("HEAD", path, "");
        let head = client.reply(true);
        assert_eq!(get.status, head.status, "{path}");
        for name in ["content-length", "content-type", "etag", "last-modified", "accept-ranges"] {
            assert_eq!(get.header(name), head.header(name), "{path}: {name}");
        }
        assert_eq!(get.header("content-length").unwrap(), get.body.len().to_string());
    }
}

#[test]
fn content_types() {
    let served = serve(Mode::Parasites);
    for (name, expect) in [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.png", "image/png"),
        ("README", "text/plain; charset=utf-8"),
        ("LICENSE-MIT", "text/plain; charset=utf-8"),
        ("a.ts", "text/plain; charset=utf-8"),
        ("a", "application/octet-stream"),
    ] {
        served.write(name, "x");
        let reply = served.get(&format!("/{name}"));
        assert_eq!(reply.header("content-type"), Some(expect), "{name}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
}

/// A charset that is announced rules over what a file says of itself, so it is announced of UTF-8 alone.
#[test]
fn a_charset_is_announced_of_what_has_it() {
    for mode in MODES {
        let served = serve(mode);
        let latin = b"<meta charset=iso-8859-1>gr\xfcn".to_vec();
        let filler = |letter: &str| letter.repeat(100_000 / letter.len()).into_bytes();
        for (name, content, expect) in [
            ("utf8.html", "gr\u{fc}n".as_bytes().to_vec(), "text/html; charset=utf-8"),
            ("latin.html", latin.clone(), "text/html"),
            ("latin.txt", latin.clone(), "text/plain"),
            ("README", latin.clone(), "text/plain"),
            ("utf16.txt", b"\xff\xfea\0".to_vec(), "text/plain"),
            ("japanese.html", b"\x1b$B8@8l\x1b(B".to_vec(), "text/html"),
            ("empty.txt", Vec::new(), "text/plain; charset=utf-8"),
            // No chunk ends with a letter here.
            ("large.txt", filler("\u{20ac}"), "text/plain; charset=utf-8"),
            ("large-latin.txt", [latin, filler("a")].concat(), "text/plain"),
            ("latin.svg", b"<?xml version='1.0' encoding='iso-8859-1'?>\xfc".to_vec(), "image/svg+xml"),
        ] {
            served.write(name, &content);
            let path = format!("/{name}");
            for _ in 0..2 {
                let reply = served.get(&path);
                assert_eq!(reply.header("content-type"), Some(expect), "{name}, {mode:?}");
                assert!(reply.body == content, "{name}: other bytes");
            }
            assert_eq!(served.request("HEAD", &path, "").header("content-type"), Some(expect), "HEAD {name}");
            if content.len() > 3 {
                for (range, start, end) in [("1-2", 1, 3), ("-2", content.len() - 2, content.len())] {
                    let part = served.request("GET", &path, &format!("range: bytes={range}\r\n"));
                    assert_eq!((part.status, part.header("content-type")), (206, Some(expect)), "{name}");
                    assert!(part.body == content[start..end], "{name}, {range}: other bytes");
                }
            }
        }
    }
}

/// A drawing that is kept compressed says so; an archive is no encoding of something else.
#[test]
fn compressed_drawings() {
    let served = serve(Mode::Parasites);
    for (name, content_type, encoding) in [
        ("a.svgz", "image/svg+xml", Some("gzip")),
        ("a.SVGZ", "image/svg+xml", Some("gzip")),
        ("a.svg", "image/svg+xml; charset=utf-8", None),
        ("a.tar.gz", "application/gzip", None),
    ] {
        served.write(name, "x");
        for method in ["GET", "HEAD"] {
            let reply = served.request(method, &format!("/{name}"), "");
            assert_eq!(reply.header("content-type"), Some(content_type), "{method} {name}");
            assert_eq!(reply.header("content-encoding"), encoding, "{method} {name}");
        }
    }
}

/// A backslash is a letter like others.
#[test]
fn names_with_a_backslash() {
    for mode in MODES {
        let served = serve(mode);
        served.write("a\\b", "file");
        served.write("d\\/a..\\b", "below");
        assert_eq!(served.get("/a%5cb").text(), "file");
        assert_eq!(served.get("/d%5C/a..%5Cb").text(), "below");
        assert_eq!(served.get("/..%5ca").status, 404);
        let to = served.get("/d%5c");
        assert_eq!((to.status, to.header("location")), (302, Some("d%5C/")));
        let listing = served.get("/");
        assert!(listing.text().contains("<a href=\"a%5Cb\"><bdi>a\\\\b</bdi></a>"), "{}", listing.text());
    }
}

/// Behind a proxy that serves the tree beneath a prefix, a redirect stays beneath it: it names no more than it must.
#[test]
fn redirects_are_relative() {
    let served = serve(Mode::Parasites);
    served.write("a/b c/d", "x");
    for (path, location) in [
        ("/a", "a/"),
        ("/a/b%20c", "b%20c/"),
        ("/a/./b%20c?q=/", "b%20c/?q=/"),
        ("http://test/a/b%20c", "b%20c/"),
    ] {
        let reply = served.get(path);
        assert_eq!((reply.status, reply.header("location")), (302, Some(location)), "{path}");
    }
}

#[test]
fn directories() {
    for mode in MODES {
        let served = serve(mode);
        served.write("d/b & c.txt", "x");
        served.write("d/<i>", "x");
        served.write("with/index.html", "index");
        served.write("with/other", "x");

        let to = served.get("/d?q=1");
        assert_eq!((to.status, to.header("location")), (302, Some("d/?q=1")));
        let away = served.get("//d");
        assert_eq!((away.status, away.header("location")), (302, Some("d/")));

        let listing = served.get("/d/");
        assert_eq!(listing.status, 200);
        assert_eq!(listing.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(listing.text().contains("<a href=\"b%20%26%20c.txt\"><bdi>b &amp; c.txt</bdi></a>"));
        assert!(listing.text().contains("<a href=\"%3Ci%3E\"><bdi>&lt;i&gt;</bdi></a>"));
        assert!(listing.text().contains("<a href=\"../\">"));
        assert!(served.get("/").text().contains("<a href=\"d/\"><bdi>d</bdi>/</a>"));

        let index = served.get("/with/");
        assert_eq!((index.status, index.text()), (200, "index"));
        assert_eq!(index.header("content-type"), Some("text/html; charset=utf-8"));
        // A file is not a directory.
        assert_eq!(served.get("/with/index.html/").status, 404);
    }
}

#[test]
fn connections_are_kept() {
    for mode in MODES {
        let served = serve(mode);
        served.write("a", "a");
        let mut client = served.connect();
        for path in ["/a", "/nothing", "/", "/../x", "/a"] {
            client.ask("GET", path, "");
            client.reply(false);
        }
        client.ask("GET", "/a", "connection: close\r\n");
        let reply = client.reply(false);
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(client.is_closed());
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    for mode in MODES {
        let served = serve(mode);
        for i in 0..50 {
            served.write(&format!("{i}"), noise(i * 4_000, i as u64));
        }
        let mut client = served.connect();
        let all: String = (0..50).map(|i| format!("GET /{i} HTTP/1.1\r\nhost: test\r\n\r\n")).collect();
        client.send(all);
        for i in 0..50 {
            let reply = client.reply(false);
            assert_eq!(reply.status, 200);
            assert!(reply.body == noise(i * 4_000, i as u64), "answer {i}");
        }
    }
}

#[test]
fn http_1_0() {
    let served = serve(Mode::Parasites);
    served.write("a", "a");
    let mut client = served.connect();
    client.send("GET /a HTTP/1.0\r\n\r\n");
    let (all, reset) = client.rest();
    assert!(all.starts_with(b"HTTP/1.0 200 OK\r\n") && all.ends_with(b"\r\n\r\na") && !reset);
}

#[test]
fn a_client_may_shut_its_side_after_asking() {
    for mode in MODES {
        let served = serve(mode);
        let content = noise(5_000_000, 3);
        served.write("large", &content);
        let mut client = served.connect();
        client.ask("GET", "/large", "");
        client.shut_our_side();
        assert!(client.reply(false).body == content);
        assert!(client.is_closed());
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let served = serve(Mode::Parasites);
    served.write("a", "a");
    let mut client = served.connect();
    for byte in b"GET /a HTTP/1.1\r\nhost: test\r\n\r\n" {
        client.send([*byte]);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(client.reply(false).text(), "a");
}

/// The answer of a client that left is given up; others do not notice.
#[test]
fn clients_may_leave_in_the_middle() {
    for mode in MODES {
        let served = serve(mode);
        let content = noise(8_000_000, 3);
        served.write("large", &content);
        for _ in 0..20 {
            let mut client = served.connect();
            client.ask("GET", "/large", "");
            client.head();
        }
        assert!(served.get("/large").body == content);
    }
}

/// A file that shrinks while it is sent ends the connection: the client must not take what came for
/// the whole.
#[test]
fn a_file_cut_short_is_not_passed_off_as_whole() {
    for mode in MODES {
        let served = serve(mode);
        // More than the buffers of both sockets, so that the server cannot be through with it.
        served.write("large", noise(64_000_000, 3));
        let mut client = Client::connect(served.addr);
        client.ask("GET", "/large", "");
        client.head();
        std::fs::OpenOptions::new()
            .write(true)
            .open(served.path("large"))
            .and_then(|file| file.set_len(100_000))
            .unwrap();
        let (body, _) = client.rest();
        assert!(body.len() < 64_000_000);
    }
}

/// A file is kept in memory when it has been left alone for two seconds; whatever happens to it then is seen, at once
/// if each request looks.
#[test]
fn kept_files_are_what_they_are_on_the_disk() {
    let served = MODES.map(|mode| serve_with(mode, |config| config.kept_for = Duration::ZERO));
    let content = noise(10_000, 5);
    for served in &served {
        served.write("d/file", &content);
    }
    thread::sleep(Duration::from_millis(3_100));
    for served in &served {
        for _ in 0..3 {
            let reply = served.get("/d/file");
            assert!(reply.body == content, "other bytes");
            let part = served.request("GET", "/d/file", "Range: bytes=9000-9999\r\n");
            assert_eq!(part.status, 206);
            assert!(part.body == content[9_000..], "another part");
            assert_eq!(served.request("HEAD", "/d/file", "").header("content-length"), Some("10000"));
            let etag = reply.header("etag").unwrap();
            let again = served.request("GET", "/d/file", &format!("If-None-Match: {etag}\r\n"));
            assert_eq!(again.status, 304);
            assert_eq!(served.get("/d/file/").status, 404, "it is no directory");
        }
        served.write("d/file", noise(10_000, 6));
        assert!(served.get("/d/file").body == noise(10_000, 6), "the old bytes");
        std::fs::remove_file(served.path("d/file")).unwrap();
        assert_eq!(served.get("/d/file").status, 404);
    }
}
