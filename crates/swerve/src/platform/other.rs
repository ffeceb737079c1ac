//! Systems without `openat2`: every path goes through [`walk`](super::walk), every read to a disk
//! thread.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use super::{NotOpened, Wait};

/// Opens nothing: leaves it to [`walk`](super::walk).
pub(crate) fn open_beneath(_root: BorrowedFd<'_>, _path: &Path, wait: Wait) -> Result<OwnedFd, NotOpened> {
    Err(match wait {
        Wait::Never => NotOpened::WouldWait,
        Wait::Allowed => NotOpened::Elsewhere,
    })
}

/// Always `None`: there is no way to ask.
pub(crate) fn read_now(_file: &File, _buffer: &mut [u8], _offset: u64) -> Option<io::Result<usize>> {
    None
}
