//! `select!`: its arms, patterns and orders, and that it loses nothing.

use crate::common;

use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use common::{Ledger, machine, millis, poll, watchdog};

#[test]
fn arms_of_different_types() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel::<String>();
        let (out, _keep) = channel::<u64>();
        let thread = spawn(async move { tx.send("text".to_owned()).await });
        let got = select! {
            message = rx.recv() => message.unwrap().len(),
            sent = out.send(7) => panic!("nobody receives: {sent:?}"),
            _ = after(Duration::from_secs(3600)) => 0,
        };
        assert_eq!(got, 4);
        let joined = select! {
            joined = thread.join() => joined.unwrap().is_ok(),
        };
        assert!(joined);
    });
}

#[test]
fn bodies_belong_to_the_caller() {
    watchdog!();
    async fn work(rx: Receiver<u32>) -> Result<u32, Closed> {
        let mut sum = 0;
        loop {
            select! {
                message = rx.recv() => {
                    let number = message?;
                    if number == 0 {
                        continue;
                    }
                    yield_now().await;
                    sum += number;
                    if sum > 100 {
                        return Ok(sum);
                    }
                }
                _ = after(Duration::from_secs(3600)) => break,
            }
        }
        Ok(0)
    }
    machine(1).block_on(async {
        let (tx, rx) = mailbox();
        for number in [1, 0, 60, 0, 60] {
            tx.try_send(number).unwrap();
        }
        assert_eq!(work(rx.clone()).await, Ok(121));
        drop(tx);
        assert_eq!(work(rx).await, Err(Closed), "`?` leaves the function");
    });
}

#[test]
fn biased_is_in_order_and_otherwise_fair() {
    watchdog!();
    let mut counts = [0; 3];
    for _ in 0..3000 {
        let first = select! { biased; blocking;
            n = always(0) => n,
            n = always(1) => n,
        };
        assert_eq!(first, 0);
        let any: usize = select! { blocking; biased;
            n = never() => n,
            n = choose((never(), always(1))) => n,
            n = always(2) => n
        };
        assert_eq!(any, 1);
        counts[select! { blocking; n = always(0) => n, n = always(1) => n, n = always(2) => n }] += 1;
    }
    assert!(counts.iter().all(|count| (700..1300).contains(count)), "{counts:?}");
}

#[test]
fn default_when_nothing_is_ready() {
    watchdog!();
    let (tx, rx) = mailbox();
    let ask = || {
        select! {
            message = rx.recv() => message.unwrap(),
            default => 0,
        }
    };
    assert_eq!(ask(), 0);
    tx.try_send(7).unwrap();
    assert_eq!((ask(), ask()), (7, 0));
    let begun = std::time::Instant::now();
    let late = select! { blocking;
        message = rx.recv() => message.unwrap(),
        default(millis(20)) => { 9 }
    };
    assert_eq!(late, 9);
    assert!(begun.elapsed() >= millis(20));
    machine(1).block_on(
        async {
            let late = select! {
            _ = never::<()>() => 0,
            default(Duration::MAX) => 1,
            };
            assert_eq!(late, 0, "unreachable: cut short below");
        }
        .or_after(millis(20)),
    );
}

trait OrAfter: Future<Output = ()> + Sized {
    async fn or_after(self, time: Duration) {
        select! {
            () = from_cancel_safe(self) => (),
            () = after(time) => (),
        }
    }
}

impl<F: Future<Output = ()>> OrAfter for F {}

#[test]
fn refutable_patterns_say_what_else() {
    watchdog!();
    let (tx, rx) = mailbox::<u32>();
    let ask = || {
        select! { blocking;
            Ok(n @ 0..10) = rx.recv() => format!("small {n}"),
                else Ok(n) => format!("large {n}"),
                else Err(Closed) => { "closed".to_owned() }
            _ = after(Duration::from_secs(3600)) => "late".to_owned(),
        }
    };
    tx.try_send(5).unwrap();
    tx.try_send(50).unwrap();
    drop(tx);
    assert_eq!([ask(), ask(), ask()], ["small 5", "large 50", "closed"]);

    let other = |event: BoxEvent<'static, Option<u32>>| {
        select! { blocking;
            Some(n) = event => n,
            Some(n) = never::<Option<u32>>() => n,
            else => 99,
        }
    };
    assert_eq!((other(always(Some(1)).boxed()), other(always(None).boxed())), (1, 99));
    let all = |event: BoxEvent<'static, Option<u32>>| {
        select! {
            Some(n) = event => n,
            else => 99,
            default => 100
        }
    };
    assert_eq!([all(always(Some(1)).boxed()), all(always(None).boxed()), all(never().boxed())], [1, 99, 100]);
}

