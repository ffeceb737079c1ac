//! The memory that the processes of a node share: a file without a name, which their launcher hands to each.
//!
//! ```text
//!   | layout (4 KiB) | port of each process | slots of process 0 | slots of process 1 | ..
//! ```
//!
//! It begins as zeros, which are free slots and empty ports. Only its owner can open it (mode 0600, and no name). Its
//! processes must trust each other not to shorten it, and not to change bytes of each other's messages. They are safe
//! against all other writes by one of them: a destroyed message is noticed ([INV-SAID](super::said)).

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use memmap2::{MmapOptions, MmapRaw};

use super::pull::{MOST_PROCESSES, MOST_SLOTS, Memory, Port, Slot};

/// First bytes of a segment of this build. Each layout has its own.
const MAGIC: [u8; 16] = *b"chanter segment4";
const HEAD: usize = 4096;
/// The way in which processes of a node pass messages through their memory. All processes of a job use the same one:
/// the launcher writes it into the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A message stays in memory of its sender until its receiver takes it (Concert, section 4.3). This is the
    /// default.
    #[default]
    Pull,
    /// A message is copied into a bounded buffer of its receiver, which all senders share (section 4.1.2). While that
    /// is full, they wait. This is for comparisons.
    Push,
}

/// Number of slots of each process.
pub(super) const SLOTS: usize = 256;

/// Size of a segment for `processes` processes, in bytes.
fn length(processes: usize) -> usize {
    HEAD + processes * (size_of::<Port>() + SLOTS * size_of::<Slot>())
}

fn head(processes: usize, protocol: Protocol) -> [u8; 32] {
    let mut head = [0; 32];
    head[..16].copy_from_slice(&MAGIC);
    head[16..20].copy_from_slice(&(processes as u32).to_le_bytes());
    head[20..24].copy_from_slice(&(SLOTS as u32).to_le_bytes());
    head[24..28].copy_from_slice(&(size_of::<Slot>() as u32).to_le_bytes());
    head[28] = protocol as u8;
    head
}

/// Creates a segment for `processes` processes. All of its memory is allocated now, as a signal would end a process
/// that writes where there is none.
///
/// # Errors
/// The OS does not grant the file, or has no room for all of it.
pub(crate) fn create(processes: u32, protocol: Protocol) -> io::Result<OwnedFd> {
    let processes = processes as usize;
    if !(1..=MOST_PROCESSES).contains(&processes) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // In memory, if the system has this folder.
    let mut file = match tempfile::tempfile_in("/dev/shm") {
        Ok(file) => file,
        Err(_) => tempfile::tempfile()?,
    };
    // Set explicitly, whatever the launcher's mask: no other user can open the file, not even through a process's
    // descriptors.
    file.set_permissions(Permissions::from_mode(0o600))?;
    let head = head(processes, protocol);
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

/// A segment, as mapped by one process.
pub(super) struct Mapping {
    map: MmapRaw,
    processes: usize,
    protocol: Protocol,
}

impl Mapping {
    /// # Errors
    /// The file is no segment for `processes` processes, or the OS refuses.
    pub(super) fn open(file: OwnedFd, processes: usize) -> io::Result<Self> {
        const { assert!(SLOTS <= MOST_SLOTS && size_of::<Slot>().is_multiple_of(64) && size_of::<Port>() == 64) };
        let file = File::from(file);
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if processes == 0 || processes > MOST_PROCESSES || file.metadata()?.len() != length(processes) as u64
        {
            return Err(wrong("it is no segment for so many processes, or one of another build"));
        }
        let map = MmapOptions::new().len(length(processes)).map_raw(&file)?;
        // SAFETY: the map is longer than the 32 bytes that are read. Another process may write them meanwhile; they
        // are volatile, may have any value, and are only compared.
        let found = unsafe { map.as_ptr().cast::<[u8; 32]>().read_volatile() };
        let protocols = [Protocol::Pull, Protocol::Push];
        match protocols.into_iter().find(|protocol| found == head(processes, *protocol)) {
            Some(protocol) => Ok(Self { map, processes, protocol }),
            None => Err(wrong("the segment is of another build")),
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn fill(&self, mut byte: impl FnMut() -> u8) {
        for at in HEAD..self.map.len() {
            // SAFETY: `at` is in bounds of the map. Other processes may write the same bytes at any time, and readers
            // allow for any value.
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
        // SAFETY: the slot is in bounds of the map, which lives as long as `self`, and aligned, as the map is to a
        // page. A slot is atomics and bytes behind an `UnsafeCell`, for which any bits are valid.
        unsafe { &*self.map.as_ptr().add(at).cast::<Slot>() }
    }

    fn port(&self, process: usize) -> &Port {
        assert!(process < self.processes);
        // SAFETY: the port is in bounds of the map, which lives as long as `self`, and aligned, as the map is to a
        // page. A port is atomics, for which any bits are valid.
        unsafe { &*self.map.as_ptr().add(HEAD + process * size_of::<Port>()).cast::<Port>() }
    }
}

// SAFETY: the map does not move until it is dropped. Its content is shared by atomics, or by the protocol of `Bytes`.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out slots and ports only, whose content is shared by atomics, or by the protocol of
// `Bytes`.
unsafe impl Sync for Mapping {}
