//! MPI, by way of a shim whose types are the same with every MPI: no function here is called by two threads at once.
//!
//! There are two shims with the same functions. One is C, compiled where an MPI's compiler was found (`compiled`). The
//! other one opens a library of the standard ABI at run time (`abi`).
//!
//! A [`MpiToken`] is the right to call. There is one in a process, and it is inside a
//! [`CombiningLock`](chanter_engine::combining_lock::CombiningLock).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(has_shim))]
mod abi;
#[cfg(has_shim)]
mod compiled;
#[cfg(not(has_shim))]
pub(crate) mod library;

#[cfg(not(has_shim))]
use abi as raw;
#[cfg(has_shim)]
use compiled as raw;

/// Error of an MPI function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiError {
    /// The failed call.
    pub call: &'static str,
    /// The library's message.
    pub text: String,
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPI: {}: {}", self.call, self.text)
    }
}

impl std::error::Error for MpiError {}

pub(crate) type Result<T> = std::result::Result<T, MpiError>;

/// A received message.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) bytes: c_int,
}

fn text_of(fill: impl FnOnce(*mut c_char, c_int)) -> String {
    let mut text = [0 as c_char; 1024];
    fill(text.as_mut_ptr(), text.len() as c_int);
    // SAFETY: the array begins with a text that ends with a 0. The shim has written it, or it is the 0 from before.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_string_lossy().trim().to_owned()
}

#[inline(always)]
fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(complaint(call, code)) }
}

#[cold]
fn complaint(call: &'static str, code: c_int) -> MpiError {
    // SAFETY: the array has that room. MPI is initialized, or the text is about that.
    let text = text_of(|text, room| unsafe { raw::chanter_mpi_error(code, text, room) });
    MpiError { call, text }
}

/// Makes the library ready to be called. Each process does so before all else.
///
/// # Errors
/// There is no library that can be used. The text says why.
pub(crate) fn open() -> std::result::Result<(), &'static str> {
    raw::open()
}

/// The library's description of itself; empty if there is no library.
pub(crate) fn library() -> String {
    if open().is_err() {
        return String::new();
    }
    text_of(|text, room| {
        // SAFETY: the library is open, and the array has that room. This call is allowed before MPI is initialized.
        unsafe { raw::chanter_mpi_library(text, room) };
    })
}

/// The code of a job that ends since a process has failed: that of a panic.
pub(crate) const FAILED: i32 = 101;

/// The token of the right to call MPI, which is initialized. One thread at a time has it.
#[derive(Debug)]
pub(crate) struct MpiToken(());

/// MPI is initialized, and no engine can finalize it yet.
pub(crate) struct Starting(());

impl Starting {
    /// Ends the whole job, since this process does not start: the others would wait for ever. Comes back only if MPI cannot
    /// do that.
    pub(crate) fn fails(self, why: &MpiError) {
        eprintln!("chanter: a process does not start, and ends the job: {why}");
        // SAFETY: MPI is initialized, since this was made by a token. It is finalized only by an engine, and there is none.
        unsafe { raw::chanter_mpi_abort(FAILED) };
    }
}

static WAS_BEGUN: AtomicBool = AtomicBool::new(false);

impl MpiToken {
    /// Initializes MPI. `None`: MPI was initialized before in this process, by us or by other code.
    pub(crate) fn begin() -> Option<Result<Self>> {
        // ORDER: Relaxed: only one caller may see `false`; nothing else is published.
        if WAS_BEGUN.swap(true, Ordering::Relaxed) {
            return None;
        }
        let mut is = 0;
        // SAFETY: these may be called at any time, with a place for the answer.
        let known = unsafe { raw::chanter_mpi_initialized(&mut is) == 0 && is == 0 };
        // SAFETY: this may be called at any time, with a place for the answer.
        let known = known && unsafe { raw::chanter_mpi_finalized(&mut is) == 0 && is == 0 };
        known.then(|| {
            // SAFETY: MPI is not initialized, as was just asked, and of ours only this thread gets here.
            check("initialize", unsafe { raw::chanter_mpi_init(&mut is) })?;
            if is == 0 {
                let text = "this library allows only one thread to call it (MPI_THREAD_SERIALIZED is wanted)";
                return Err(MpiError { call: "initialize", text: text.to_owned() });
            }
            Ok(Self(()))
        })
    }

