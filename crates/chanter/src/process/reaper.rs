//! The thread that waits for a child's end.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::channel::IVar;
use crate::io::Source;
use crate::sched::never_wait_for_machines;
use crate::thread::spawn_parasite;

/// A child, and how it ended. The process is reaped under the lock only, so
/// that nobody kills another one with the same number.
pub(super) struct Reaped {
    child: Mutex<Child>,
    pub(super) exit: IVar<Result<ExitStatus, Arc<io::Error>>>,
}

/// The duty to reap a child; if it is dropped (its machine has ended, say), an
/// OS thread takes it over.
struct Duty(Option<Arc<Reaped>>);

impl Reaped {
    /// Makes sure that the end of `child` is waited for, from now on.
    pub(super) fn watch(child: Child) -> io::Result<Arc<Self>> {
        let descriptor = descriptor(&child);
        let reaped = Arc::new(Self { child: Mutex::new(child), exit: IVar::new() });
        let duty = Duty(Some(Arc::clone(&reaped)));
        match descriptor.and_then(Source::new) {
            Ok(source) => spawn_parasite(duty.wait_for(source)),
            Err(_) => drop(duty),
        }
        Ok(reaped)
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        self.child().kill()
    }

    fn finish(&self, exit: io::Result<ExitStatus>) {
        // The first to say how it ended is right.
        let _ = self.exit.put(exit.map_err(Arc::new));
    }

    /// Waits on an OS thread.
    fn wait_here(&self) {
        let id = self.child().id();
        let exit = wait_without_reaping(id).and_then(|()| self.child().wait());
        self.finish(exit);
    }
}

impl Duty {
    async fn wait_for(mut self, source: Source<OwnedFd>) {
        let Some(reaped) = &self.0 else { return };
        let try_wait = || reaped.child().try_wait()?.ok_or_else(|| io::ErrorKind::WouldBlock.into());
        let exit = loop {
            match source.try_io(false, try_wait) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if source.readable().await.is_err() {
                        return;
                    }
                }
                exit => break exit,
            }
        };
        reaped.finish(exit);
        self.0 = None;
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        let Some(reaped) = self.0.take() else { return };
        let there = Arc::clone(&reaped);
        let thread = std::thread::Builder::new().name("chanter-child".to_owned());
        if let Err(error) = thread.spawn(move || {
            never_wait_for_machines();
            there.wait_here();
        }) {
            reaped.finish(Err(error));
        }
    }
}

/// A descriptor that becomes readable when the child ends.
#[cfg(target_os = "linux")]
fn descriptor(child: &Child) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let id = child.id() as libc::pid_t;
    // SAFETY: a system call without pointers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, id, libc::PIDFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

#[cfg(not(target_os = "linux"))]
fn descriptor(_child: &Child) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Blocks until the child has ended; it stays there to be reaped.
fn wait_without_reaping(id: u32) -> io::Result<()> {
    loop {
        // SAFETY: `info` is a place for the answer, and zeroes are a value of it.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, id as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
