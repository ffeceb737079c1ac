//! What an engine promises, tried with processes that are engines in one process; and what is left of a segment in
//! which somebody writes nonsense.

use chanter::prelude::*;

use super::super::conformance::Kit;
use super::super::socket::tests::{On, launched, unhurried};
use super::*;

/// The engines of processes that share a segment, or, if not, of those of which some do not.
async fn engines(count: u32, is_near: impl Fn(u32) -> bool) -> Vec<Near> {
    let segment = create(count).unwrap();
    let (launched, _folder) = launched(count, On::Unix);
    let mut starting = Vec::new();
    for launched in launched {
        let seat = Seat::take(segment.try_clone().unwrap(), Peer(launched.number), count).unwrap();
        if !is_near(launched.number) {
            // As one whose launcher has said nothing of a segment.
            seat.memory.port(seat.me).detach();
        }
        starting.push((seat, spawn(Sockets::start(launched, unhurried()))));
    }
    let mut engines = Vec::new();
    for (seat, starting) in starting {
        engines.push((seat, starting.join().await.unwrap().unwrap()));
    }
    engines.into_iter().map(|(seat, sockets)| Near::new(seat, sockets)).collect()
}

#[chanter::test]
async fn it_keeps_what_an_engine_promises() {
    Kit::new(async |count| engines(count, |_| true).await).killed_by(Near::kill).run().await.unwrap();
}

#[chanter::test]
async fn some_processes_share_memory_and_others_do_not() {
    let kit = Kit::new(async |count| engines(count, |process| process != 1).await);
    kit.killed_by(Near::kill).run().await.unwrap();
}
