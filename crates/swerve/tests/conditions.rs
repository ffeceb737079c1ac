//! Ranges and conditional requests, on the wire.

mod common;

use common::{noise, serve};
use swerve::Mode;

#[test]
fn ranges() {
    for mode in common::MODES {
        let served = serve(mode);
        let content = noise(500_000, 9);
        served.write("f", &content);
        let mut client = served.connect();
        for (range, start, end) in [
            ("0-0", 0, 1),
            ("0-", 0, 500_000),
            ("100-199", 100, 200),
            ("65000-70000", 65_000, 70_001),
            ("1000-400000", 1_000, 400_001),
            ("499999-", 499_999, 500_000),
            ("499999-600000", 499_999, 500_000),
            ("-1", 499_999, 500_000),
            ("-200000", 300_000, 500_000),
            ("-900000", 0, 500_000),
        ] {
            client.ask("GET", "/f", &format!("range: bytes={range}\r\n"));
            let reply = client.reply(false);
            assert_eq!(reply.status, 206, "{range}");
            let expect = format!("bytes {start}-{}/500000", end - 1);
            assert_eq!(reply.header("content-range"), Some(expect.as_str()));
            assert!(reply.body == content[start..end], "{range}: other bytes");
        }
        // Empty elements of a list are no ranges.
        for range in ["100-199,", ",100-199", " , 100-199 ,, "] {
            client.ask("GET", "/f", &format!("range: bytes={range}\r\n"));
            let reply = client.reply(false);
            assert_eq!((reply.status, &reply.body[..]), (206, &content[100..200]), "{range}");
        }
        for range in ["500000-", "700000-800000", "-0"] {
            client.ask("GET", "/f", &format!("range: bytes={range}\r\n"));
            let reply = client.reply(false);
            assert_eq!((reply.status, reply.header("content-range")), (416, Some("bytes */500000")));
        }
        for range in ["bytes=0-1,5-6", "bytes=9-3", "bytes=x", "pages=1-2"] {
            client.ask("GET", "/f", &format!("range: {range}\r\n"));
            let reply = client.reply(false);
            assert_eq!((reply.status, reply.body.len()), (200, 500_000), "{range}");
        }
    }
}

#[test]
fn a_range_of_nothing() {
    let served = serve(Mode::Parasites);
    served.write("empty", "");
    let reply = served.request("GET", "/empty", "range: bytes=0-\r\n");
    assert_eq!((reply.status, reply.header("content-range")), (416, Some("bytes */0")));
}

#[test]
fn conditions() {
    let served = serve(Mode::Parasites);
    served.write("f", "0123456789");
    let first = served.get("/f");
    let tag = first.header("etag").unwrap();
    let date = first.header("last-modified").unwrap();
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (headers, status) in [
        (format!("if-none-match: {tag}\r\n"), 304),
        (format!("if-none-match: W/{tag}\r\n"), 304),
        ("if-none-match: *\r\n".into(), 304),
        ("if-none-match: \"other\"\r\n".into(), 200),
        (format!("if-modified-since: {date}\r\n"), 304),
        (format!("if-modified-since: {long_ago}\r\n"), 200),
        (format!("if-modified-since: {date}\r\nif-none-match: \"other\"\r\n"), 200),
        (format!("if-match: {tag}\r\n"), 200),
        ("if-match: \"other\"\r\n".into(), 412),
        (format!("if-unmodified-since: {long_ago}\r\n"), 412),
        (format!("range: bytes=2-3\r\nif-range: {tag}\r\n"), 206),
        // A date does not vouch for the bytes, and who has a tag may not send one.
        (format!("range: bytes=2-3\r\nif-range: {date}\r\n"), 200),
        ("range: bytes=2-3\r\nif-range: \"other\"\r\n".into(), 200),
        (format!("range: bytes=2-3\r\nif-range: {long_ago}\r\n"), 200),
        (format!("range: bytes=2-3\r\nif-none-match: {tag}\r\n"), 304),
    ] {
        let reply = served.request("GET", "/f", &headers);
        assert_eq!(reply.status, status, "{headers}");
        match status {
            200 => assert_eq!(reply.text(), "0123456789"),
            206 => assert_eq!(reply.text(), "23"),
            304 => assert_eq!(reply.header("etag"), Some(tag)),
            _ => {}
        }
        assert_eq!(
            served.request("HEAD", "/f", &headers).status,
            match status {
                206 => 200, // ranges are of GET alone
                other => other,
            }
        );
    }
}

#[test]
fn a_changed_file_has_another_tag() {
    let served = serve(Mode::Parasites);
    served.write("f", "one");
    let tag = served.get("/f").header("etag").unwrap().to_owned();
    // Same length, later time.
    std::thread::sleep(std::time::Duration::from_millis(20));
    served.write("f", "two");
    let reply = served.request("GET", "/f", &format!("if-none-match: {tag}\r\n"));
    assert_eq!((reply.status, reply.text()), (200, "two"));
}

/// Whatever the answer, it says who gives it.
#[test]
fn every_answer_names_the_server() {
    let served = serve(Mode::Parasites);
    served.write("f", "one");
    served.write("d/g", "two");
    let tag = served.get("/f").header("etag").unwrap().to_owned();
    for (method, path, headers, status) in [
        ("GET", "/f", String::new(), 200),
        ("HEAD", "/f", String::new(), 200),
        ("GET", "/f", "range: bytes=1-1\r\n".to_owned(), 206),
        ("GET", "/d", String::new(), 302),
        ("GET", "/d/", String::new(), 200),
        ("GET", "/f", format!("if-none-match: {tag}\r\n"), 304),
        ("GET", "/none", String::new(), 404),
        ("PUT", "/f", String::new(), 405),
        ("GET", "/f", "if-match: \"other\"\r\n".to_owned(), 412),
        ("GET", "/f", "range: bytes=9-\r\n".to_owned(), 416),
    ] {
        let reply = served.request(method, path, &headers);
        assert_eq!(reply.status, status, "{method} {path} {headers}");
        assert_eq!(reply.header("server"), Some("swerve"), "{status}");
    }
}

/// Another file of the same length and the same time, put in the place of the first in one step.
#[test]
fn a_replaced_file_has_another_tag_whatever_its_length_and_time() {
    for mode in common::MODES {
        let served = serve(mode);
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(1_000_000);
        let date = |name: &str| {
            let file = std::fs::File::options().write(true).open(served.path(name)).unwrap();
            file.set_modified(old).unwrap();
        };
        served.write("f", "one");
        date("f");
        let first = served.get("/f");
        let tag = first.header("etag").unwrap();
        served.write("next", "two");
        date("next");
        std::fs::rename(served.path("next"), served.path("f")).unwrap();
        let second = served.request("GET", "/f", &format!("if-none-match: {tag}\r\n"));
        assert_eq!((second.status, second.text()), (200, "two"));
        assert_eq!(first.header("last-modified"), second.header("last-modified"));
        let part = served.request("GET", "/f", &format!("range: bytes=1-1\r\nif-range: {tag}\r\n"));
        assert_eq!((part.status, part.text()), (200, "two"), "a part of another file");
    }
}
