//! Listings on the wire: short ones, and those that are made as they are taken.

mod common;

use std::fs;

use common::{Client, LONG, MODES, Served, serve_with};
use swerve::Mode;

/// Enough files for a page of more than 4 MB. Each name is three times as long in a link, and five times in HTML.
const FILES: usize = 2_000;

fn name(i: usize) -> String {
    format!("{i:04}{}", "&".repeat(220))
}

fn serve_many(mode: Mode) -> Served {
    // Many wait for the disk's few threads, however slow the machine is.
    let served = serve_with(mode, |config| config.disk_timeout = LONG);
    fs::create_dir(served.path("many")).unwrap();
    for i in 0..FILES {
        fs::write(served.path(&format!("many/{}", name(i * 7 % FILES))), "").unwrap();
    }
    served
}

/// The numbers of the files that a page names, in its order.
fn numbers(page: &str) -> Vec<usize> {
    page.split("<bdi>").filter_map(|rest| rest.get(..4)?.parse().ok()).collect()
}

#[test]
fn a_long_listing_is_whole() {
    for mode in MODES {
        let served = serve_many(mode);
        served.write("a", "a");
        let mut client = served.connect();
        client.ask("GET", "/many/", "");
        let head = client.head();
        assert_eq!((head.status, head.header("transfer-encoding")), (200, Some("chunked")));
        assert_eq!(head.header("content-length"), None);
        let page = String::from_utf8(client.chunked()).unwrap();
        assert!(page.len() > 3_500_000 && page.ends_with("</html>\n"));
        assert_eq!(numbers(&page), (0..FILES).collect::<Vec<_>>());
        // The connection goes on.
        client.ask("HEAD", "/many/", "");
        let head = client.reply(true);
        assert_eq!((head.status, head.header("content-length")), (200, None));
        client.ask("GET", "/a", "");
        assert_eq!(client.reply(false).text(), "a");
        // A client that knows no chunks gets the same until the end of the connection.
        let mut old = served.connect();
        old.send("GET /many/ HTTP/1.0\r\n\r\n");
        let (all, reset) = old.rest();
        assert!(all.ends_with(page.as_bytes()) && !reset);
    }
}

#[cfg(target_os = "linux")]
fn memory() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Readers that are slow, and those that go away, cost a few chunks each.
#[cfg(target_os = "linux")]
#[test]
fn slow_readers_of_a_long_listing_cost_little() {
    let served = serve_many(Mode::Parasites);
    let before = memory();
    let mut slow: Vec<Client> = (0..60).map(|_| served.connect()).collect();
    for client in &mut slow {
        client.ask("GET", "/many/", "");
    }
    for client in &mut slow {
        assert_eq!(client.head().status, 200);
    }
    // 60 pages are more than 200 MB; what is in the sockets is the kernel's.
    let grown = memory().saturating_sub(before);
    assert!(grown < 80_000_000, "{grown} bytes");
    slow.truncate(2);
    for client in &mut slow {
        assert!(client.chunked().ends_with(b"</html>\n"));
    }
}

#[test]
fn hidden_names() {
    for mode in MODES {
        for hidden in [false, true] {
            let served = serve_with(mode, |config| config.hidden = hidden);
            for name in [".env", ".git/config", "a/.b/c", ".well-known/security.txt", ".well-known/.x", "a/d"]
            {
                served.write(name, name);
            }
            served.write("a/.well-known/e", "");
            std::os::unix::fs::symlink(".env", served.path("shown")).unwrap();
            let secret = if hidden { 200 } else { 404 };
            for path in [
                "/.env",
                "/%2eenv",
                "/./.env",
                "//.env",
                "/.git/config",
                "/.git/",
                "/a/.b/c",
                "/.well-known/.x",
                "/a/.well-known/e",
                "/a/.b/",
            ] {
                assert_eq!(served.get(path).status, secret, "{path}");
                assert_eq!(served.request("HEAD", path, "").status, secret, "{path}");
            }
            // Not even that there is a directory.
            assert_eq!(served.get("/.git").status, if hidden { 302 } else { 404 });
            assert_eq!(served.get("/.well-known/security.txt").status, 200);
            assert_eq!(served.get("/shown").text(), ".env", "whoever made the link has shown it");
            for (path, name) in [
                ("/", ".env"),
                ("/", ".git/"),
                ("/a/", ".b/"),
                ("/a/", ".well-known/"),
                ("/.well-known/", ".x"),
            ] {
                let listing = served.get(path);
                assert_eq!(listing.text().contains(&format!("href=\"{name}\"")), hidden, "{path} {name}");
            }
            assert!(served.get("/").text().contains("href=\".well-known/\""));
        }
    }
}
