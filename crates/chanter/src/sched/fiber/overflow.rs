//! Stack overflow: a fault in a fiber's guard ends the process, with the fiber's name. All other
//! faults go to the previous handler. This is Rust's own handler, which knows the guards of OS
//! threads, or the program's.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Once, OnceLock};

use super::control::FiberControl;
use crate::sched::Worker;

/// The size in bytes of the signal handler's stack, on an OS thread that has none.
const HANDLERS_STACK: usize = 64 * 1024;

/// The signals for a fault in a guard: which one comes depends on the OS.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The previous handlers of these signals.
static BEFORE: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

/// Prepares the calling OS thread, and the process, for fibers that overflow
/// their stacks.
#[cold]
pub(super) fn prepare() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    // If the thread-locals of this OS thread are being destroyed, an overflow ends the process
    // without a message.
    let _ = PLACE.try_with(Place::prepare);
}

fn install() {
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        let mut old = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: `old` is written before it is read. The handler is a function with the arguments
        // that SA_SIGINFO promises.
        unsafe {
            if libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) != 0 {
                continue;
            }
            // This is stored before the handler can run.
            let _ = before.set(old.assume_init());
            let mut new = std::mem::zeroed::<libc::sigaction>();
            new.sa_sigaction = handle as Handler as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut new.sa_mask);
            libc::sigaction(signal, &raw const new, ptr::null_mut());
        }
    }
}

type Handler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The signal handler. It calls only functions that a signal handler may call.
unsafe extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the OS passes a description of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    // This reads a thread-local without a destructor. An OS thread that runs a fiber has used it
    // before.
    let head = Worker::current().and_then(|worker| worker.bound.fibers.running());
    if let Some(head) = head
        && (head.guard.0..head.guard.1).contains(&address)
    {
        report(head);
        // SAFETY: `abort` may be called anywhere.
        unsafe { libc::abort() };
    }
    // SAFETY: the arguments are those of this handler.
    unsafe { pass_on(signal, info, context) };
}

/// # Safety
/// The arguments are those of a signal handler.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let index = usize::from(signal != SIGNALS[0]);
    match BEFORE[index].get() {
        Some(before) if before.sa_sigaction > libc::SIG_IGN => {
            // SAFETY: a handler that was installed with these flags has this type, and gets the
            // arguments of a handler.
            unsafe {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    std::mem::transmute::<usize, Handler>(before.sa_sigaction)(signal, info, context);
                } else {
                    std::mem::transmute::<usize, unsafe extern "C" fn(libc::c_int)>(before.sa_sigaction)(
                        signal,
                    );
                }
            }
        }
        // With the default action, the instruction is tried again and ends the process.
        // SAFETY: this only changes the action of the signal.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

/// Names the fiber on stderr, without an allocation.
fn report(head: &FiberControl) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let name = head.name.as_deref().unwrap_or("<unnamed>");
    let (kib, site) = (head.size / 1024, head.site);
    // A longer message is cut off.
    let _ =
        write!(line, "\nchanter: fiber '{name}' has overflowed its stack of {kib} KiB (spawned at {site})\n");
    // SAFETY: the first `len` bytes are initialized. Nothing can be done about an error.
    unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.len) };
}

struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

thread_local! {
    static PLACE: Place = const { Place { low: Cell::new(ptr::null_mut()) } };
}

/// The handler's stack on this OS thread, if we have made it. OS threads that Rust started have one
/// already.
struct Place {
    low: Cell<*mut libc::c_void>,
}

impl Place {
    fn prepare(&self) {
        let mut old = MaybeUninit::<libc::stack_t>::uninit();
        // SAFETY: `old` is written before it is read. The new stack is a mapping of our own, which
        // stays until `drop`.
        unsafe {
            if libc::sigaltstack(ptr::null(), old.as_mut_ptr()) != 0
                || old.assume_init().ss_flags & libc::SS_DISABLE == 0
            {
                return;
            }
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let low = libc::mmap(ptr::null_mut(), HANDLERS_STACK, access, flags, -1, 0);
            if low == libc::MAP_FAILED {
                // Without this stack an overflow still ends the process, but without a message.
                return;
            }
            let stack = libc::stack_t { ss_sp: low, ss_flags: 0, ss_size: HANDLERS_STACK };
            libc::sigaltstack(&raw const stack, ptr::null_mut());
            self.low.set(low);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let low = self.low.get();
        if low.is_null() {
            return;
        }
        // SAFETY: the OS thread ends, and no handler runs on this stack. The mapping is ours.
        unsafe {
            let none =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: HANDLERS_STACK };
            libc::sigaltstack(&raw const none, ptr::null_mut());
            libc::munmap(low, HANDLERS_STACK);
        }
    }
}
