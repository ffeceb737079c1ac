//! Linux: `epoll` itself, one system call a wait.
//!
//! Timeouts are those of `epoll_pwait2` (Linux 5.11), to the nanosecond; before it, they are rounded up
//! to the millisecond. The notifier is an `eventfd` that is watched for edges: writing to it is an
//! edge, so nobody has to read it or to watch it anew.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use super::Happening;
use crate::sched::limits::SOCKETS_AT_ONCE;

/// The notifier's key. Those of sockets are indices of a table, which never reach it.
const NOTIFIED: u64 = u64::MAX;

#[derive(Debug)]
pub(in crate::sched) struct Poller {
    epoll: OwnedFd,
    notifier: OwnedFd,
}

/// Results of the last wait.
pub(in crate::sched) struct Events {
    /// Filled by the kernel up to its length.
    list: Vec<libc::epoll_event>,
    /// The kernel has no `epoll_pwait2`.
    is_coarse: bool,
}

/// The result of a system call that says -1 where it fails.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Poller {
    pub(in crate::sched) fn new() -> io::Result<Self> {
        // SAFETY: makes a descriptor, which nobody else has.
        let epoll = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        // SAFETY: `eventfd` makes a descriptor, which nobody else has.
        let notifier = unsafe {
            OwnedFd::from_raw_fd(checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        let poller = Self { epoll, notifier };
        poller.watch(poller.notifier.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, NOTIFIED)?;
        Ok(poller)
    }

    fn watch(&self, socket: libc::c_int, interest: libc::c_int, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, interest, key)
    }

    fn control(
        &self,
        operation: libc::c_int,
        socket: libc::c_int,
        interest: libc::c_int,
        key: u64,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest as u32, u64: key };
        // SAFETY: the event is only read; a descriptor that is not one is an error.
        checked(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket, &mut event) })?;
        Ok(())
    }

    /// Watches another poller, but tells nothing until it is [armed](Self::arm).
    pub(in crate::sched) fn add_poller(&self, other: &Self, key: usize) -> io::Result<()> {
        self.watch(other.epoll.as_raw_fd(), libc::EPOLLONESHOT, key as u64)
    }

    /// Tells once when the other poller has something, or has it already.
    pub(in crate::sched) fn arm(&self, other: &Self, key: usize) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLONESHOT;
        self.control(libc::EPOLL_CTL_MOD, other.epoll.as_raw_fd(), interest, key as u64)
    }

    /// Ends the wait that is going on, or the next one. From anywhere.
    pub(in crate::sched) fn notify(&self) {
        let one = 1_u64;
        // It fails only when the count is full (after 2^64 notifications): then it is not zero, and the
        // notifier is ready since long ago.
        // SAFETY: writes eight bytes from `one`.
        let _ =
            unsafe { libc::write(self.notifier.as_raw_fd(), ptr::from_ref(&one).cast(), size_of::<u64>()) };
    }

    /// Waits until something happens, for `timeout` at the most.
    pub(in crate::sched) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.list.clear();
        let count = match timeout {
            Some(timeout) if !timeout.is_zero() && !events.is_coarse => {
                match self.wait_finely(&mut events.list, timeout) {
                    // An older kernel, or a sandbox that does not know the call.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                        events.is_coarse = true;
                        self.wait_coarsely(&mut events.list, Some(timeout))?
                    }
                    waited => waited?,
                }
            }
            timeout => self.wait_coarsely(&mut events.list, timeout)?,
        };
        // SAFETY: the kernel has written this number of entries, within the capacity that it was told.
        unsafe { events.list.set_len(count as usize) };
        Ok(())
    }

    fn wait_finely(&self, list: &mut Vec<libc::epoll_event>, timeout: Duration) -> io::Result<libc::c_int> {
        // Further than the type can say is as good as for ever.
        let seconds = libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX);
        // SAFETY: all its bytes may be zero.
        let mut spec: libc::timespec = unsafe { std::mem::zeroed() };
        spec.tv_sec = seconds;
        spec.tv_nsec = timeout.subsec_nanos() as _;
        // SAFETY: the list has room for SOCKETS_AT_ONCE events, `spec` is only read, and there is no mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                list.as_mut_ptr(),
                SOCKETS_AT_ONCE as libc::c_int,
                ptr::from_ref(&spec),
                ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        checked(count as libc::c_int)
    }

    fn wait_coarsely(
        &self,
        list: &mut Vec<libc::epoll_event>,
        timeout: Option<Duration>,
    ) -> io::Result<libc::c_int> {
        // Rounded up: who wakes up too early would only wait again.
        let millis = timeout.map_or(-1, |timeout| {
            libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        });
        // SAFETY: the list has room for SOCKETS_AT_ONCE events.
        checked(unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                list.as_mut_ptr(),
                SOCKETS_AT_ONCE as libc::c_int,
                millis,
            )
        })
    }

    /// Watches a socket in both directions, and for urgent data.
    ///
    /// # Safety
    /// It is deleted before it is closed.
    pub(in crate::sched) unsafe fn add(&self, socket: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.watch(socket.as_raw_fd(), interest, key as u64)
    }

    /// Stops watching. An error means that nobody does any more.
    pub(in crate::sched) fn delete(&self, socket: BorrowedFd<'_>) {
        let mut unused = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the event is not used; kernels before 2.6.9 want one.
        let _ = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, socket.as_raw_fd(), &mut unused)
        };
    }
}

impl Events {
    pub(in crate::sched) fn new() -> Self {
        Self { list: Vec::with_capacity(SOCKETS_AT_ONCE), is_coarse: false }
    }

    pub(in crate::sched) fn iter(&self) -> impl Iterator<Item = Happening> {
        const FAILED: libc::c_int = libc::EPOLLHUP | libc::EPOLLERR;
        const NOT_DRAINED: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLPRI | FAILED;
        self.list.iter().filter_map(|event| {
            let (events, key) = (event.events as libc::c_int, event.u64);
            (key != NOTIFIED).then_some(Happening {
                key: key as usize,
                readable: events & (libc::EPOLLIN | libc::EPOLLRDHUP | FAILED) != 0,
                writable: events & (libc::EPOLLOUT | FAILED) != 0,
                outlasts_short_read: events & NOT_DRAINED != 0,
            })
        })
    }
}
