//! A process that says anything: whoever is on the other side drops what makes no sense, and serves the others.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::{Change, Engine, Lane, Local, ProcessId, Sink, Why};
use chanter_cluster::wire::{Body, Control, Header, Kind, Number, Slot};
use chanter_cluster::{Function, Process, RecvError, SendError, Service};

const ADD: Service<(u32, u32), u32> = Service::new("test::add");
const WAIT: Service<(), ()> = Service::new("test::wait");
const AREA: Function<(f64, f64), f64> = Function::new("test::area");

/// A frame with that header.
fn frame(header: Header, bytes: &[u8]) -> Body {
    let mut body = Body::copied_from(bytes);
    body.set_header(&Header { process: 0, length: bytes.len() as u32, ..header });
    body
}

/// Random bytes in all kinds of control messages, to services that there are and that there are not.
#[chanter::test]
async fn random_requests_break_nothing() {
    let [hostile, second, third] = <[_; 3]>::try_from(Local::cluster(3)).unwrap();
    let (second, third) = (Process::start(second), Process::start(third));
    let _serving = second.serve(ADD, |_, (a, b): (u32, u32)| async move { a.wrapping_add(b) }).unwrap();
    let _offering = second.offer(AREA, |_, (w, h)| async move { w * h }).unwrap();
    let names = ["test::add", "test::no", "chanter::spawn", "chanter::order", "chanter::register"];
    let services: Vec<Number> = names
        .into_iter()
        .chain(["chanter::find", "chanter::free", "chanter::held"])
        .map(Number::of)
        .collect();
    let mut random = fastrand::Rng::with_seed(3);
    let mut sent = 0;
    while sent < 20_000 {
        let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        let request = random.u64(..2000);
        let header = match random.u8(..6) {
            0..=2 => {
                let service = services[random.usize(..services.len())];
                Control::Ask { service, request, is_post: random.bool() }.header()
            }
            3 => Header { request, tag: random.u32(..10), ..Header::new(Kind::Answer) },
            4 => Control::Withdraw { request }.header(),
            _ => {
                let to = Slot { index: random.u32(..3), generation: random.u32(..3) };
                let kind = [Kind::Message, Kind::Acknowledge, Kind::Gone, Kind::Found][random.usize(..4)];
                Header { request, to, tag: random.u32(..), ..Header::new(kind) }
            }
        };
        match hostile.try_send(ProcessId(1), Lane::User, frame(header, &bytes)) {
            Ok(()) => sent += 1,
            Err(_) => yield_now().await,
        }
    }
    assert_eq!(third.at(1).call(ADD.ask(&(1, 2))).await, Ok(3));
    assert_eq!(third.at(1).spawn(AREA.with(&(2.0, 3.0))).await.unwrap().await, Ok(6.0));
    assert!(second.dropped() > 0);
}

/// Over its window, where the engine gives nobody up: its process is told, whatever it sends afterwards; and hears nothing more.
#[chanter::test]
async fn who_is_over_its_window_is_told() {
    let [hostile, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap();
    let second = Process::start(second);
    let inbox = second.inbox().unwrap();
    let message = Header { to: inbox.name().thread, ..Header::new(Kind::Message) };
    for _ in 0..=64 {
        hostile.try_send(ProcessId(1), Lane::User, frame(message, &[1])).unwrap();
    }
    // The death is told first, and the frame is counted then.
    while second.down(0).is_none() || second.dropped() == 0 {
        yield_now().await;
    }
    assert_eq!((second.down(0), inbox.len(), second.dropped()), (Some(Why::Unreachable), 64, 1));
    hostile.try_send(ProcessId(1), Lane::User, frame(message, &[1])).unwrap();
    while second.dropped() < 2 {
        yield_now().await;
    }
    let mut heard = Heard::default();
    hostile.poll(9, &mut heard);
    assert_eq!(heard.0, [Kind::GivenUp; 2]);
}

/// What has come to a process that only looks.
#[derive(Default)]
struct Heard(Vec<Kind>);

impl Sink for Heard {
    fn arrived(&mut self, _from: ProcessId, _lane: Lane, frame: Body) {
        self.0.push(Header::decode(frame.frame(), u32::MAX).unwrap().kind);
    }

    fn peer(&mut self, _peer: ProcessId, _change: Change) {}
}

/// Who is given up by another process has lost it: all that it has sent there is unknown, and nobody waits for an answer.
#[chanter::test]
async fn who_hears_that_it_is_given_up_has_lost_that_process() {
    let [other, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap();
    let second = Process::start(second);
    let inbox = second.inbox().unwrap();
    let mut there = inbox.name();
    there.process = ProcessId(0);
    inbox.send(there, 7, &1).await.unwrap();
    other.try_send(ProcessId(1), Lane::Control, frame(Header::new(Kind::GivenUp), &[])).unwrap();
    let lost = RecvError::Lost(ProcessId(0), Why::Unreachable);
    assert_eq!(inbox.recv::<u32>(there, 7).await, Err(lost));
    let returned = inbox.returned(0).await;
    assert_eq!((returned.why, returned.unknown.len()), (Why::Unreachable, 1));
    assert_eq!(inbox.send(there, 7, &1).await, Err(SendError::Lost(ProcessId(0), Why::Unreachable)));
}

/// Who does not count what it asks is over its bound, and costs no more than that.
#[chanter::test]
async fn a_flood_of_requests_is_bounded() {
    let [hostile, second, third] = <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Arc::new);
    let (second, third) = (Process::start(second), Process::start(third));
    let begun = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let begins = Arc::clone(&begun);
    let _waiting = second.serve(WAIT, move |_, ()| {
        begins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { never().await }
    });
    let _adding = second.serve(ADD, |_, (a, b): (u32, u32)| async move { a + b }).unwrap();
    for request in 1..=40_000 {
        let ask = Control::Ask { service: Number::of("test::wait"), request, is_post: false };
        while hostile.try_send(ProcessId(1), Lane::User, frame(ask.header(), &[])).is_err() {
            yield_now().await;
        }
    }
    // It comes behind them.
    while second.dropped() < 40_000 - (1 << 14) {
        yield_now().await;
    }
    assert_eq!(third.at(1).call(ADD.ask(&(1, 2))).await, Ok(3));
    assert_eq!(begun.load(std::sync::atomic::Ordering::SeqCst), 1 << 14);
    hostile.kill();
    while third.down(0).is_none() {
        yield_now().await;
    }
    assert_eq!(third.at(1).call(ADD.ask(&(3, 4))).await, Ok(7));
}
