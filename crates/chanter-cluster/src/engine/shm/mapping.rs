//! The memory that the processes of a node share: a file without a name, which whoever starts them hands to each.
//!
//! ```text
//!   | layout (4 KiB) | port of each process | slots of process 0 | slots of process 1 | ..
//! ```
//!
//! It begins as zeros, which are free slots and empty ports. Only its owner can open it (mode 0600, and no name). Its processes
//! have to trust each other not to shorten it, and not to change bytes of each other's messages. Against all else that one of them writes
//! the others are safe: what is destroyed is missed ([INV-SAID](super::said)).

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use memmap2::{MmapOptions, MmapRaw};

use super::pull::{MOST_PROCESSES, MOST_SLOTS, Memory, Port, Slot};

/// What a segment of this build begins with. Another layout has another one.
const MAGIC: [u8; 16] = *b"chanter segment3";
const HEAD: usize = 4096;
/// Slots of each process.
pub(super) const SLOTS: usize = 256;

/// Bytes of a segment for so many processes.
fn length(processes: usize) -> usize {
    HEAD + processes * (size_of::<Port>() + SLOTS * size_of::<Slot>())
}

fn head(processes: usize) -> [u8; 32] {
    let mut head = [0; 32];
    head[..16].copy_from_slice(&MAGIC);
    head[16..20].copy_from_slice(&(processes as u32).to_le_bytes());
    head[20..24].copy_from_slice(&(SLOTS as u32).to_le_bytes());
    head[24..28].copy_from_slice(&(size_of::<Slot>() as u32).to_le_bytes());
    head
}

/// A segment for so many processes. All of it has its memory: a process that finds none when it writes would be ended by a signal.
///
/// # Errors
/// The OS grants no such file, or has no room for all of it.
pub(crate) fn create(processes: u32) -> io::Result<OwnedFd> {
    let processes = processes as usize;
    if !(1..=MOST_PROCESSES).contains(&processes) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // In memory, where the system has such a folder.
    let mut file = match tempfile::tempfile_in("/dev/shm") {
        Ok(file) => file,
        Err(_) => tempfile::tempfile()?,
    };
    // Whatever mask the launcher has: nobody else opens it, not by way of a process's descriptors either.
    file.set_permissions(Permissions::from_mode(0o600))?;
    let head = head(processes);
    let zeros = (length(processes) - head.len()) as u64;
    file.write_all(&head).and_then(|()| io::copy(&mut io::repeat(0).take(zeros), &mut file)).map_err(
        |error| {
            let mib = (length(processes) >> 20) + 1;
            let why = format!("there is no room for the memory of {processes} processes, {mib} MiB: {error}");
            io::Error::new(error.kind(), why)
        },
    )?;
    Ok(file.into())
}

/// A segment, as one process sees it.
pub(super) struct Mapping {
    map: MmapRaw,
    processes: usize,
}

impl Mapping {
    /// # Errors
    /// It is no segment for so many processes, or the OS refuses.
    pub(super) fn open(file: OwnedFd, processes: usize) -> io::Result<Self> {
        const { assert!(SLOTS <= MOST_SLOTS && size_of::<Slot>().is_multiple_of(64) && size_of::<Port>() == 64) };
        let file = File::from(file);
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if processes == 0 || processes > MOST_PROCESSES || file.metadata()?.len() != length(processes) as u64
        {
            return Err(wrong("it is no segment for so many processes, or one of another build"));
        }
        let map = MmapOptions::new().len(length(processes)).map_raw(&file)?;
        let expected = head(processes);
        // SAFETY: the map is longer than that. Another process may write it meanwhile; what is read is compared, and no more.
        let found = unsafe { map.as_ptr().cast::<[u8; 32]>().read_volatile() };
        if found != expected {
            return Err(wrong("the segment is of another build"));
        }
        Ok(Self { map, processes })
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn fill(&self, mut byte: impl FnMut() -> u8) {
        for at in HEAD..self.map.len() {
            // SAFETY: in bounds; as another process might.
            unsafe { self.map.as_mut_ptr().add(at).write_volatile(byte()) };
        }
    }
}

impl Memory for Mapping {
    fn processes(&self) -> usize {
        self.processes
    }

    fn slots(&self) -> usize {
        SLOTS
    }

    fn slot(&self, process: usize, slot: usize) -> &Slot {
        assert!(process < self.processes && slot < SLOTS);
        let before = HEAD + self.processes * size_of::<Port>();
        let at = before + (process * SLOTS + slot) * size_of::<Slot>();
        // SAFETY: in bounds of the map, which lives as long as `self`, and aligned, as a page is. A slot is atomics and
        // bytes behind an `UnsafeCell`, for which any bits are values.
        unsafe { &*self.map.as_ptr().add(at).cast::<Slot>() }
    }

    fn port(&self, process: usize) -> &Port {
        assert!(process < self.processes);
        // SAFETY: as above.
        unsafe { &*self.map.as_ptr().add(HEAD + process * size_of::<Port>()).cast::<Port>() }
    }
}

// SAFETY: the map stays where it is until it is dropped; all that is in it is shared by atomics, or by the protocol of
// `Bytes`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
