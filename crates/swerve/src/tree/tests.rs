use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::*;

/// `in/` is served; `out/secret` is not. Every kind of link leads from one to the other or back.
struct Place {
    dir: TempDir,
    tree: Tree,
}

fn place() -> Place {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("in/sub/deep")).unwrap();
    fs::create_dir(at("out")).unwrap();
    fs::write(at("out/secret"), "secret").unwrap();
    fs::write(at("in/file"), "inside").unwrap();
    fs::write(at("in/sub/file"), "inside").unwrap();
    fs::write(at("in/back\\slash"), "inside").unwrap();
    symlink("file", at("in/link")).unwrap();
    symlink("../file", at("in/sub/up")).unwrap();
    symlink(at("in/sub"), at("in/absolute")).unwrap();
    symlink("../out/secret", at("in/leaves")).unwrap();
    symlink(at("out"), at("in/leaves-absolutely")).unwrap();
    symlink("leaves", at("in/leaves-in-two-steps")).unwrap();
    symlink("../in/file", at("in/out-and-in")).unwrap();
    symlink("loop", at("in/loop")).unwrap();
    symlink("nothing", at("in/dangling")).unwrap();
    let tree = Tree::new(&at("in"), false, Links::Inside).unwrap();
    Place { dir, tree }
}

fn text(tree: &Tree, path: &str, found: &Found) -> Result<String, Refusal> {
    if found.kind == FileType::Directory {
        return Ok("directory".into());
    }
    let mut text = String::new();
    tree.open(found, Path::new(path))?.read_to_string(&mut text).unwrap();
    Ok(text)
}

fn open(tree: &Tree, path: &str) -> Result<String, Refusal> {
    text(tree, path, &tree.look(Path::new(path), Wait::Anything)?)
}

/// The way taken where there is no `openat2`.
fn open_without_openat2(tree: &Tree, path: &str) -> Result<String, Refusal> {
    text(tree, path, &tree.look_resolved(Path::new(path))?)
}

#[test]
fn what_is_inside_is_opened() {
    let Place { tree, .. } = &place();
    for open in [open, open_without_openat2] {
        for path in ["file", "sub/file", "link", "sub/up", "absolute/file", "out-and-in"] {
            assert_eq!(open(tree, path).unwrap(), "inside", "{path}");
        }
        for path in ["", "sub", "absolute"] {
            assert_eq!(open(tree, path).unwrap(), "directory", "{path}");
        }
    }
}

#[test]
fn what_is_outside_is_refused() {
    let Place { tree, .. } = &place();
    for open in [open, open_without_openat2] {
        for path in ["leaves", "leaves-absolutely/secret", "leaves-in-two-steps", "loop"] {
            let refusal = open(tree, path).unwrap_err();
            assert!(matches!(refusal, Refusal::Forbidden), "{path}: {refusal:?}");
        }
        for path in ["nothing", "file/below", "dangling"] {
            let refusal = open(tree, path).unwrap_err();
            assert!(matches!(refusal, Refusal::NotFound), "{path}: {refusal:?}");
        }
    }
    // A path that should have been stopped earlier is stopped here too.
    for path in ["../out/secret", "/etc/passwd"] {
        assert!(open(tree, path).is_err(), "{path}");
    }
}

/// Where links may lead anywhere they do, and requests still do not.
#[test]
fn what_is_outside_is_opened_if_links_may_lead_there() {
    let Place { dir, .. } = &place();
    let tree = &Tree::new(&dir.path().join("in"), false, Links::Anywhere).unwrap();
    for open in [open, open_without_openat2] {
        for path in ["leaves", "leaves-absolutely/secret", "leaves-in-two-steps"] {
            assert_eq!(open(tree, path).unwrap(), "secret", "{path}");
        }
        for path in ["file", "sub/up", "absolute/file", "out-and-in"] {
            assert_eq!(open(tree, path).unwrap(), "inside", "{path}");
        }
        assert_eq!(open(tree, "leaves-absolutely").unwrap(), "directory");
        assert!(matches!(open(tree, "loop").unwrap_err(), Refusal::Forbidden));
        assert!(matches!(open(tree, "dangling").unwrap_err(), Refusal::NotFound));
    }
}

