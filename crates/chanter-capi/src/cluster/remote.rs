//! The requests of other processes to this one's threads, as services.

use std::ffi::{c_int, c_void};

use chanter_cluster::{ThreadName, service};
use serde::{Deserialize, Serialize};

use super::job::{begun, job};
use super::module::{self, At};
use super::threads::{create_here, status_of};
use crate::config::CAttr;
use crate::door::Done;
use crate::thread;

/// A thread that another process wants.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    at: At,
    argument: u64,
    stack_size: u64,
    processor: c_int,
    priority: c_int,
    quantum: u32,
    flags: u32,
}

impl Asked {
    pub(super) fn new(at: At, argument: u64, attr: &CAttr) -> Self {
        Self {
            at,
            argument,
            stack_size: attr.stack_size as u64,
            processor: attr.processor,
            priority: attr.priority,
            quantum: attr.quantum,
            flags: attr.flags,
        }
    }
}

/// A request without a value.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum What {
    Detach,
    Cancel,
}

#[service]
pub(super) async fn capi_create(asked: Asked) -> Result<ThreadName, c_int> {
    begun().get().await;
    let body = module::function(&asked.at).ok_or(libc::ENOEXEC)?;
    // SAFETY: null stands for zeros.
    let mut attr = unsafe { CAttr::read(std::ptr::null()) }?;
    attr.stack_size = usize::try_from(asked.stack_size).map_err(|_| libc::EINVAL)?;
    (attr.processor, attr.priority) = (asked.processor, asked.priority);
    (attr.quantum, attr.flags) = (asked.quantum, asked.flags);
    create_here(body, asked.argument as *mut c_void, &attr.checked()?)
}

#[service]
pub(super) async fn capi_join(thread: u64) -> Result<u64, c_int> {
    begun().get().await;
    let handle = job()?.handle_of(thread)?;
    let told = thread::thread_of(handle)?.told();
    if let Some(told) = told {
        told.await;
    }
    status_of(thread::take(job()?.remove(thread)?))
}

#[service]
pub(super) async fn capi_request(what: What, thread: u64) -> Result<(), c_int> {
    begun().get().await;
    perform(what, thread)
}

/// Performs a request here.
pub(super) fn perform(what: What, thread: u64) -> Done {
    let job = job()?;
    match what {
        What::Detach => {
            let handle = job.remove(thread)?;
            drop(thread::THREADS.close(handle));
        }
        What::Cancel => thread::cancel(&*thread::thread_of(job.handle_of(thread)?)?),
    }
    Ok(())
}
