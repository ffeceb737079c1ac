//! RPC: a call is one event, and its server knows when nobody waits.

use crate::common;

use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::{CallError, rpc};
use common::waits::{SHAPES, shapes};
use common::{Ledger, Random, machine, poll, watchdog};

#[test]
fn a_call_in_every_shape() {
    watchdog!();
    for at in 0..SHAPES {
        let ledger = Ledger::new();
        let (client, server) = rpc();
        let (what, mut call) = shapes(|| client.call(ledger.payload(1))).swap_remove(at);
        // Nothing is shown before somebody synchronizes.
        assert!(server.is_empty(), "{what}");
        assert!(poll(&mut call).is_pending());
        let (request, reply) = server.accept().sync_blocking().unwrap();
        assert_eq!(request.id, 1);
        assert!(reply.given_up().try_sync().is_none(), "{what}");
        assert!(poll(&mut call).is_pending());
        reply.send(ledger.payload(2)).sync_blocking().unwrap();
        let Poll::Ready(Ok(answer)) = poll(&mut call) else { panic!("{what}: no answer") };
        assert_eq!(answer.id, 2);
        drop(call);
        // In the choice of two, the other call's request has been taken back.
        assert!(server.is_empty(), "{what}");
        drop((request, answer));
        ledger.check();
    }
}

/// A client that gives up before its request is accepted leaves nothing behind;
/// later it is told, and the answer comes back.
#[test]
fn a_call_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let ledger = Ledger::new();
        let (client, server) = rpc::<_, common::Payload>();
        let make = || shapes(|| client.call(ledger.payload(1))).swap_remove(at);
        let (what, mut call) = make();
        drop(make());
        assert!(poll(&mut call).is_pending());
        assert!(!server.is_empty());
        drop(call);
        assert!(server.is_empty(), "{what}");
        ledger.check();
        // Accepted.
        let (_, mut call) = make();
        assert!(poll(&mut call).is_pending());
        let (request, reply) = server.accept().sync_blocking().unwrap();
        let (_, mut told) = shapes(|| reply.given_up()).swap_remove(at);
        assert!(poll(&mut told).is_pending());
        drop(call);
        assert!(poll(&mut told).is_ready(), "{what}");
        let back = reply.send(ledger.payload(2)).sync_blocking();
        assert!(matches!(back, Err(SendError(answer)) if answer.id == 2), "{what}");
        drop(request);
        // Answered, and dropped before it looked: the call has committed.
        let (_, mut call) = make();
        assert!(poll(&mut call).is_pending());
        let (request, reply) = server.accept().sync_blocking().unwrap();
        reply.send(ledger.payload(3)).sync_blocking().unwrap();
        drop((call, request));
        drop((client, server));
        ledger.check();
    }
}

#[test]
fn an_accept_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let (client, server) = rpc::<u32, u32>();
        let make = || shapes(|| server.accept()).swap_remove(at);
        let mut calls: Vec<_> = (0..3).map(|n| Box::pin(client.call(n).sync())).collect();
        let (what, mut accept) = make();
        drop(make());
        assert!(poll(&mut accept).is_pending());
        calls.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
        // Served with the first, and dropped: it is the first again.
        assert_eq!(server.len(), 2);
        drop(accept);
        assert_eq!(server.len(), 3, "{what}");
        let (request, reply) = server.accept().sync_blocking().unwrap();
        assert_eq!(request, 0, "{what}");
        // Served with a request whose client gives up: it vanishes.
        drop(calls);
        assert!(reply.given_up().try_sync().is_some());
        assert!(server.is_empty());
        let (_, mut accept) = make();
        let (_, mut next) = make();
        assert!(poll(&mut accept).is_pending() && poll(&mut next).is_pending());
        let mut call = Box::pin(client.call(7).sync());
        assert!(poll(&mut call).is_pending());
        drop(call);
        drop(accept);
        assert!(server.is_empty() && poll(&mut next).is_pending(), "{what}: a dead request");
        // Or it goes to the next accept.
        let (_, mut accept) = make();
        drop(next);
        assert!(poll(&mut accept).is_pending());
        let (_, mut next) = make();
        assert!(poll(&mut next).is_pending());
        let mut call = Box::pin(client.call(8).sync());
        assert!(poll(&mut call).is_pending());
        drop(accept);
        assert!(matches!(poll(&mut next), Poll::Ready(Ok((8, _)))), "{what}");
    }
}

