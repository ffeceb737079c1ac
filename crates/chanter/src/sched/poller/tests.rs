use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{Events, Poller};

const LONG: Duration = Duration::from_secs(240);

fn keys(poller: &Poller, timeout: Duration) -> Vec<(usize, bool, bool)> {
    let mut events = Events::new();
    let until = Instant::now().checked_add(timeout);
    let left = || until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
    // A signal interrupts a wait; a debugger does, too.
    while let Err(error) = poller.wait(&mut events, Some(left())) {
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "it can wait");
    }
    events.iter().map(|h| (h.key, h.readable, h.outlasts_short_read)).collect()
}

/// Catches a notifier that has to be armed again, and one whose count is read too late.
#[test]
fn each_notification_ends_one_wait() {
    let poller = Poller::new().expect("a poller");
    for _ in 0..3 {
        poller.notify();
        poller.notify();
        let began = Instant::now();
        assert!(keys(&poller, LONG).is_empty());
        assert!(began.elapsed() < LONG, "the notification came before the wait, and was lost");
        // Nothing is left of the two.
        let began = Instant::now();
        assert!(keys(&poller, Duration::from_millis(20)).is_empty());
        assert!(began.elapsed() >= Duration::from_millis(20), "one notification ended two waits");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            poller.notify();
        });
        let began = Instant::now();
        assert!(keys(&poller, LONG).is_empty());
        assert!(began.elapsed() < LONG);
    });
}

/// Catches timeouts that are rounded down, and those in the wrong unit.
#[test]
fn timeouts_are_neither_early_nor_in_the_wrong_unit() {
    let poller = Poller::new().expect("a poller");
    for micros in [0, 1, 300, 1_500, 30_000] {
        let timeout = Duration::from_micros(micros);
        // One that is late by chance is not late again and again.
        let is_soon = (0..20).any(|_| {
            let began = Instant::now();
            assert!(keys(&poller, timeout).is_empty());
            let took = began.elapsed();
            assert!(took >= timeout, "{timeout:?}: {took:?}");
            took < timeout + Duration::from_secs(5)
        });
        assert!(is_soon, "{timeout:?}: always late");
    }
    // The longest there is: it waits, and can be ended.
    poller.notify();
    assert!(keys(&poller, Duration::MAX).is_empty());
}

/// Catches a poller that is not edge-triggered, and one that does not tell of the end.
#[test]
#[cfg_attr(miri, ignore = "nothing is watched")]
fn edges_come_once_and_the_end_is_told() {
    let poller = Poller::new().expect("a poller");
    let (mut left, right) = UnixStream::pair().expect("a pair");
    right.set_nonblocking(true).expect("it can be set");
    // SAFETY: deleted below.
    unsafe { poller.add(right.as_fd(), 7).expect("it can be watched") };
    assert!(keys(&poller, LONG).iter().all(|&(key, readable, _)| key == 7 && !readable), "writable at once");
    left.write_all(b"x").expect("it can be written");
    let told = keys(&poller, LONG);
    assert!(told.iter().any(|&(key, readable, _)| key == 7 && readable), "{told:?}");
    assert!(keys(&poller, Duration::from_millis(10)).is_empty(), "the edge came twice");
    left.write_all(b"y").expect("it can be written");
    assert_eq!(keys(&poller, LONG).len(), 1, "a new edge");
    left.shutdown(std::net::Shutdown::Write).expect("it can be shut");
    assert_eq!(keys(&poller, LONG), [(7, true, true)]);
    poller.delete(right.as_fd());
    drop(left);
    assert!(keys(&poller, Duration::from_millis(10)).is_empty());
}
