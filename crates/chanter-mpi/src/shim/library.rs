//! Finds a library of the standard ABI (MPI 5.0, chapter "Application Binary Interface"), opens it, and resolves the
//! functions that are called. All types and numbers here are the standard's.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::error::Error;
use std::ffi::{OsStr, OsString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

/// The variable that names the library, as a path or as a name that the loader looks up.
const NAMED: &str = "CHANTER_MPI_LIBRARY";

/// The major version of the ABI that is written down here. Minor ones add to it.
const ABI: c_int = 1;

/// A communicator, request, datatype, operation, error handler or info: what the standard calls a handle.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle(pub(super) *mut c_void);

impl Handle {
    /// A handle that the standard gives this number.
    pub(super) const fn predefined(number: usize) -> Self {
        Self(ptr::without_provenance_mut(number))
    }
}

/// MPI's status.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullStatus {
    pub(super) source: c_int,
    pub(super) tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

type Out<T> = *mut T;

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The functions of the library that are called.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// `Err`: the name of a function that the library lacks.
            ///
            /// # Safety
            /// The library has the standard ABI.
            unsafe fn resolve(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: in a library of the standard ABI, the function of this name has this type. Libraries
                    // are never closed, so the function stays.
                    $($name: *unsafe { library.get($symbol) }.map_err(|_| $symbol)?,)*
                })
            }
        }
    };
}

functions! {
    initialized = "MPI_Initialized"(Out<c_int>);
    finalized = "MPI_Finalized"(Out<c_int>);
    init_thread = "MPI_Init_thread"(*mut c_int, *mut c_void, c_int, Out<c_int>);
    finalize = "MPI_Finalize"();
    abort = "MPI_Abort"(Handle, c_int);
    library_version = "MPI_Get_library_version"(Out<c_char>, Out<c_int>);
    error_string = "MPI_Error_string"(c_int, Out<c_char>, Out<c_int>);
    comm_set_errhandler = "MPI_Comm_set_errhandler"(Handle, Handle);
    comm_dup = "MPI_Comm_dup"(Handle, Out<Handle>);
    comm_free = "MPI_Comm_free"(Out<Handle>);
    comm_rank = "MPI_Comm_rank"(Handle, Out<c_int>);
    comm_size = "MPI_Comm_size"(Handle, Out<c_int>);
    comm_split_type = "MPI_Comm_split_type"(Handle, c_int, c_int, Handle, Out<Handle>);
    barrier = "MPI_Barrier"(Handle);
    allreduce = "MPI_Allreduce"(*const c_void, Out<c_void>, c_int, Handle, Handle, Handle);
    allgather = "MPI_Allgather"(*const c_void, c_int, Handle, Out<c_void>, c_int, Handle, Handle);
    recv_init = "MPI_Recv_init"(Out<c_void>, c_int, Handle, c_int, c_int, Handle, Out<Handle>);
    start = "MPI_Start"(Out<Handle>);
    irecv = "MPI_Irecv"(Out<c_void>, c_int, Handle, c_int, c_int, Handle, Out<Handle>);
    isend = "MPI_Isend"(*const c_void, c_int, Handle, c_int, c_int, Handle, Out<Handle>);
    test = "MPI_Test"(Out<Handle>, Out<c_int>, Out<FullStatus>);
    testsome = "MPI_Testsome"(c_int, Out<Handle>, Out<c_int>, Out<c_int>, Out<FullStatus>);
    wait = "MPI_Wait"(Out<Handle>, Out<FullStatus>);
    cancel = "MPI_Cancel"(Out<Handle>);
    test_cancelled = "MPI_Test_cancelled"(*const FullStatus, Out<c_int>);
    get_count = "MPI_Get_count"(*const FullStatus, Handle, Out<c_int>);
    request_free = "MPI_Request_free"(Out<Handle>);
}

/// An open library.
struct Opened {
    functions: Functions,
    /// The file, if the system tells.
    file: Option<PathBuf>,
}

static OPENED: OnceLock<Result<Opened, String>> = OnceLock::new();

fn opened() -> Result<&'static Opened, &'static str> {
    OPENED
        .get_or_init(|| find(env::var_os(NAMED).filter(|name| !name.is_empty())))
        .as_ref()
        .map_err(|why| &**why)
}

/// Opens the library, unless that was done before.
///
/// # Errors
/// No library was found, or it cannot be used. The text says which ones were tried.
pub(super) fn open() -> Result<(), &'static str> {
    opened().map(|_| ())
}