#[test]
fn those_who_go_are_told_of() {
    watchdog!();
    // A reply that is dropped.
    let (client, server) = rpc::<u32, u32>();
    let mut call = Box::pin(client.call(1).sync());
    assert!(poll(&mut call).is_pending());
    drop(server.accept().sync_blocking());
    assert_eq!(poll(&mut call), Poll::Ready(Err(CallError::Dropped)));
    // An event of replying that is never synchronized.
    let mut call = Box::pin(client.call(1).sync());
    assert!(poll(&mut call).is_pending());
    let (_, reply) = server.accept().sync_blocking().unwrap();
    drop(reply.send(2));
    assert_eq!(poll(&mut call), Poll::Ready(Err(CallError::Dropped)));
    // The last server, with requests that wait.
    let other = server.clone();
    let mut call = Box::pin(client.call(1).sync());
    assert!(poll(&mut call).is_pending());
    drop(server);
    assert!(poll(&mut call).is_pending() && !client.is_closed());
    drop(other);
    assert_eq!(poll(&mut call), Poll::Ready(Err(CallError::Dropped)));
    assert!(client.is_closed());
    assert_eq!(client.call(5).sync_blocking(), Err(CallError::Closed(5)));
    // The last client.
    let (client, server) = rpc::<u32, u32>();
    let mut accept = Box::pin(server.accept().sync());
    assert!(poll(&mut accept).is_pending());
    let call = client.call(1);
    drop(client);
    assert!(poll(&mut accept).is_pending(), "an event counts");
    drop(call);
    assert!(matches!(poll(&mut accept), Poll::Ready(Err(Closed))));
    assert!(matches!(server.accept().sync_blocking(), Err(Closed)));
}

/// Clients that give up at random, servers that are slow at random: every call
/// that was answered got its own answer; the server was told of all others.
#[test]
fn every_call_is_answered_or_given_up() {
    watchdog!();
    let calls = if cfg!(miri) {
        10u64
    } else if cfg!(debug_assertions) {
        300u64
    } else {
        3_000
    };
    let machine = machine(2);
    let (client, server) = rpc::<u64, u64>();
    let servers: Vec<_> = (0..2)
        .map(|seed| {
            let server = server.clone();
            machine.spawn(async move {
                let mut random = Random::new(seed);
                let mut sum = 0;
                loop {
                    // An accept that is often given up itself.
                    let limit = Duration::from_micros(random.below(50) as u64);
                    match server.accept().timeout(limit).await {
                        None => yield_now().await,
                        Some(Err(Closed)) => return sum,
                        Some(Ok((n, reply))) => {
                            let work = Duration::from_micros(random.below(50) as u64);
                            let given_up = reply.given_up().wrap(|()| false);
                            if choose((after(work).wrap(|()| true), given_up)).await
                                && reply.send(2 * n).await.is_ok()
                            {
                                sum += n;
                            }
                        }
                    }
                }
            })
        })
        .collect();
    drop(server);
    let clients: Vec<_> = (0..4)
        .map(|me| {
            let client = client.clone();
            machine.spawn(async move {
                let mut random = Random::new(me);
                let mut sum = 0;
                for n in 0..calls {
                    let n = me * calls + n;
                    let limit = Duration::from_micros(random.below(150) as u64);
                    match client.call(n).timeout(limit).await {
                        None => (),
                        Some(answer) => {
                            assert_eq!(answer, Ok(2 * n));
                            sum += n;
                        }
                    }
                }
                sum
            })
        })
        .collect();
    drop(client);
    let sum = |threads: Vec<Thread<u64>>| -> u64 {
        threads.into_iter().map(|thread| thread.join().sync_blocking().unwrap()).sum()
    };
    // In this order: the servers end when the last client has gone.
    let answered = sum(clients);
    assert_eq!(sum(servers), answered);
}
