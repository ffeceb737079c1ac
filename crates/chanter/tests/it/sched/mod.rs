//! Tests of processors, their turns and policies.

mod counters;
mod hand_off;
mod long_turns;
mod partial_deadlocks;
mod policies;
mod pump;
mod turns;
mod workers;
