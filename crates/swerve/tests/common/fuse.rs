//! A file server of our own, in this process, with some files that hang: a FUSE file system. Needs `/dev/fuse` and
//! the right to mount.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Without it the kernel lets a look-up that hangs hold up all others in its directory.
const PARALLEL_LOOKUPS: u32 = 1 << 18;

/// Requests, by FUSE's numbers.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// The files by number, which is what is asked for: `None` hangs never, and others whenever this is asked of them.
const FILES: [(&str, Option<u32>); 6] = [
    ("healthy", None),
    ("hangs-when-looked-up", Some(LOOKUP)),
    ("hangs-when-asked-for-its-length", Some(GETATTR)),
    ("hangs-when-opened", Some(OPEN)),
    ("hangs-when-read", Some(READ)),
    ("hangs-when-closed", Some(FLUSH)),
];
/// The top is number 1.
const FIRST: u64 = 2;

pub(crate) const CONTENT: &[u8] = b"from afar";

/// The names of those that hang.
pub(crate) fn hanging() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter(|(_, hangs)| hangs.is_some()).map(|(name, _)| *name)
}

/// A mounted server. Dropping it ends all calls that wait for it.
pub(crate) struct Fuse {
    at: PathBuf,
    is_gone: Arc<AtomicBool>,
}

impl Fuse {
    /// `None`, with a line that says why, where this cannot be had.
    pub(crate) fn mount(at: &Path) -> Option<Fuse> {
        let device = match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(device) => device,
            Err(error) => {
                println!("skipped: no /dev/fuse: {error}");
                return None;
            }
        };
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).unwrap();
        if let Err(error) = mount("swerve-test", at, "fuse", MountFlags::empty(), options) {
            println!("skipped: may not mount: {error}");
            return None;
        }
        let is_gone = Arc::new(AtomicBool::new(false));
        let fuse = Fuse { at: at.to_owned(), is_gone: is_gone.clone() };
        thread::spawn(move || answer(&device, &is_gone));
        Some(fuse)
    }

    /// From now on nothing is answered.
    pub(crate) fn go(&self) {
        self.is_gone.store(true, Relaxed);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = unmount(&self.at, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

fn answer(mut device: &File, is_gone: &AtomicBool) {
    let mut request = vec![0; 1 << 20];
    // The end comes as an error, when it has been unmounted.
    while let Ok(len) = device.read(&mut request) {
        let request = &request[..len];
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (what, unique, mut node) = (word(4), long(8), long(16));
        let mut reply: Vec<u8> = Vec::new();
        let mut error = 0;
        match what {
            INIT => {
                // Version, read-ahead, flags, requests in the background, the most that is written, and time's grain.
                for number in [7, 31, 0, PARALLEL_LOOKUPS, 0, 4096, 1] {
                    reply.extend(u32::to_ne_bytes(number));
                }
                reply.resize(64, 0);
            }
            LOOKUP => {
                let name = request[40..].split(|byte| *byte == 0).next().unwrap();
                match FILES.iter().position(|(known, _)| known.as_bytes() == name) {
                    Some(i) => {
                        node = FIRST + i as u64;
                        // Number and generation; nothing of it is valid for any time.
                        reply.extend(node.to_ne_bytes());
                        reply.resize(40, 0);
                        reply.extend(attributes(node));
                    }
                    None => error = -2,
                }
            }
            GETATTR => {
                reply.resize(16, 0);
                reply.extend(attributes(node));
            }
            OPEN | OPENDIR => reply.resize(16, 0),
            READ if long(48) < CONTENT.len() as u64 => reply.extend(&CONTENT[long(48) as usize..]),
            READDIR if long(48) == 0 => {
                for (i, (name, _)) in FILES.iter().enumerate() {
                    reply.extend((FIRST + i as u64).to_ne_bytes());
                    reply.extend((i as u64 + 1).to_ne_bytes());
                    reply.extend((name.len() as u32).to_ne_bytes());
                    reply.extend(8_u32.to_ne_bytes()); // DT_REG
                    reply.extend(name.as_bytes());
                    reply.resize(reply.len().next_multiple_of(8), 0);
                }
            }
            STATFS => reply.resize(80, 0),
            READ | READDIR | RELEASE | RELEASEDIR | FLUSH => {}
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            _ => error = -38,
        }
        let hangs = node.checked_sub(FIRST).and_then(|i| FILES.get(i as usize)).and_then(|file| file.1);
        if hangs == Some(what) || is_gone.load(Relaxed) {
            continue;
        }
        let mut answer = Vec::from((16 + reply.len() as u32).to_ne_bytes());
        answer.extend(i32::to_ne_bytes(error));
        answer.extend(unique.to_ne_bytes());
        answer.extend(reply);
        let _ = device.write_all(&answer);
    }
}

fn attributes(node: u64) -> Vec<u8> {
    let (mode, len) = if node < FIRST { (0o040_755, 0) } else { (0o100_644, CONTENT.len() as u64) };
    let mut all = Vec::new();
    for number in [node, len, 1, 1_000_000_000, 1_000_000_000, 1_000_000_000] {
        all.extend(u64::to_ne_bytes(number));
    }
    for number in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        all.extend(u32::to_ne_bytes(number));
    }
    all
}
