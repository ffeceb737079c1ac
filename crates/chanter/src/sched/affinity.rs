//! Which cores an OS thread may run on.
//!
//! An OS thread that drives a bound virtual processor gives up its own set of cores meanwhile. It gets the set back
//! when it stops driving: it may be the caller of `block_on`.

use std::io;

#[cfg(all(target_os = "linux", not(miri)))]
mod os {
    use std::cell::Cell;
    use std::io;
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    pub(crate) type Cores = libc::cpu_set_t;

    thread_local! {
        /// This OS thread's own cores, while it is bound.
        static OWN: Cell<Option<Cores>> = const { Cell::new(None) };
    }

    fn get() -> io::Result<Cores> {
        let mut cores = MaybeUninit::<Cores>::zeroed();
        // SAFETY: the set is as large as we say; all zeros are an empty one.
        match unsafe { libc::sched_getaffinity(0, size_of::<Cores>(), cores.as_mut_ptr()) } {
            // SAFETY: initialized, to zeros at least.
            0 => Ok(unsafe { cores.assume_init() }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set(cores: &Cores) -> io::Result<()> {
        // SAFETY: the set is as large as we say.
        match unsafe { libc::sched_setaffinity(0, size_of::<Cores>(), cores) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn is_allowed(core: usize) -> io::Result<bool> {
        /// Taken before anything is bound.
        static ALLOWED: OnceLock<Cores> = OnceLock::new();
        let allowed = match ALLOWED.get() {
            Some(allowed) => allowed,
            None => {
                let now = get()?;
                ALLOWED.get_or_init(|| now)
            }
        };
        // SAFETY: the index is inside the set.
        Ok(core < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(core, allowed) })
    }

    pub(crate) fn bind_here(core: usize) -> io::Result<()> {
        if OWN.get().is_none() {
            OWN.set(Some(get()?));
        }
        // SAFETY: all zeros are an empty set.
        let mut one: Cores = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: `is_allowed` has seen that the index is inside the set.
        unsafe { libc::CPU_SET(core, &mut one) };
        set(&one)
    }

    pub(crate) fn unbind_here() {
        if let Some(own) = OWN.take() {
            // It was valid before. If the process has lost those cores since,
            // the OS has the last word.
            let _ = set(&own);
        }
    }

    /// The cores of this OS thread when it is not bound, if it is bound: what
    /// an OS thread that it starts should have.
    pub(crate) fn own() -> Option<Cores> {
        OWN.get()
    }

    pub(crate) fn adopt(cores: Option<Cores>) {
        if let Some(cores) = cores {
            let _ = set(&cores);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod os {
    use std::io;

    pub(crate) type Cores = std::convert::Infallible;

    pub(crate) fn is_allowed(_core: usize) -> io::Result<bool> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not bind OS threads to cores"))
    }

    pub(crate) fn bind_here(_core: usize) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn unbind_here() {}

    pub(crate) fn own() -> Option<Cores> {
        None
    }

    pub(crate) fn adopt(_cores: Option<Cores>) {}
}

pub(crate) use os::{Cores, adopt, bind_here, own, unbind_here};

/// Whether the process may use the core.
///
/// # Errors
/// It may not, or the system binds no OS threads.
pub(crate) fn check(core: usize) -> io::Result<()> {
    match os::is_allowed(core)? {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("core {core} is not there, or not this process's to use"),
        )),
    }
}