    /// For the time in which the other processes wait for this one to start. No engine is made meanwhile.
    pub(crate) fn starting(&self) -> Starting {
        Starting(())
    }

    /// Ends MPI in this process, when all others do. No request is under way.
    pub(crate) fn end(&mut self) -> Result<()> {
        // SAFETY: MPI is initialized and not finalized, since this exists.
        check("finalize", unsafe { raw::chanter_mpi_finalize() })
    }

    /// Ends all processes of the job.
    pub(crate) fn abort(&self, code: i32) {
        // SAFETY: MPI is initialized, since this exists.
        unsafe { raw::chanter_mpi_abort(code) };
    }

    pub(crate) fn rank(&self) -> Result<u32> {
        let mut rank = 0;
        // SAFETY: MPI is initialized; there is a place for the answer.
        check("find out the rank", unsafe { raw::chanter_mpi_rank(&mut rank) })?;
        Ok(rank as u32)
    }

    pub(crate) fn size(&self) -> Result<u32> {
        let mut size = 0;
        // SAFETY: MPI is initialized, since this exists, and there is a place for the answer.
        check("find out how many processes there are", unsafe { raw::chanter_mpi_size(&mut size) })?;
        Ok(size as u32)
    }

    /// For each process, the lowest number of the processes that share memory with it. All processes call this.
    pub(crate) fn nodes(&self) -> Result<Vec<u32>> {
        let mut nodes = vec![0; self.size()? as usize];
        // SAFETY: MPI is initialized; there is a place for a number of each process.
        check("find out who shares memory", unsafe { raw::chanter_mpi_nodes(nodes.as_mut_ptr()) })?;
        Ok(nodes.into_iter().map(|node| node as u32).collect())
    }

    /// Gives all processes the bytes of each, in the order of their numbers. All processes call this. The OS thread is
    /// blocked.
    pub(crate) fn exchange<const N: usize>(&self, mine: &[u8; N]) -> Result<Vec<[u8; N]>> {
        let mut all = vec![[0; N]; self.size()? as usize];
        // SAFETY: MPI is initialized. There are `N` bytes to send, and there is room for those of each process.
        let code =
            unsafe { raw::chanter_mpi_exchange(mine.as_ptr().cast(), N as c_int, all.as_mut_ptr().cast()) };
        check("exchange addresses", code)?;
        Ok(all)
    }

    /// Exchanges messages between this process and another one, which calls this, too. Returns the number of wrong
    /// ones. The OS thread is blocked.
    pub(crate) fn round_trips(&self, other: u32, is_first: bool, bytes: usize, rounds: u32) -> Result<u32> {
        assert!(bytes >= 4, "each message carries its number");
        let (mut out, mut to) = (vec![0; bytes], vec![0; bytes]);
        let mut wrong = 0;
        // SAFETY: MPI is initialized; both buffers have that many bytes, and nothing is under way when this returns, unless it
        // fails, when they are forgotten.
        let code = unsafe {
            raw::chanter_mpi_round_trips(
                Comm::Measured as c_int,
                other as c_int,
                is_first.into(),
                out.as_mut_ptr(),
                to.as_mut_ptr(),
                bytes as c_int,
                rounds as c_int,
                &mut wrong,
            )
        };
        check("measure round trips", code).inspect_err(|_| std::mem::forget((out, to)))?;
        Ok(wrong as u32)
    }

    /// Barriers of all processes, which all call this. The OS thread is blocked.
    pub(crate) fn barriers(&self, rounds: u32) -> Result<()> {
        // SAFETY: MPI is initialized, since this exists.
        let code = unsafe { raw::chanter_mpi_barriers(Comm::Measured as c_int, rounds as c_int) };
        check("measure barriers", code)
    }

