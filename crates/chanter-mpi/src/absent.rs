//! Stands for the engine where the program was built without MPI.

use std::convert::Infallible;
use std::sync::Arc;

use chanter_cluster::engine::{
    Caps, Engine, Full, Idle, Lane, Leave, NodeId, Notifier, Polled, ProcessId, Sink,
};
use chanter_cluster::wire::Body;

use crate::detect::{StartError, detect};

/// An error of an MPI function. This build has no MPI, so it never occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiError(Infallible);

impl std::fmt::Display for MpiError {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {}
    }
}

impl std::error::Error for MpiError {}

/// The engine that there would be if the program had been built with MPI.
#[derive(Debug)]
pub struct Mpi(Infallible);

/// Counters of an [`Mpi`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of `MPI_Test` and `MPI_Testsome`.
    pub tests: u64,
    /// Frames that MPI was given.
    pub sent: u64,
    /// Frames that have come.
    pub received: u64,
    /// Bytes of frames that were copied.
    pub copied: u64,
}

impl Mpi {
    /// Fails, since this build has no MPI.
    ///
    /// # Errors
    /// [`StartError::Missing`], always.
    pub fn start() -> Result<Self, StartError> {
        Err(detect().err().unwrap_or(StartError::NotLaunched))
    }

    /// Fails, since this build has no MPI.
    ///
    /// # Errors
    /// [`StartError::Missing`], always.
    pub fn start_anyway() -> Result<Self, StartError> {
        Self::start()
    }

    /// Description of the MPI library: nothing.
    pub fn library() -> String {
        String::new()
    }

    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only there do processes share memory"))]
    pub(crate) fn processors() -> usize {
        1
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        match self.0 {}
    }

    /// Leaves.
    ///
    /// # Errors
    /// None.
    pub fn finish(&self) -> Result<(), MpiError> {
        match self.0 {}
    }

    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only there do processes share memory"))]
    pub(crate) fn exchange<const N: usize>(&self, _: &[u8; N]) -> Result<Vec<[u8; N]>, MpiError> {
        match self.0 {}
    }

    /// Time of MPI itself.
    ///
    /// # Errors
    /// None.
    #[doc(hidden)]
    pub fn raw_round_trips(&self, _: ProcessId, _: usize, _: u32) -> Result<u32, MpiError> {
        match self.0 {}
    }

    /// Time of MPI itself.
    ///
    /// # Errors
    /// None.
    #[doc(hidden)]
    pub fn raw_barriers(&self, _: u32) -> Result<(), MpiError> {
        match self.0 {}
    }

    /// Time of MPI itself.
    ///
    /// # Errors
    /// None.
    #[doc(hidden)]
    pub fn raw_reductions(&self, _: u32) -> Result<u32, MpiError> {
        match self.0 {}
    }

    /// Ends all processes of the job.
    pub fn abort(&self, _code: i32) {
        match self.0 {}
    }
}

/// Receives that a program posts itself: none.
#[doc(hidden)]
pub struct Posted(Infallible);

#[allow(missing_docs, reason = "hidden: nothing of it can be called")]
impl Posted {
    pub fn new(mpi: Arc<Mpi>, _: usize, _: usize) -> Self {
        match mpi.0 {}
    }

    pub fn receive(&mut self, _: usize, _: ProcessId, _: u16) -> Result<(), MpiError> {
        match self.0 {}
    }

    pub fn test(&mut self, _: usize) -> Result<bool, MpiError> {
        match self.0 {}
    }

    pub fn test_all(&mut self, _: impl FnMut(usize)) -> Result<(), MpiError> {
        match self.0 {}
    }

    pub fn message(&self, _: usize) -> &[u8] {
        match self.0 {}
    }

    pub fn send(&mut self, _: ProcessId, _: u16, _: &[u8]) -> Result<(), MpiError> {
        match self.0 {}
    }
}

impl Engine for Mpi {
    fn me(&self) -> ProcessId {
        match self.0 {}
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        match self.0 {}
    }

    fn caps(&self, _: ProcessId) -> Caps {
        match self.0 {}
    }

    fn has_ended(&self) -> bool {
        match self.0 {}
    }

    fn attach(&self, _: Notifier) {
        match self.0 {}
    }

    fn try_send(&self, _: ProcessId, _: Lane, _: Body) -> Result<(), Full> {
        match self.0 {}
    }

    fn has_work(&self) -> bool {
        match self.0 {}
    }

    fn poll(&self, _: u32, _: &mut dyn Sink) -> Polled {
        match self.0 {}
    }

    fn park(&self) -> Idle {
        match self.0 {}
    }

    fn unpark(&self) {
        match self.0 {}
    }

    fn leave(&self, _: Leave) {
        match self.0 {}
    }
}
