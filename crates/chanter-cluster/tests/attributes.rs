//! `#[service]` and `#[remote]`: functions that other processes know.

use std::sync::atomic::{AtomicU32, Ordering};

use chanter_cluster::{ANYONE, CallError, Caller, Context, Process, SpawnError, local, remote, service};

/// Counts those who ask.
#[service]
async fn count(caller: &Caller, more: u32) -> u32 {
    let counter = caller.here().state::<AtomicU32>().expect("it was provided");
    counter.fetch_add(more, Ordering::SeqCst) + more
}

#[service]
async fn nothing() {}

/// May call itself, elsewhere.
#[service]
async fn around(caller: Caller, hops: u32) -> Vec<u32> {
    let here = caller.here();
    let mut path = match hops {
        0 => Vec::new(),
        _ => here.at((here.number() + 1) % here.count()).call(around(hops - 1)).await.unwrap(),
    };
    path.push(here.number());
    path
}

fn is_first(caller: &Caller) -> bool {
    caller.process() == 0
}

#[service(allow = is_first)]
async fn private() -> u32 {
    7
}

#[remote(allow = is_first)]
async fn secret() -> u32 {
    8
}

#[remote]
async fn area(w: f64, h: f64) -> f64 {
    w * h
}

#[remote]
async fn answer(context: &Context, tag: u32) -> String {
    context.inbox().recv(ANYONE, tag).await.unwrap().value
}

mod inner {
    /// The same name in another module is another one.
    #[chanter_cluster::remote]
    pub(super) async fn area(w: f64, h: f64) -> f64 {
        2.0 * (w + h)
    }
}

#[chanter::test]
async fn functions_are_services_of_every_process() {
    let here = local(3);
    for here in &here {
        here.provide(AtomicU32::new(10 * here.number()));
    }
    for _ in 0..2 {
        here[0].at(1).call(count(1)).await.unwrap();
    }
    assert_eq!(here[2].at(1).call(count(5)).await, Ok(17));
    assert_eq!(here[0].at(2).call(count(0)).await, Ok(20));
    here[0].at(2).post(count(1)).unwrap();
    assert_eq!(here[0].at(2).call(nothing()).await, Ok(()));
    assert_eq!(here[2].state::<AtomicU32>().unwrap().load(Ordering::SeqCst), 21);
    assert_eq!(here[0].at(1).call(around(5)).await, Ok(vec![0, 2, 1, 0, 2, 1]));
    assert_eq!(here[0].at(1).call(private()).await, Ok(7));
    let refused = here[2].at(1).call(private()).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "{refused:?}");
    // Who expects a state that there is not fails alone.
    let other = <[Process; 2]>::try_from(local(2)).unwrap();
    let failed = other[0].at(1).call(count(1)).await;
    assert_eq!(failed, Err(CallError::Panicked("it was provided".into())));
}

#[chanter::test]
async fn functions_are_threads_of_every_process() {
    let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
    let thread = first.at(1).spawn(area(3.0, 4.0)).await.unwrap();
    assert_eq!(thread.await, Ok(12.0));
    let thread = first.at(1).spawn(inner::area(3.0, 4.0).named("inner")).await.unwrap();
    assert_eq!(thread.await, Ok(14.0));
    assert_eq!(first.at(1).spawn(secret()).await.unwrap().await, Ok(8));
    let refused = second.at(1).spawn(secret()).await.unwrap_err();
    assert!(matches!(refused, SpawnError::Refused(name) if name.contains("secret")), "{refused}");
    let thread = second.at(1).spawn(answer(5)).await.unwrap();
    let me = first.inbox().unwrap();
    me.send(thread.name(), 5, "hello").await.unwrap();
    assert_eq!(thread.await.as_deref(), Ok("hello"));
}