/// On our own disk, and by what memory holds (the files have just been made), nothing else is waited for.
#[cfg(target_os = "linux")]
#[test]
fn what_is_on_our_own_disk_needs_nothing_else() {
    let Place { tree, .. } = &place();
    assert!(tree.is_own, "this test wants a temporary directory on a disk");
    for path in ["", "file", "sub/file", "link", "sub/up"] {
        tree.look(Path::new(path), Wait::OwnDisk).unwrap();
        // Memory may lose tomorrow the data of today.
        let quick = tree.look(Path::new(path), Wait::Never);
        assert!(matches!(quick, Ok(_) | Err(Refusal::WouldWait)), "{path}: {quick:?}");
    }
    // These pass through a link that is absolute, or leaves and comes back.
    for path in ["absolute/file", "out-and-in", "leaves"] {
        for wait in [Wait::Never, Wait::OwnDisk] {
            let refusal = tree.look(Path::new(path), wait).unwrap_err();
            let is_told = matches!(refusal, Refusal::Elsewhere | Refusal::WouldWait);
            assert!(is_told, "{path}, {wait:?}: {refusal:?}");
        }
    }
    assert_eq!(tree.way_out(Path::new("absolute/file")), Path::new("absolute"));
    assert_eq!(tree.way_out(Path::new("out-and-in")), Path::new("out-and-in"));
}

/// TREE-2: a mount beneath the served directory is elsewhere. So is everything, if the served directory itself is not
/// known to lie on a disk of this machine (`/proc` stands for a server here).
#[cfg(target_os = "linux")]
#[test]
fn another_file_system_is_not_touched_without_leave() {
    let system = Tree::new(Path::new("/"), false, Links::Inside).unwrap();
    let proc = Tree::new(Path::new("/proc"), false, Links::Inside).unwrap();
    assert!(!proc.is_own);
    for wait in [Wait::Never, Wait::OwnDisk] {
        assert!(matches!(proc.look(Path::new("version"), wait), Err(Refusal::Elsewhere)));
    }
    for path in ["proc", "proc/version"] {
        let (path, elsewhere) = (Path::new(path), |refusal| matches!(refusal, Err(Refusal::Elsewhere)));
        // At a mount point the kernel's quick way gives up without a word of why.
        let quick = system.look(path, Wait::Never);
        assert!(matches!(quick, Err(Refusal::Elsewhere | Refusal::WouldWait)), "{quick:?}");
        assert!(elsewhere(system.look(path, Wait::OwnDisk)));
    }
    assert_eq!(system.way_out(Path::new("proc/sys/kernel")), Path::new("proc"));
    assert_eq!(proc.way_out(Path::new("sys/kernel")), Path::new(""));
    let found = system.look(Path::new("proc/version"), Wait::Anything).unwrap();
    system.open(&found, Path::new("proc/version")).unwrap();
}

/// A reader that opens a pipe to learn its kind would let a waiting writer go.
#[test]
fn a_pipe_is_not_opened() {
    use rustix::fs::{Mode, OFlags, open as open_file};
    let Place { dir, tree } = &place();
    let pipe = dir.path().join("in/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A writer that does not wait is told at every moment whether anybody reads.
    let is_read = || open_file(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).is_ok();
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let was_read = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut was_read = false;
            while !done.load(Ordering::Relaxed) {
                was_read |= is_read();
                begun.store(true, Ordering::Relaxed);
            }
            was_read
        });
        while !begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let opened = (0..2_000).flat_map(|_| [open(tree, "pipe"), open_without_openat2(tree, "pipe")]);
        let other = opened.into_iter().find(|opened| !matches!(opened, Err(Refusal::Forbidden)));
        done.store(true, Ordering::Relaxed);
        assert!(other.is_none(), "{other:?}");
        watch.join().unwrap()
    });
    assert!(!was_read, "the pipe was opened");
}

