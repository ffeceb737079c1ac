//! Every process sends to every process, with several threads each, and some messages are long. Each message is accounted for.

use std::collections::HashMap;

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Buffer, Inbox, Process, ThreadName};

const TAG: u32 = 1;
/// One message of so many is long.
const LONG_ONE_IN: u64 = 100;
/// Bytes of a long message, and of a short one.
const LONG: std::ops::Range<u64> = 60_000..300_000;
const SHORT: std::ops::Range<u64> = 16..200;

/// How much is sent.
#[derive(Clone, Copy)]
pub(crate) struct Traffic {
    /// Threads of each process that send.
    pub(crate) senders: u64,
    /// Messages of each of them to each process.
    pub(crate) messages: u64,
}

impl Traffic {
    /// What one process does, until it has received all that is for it.
    pub(crate) async fn run(self, here: Process) {
        let sink = here.open("sink").unwrap();
        let mut sinks = Vec::new();
        for process in 0..here.count() {
            sinks.push(here.lookup(&format!("sink@{process}")).await.unwrap());
        }
        let sending: Vec<_> = (0..self.senders)
            .map(|sender| {
                let (inbox, sinks) = (here.inbox().unwrap(), sinks.clone());
                let seed = u64::from(here.number()) << 32 | sender;
                spawn(async move { self.send(&inbox, &sinks, seed).await })
            })
            .collect();
        let all = self.senders * self.messages * u64::from(here.count());
        let mut next: HashMap<ThreadName, u64> = HashMap::new();
        for _ in 0..all {
            let got = sink.recv_buffer::<u64>(ANYONE, TAG).await.unwrap();
            let next = next.entry(got.from).or_default();
            let (first, last) = (got.value[0], got.value[got.value.len() - 1]);
            assert_eq!((first, last), (*next, *next), "of {}", got.from);
            *next += 1;
        }
        assert_eq!(next.len() as u64, self.senders * u64::from(here.count()));
        assert!(next.values().all(|next| *next == self.messages));
        for sending in sending {
            sending.join().await.unwrap();
        }
        assert!(sink.is_empty());
        assert_eq!(here.dropped(), 0);
    }

    async fn send(self, inbox: &Inbox, sinks: &[ThreadName], seed: u64) {
        let mut random = Random(seed);
        for number in 0..self.messages {
            for sink in sinks {
                let is_long = random.within(&(0..LONG_ONE_IN)) == 0;
                let bytes = random.within(if is_long { &LONG } else { &SHORT });
                let message = Buffer::copied_from(&vec![number; (bytes / 8) as usize]);
                inbox.send_buffer(*sink, TAG, message).await.unwrap();
            }
        }
    }
}

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn within(&mut self, range: &std::ops::Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        range.start + (bits ^ bits >> 31) % (range.end - range.start)
    }
}
