//! Tests of processors, their turns and policies.

mod counters;
mod hand_over;
mod long_turns;
mod partial_deadlocks;
mod policies;
mod pump;
mod turns;
mod workers;
