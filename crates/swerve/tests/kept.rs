//! Files that are kept in memory: no answer is of what is no longer there, or no longer ours.
//!
//! A file is kept when it has been left alone for two seconds, so these tests wait.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use common::{LONG, MODES, serve, serve_with};

const QUIET: Duration = Duration::from_millis(3_100);

/// The folder of a kept file is moved out of the tree, and a link to it put in its place: the file is the same, and
/// is not ours any more.
#[test]
fn what_was_moved_out_is_not_served_from_memory() {
    let all = MODES.map(|mode| serve_with(mode, |config| config.kept_for = Duration::ZERO));
    for served in &all {
        served.write("d/file", "inside");
    }
    thread::sleep(QUIET);
    for served in &all {
        for _ in 0..2 {
            assert_eq!(served.get("/d/file").text(), "inside");
        }
        let out = served.dir.path().join("out");
        fs::rename(served.path("d"), &out).unwrap();
        symlink("../out", served.path("d")).unwrap();
        assert_eq!(served.get("/d/file").status, 403);
        // Moved back, it is.
        fs::remove_file(served.path("d")).unwrap();
        fs::rename(&out, served.path("d")).unwrap();
        assert_eq!(served.get("/d/file").text(), "inside");
    }
}

/// Without being told otherwise, a server sees a change soon.
#[test]
fn a_change_is_seen_soon() {
    let all = MODES.map(serve);
    for served in &all {
        served.write("file", "old");
    }
    thread::sleep(QUIET);
    for served in &all {
        for _ in 0..2 {
            assert_eq!(served.get("/file").text(), "old");
        }
        served.write("file", "new");
        let until = Instant::now() + LONG;
        while served.get("/file").text() != "new" {
            assert!(Instant::now() < until, "the old bytes are served for ever");
        }
        fs::remove_file(served.path("file")).unwrap();
        while served.get("/file").status != 404 {
            assert!(Instant::now() < until, "what was removed is served for ever");
        }
    }
}

/// A write through a shared mapping changes no time, except for the first write to a clean page.
#[test]
fn what_is_written_through_a_mapping_is_seen() {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let all = MODES.map(serve);
    let mapped = all.each_ref().map(|served| {
        served.write("file", [b'a'; 4096]);
        let file = fs::File::options().read(true).write(true).open(served.path("file")).unwrap();
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses an address that nothing else has.
        let place = unsafe { mmap(std::ptr::null_mut(), 4096, prot, flags, &file, 0) }.unwrap();
        let place = place.cast::<u8>();
        // SAFETY: `place` is the start of 4096 mapped bytes, and no reference to them exists.
        unsafe { place.write_volatile(b'b') };
        place
    });
    thread::sleep(QUIET);
    for (served, place) in all.iter().zip(mapped) {
        for _ in 0..2 {
            assert_eq!(served.get("/file").body[0], b'b');
        }
        // SAFETY: still mapped, and no reference exists.
        unsafe { place.write_volatile(b'c') };
        let until = Instant::now() + LONG;
        while served.get("/file").body[0] != b'c' {
            assert!(Instant::now() < until, "the old bytes are served for ever");
            thread::sleep(Duration::from_millis(20));
        }
        // SAFETY: mapped above with this length, and not used again.
        unsafe { munmap(place.cast(), 4096) }.unwrap();
    }
}
