//! File systems that do not answer: requests for anything else do not notice.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/fuse.rs"]
mod fuse;

use std::fs;
use std::time::Duration;

use common::{Client, MODES, Served, serve_with};
use fuse::{CONTENT, Fuse, hanging};
use tempfile::TempDir;

/// Serves a file of our own, and another file system at `mounted`.
fn serve_mounted(mode: swerve::Mode, grace: Duration) -> Option<(Served, Fuse)> {
    let served = serve_with(mode, |config| {
        config.disk_timeout = Duration::from_millis(300);
        config.grace = grace;
    });
    served.write("own", "own");
    served.write("d/own", "own");
    fs::create_dir(served.path("mounted")).unwrap();
    let fuse = Fuse::mount(&served.path("mounted"))?;
    Some((served, fuse))
}

fn ask_all(served: &Served, times: usize) -> Vec<Client> {
    let paths = hanging().flat_map(|name| std::iter::repeat_n(name, times));
    let ask = |name: &str| {
        let mut client = served.connect();
        client.ask("GET", &format!("/mounted/{name}"), "");
        client
    };
    paths.map(ask).collect()
}

#[test]
fn files_that_hang_leave_the_others_alone() {
    for mode in MODES {
        let Some((served, fuse)) = serve_mounted(mode, Duration::from_secs(60)) else { return };
        assert_eq!(served.get("/mounted/healthy").body, CONTENT);
        let hung = ask_all(&served, 8);
        for _ in 0..20 {
            assert_eq!(served.get("/own").text(), "own");
            assert_eq!(served.get("/d/own").text(), "own");
            assert_eq!(served.get("/nothing").status, 404);
            assert_eq!(served.get("/mounted").status, 302);
            // Neighbours of a file that hangs.
            assert_eq!(served.get("/mounted/healthy").body, CONTENT);
        }
        let listing = served.get("/");
        assert_eq!(listing.status, 200);
        assert!(listing.text().contains("href=\"mounted/\"") && listing.text().contains("href=\"own\""));
        for mut client in hung {
            let reply = client.reply(false);
            // That which hangs when it is closed has been sent.
            assert!(matches!(reply.status, 503 | 504) || reply.body == CONTENT, "{}", reply.status);
        }
        // And a further request is told at once.
        for mut client in ask_all(&served, 1) {
            client.reply(false);
        }
        assert_eq!(served.get("/own").text(), "own");
        drop(fuse);
    }
}

/// The order to stop is heard, and obeyed in its time, while calls hang.
#[test]
fn files_that_hang_do_not_keep_the_server_from_stopping() {
    for mode in MODES {
        let Some((served, fuse)) = serve_mounted(mode, Duration::from_millis(50)) else { return };
        let mut hung = ask_all(&served, 8);
        assert_eq!(served.get("/own").text(), "own");
        served.stop.ease();
        let dir = served.ended_with_directory();
        for client in &mut hung {
            client.rest();
        }
        drop(fuse);
        drop(dir);
    }
}

/// A file server that has answered until now goes away: whatever was learnt of its files is no reason to ask it again
/// where others wait.
#[test]
fn a_file_server_that_goes_away() {
    for mode in MODES {
        let Some((served, fuse)) = serve_mounted(mode, Duration::from_millis(50)) else { return };
        for _ in 0..3 {
            assert_eq!(served.get("/mounted/healthy").body, CONTENT);
            // One of those that it names hangs when it is looked at.
            let listing = served.get("/mounted/");
            assert!(listing.text().contains("healthy") && listing.text().contains("hangs-when-opened"));
        }
        fuse.go();
        let mut hung = Vec::new();
        for path in ["/mounted/healthy", "/mounted/", "/mounted", "/mounted/nothing"].repeat(8) {
            let mut client = served.connect();
            client.ask("GET", path, "");
            hung.push(client);
        }
        for _ in 0..20 {
            assert_eq!(served.get("/own").text(), "own");
            assert!(served.get("/").text().contains("href=\"mounted/\""));
        }
        served.stop.ease();
        let dir = served.ended_with_directory();
        for client in &mut hung {
            client.rest();
        }
        drop(fuse);
        drop(dir);
    }
}

/// The served directory itself lies on another file system: then nothing is taken for quick.
#[test]
fn a_served_directory_that_may_hang() {
    for mode in MODES {
        let dir = TempDir::new().unwrap();
        let Some(fuse) = Fuse::mount(dir.path()) else { return };
        let served = serve_with(mode, |config| {
            config.directory = dir.path().to_owned();
            config.disk_timeout = Duration::from_millis(300);
        });
        let ask = |name: &str| {
            let mut client = served.connect();
            client.ask("GET", &format!("/{name}"), "");
            client
        };
        let hung: Vec<Client> = hanging().flat_map(|name| [ask(name), ask(name), ask(name)]).collect();
        for _ in 0..20 {
            assert_eq!(served.get("/healthy").body, CONTENT);
            assert_eq!(served.get("/nothing").status, 404);
        }
        for mut client in hung {
            let reply = client.reply(false);
            assert!(matches!(reply.status, 503 | 504) || reply.body == CONTENT, "{}", reply.status);
        }
        drop(fuse);
    }
}

/// One link in the tree leads to another file system by way of the outside. Another one leads to a file that hangs. A
/// listing does not wait long for them.
#[test]
fn a_listing_with_links_to_what_hangs() {
    let Some((served, fuse)) = serve_mounted(swerve::Mode::Parasites, Duration::from_secs(60)) else {
        return;
    };
    for name in hanging().chain(["healthy"]) {
        std::os::unix::fs::symlink(format!("../mounted/{name}"), served.path(&format!("d/{name}"))).unwrap();
    }
    let listing = served.get("/d/");
    assert_eq!(listing.status, 200);
    assert!(listing.text().contains("href=\"own\""));
    drop(fuse);
}