    /// Sums over all processes, which all call this. Returns the number of wrong ones. The OS thread is blocked.
    pub(crate) fn reductions(&self, rounds: u32) -> Result<u32> {
        let mut wrong = 0;
        // SAFETY: MPI is initialized; the place is there until this returns.
        let code =
            unsafe { raw::chanter_mpi_reductions(Comm::Measured as c_int, rounds as c_int, &mut wrong) };
        check("measure reductions", code)?;
        Ok(wrong as u32)
    }

    /// Waits for all processes.
    pub(crate) fn barrier(&self) -> Result<()> {
        // SAFETY: MPI is initialized, since this exists.
        check("wait for all", unsafe { raw::chanter_mpi_barrier() })
    }
}

/// An array of requests.
pub(crate) struct Requests {
    /// The requests, as the library has them; of this type since it is aligned for all.
    all: Vec<u64>,
    count: c_int,
}

impl Requests {
    /// A number of requests, all idle.
    pub(crate) fn new(count: usize) -> Self {
        // SAFETY: this asks for a constant.
        let each = unsafe { raw::chanter_mpi_request_size() } as usize;
        let mut all = vec![0_u64; (each * count).div_ceil(8)];
        // SAFETY: the vector has room for this number.
        unsafe { raw::chanter_mpi_requests(all.as_mut_ptr().cast(), count as c_int) };
        Self { all, count: count as c_int }
    }

    fn raw(&mut self) -> *mut c_void {
        self.all.as_mut_ptr().cast()
    }

    fn at(&self, at: usize) -> c_int {
        assert!((at as c_int) < self.count);
        at as c_int
    }

    /// Prepares a persistent receive from anyone, with any tag.
    ///
    /// # Safety
    /// The request is idle. `room` bytes at `to` stay, and only MPI touches them from each [`start`](Self::start) until
    /// a test says that it is done.
    pub(crate) unsafe fn recv_init(
        &mut self,
        _: &mut MpiToken,
        at: usize,
        comm: Comm,
        to: *mut u8,
        room: usize,
    ) -> Result<()> {
        let at = self.at(at);
        // SAFETY: the request is one of the array; the caller sees to the rest.
        let code =
            unsafe { raw::chanter_mpi_recv_init(self.raw(), at, comm as c_int, to.cast(), room as c_int) };
        check("prepare a receive", code)
    }

    /// Starts a persistent receive, which is not started.
    pub(crate) fn start(&mut self, _: &mut MpiToken, at: usize) -> Result<()> {
        let at = self.at(at);
        // SAFETY: the request is one of the array; where it writes, `recv_init`'s caller answers for.
        check("start a receive", unsafe { raw::chanter_mpi_start(self.raw(), at) })
    }

    /// Posts a receive, from one process or any, with one tag or any.
    ///
    /// # Safety
    /// The request is idle. `room` bytes at `to` stay, and only MPI touches them from now on, until a test says that
    /// it is done.
    #[allow(clippy::too_many_arguments, reason = "MPI's own")]
    pub(crate) unsafe fn irecv(
        &mut self,
        _: &mut MpiToken,
        at: usize,
        comm: Comm,
        to: *mut u8,
        room: usize,
        source: Option<u32>,
        tag: Option<u16>,
    ) -> Result<()> {
        let at = self.at(at);
        let source = source.map_or(-1, |source| source as c_int);
        let tag = tag.map_or(-1, c_int::from);
        // SAFETY: the request is one of the array. The caller guarantees that it is idle, and that `room` bytes at
        // `to` stay writable and unused until it is done.
        let code = unsafe {
            raw::chanter_mpi_irecv(self.raw(), at, comm as c_int, to.cast(), room as c_int, source, tag)
        };
        check("post a receive", code)
    }

