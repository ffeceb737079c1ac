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
    let tree = Tree::new(&at("in")).unwrap();
    Place { dir, tree }
}

fn text(node: Result<Node, Refusal>) -> Result<String, Refusal> {
    match node? {
        Node::File(mut file, _) => {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            Ok(text)
        }
        Node::Directory(_) => Ok("directory".into()),
    }
}

fn open(tree: &Tree, path: &str) -> Result<String, Refusal> {
    text(tree.open(Path::new(path), Wait::Allowed))
}

/// The way taken where there is no `openat2`.
fn open_without_openat2(tree: &Tree, path: &str) -> Result<String, Refusal> {
    let file = File::from(tree.open_resolved(Path::new(path))?);
    let metadata = file.metadata().unwrap();
    text(Ok(if metadata.is_file() { Node::File(file, metadata) } else { Node::Directory(file.into()) }))
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

#[test]
fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let Place { dir, tree } = &place();
    assert!(Command::new("mkfifo").arg(dir.path().join("in/pipe")).status().unwrap().success());
    assert!(matches!(open(tree, "pipe"), Err(Refusal::Forbidden)));
}

#[test]
fn a_listing_shows_what_a_request_would_get() {
    let Place { tree, .. } = &place();
    let Ok(Node::Directory(fd)) = tree.open(Path::new(""), Wait::Allowed) else {
        panic!("the root is a directory");
    };
    let (rows, cut) = tree.rows(fd, Path::new("")).unwrap();
    let mut names: Vec<_> = rows.iter().map(|r| r.name.to_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["absolute", "file", "link", "out-and-in", "sub"]);
    assert!(!cut);
    assert!(rows.iter().all(|r| r.len.is_none() || r.len == Some(6)));
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
