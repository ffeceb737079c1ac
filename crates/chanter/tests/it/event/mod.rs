//! Tests of events, and choice among them.

mod abort;
mod asynchronous;
mod both_directions;
mod choice;
mod choice_policies;
mod choice_sets;
mod communicating;
mod dangling;
mod drops;
mod elsewhere;
mod executors;
mod futurelock;
mod futures;
mod gather;
mod gather_counted;
mod kinds;
mod nacks;
mod select;
mod timeouts;
mod wakers;
