//! `AnyThread`, a handle of a thread whatever its value: it asks, and takes nothing.

use std::fmt;
use std::ptr::NonNull;

use super::join::Thread;
use super::touch::Wait;
use crate::frame::about::name_of;
use crate::frame::{Attributes, Header, Progress, arena, attributes_of, scheduler};
use crate::sched::run::FrameRef;

/// A handle of a thread, whatever its value, host or parasite. Its owner may ask the thread what an owner of a
/// [`Thread`] may ask, but cannot have its value.
///
/// [`this`] is one of the caller itself, [`Thread::any`] one of a thread that is known, and
/// [`Machine::thread`](crate::Machine::thread) one of a thread that [`Machine::threads`](crate::Machine::threads)
/// shows. A delayed thread counts it as a handle. Requests are described at [`Thread`].
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::thread::this;
///
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// let thread = spawn(async move {
///     // Others may resume it now.
///     drop(this().unwrap().suspend());
///     tx.send(this().unwrap()).await
/// });
/// thread.wait().timeout(std::time::Duration::from_millis(1)).await;
/// assert!(thread.any().resume());
/// assert!(rx.recv().await.unwrap() == thread.any());
/// # });
/// ```
#[derive(Clone)]
pub struct AnyThread {
    thread: FrameRef,
    /// Whether it began as a host. Then its body's table never changes, and may be read.
    is_host: bool,
}

/// A handle of the thread that runs here. `None` outside of a machine's threads.
///
/// STING, appendix (`current-thread`).
#[doc(alias = "current-thread")]
pub fn this() -> Option<AnyThread> {
    let frame = scheduler()?.running()?;
    // SAFETY: the caller is the thread's runner, so the frame is alive, and its table belongs to the caller. The
    // reference is counted here.
    unsafe {
        let is_host = (frame.as_ref().vtable.get().joiners)(frame).is_some();
        frame.as_ref().state.retain();
        Some(AnyThread::from_frame(frame, is_host))
    }
}

impl<T> Thread<T> {
    /// A handle of the same thread that forgets the type of its value.
    pub fn any(&self) -> AnyThread {
        AnyThread { thread: self.again().into_ref(), is_host: true }
    }
}

impl<T> Thread<T> {
    /// The thread's attributes, if it was spawned with options.
    pub fn attributes(&self) -> Option<Attributes> {
        self.as_any().attributes()
    }

    /// Changes the thread's attributes: policies see them when the thread is next ready, and its next turn has its
    /// quantum. False: it has no place for them, since it was spawned without a name and without attributes.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// use chanter::policy::Attributes;
    /// # chanter::block_on(async {
    /// let thread = Thread::builder().name("import").spawn(never::<()>().into_future());
    /// assert!(thread.set_attributes(Attributes::new().priority(-1)));
    /// assert_eq!(thread.attributes().unwrap().priority, -1);
    /// # });
    /// ```
    pub fn set_attributes(&self, attributes: Attributes) -> bool {
        self.as_any().set_attributes(attributes)
    }
}

impl AnyThread {
    /// # Safety
    /// The value takes over one reference. `is_host`: the thread has the table of a host's body.
    pub(crate) unsafe fn from_frame(frame: NonNull<Header>, is_host: bool) -> Self {
        // SAFETY: the value takes over one reference, as the caller has promised.
        Self { thread: unsafe { FrameRef::from_frame(frame) }, is_host }
    }

    pub(crate) fn frame(&self) -> NonNull<Header> {
        self.thread.frame()
    }

    pub(crate) fn header(&self) -> &Header {
        self.thread.header()
    }

    /// A number that no other living thread has.
    pub(super) fn id_of_frame(&self) -> usize {
        self.frame().as_ptr() as usize
    }

    /// Whether it began as a host.
    pub(crate) fn is_host(&self) -> bool {
        self.is_host
    }

    /// Whether the thread is determined; see [`Thread::is_determined`].
    pub fn is_determined(&self) -> bool {
        self.header().state.is_complete()
    }

    /// The thread's progress; see [`Thread::progress`].
    pub fn progress(&self) -> Progress {
        self.header().state.progress()
    }

    /// The event of the thread's completion; see [`Thread::wait`]. `None`: it began as a parasite, which has no place
    /// for waiters. The answer to [`cancel`](Self::cancel) tells of its end.
    pub fn wait(&self) -> Option<Wait> {
        self.is_host.then(|| Wait::new(self.thread.clone()))
    }

    /// The thread's name. On a machine that keeps genealogy it is the one that was given last.
    pub fn name(&self) -> Option<std::sync::Arc<str>> {
        // SAFETY: the handle keeps the frame; the table of a host's body does not change.
        unsafe {
            let given = arena::observer_of(self.frame()).and_then(|observer| observer.name(self.frame()));
            given.or_else(|| self.is_host.then(|| name_of(self.frame()).cloned()).flatten())
        }
    }

    /// Names the thread, for [`Machine::threads`](crate::Machine::threads), for reports, and for those who ask this
    /// handle. False: its machine keeps no genealogy. [`Thread::name`] goes on to tell the name of the spawn.
    pub fn set_name(&self, name: impl Into<std::sync::Arc<str>>) -> bool {
        let name = name.into();
        // SAFETY: the handle keeps the frame.
        unsafe {
            arena::observer_of(self.frame()).is_some_and(|observer| observer.set_name(self.frame(), name))
        }
    }

    /// The thread's attributes, if it was spawned with options.
    pub fn attributes(&self) -> Option<Attributes> {
        // SAFETY: the handle keeps the frame; the table of a host's body does not change.
        self.is_host.then(|| unsafe { attributes_of(self.frame()) }.map(|place| *place.lock())).flatten()
    }

    /// Changes the thread's attributes; see [`Thread::set_attributes`].
    pub fn set_attributes(&self, attributes: Attributes) -> bool {
        // SAFETY: the handle keeps the frame; the table of a host's body does not change.
        match self.is_host.then(|| unsafe { attributes_of(self.frame()) }).flatten() {
            Some(place) => {
                *place.lock() = attributes;
                true
            }
            None => false,
        }
    }
}

/// Equal handles are handles of the same thread.
impl PartialEq for AnyThread {
    fn eq(&self, other: &Self) -> bool {
        self.frame() == other.frame()
    }
}

impl Eq for AnyThread {}

impl fmt::Debug for AnyThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut thread = f.debug_struct("AnyThread");
        if let Some(name) = self.name() {
            thread.field("name", &name);
        }
        thread.field("progress", &self.progress()).finish_non_exhaustive()
    }
}
