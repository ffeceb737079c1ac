//! Guarantee 2: wait queues hold live offers only. Resident memory stays flat over
//! many lost choices of every base event of `guarantees/`, in every combinator that
//! can lose. `chanter-bench micro lost-choice` does it 10^8 times.
//!
//! One test, in a process of its own, because it looks at the resident memory of
//! the process.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

#[allow(dead_code, reason = "shared with `it/guarantees/mod.rs`")]
#[path = "it/guarantees/channels.rs"]
mod channels;
#[allow(dead_code, reason = "shared with `it/guarantees/mod.rs`")]
#[path = "it/guarantees/kit.rs"]
mod kit;
#[allow(dead_code, reason = "shared with `it/guarantees/mod.rs`")]
#[path = "it/guarantees/others.rs"]
mod others;
#[allow(dead_code, reason = "shared with `it/guarantees/mod.rs`")]
#[path = "it/guarantees/shapes.rs"]
mod shapes;

use std::task::Poll;

use chanter::prelude::*;
use common::memory::resident;
use common::{machine, poll, watchdog};
use kit::{Kit, Row};
use shapes::{SHAPES, Witness, shape};

/// For each base event.
const CHOICES: usize = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
/// A few bytes for each would be seen.
const FLAT: usize = 512 * 1024;

async fn lose<E>(name: &str, make: impl Fn(&Kit) -> Row<E>, inside: bool)
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    let kit = Kit::uncounted();
    let mut row = make(&kit);
    let mut before = 0;
    let mut lost = 0;
    let losing: Vec<_> = SHAPES.into_iter().filter(|shape| !shape.starts_with("panic")).collect();
    for n in 0..CHOICES + CHOICES / 10 {
        let shaped = losing[n % losing.len()];
        let (beat, rival) = mailbox();
        let mut case = shape(shaped, &mut *row.event, rival, &Witness::new());
        if inside {
            // The yield gives a new budget, and lets aborted threads run.
            yield_now().await;
        }
        let first = poll(&mut case.wait);
        assert!(first.is_pending() || case.eager, "{name}, {shaped}: committed");
        // Half of them are dropped while they wait.
        if case.has_rival && n % 3 != 0 {
            beat.try_send(()).unwrap();
            assert!(matches!(poll(&mut case.wait), Poll::Ready(None)), "{name}, {shaped}: not lost");
            lost += 1;
        }
        if n == CHOICES / 10 {
            before = resident();
        }
    }
    assert!(lost > CHOICES / 4 && before > 0);
    let grown = resident().saturating_sub(before);
    assert!(grown < FLAT, "{name}: {CHOICES} lost choices left {grown} bytes");
}

macro_rules! each {
    ($($room:ident :: $row:ident $($inside:ident)?),* $(,)?) => {
        $(each!(@run $room $row $($inside)?);)*
    };
    (@run $room:ident $row:ident) => {
        futures::executor::block_on(lose(stringify!($row), $room::$row, false));
    };
    (@run $room:ident $row:ident inside) => {
        machine(1).block_on_local(lose(stringify!($row), $room::$row, true));
    };
}

#[test]
fn lost_choices_leave_memory_flat() {
    watchdog!(240);
    each! {
        channels::recv_rendezvous,
        channels::recv_rendezvous inside,
        channels::recv_bounded,
        channels::recv_mailbox,
        channels::send_rendezvous,
        channels::send_rendezvous inside,
        channels::send_bounded,
        channels::ivar,
        channels::cvar,
        channels::mvar_take,
        channels::mvar_read,
        channels::mvar_put,
        channels::mvar_swap,
        channels::swap_ends,
        channels::multicast_port,
        channels::broadcast_subscriber,
        channels::watcher,
        channels::call,
        channels::accept,
        others::mutex,
        others::rwlock_read,
        others::rwlock_write,
        others::semaphore,
        others::condvar,
        others::timer,
        others::timer inside,
        others::nack,
        others::future_in_place,
        others::join inside,
        others::readable inside,
        others::accept_socket inside,
        others::future_on_host inside,
        others::gathered inside,
        channels::swap_channel,
        channels::barrier,
    }
}
