//! Who has not proved to be of the job.

use std::io::Read;

use chanter::Machine;
use chanter_cluster::engine::ProcessId;
use chanter_cluster::engine::socket::{Sockets, StartError};
use chanter_cluster::launcher::{Launched, Secret};

use crate::job::*;

/// Process 0 of two, which waits for process 1; and who may be that.
fn waiting() -> (Machine, chanter::Thread<Result<Sockets, StartError>>, Launched, std::net::SocketAddr) {
    let machine = Machine::builder().vps(1).build().unwrap();
    let (launched, addresses) = launched(2);
    let [zero, one] = <[Launched; 2]>::try_from(launched).unwrap();
    let starting = machine.spawn(Sockets::start(zero, unhurried()));
    (machine, starting, one, addresses[0])
}

/// They get no answer, or no more than is said to anybody; and the one who is waited for gets in.
#[test]
fn strangers_are_shown_the_door() {
    let (machine, starting, one, address) = waiting();
    // Half a hello, and silence; it is still there at the end.
    let mut silent = Raw::stranger(address);
    silent.write(&greeting(*b"chanter1", 1)[..20]);
    // Half a hello, and the end.
    Raw::stranger(address).write(&greeting(*b"chanter1", 1)[..43]);
    // Something else altogether; a number that is not there, or not expected; oneself.
    for nonsense in
        [[b'x'; 44], greeting(*b"chanter1", 2), greeting(*b"chanter1", u32::MAX), greeting(*b"chanter1", 0)]
    {
        let mut stranger = Raw::stranger(address);
        stranger.write(&nonsense);
        let mut answer = Vec::new();
        let _ = stranger.0.read_to_end(&mut answer);
        assert_eq!(answer, b"", "not a word");
    }
    // Another build hears which one this is, and no more.
    let mut stranger = Raw::stranger(address);
    stranger.write(&greeting(*b"chanter9", 1));
    let mut answer = Vec::new();
    let _ = stranger.0.read_to_end(&mut answer);
    assert_eq!(answer, b"chanter1");
    // Another secret: the proof of who listens is wrong for it, and its own is refused.
    let mut stranger = Raw::stranger(address);
    let mine = greeting(*b"chanter1", 1);
    stranger.write(&mine);
    let mut theirs = [0; 76];
    stranger.0.read_exact(&mut theirs).unwrap();
    let other = Secret::new([8; 32]);
    assert_ne!(proof(&other, b"accept ", &mine, &theirs[..44]), theirs[44..]);
    stranger.write(&proof(&other, b"connect", &mine, &theirs[..44]));
    assert!(stranger.is_closed());
    assert!(!starting.is_determined());

    let engines = machine.block_on(async move {
        let other = Sockets::start(one, unhurried()).await.unwrap();
        (starting.join().await.unwrap().unwrap(), other)
    });
    drop((engines, machine));
    assert!(silent.is_closed());
}

/// So many strangers connect before the one who is waited for that they would have all places for as long as they like.
#[test]
fn silent_strangers_keep_nobody_out() {
    const STRANGERS: usize = 300;
    let says: [&dyn Fn(&mut Raw); 2] =
        [&|_| (), &|stranger| stranger.write(&greeting(*b"chanter1", 1)[..43])];
    for says in says {
        let (machine, starting, one, address) = waiting();
        let mut strangers: Vec<Raw> = (0..STRANGERS).map(|_| Raw::stranger(address)).collect();
        strangers.iter_mut().for_each(says);
        let engines = machine.block_on(async move {
            let other = Sockets::start(one, unhurried()).await.unwrap();
            (starting.join().await.unwrap().unwrap(), other)
        });
        // All but those in the last places have given way before.
        drop((engines, machine));
        assert!(strangers.iter_mut().all(Raw::is_closed));
    }
}

/// Those who know what a process says first, but not the secret, give way, too.
#[test]
fn strangers_who_greet_keep_nobody_out() {
    let (machine, starting, one, address) = waiting();
    let greet = |_| {
        let mut stranger = Raw::stranger(address);
        stranger.write(&greeting(*b"chanter1", 1));
        stranger
    };
    let strangers: Vec<Raw> = (0..150).map(greet).collect();
    let engines = machine.block_on(async move {
        let other = Sockets::start(one, unhurried()).await.unwrap();
        (starting.join().await.unwrap().unwrap(), other)
    });
    drop((engines, machine, strangers));
}

/// Of two who know the secret and say the same number the first one is it.
#[test]
fn a_number_is_had_once() {
    let machine = Machine::builder().vps(1).build().unwrap();
    let (launched, addresses) = launched(3);
    let [zero, one, _] = <[Launched; 3]>::try_from(launched).unwrap();
    let starting = machine.spawn(Sockets::start(zero, unhurried()));
    // Process 1 comes twice before process 2 comes.
    let _first = Raw::connect(addresses[0], 1, 0).unwrap();
    // Its greeting is refused, or its connection is closed, if the first one was not taken in yet.
    if let Ok(mut second) = Raw::connect(addresses[0], 1, 0) {
        assert!(second.is_closed());
    }
    let _third = Raw::connect(addresses[0], 2, 0).unwrap();
    let engine = machine.block_on(async move { starting.join().await.unwrap().unwrap() });
    drop((engine, one));
}

/// Each end says what is wrong, and what to do.
#[test]
fn who_connects_is_told_why_it_is_refused() {
    type Says = dyn Fn(&mut Raw);
    let refusals: [(&Says, &str); 4] = [
        (&|_| (), "closed the connection without an answer: it is of another job"),
        (&|raw| raw.write(b"chanter2"), "another version of chanter-cluster: build all programs of a job"),
        (&|raw| raw.write(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "no process of a job"),
        (&|raw| raw.write(&[&greeting(*b"chanter1", 0)[..], &[0; 32]].concat()), "the job's secret"),
    ];
    for (says, expected) in refusals {
        let machine = Machine::builder().vps(1).build().unwrap();
        let (mut launched, _) = launched(2);
        let listener = std::net::TcpListener::from(launched[0].listener.try_clone().unwrap());
        let starting = machine.spawn(Sockets::start(launched.remove(1), unhurried()));
        let mut raw = Raw(listener.accept().unwrap().0);
        raw.0.read_exact(&mut [0; 44]).unwrap();
        says(&mut raw);
        drop(raw);
        let error = machine.block_on(async move { starting.join().await.unwrap().unwrap_err() });
        assert!(matches!(error, StartError::Stranger(ProcessId(0), _)), "{error}");
        let error = error.to_string();
        assert!(error.starts_with("cannot connect to process 0: ") && error.contains(expected), "{error}");
    }
}
