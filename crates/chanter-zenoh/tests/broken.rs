//! Connections that break while both processes live.

mod common;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Process};
use chanter_engine::Why;
use chanter_zenoh::Zenoh;

/// A connection to `port` that breaks after this number of bytes, if breaks are left. Returns the number of breaks.
fn proxy(port: u16, bytes: usize, breaks: u32) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let made = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&made);
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to, made) =
                    (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&count));
                thread::spawn(move || pass_on(from, to, bytes, breaks, &made));
            }
        }
    });
    (own, made)
}

fn pass_on(
    mut from: TcpStream,
    mut to: TcpStream,
    bytes: usize,
    breaks: u32,
    made: &AtomicU32,
) -> io::Result<()> {
    let (mut buffer, mut passed) = ([0; 4096], 0);
    loop {
        let many = from.read(&mut buffer)?;
        passed += many;
        let is_broken = passed > bytes
            && made
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |made| (made < breaks).then_some(made + 1))
                .is_ok();
        if many == 0 || is_broken {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return Ok(());
        }
        to.write_all(&buffer[..many])?;
    }
}

async fn two(reconnect: Duration, breaks: u32) -> ([Process; 2], Arc<AtomicU32>) {
    let port = common::free_port();
    let mut configs = common::configs("broken", 2, "tcp", &format!("127.0.0.1:{port}"));
    let (through, made) = proxy(port, 300_000, breaks);
    configs[1].connect = vec![format!("tcp/127.0.0.1:{through}")];
    for config in &mut configs {
        config.reconnect = reconnect;
        // Nobody finds a way around the proxy.
        config.zenoh.insert_json5("scouting/gossip/enabled", "false").unwrap();
    }
    let engines = common::start_all(configs).await.unwrap();
    (<[Zenoh; 2]>::try_from(engines).unwrap().map(Process::start), made)
}

/// A process that may come back does so, and nothing is lost, doubled, or out of order.
#[chanter::test]
async fn a_connection_that_breaks_costs_nothing_but_time() {
    const COUNT: u64 = 2_000;
    let ([first, second], made) = two(Duration::from_secs(120), 3).await;
    let (from, to) = (first.inbox().unwrap(), second.open("to").unwrap());
    let name = first.lookup("to@1").await.unwrap();
    let sending = spawn(async move {
        for number in 0..COUNT {
            from.send(name, 1, &vec![u64::MAX - number; 100]).await.unwrap();
        }
        from
    });
    for number in 0..COUNT {
        assert_eq!(to.recv::<Vec<u64>>(ANYONE, 1).await.unwrap().value, vec![u64::MAX - number; 100]);
    }
    assert_eq!(made.load(Ordering::SeqCst), 3, "it was broken");
    drop(sending.join().await.unwrap());
    assert_eq!((first.down(1), second.down(0)), (None, None));
    first.leave().await;
    second.leave().await;
}

/// A process without time to come back is dead, for both.
#[chanter::test]
async fn without_that_time_it_is_the_end() {
    let ([first, second], _) = two(Duration::ZERO, 1).await;
    let (from, to) = (first.inbox().unwrap(), second.open("to").unwrap());
    let name = first.lookup("to@1").await.unwrap();
    let sending = spawn(async move {
        while from.send(name, 1, &vec![7_u64; 100]).await.is_ok() {}
        from.returned(1).await.why
    });
    let mut came = 0;
    while second.down(0).is_none() {
        came += u32::from(to.recv::<Vec<u64>>(ANYONE, 1).timeout(Duration::from_millis(20)).await.is_some());
    }
    assert!(came > 0);
    assert_eq!(sending.join().await.unwrap(), Why::Died);
    assert_eq!((first.down(1), second.down(0)), (Some(Why::Died), Some(Why::Died)));
}
