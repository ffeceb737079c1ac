//! `Simulate`: it makes the decisions of a simulated machine, which replace budgets, clocks and chance.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use super::Worker;
use super::policy_guard::Payload;
use crate::frame::Site;
use crate::frame::report::{Place, Waits};

/// The simulation that a virtual processor belongs to. Each operation of its threads asks it.
pub(crate) trait Simulate: fmt::Debug {
    /// The time by the clock of the simulation.
    fn now(&self) -> Instant;

    /// Chooses a number below `alternatives`.
    fn choose(&self, alternatives: usize) -> usize;

    /// How many choices have been made so far.
    fn choices(&self) -> u64;

    /// Notes that the last choice was not ready; another alternative was taken, or none.
    fn came_to(&self, alternative: Option<usize>);

    /// Whether the next parasite begins where it is spawned.
    fn is_in_place(&self) -> bool;

    /// An operation is about to begin. True: its thread has been woken, and the operation must return `Pending`.
    fn pause(&self, worker: &Worker, cx: &Context<'_>) -> bool;

    /// Whether the thread that blocks its processor was told to pause.
    fn take_pause(&self) -> bool;

    /// Runs another thread, as a thread blocks its processor and waits to be woken.
    ///
    /// # Panics
    /// If the schedule ends before.
    fn step_nested(&self, worker: &Worker);

    /// A policy has panicked: the schedule ends.
    fn fail(&self, payload: Payload);

    /// Reports a panic that would not be seen otherwise.
    fn panicked(&self, whose: &str, payload: &(dyn Any + Send), message: &str);

    /// Whether the simulation wants to know what happens.
    fn takes_notes(&self) -> bool;

    /// A thread has been born.
    fn note_birth(&self, worker: &Worker, thread: u64, site: Site, name: Option<Arc<str>>);

    /// The running thread has begun a synchronization, and committed to `winner`.
    fn note_synchronization(
        &self,
        worker: &Worker,
        waits: Waits,
        winner: Option<usize>,
        place: Option<Place>,
    );

    /// The running thread polls something that says what it waits for.
    fn note_look(&self, worker: &Worker, waits: Waits);

    /// The simulation itself, for the code that has made it.
    fn as_any(&self) -> &dyn Any;
}