/// The file that was looked at is opened, whatever its path leads to by then.
#[cfg(target_os = "linux")]
#[test]
fn what_was_found_is_what_is_opened() {
    let Place { dir, tree } = &place();
    let found = tree.look(Path::new("file"), Wait::OwnDisk).unwrap();
    fs::rename(dir.path().join("in/file"), dir.path().join("out/file")).unwrap();
    symlink("../out/secret", dir.path().join("in/file")).unwrap();
    assert_eq!(text(tree, "file", &found).unwrap(), "inside");
}

fn names(tree: &Tree, path: &str, after: Option<&Entry>, room: usize) -> (Vec<Entry>, bool) {
    let directory = tree.look(Path::new(path), Wait::Anything).unwrap();
    tree.entries(&directory, Path::new(path), after, room, Wait::OwnDisk).unwrap()
}

#[test]
fn a_listing_shows_what_a_request_would_get() {
    let Place { dir, tree } = &place();
    let at = |name: &str| dir.path().join("in").join(name);
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    fs::write(at(".hidden"), "").unwrap();
    fs::create_dir_all(at(".well-known/.well-known")).unwrap();
    fs::create_dir_all(at("sub/.well-known")).unwrap();
    let directory = tree.look(Path::new(""), Wait::Anything).unwrap();
    let shown = |entry: &Entry| {
        let name = Path::new(&entry.name);
        tree.look_at_entry(&directory, Path::new(""), name, Wait::Anything).is_ok()
    };
    let (entries, more) = names(tree, "", None, 1 << 20);
    let served: Vec<_> = entries.iter().filter(|e| shown(e)).map(|e| e.name.to_str().unwrap()).collect();
    assert_eq!(served, [".well-known", "sub", "absolute", "back\\slash", "file", "link", "out-and-in"]);
    assert!(!more);
    let below: Vec<_> = names(tree, "sub", None, 1 << 20).0.into_iter().map(|e| e.name).collect();
    assert_eq!(below, ["deep", "file", "up"]);
    assert!(names(tree, ".well-known", None, 1 << 20).0.is_empty());
    let all = Tree::new(&dir.path().join("in"), true, Links::Inside).unwrap();
    assert!(names(&all, "", None, 1 << 20).0.iter().any(|e| e.name == ".hidden"));
    assert_eq!(names(&all, ".well-known", None, 1 << 20).0.len(), 1);
}

/// However little room there is, all names come, in order, and once.
#[test]
fn a_directory_is_read_part_by_part() {
    let Place { dir, tree } = &place();
    fs::create_dir(dir.path().join("in/many")).unwrap();
    for i in 0..500 {
        let path = dir.path().join(format!("in/many/{:03}", i * 7 % 500));
        if i % 5 == 0 { fs::create_dir(path).unwrap() } else { fs::write(path, "").unwrap() }
    }
    let (whole, more) = names(tree, "many", None, 1 << 20);
    assert!(!more && whole.len() == 500 && whole.is_sorted());
    assert!(!whole[99].is_no_directory && whole[100].is_no_directory);
    for room in [0, 100, 700, 5_000] {
        let (mut all, mut more) = names(tree, "many", None, room);
        while more {
            let (next, rest) = names(tree, "many", all.last(), room);
            assert!(!next.is_empty() && (room == 0 || next.len() <= room / 64));
            all.extend(next);
            more = rest;
        }
        assert_eq!(all, whole);
    }
}

/// TREE-1 against an adversary who can rename inside the tree: `swap` is now a directory, now a link
/// to one outside.
#[test]
fn a_link_swapped_in_at_the_wrong_moment_is_not_followed() {
    let Place { dir, tree } = &place();
    let at = |name: &str| dir.path().join("in").join(name);
    fs::create_dir(at("swap")).unwrap();
    fs::write(at("swap/secret"), "inside").unwrap();
    symlink("../out", at("other")).unwrap();
    let (a, b) = (at("swap"), at("other"));
    if renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).is_err() {
        return; // this file system cannot exchange names
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_millis(300);
        let (mut opened, mut refused) = (0, 0);
        while Instant::now() < until {
            for open in [open, open_without_openat2] {
                match open(tree, "swap/secret") {
                    Ok(text) => {
                        assert_eq!(text, "inside");
                        opened += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(opened > 0 && refused > 0, "the race was not run: {opened}, {refused}");
    });
}
