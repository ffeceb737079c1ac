//! Policies whose functions are C.
//!
//! C keeps numbers, and the tokens stay here. So a wrong policy can name no thread that it was not given.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use chanter::policy::{Policy, Ready, Reason};

use crate::config::{CPolicy, CReady};
use crate::current;
use crate::door::{Done, now};

/// A policy of the program's, from which each virtual processor gets an object.
pub(crate) struct Policies {
    table: CPolicy,
}

impl Policies {
    pub(crate) fn new(table: CPolicy) -> Done<Self> {
        if table.enqueue.is_none() || table.next.is_none() {
            return Err(libc::EINVAL);
        }
        Ok(Self { table })
    }

    /// Makes the object of a virtual processor.
    pub(crate) fn make(&self, index: usize) -> Box<dyn Policy> {
        let object = match self.table.create {
            // SAFETY: the program has given the function with its data.
            Some(create) => current::callback(|| unsafe { create(self.table.data, index as i32) }),
            None => self.table.data,
        };
        Box::new(Foreign { table: self.table, object, tokens: Mutex::default() })
    }
}

/// The threads that a policy was given, by their tokens.
#[derive(Default)]
struct Tokens {
    threads: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    generation: u32,
    thread: Option<Ready>,
}

impl Tokens {
    fn put(&mut self, thread: Ready) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.threads.push(Entry { generation: 1, thread: None });
            (self.threads.len() - 1) as u32
        });
        let entry = &mut self.threads[index as usize];
        entry.thread = Some(thread);
        u64::from(entry.generation) << 32 | u64::from(index)
    }

    fn take(&mut self, token: u64) -> Option<Ready> {
        let entry = self.threads.get_mut(token as u32 as usize)?;
        if u64::from(entry.generation) != token >> 32 {
            return None;
        }
        let thread = entry.thread.take()?;
        entry.generation = entry.generation.wrapping_add(1).max(1);
        self.free.push(token as u32);
        Some(thread)
    }
}

/// The policy of a virtual processor.
struct Foreign {
    table: CPolicy,
    object: *mut c_void,
    tokens: Mutex<Tokens>,
}

// SAFETY: the interface says on which OS threads and when the functions run; the program has agreed to it.
unsafe impl Send for Foreign {}
// SAFETY: the reason is that of `Send`.
unsafe impl Sync for Foreign {}

impl Foreign {
    fn tokens<R>(&self, body: impl FnOnce(&mut Tokens) -> R) -> R {
        body(&mut self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pick(&self, function: Option<unsafe extern "C" fn(*mut c_void) -> u64>) -> Option<Ready> {
        let function = function?;
        // SAFETY: the program has given the function for its object.
        let token = current::callback(|| unsafe { function(self.object) });
        if token == 0 { None } else { self.tokens(|tokens| tokens.take(token)) }
    }
}

fn number_of(reason: Reason) -> i32 {
    match reason {
        Reason::New => 1,
        Reason::Yielded => 2,
        Reason::Spent => 3,
        Reason::Woken { .. } => 4,
        Reason::Timer => 5,
        Reason::Io => 6,
        Reason::Remote => 7,
        _ => 8,
    }
}

impl Policy for Foreign {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let enqueue = self.table.enqueue?;
        let attributes = thread.attributes();
        let deadline = attributes.deadline.map_or(u64::MAX, |time| {
            let rest = time.saturating_duration_since(std::time::Instant::now());
            now().saturating_add(u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX))
        });
        let mut told = CReady {
            size: size_of::<CReady>(),
            token: 0,
            thread: thread.id(),
            deadline,
            reason: number_of(reason),
            priority: attributes.priority.into(),
            may_move: thread.may_move().into(),
            tickets: attributes.tickets.into(),
        };
        told.token = self.tokens(|tokens| tokens.put(thread));
        // SAFETY: the program has given the function for its object.
        current::callback(|| unsafe { enqueue(self.object, &raw const told) });
        None
    }

    fn quantum(&self) -> u32 {
        if self.table.quantum == 0 { 256 } else { self.table.quantum }
    }

    fn next(&self) -> Option<Ready> {
        self.pick(self.table.next)
    }

    fn give(&self, _stealer: &dyn Policy) -> Option<Ready> {
        self.pick(self.table.give)
    }

    fn waiting(&self) -> usize {
        match self.table.waiting {
            // SAFETY: the program has given the function for its object.
            Some(waiting) => current::callback(|| unsafe { waiting(self.object) }),
            None => 0,
        }
    }

    fn places(&self) -> bool {
        false
    }

    /// Threads that the policy does not return come from the table.
    fn drain(&self) -> Option<Ready> {
        self.tokens(|tokens| {
            let index = tokens.threads.iter().position(|entry| entry.thread.is_some())?;
            let token = u64::from(tokens.threads[index].generation) << 32 | index as u64;
            tokens.take(token)
        })
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.destroy {
            // SAFETY: the program has given the function for its object, and no other call follows.
            current::callback(|| unsafe { destroy(self.object) });
        }
    }
}