    /// Sends.
    ///
    /// # Safety
    /// The request is idle. The bytes stay as they are until a test says that it is done.
    pub(crate) unsafe fn isend(
        &mut self,
        _: &mut MpiToken,
        at: usize,
        comm: Comm,
        bytes: *const [u8],
        to: u32,
        tag: u16,
    ) -> Result<()> {
        let at = self.at(at);
        // SAFETY: the request is one of the array; the caller sees to the rest.
        let code = unsafe {
            raw::chanter_mpi_isend(
                self.raw(),
                at,
                comm as c_int,
                bytes.cast(),
                bytes.len() as c_int,
                to as c_int,
                tag.into(),
            )
        };
        check("send", code)
    }

    /// Whether a receive that is under way is done. If so, `status` describes the message. It is read where it is
    /// written, since a copy of freshly written smaller words waits for them.
    #[inline]
    pub(crate) fn test(&mut self, _: &mut MpiToken, at: usize, status: &mut Status) -> Result<bool> {
        let mut is_done = 0;
        let at = self.at(at);
        // SAFETY: the request is one of the array; there are places for the answers.
        let code = unsafe { raw::chanter_mpi_test(self.raw(), at, &mut is_done, status) };
        check("test a receive", code)?;
        Ok(is_done != 0)
    }

    /// Whether a send that is under way is done.
    #[inline]
    pub(crate) fn test_sent(&mut self, _: &mut MpiToken, at: usize) -> Result<bool> {
        let mut is_done = 0;
        let at = self.at(at);
        // SAFETY: the request is one of the array, and there is a place for the answer.
        check("test a send", unsafe { raw::chanter_mpi_test_sent(self.raw(), at, &mut is_done) })?;
        Ok(is_done != 0)
    }

    /// The requests that are done, of all that are under way.
    pub(crate) fn test_some<'a>(
        &mut self,
        _: &mut MpiToken,
        found: &'a mut Found,
    ) -> Result<impl Iterator<Item = (usize, Status)> + 'a> {
        assert!(self.count as usize <= found.done.len());
        let mut many = 0;
        // SAFETY: `all` holds `count` requests. The assertion above gives a place for each answer.
        let code = unsafe {
            raw::chanter_mpi_test_some(
                self.raw(),
                self.count,
                &mut many,
                found.done.as_mut_ptr(),
                found.statuses.as_mut_ptr(),
                found.space.as_mut_ptr().cast(),
            )
        };
        check("test some", code)?;
        let done = found.done.iter().map(|at| *at as usize);
        Ok(done.zip(found.statuses.iter().copied()).take(many.max(0) as usize))
    }

    /// Takes a receive back that is under way. If it was too late, returns the message that has come.
    pub(crate) fn cancel(&mut self, _: &mut MpiToken, at: usize) -> Result<Option<Status>> {
        let (mut was_taken, mut status) = (0, Status::default());
        let at = self.at(at);
        // SAFETY: the request is one of the array, and there are places for the answers.
        let code = unsafe { raw::chanter_mpi_cancel(self.raw(), at, &mut was_taken, &mut status) };
        check("take a receive back", code)?;
        Ok((was_taken == 0).then_some(status))
    }

    /// Forgets a persistent receive that is not started.
    pub(crate) fn forget(&mut self, _: &mut MpiToken, at: usize) -> Result<()> {
        let at = self.at(at);
        // SAFETY: the request is one of the array.
        check("forget a receive", unsafe { raw::chanter_mpi_request_free(self.raw(), at) })
    }
}

/// Room for the answers of [`Requests::test_some`].
pub(crate) struct Found {
    done: Vec<c_int>,
    statuses: Vec<Status>,
    /// Aligned for MPI's own statuses.
    space: Vec<u64>,
}

impl Found {
    pub(crate) fn new(count: usize) -> Self {
        // SAFETY: this asks for a constant.
        let each = unsafe { raw::chanter_mpi_status_size() } as usize;
        Self {
            done: vec![0; count],
            statuses: vec![Status::default(); count],
            space: vec![0; (each * count).div_ceil(8)],
        }
    }
}

/// A communicator of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Comm {
    /// The cluster's own frames.
    Control = 0,
    /// The users' frames.
    User = 1,
    /// Large frames, each behind its descriptor.
    Bulk = 2,
    /// Time of MPI itself.
    Measured = 3,
}
