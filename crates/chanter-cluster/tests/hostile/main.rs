//! Peers that break the rules over real sockets: each gets a clear end, costs bounded memory, and the others go on.

#![cfg(unix)]

mod floods;
mod job;
mod memory;
mod strangers;
mod words;
