//! In a sandbox that refuses system calls, as those of containers do (with EPERM, and not as unknown), files are served
//! all the same.
#![cfg(target_os = "linux")]

mod common;

use std::os::unix::fs::symlink;
use std::thread;

use common::{MODES, noise, serve};

/// Has the kernel refuse these calls to this OS thread, and to those that it starts.
fn refuse(calls: &[libc::c_long]) {
    let step = |code, jt, k| libc::sock_filter { code, jt, jf: u8::from(code == 0x15), k };
    // Loads the number of the call.
    let mut program = vec![step(0x20, 0, 0)];
    for call in calls {
        // Skips the next step if it is not this one.
        program.push(step(0x15, 0, *call as u32));
        program.push(step(0x06, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    program.push(step(0x06, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes no pointers.
    let bound = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the filter and its program are whole, live through the call, and are only read.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn files_are_served_though_calls_are_refused() {
    let (preadv2, openat2) = (libc::SYS_preadv2, libc::SYS_openat2);
    for refused in [vec![preadv2], vec![openat2], vec![preadv2, openat2]] {
        let sandbox = thread::spawn(move || {
            refuse(&refused);
            for mode in MODES {
                let served = serve(mode);
                let (small, large) = (noise(10_000, 3), noise(300_000, 4));
                served.write("small", &small);
                served.write("d/large", &large);
                symlink("d/large", served.path("link")).unwrap();
                symlink("/etc/passwd", served.path("leaves")).unwrap();
                for (path, content) in [("/small", &small), ("/d/large", &large), ("/link", &large)] {
                    let reply = served.get(path);
                    assert_eq!(reply.status, 200, "{path}, {mode:?}");
                    assert!(reply.body == *content, "{path}, {mode:?}: other bytes");
                }
                assert!(served.get("/d/").text().contains("large"));
                assert_eq!(served.get("/nothing").status, 404);
                assert_eq!(served.get("/leaves").status, 403);
            }
        });
        sandbox.join().unwrap();
    }
}