/// The file of the library, if there is one and the system tells.
pub(crate) fn file() -> Option<&'static Path> {
    opened().ok()?.file.as_deref()
}

/// The library's functions.
///
/// # Panics
/// If it is not open.
#[inline]
pub(super) fn functions() -> &'static Functions {
    match OPENED.get() {
        Some(Ok(opened)) => &opened.functions,
        _ => panic!("MPI is called before its library is open"),
    }
}

/// Opens the library that the user has named, or else the first that can be used.
fn find(named: Option<OsString>) -> Result<Opened, String> {
    if let Some(named) = named {
        return open_one(&named).map_err(|why| format!("{NAMED}={}: {why}", named.display()));
    }
    let mut faults = Vec::new();
    for name in file_names().map(OsString::from).into_iter().chain(beside_the_launcher()) {
        match open_one(&name) {
            Ok(opened) => return Ok(opened),
            Err(why) => faults.push(format!("{}: {why}", name.display())),
        }
    }
    Err(faults.join("; "))
}

/// The file names of a library of this ABI, best first.
fn file_names() -> [String; 3] {
    let of_version = |version: &str| {
        if cfg!(any(target_os = "macos", target_os = "ios")) {
            format!("{DLL_PREFIX}mpi_abi{version}{DLL_SUFFIX}")
        } else {
            format!("{DLL_PREFIX}mpi_abi{DLL_SUFFIX}{version}")
        }
    };
    // The last is what a linker looks for: a link to the library, or a text that no loader understands.
    [".1", ".0", ""].map(of_version)
}

/// The libraries of the MPI whose launcher is found first: an MPI in a folder of its own, which no loader knows.
fn beside_the_launcher() -> Vec<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let has_launcher =
        |folder: &PathBuf| ["mpirun", "mpiexec"].iter().any(|name| folder.join(name).is_file());
    let Some(folder) = env::split_paths(&path).find(has_launcher) else { return Vec::new() };
    let Some(prefix) = folder.parent() else { return Vec::new() };
    let files =
        ["lib", "lib64"].into_iter().flat_map(|lib| file_names().map(|name| prefix.join(lib).join(name)));
    files.filter(|file| file.is_file()).map(PathBuf::into_os_string).collect()
}

fn open_one(name: &OsStr) -> Result<Opened, String> {
    // SAFETY: a library of that name is an MPI, or the user has named it. Either may be initialized.
    let library = unsafe { libloading::Library::new(name) }.map_err(|error| {
        let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        // Most loaders begin with the name.
        text.strip_prefix(&format!("{}: ", name.display())).unwrap_or(&text).to_owned()
    })?;
    // Not all libraries can be closed: MPI's own helpers leave handlers behind.
    let library: &'static _ = Box::leak(Box::new(library));
    type Version = unsafe extern "C" fn(Out<c_int>, Out<c_int>) -> c_int;
    // SAFETY: only the MPI standard has a function of this name, and this is its type.
    let version = unsafe { library.get::<Version>("MPI_Abi_get_version") };
    let version = *version.map_err(|_| {
        "it lacks MPI_Abi_get_version: it is no MPI, or an MPI that does not know the standard ABI".to_owned()
    })?;
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: this may be called at any time, with places for the answers.
    if unsafe { version(&mut major, &mut minor) } != 0 || major < 0 {
        return Err("it is an MPI with an ABI of its own, not with the standard one".to_owned());
    }
    if major != ABI {
        return Err(format!("its ABI is of version {major}.{minor}, and version {ABI} is wanted"));
    }
    // SAFETY: the library says that it has the standard ABI.
    let functions = unsafe { Functions::resolve(library) }.map_err(|symbol| format!("it lacks {symbol}"))?;
    Ok(Opened { functions, file: file_of(version as *const c_void) })
}

/// The file that a function comes from.
#[cfg(unix)]
fn file_of(function: *const c_void) -> Option<PathBuf> {
    use std::ffi::CStr;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;

    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for, and there is a place for the answer.
    let is_known = unsafe { libc::dladdr(function, info.as_mut_ptr()) } != 0;
    // SAFETY: it is a structure of pointers, all of which were null before.
    let name = unsafe { info.assume_init() }.dli_fname;
    if !is_known || name.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends with a 0, and stays as long as the library does.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

#[cfg(not(unix))]
fn file_of(_: *const c_void) -> Option<PathBuf> {
    None
}