#[test]
fn a_condition_switches_an_arm_off() {
    watchdog!();
    for on in [false, true] {
        let mut made = false;
        let got = select! { biased; blocking;
            n = { made = true; always(1) }, if on => n,
            n = always(2), if true => n,
            n = always(3) => n,
        };
        assert_eq!((got, made), (if on { 1 } else { 2 }, on));
    }
}

#[test]
fn twelve_arms() {
    watchdog!();
    for at in 0..12 {
        let event = |n: usize| if n == at { always(n).boxed() } else { never().boxed() };
        let got = select! { blocking;
            n = event(0) => n,
            n = event(1) => n,
            n = event(2) => n,
            n = event(3) => n,
            n = event(4) => n,
            n = event(5) => n,
            n = event(6) => n,
            n = event(7) => n,
            n = event(8) => n,
            n = event(9) => n,
            n = event(10) => n,
            n = event(11) => n,
        };
        assert_eq!(got, at);
    }
}

/// Law: the match over the wrapped choice.
#[test]
fn it_is_a_choice_of_wrapped_events() {
    watchdog!();
    enum Arm {
        A(u32),
        B(&'static str),
    }
    for ready in 0..2 {
        let a = || if ready == 0 { always(5).boxed() } else { never().boxed() };
        let b = || if ready == 1 { always("five").boxed() } else { never().boxed() };
        let plain = match choose((a().wrap(Arm::A), b().wrap(Arm::B))).sync_blocking() {
            Arm::A(n) => n as usize,
            Arm::B(text) => text.len(),
        };
        let macroed = select! { blocking;
            n = a() => n as usize,
            text = b() => text.len(),
        };
        assert_eq!(plain, macroed);
    }
}

#[test]
fn what_is_captured_may_be_borrowed_and_moved() {
    watchdog!();
    let text = String::from("moved by the one body that runs");
    let mut log = Vec::new();
    let kept = select! { blocking;
        () = always(()) => { log.push(1); text }
        () = never() => { log.push(2); text }
    };
    assert_eq!((kept.len(), log), (31, vec![1]));
}

/// Dropped at each of its awaits, it loses no message.
#[test]
fn dropping_it_loses_nothing() {
    watchdog!();
    for polls in 0..4 {
        for sent_while_waiting in [false, true] {
            let ledger = Ledger::new();
            let (tx, rx) = mailbox();
            let (tx2, rx2) = mailbox();
            if !sent_while_waiting {
                tx.try_send(ledger.payload(0)).unwrap();
            }
            let mut taken = 0;
            {
                let taken = &mut taken;
                let (rx, rx2) = (rx.clone(), rx2.clone());
                let mut future: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                    loop {
                        select! {
                            message = rx.recv() => { drop(message.unwrap()); *taken += 1; yield_now().await; }
                            message = rx2.recv() => { drop(message.unwrap()); *taken += 1; yield_now().await; }
                        }
                    }
                });
                for n in 0..polls {
                    let _ = poll(&mut future);
                    if sent_while_waiting && n == 1 {
                        tx.try_send(ledger.payload(1)).unwrap();
                        tx2.try_send(ledger.payload(2)).unwrap();
                    }
                }
            }
            let mut left = 0;
            while rx.try_recv().is_ok() || rx2.try_recv().is_ok() {
                left += 1;
            }
            let sent = if sent_while_waiting { if polls > 1 { 2 } else { 0 } } else { 1 };
            assert_eq!(taken + left, sent, "polls {polls}, late {sent_while_waiting}");
            drop((tx, tx2, rx, rx2));
            ledger.check();
        }
    }
}
