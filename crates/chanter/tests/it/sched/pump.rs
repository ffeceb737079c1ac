//! A pump brings messages for as long as a machine runs, and lets it sleep.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    base::{Pump, PumpRest, wake_first},
    sync::CVar,
};

/// Messages that nobody is told of: they lie there until a driver looks.
#[derive(Default)]
struct Post {
    letters: Mutex<Vec<u32>>,
    readers: Mutex<Vec<Sender<u32>>>,
    /// Whether drivers may sleep for ever: then another OS thread must wake a thread.
    is_notified: AtomicBool,
    pumped: AtomicUsize,
    rests: AtomicUsize,
    rises: AtomicUsize,
}

impl Pump for Post {
    fn has_work(&self) -> bool {
        !self.letters.lock().unwrap().is_empty()
    }

    fn pump(&self) {
        self.pumped.fetch_add(1, Ordering::SeqCst);
        let letters = std::mem::take(&mut *self.letters.lock().unwrap());
        let readers = self.readers.lock().unwrap().clone();
        for (letter, reader) in letters.into_iter().zip(readers.iter().cycle()) {
            reader.try_send(letter).expect("a reader");
        }
    }

    fn rest(&self) -> PumpRest {
        self.rests.fetch_add(1, Ordering::SeqCst);
        if self.has_work() {
            PumpRest::Work
        } else if self.is_notified.load(Ordering::SeqCst) {
            PumpRest::Notified
        } else {
            PumpRest::For(Duration::from_millis(1))
        }
    }

    fn rise(&self) {
        self.rises.fetch_add(1, Ordering::SeqCst);
    }
}

fn machine(vps: usize, workers: usize, post: &Arc<Post>) -> Machine {
    let pump: Arc<dyn Pump> = Arc::clone(post) as _;
    Machine::builder().vps(vps).workers(workers).pump(pump).build().expect("a machine")
}

#[test]
fn a_sleeping_machine_looks_as_often_as_the_pump_says() {
    for (vps, workers) in [(1, 1), (2, 2), (4, 2)] {
        let post = Arc::new(Post::default());
        let machine = machine(vps, workers, &post);
        let (to, letters) = mailbox();
        post.readers.lock().unwrap().push(to);
        let reader = machine.spawn(async move {
            let mut sum = 0;
            for _ in 0..100 {
                sum += letters.recv().await.expect("a letter");
            }
            sum
        });
        for letter in 0..100 {
            post.letters.lock().unwrap().push(letter);
            if letter % 10 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        assert_eq!(reader.join().sync_blocking().expect("a sum"), 4950);
        drop(machine);
        assert!(post.pumped.load(Ordering::SeqCst) > 0);
        assert_eq!(post.rests.load(Ordering::SeqCst), post.rises.load(Ordering::SeqCst));
    }
}

/// `block_on` has driven the only processor, and has ended.
#[test]
fn a_machine_that_no_caller_drives_looks_all_the_same() {
    let post = Arc::new(Post::default());
    let machine = machine(1, 1, &post);
    let (to, letters) = mailbox();
    post.readers.lock().unwrap().push(to);
    for letter in 0..10 {
        machine.block_on(async {});
        post.letters.lock().unwrap().push(letter);
        // This OS thread only sleeps.
        assert_eq!(letters.recv().sync_blocking(), Ok(letter));
    }
}

#[test]
fn threads_that_never_block_do_not_keep_it_waiting() {
    let post = Arc::new(Post::default());
    let machine = machine(1, 1, &post);
    let (to, letters) = mailbox();
    post.readers.lock().unwrap().push(to);
    let sum = machine.block_on(async move {
        let busy = spawn(async {
            loop {
                yield_now().await;
            }
        });
        let (first, second) = (post.clone(), post);
        first.letters.lock().unwrap().push(1);
        let mut sum = letters.recv().await.expect("a letter");
        second.letters.lock().unwrap().push(2);
        sum += letters.recv().await.expect("a letter");
        busy.cancel().await.expect("it runs");
        sum
    });
    assert_eq!(sum, 3);
}

#[test]
fn a_machine_that_is_notified_sleeps() {
    let post = Arc::new(Post::default());
    post.is_notified.store(true, Ordering::SeqCst);
    let machine = machine(2, 2, &post);
    machine.block_on(async { after(Duration::from_millis(50)).await });
    let rests = post.rests.load(Ordering::SeqCst);
    assert!(rests < 100, "{rests} rests in 50 ms: nobody lets it sleep");
}

/// Letters for one reader, looked for between any two turns.
#[derive(Default)]
struct Counter {
    letters: AtomicUsize,
    asked: AtomicUsize,
    reader: Mutex<Option<Sender<()>>>,
}

impl Pump for Counter {
    fn has_work(&self) -> bool {
        self.letters.load(Ordering::SeqCst) > 0
    }

    fn has_work_at_a_turn(&self) -> Option<bool> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Some(self.has_work())
    }

    fn pump(&self) {
        let reader = self.reader.lock().unwrap().clone().expect("a reader");
        for _ in 0..self.letters.swap(0, Ordering::SeqCst) {
            wake_first(|| reader.try_send(()).expect("a reader"));
        }
    }

    fn rest(&self) -> PumpRest {
        if self.has_work() { PumpRest::Work } else { PumpRest::Notified }
    }

    fn rise(&self) {}
}

/// A thread that is not one of the ten.
const OTHER: usize = 10;

fn counting(counter: &Arc<Counter>) -> Machine {
    let pump: Arc<dyn Pump> = Arc::clone(counter) as _;
    Machine::builder().vps(1).workers(1).pump(pump).build().expect("a machine")
}

#[test]
fn a_pump_that_says_so_is_asked_between_any_two_turns() {
    const TURNS: usize = 1000;
    let counter = Arc::new(Counter::default());
    counting(&counter).block_on(async {
        for _ in 0..TURNS {
            yield_now().await;
        }
    });
    let asked = counter.asked.load(Ordering::SeqCst);
    // The first turns pass until it has said so.
    assert!(asked > TURNS - 100, "{asked} of {TURNS}");
}

/// Wakes ten threads. The fifth gives another thread a message in its turn, which would run next, and sends a letter.
/// The reader writes the next letters itself, `all_letters` in all. Returns which thread had each turn; the reader is
/// `None`.
fn turns_of_ten(all_letters: usize) -> Vec<Option<usize>> {
    let counter = Arc::new(Counter::default());
    let turns = Arc::new(Mutex::new(Vec::new()));
    let (to, letters) = mailbox();
    *counter.reader.lock().unwrap() = Some(to);
    counting(&counter).block_on(async {
        let reader = {
            let (turns, counter) = (Arc::clone(&turns), Arc::clone(&counter));
            spawn(async move {
                let mut read = 0;
                while letters.recv().await.is_ok() {
                    turns.lock().unwrap().push(None);
                    read += 1;
                    counter.letters.fetch_add(usize::from(read < all_letters), Ordering::SeqCst);
                }
            })
        };
        let (to_other, given) = mailbox();
        let other = {
            let turns = Arc::clone(&turns);
            spawn(async move {
                while given.recv().await.is_ok() {
                    turns.lock().unwrap().push(Some(OTHER));
                }
            })
        };
        let begin = CVar::new();
        let mut threads = Vec::new();
        for index in 0..10 {
            let (turns, counter, begin, to_other) =
                (Arc::clone(&turns), Arc::clone(&counter), begin.clone(), to_other.clone());
            threads.push(spawn(async move {
                begin.wait().await;
                turns.lock().unwrap().push(Some(index));
                if index == 4 {
                    to_other.try_send(()).expect("the other one");
                    counter.letters.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        drop(to_other);
        for _ in 0..100 {
            yield_now().await;
        }
        begin.set();
        for thread in threads {
            thread.join().await.expect("it ends");
        }
        while turns.lock().unwrap().iter().filter(|turn| turn.is_none()).count() < all_letters {
            yield_now().await;
        }
        *counter.reader.lock().unwrap() = None;
        reader.join().await.expect("it ends");
        other.join().await.expect("it ends");
    });
    let turns = turns.lock().unwrap();
    turns.clone()
}

#[test]
fn who_is_woken_first_goes_before_those_who_were_woken_before() {
    let turns = turns_of_ten(1);
    assert_eq!(turns.len(), 12, "{turns:?}");
    let writer = turns.iter().position(|turn| *turn == Some(4)).expect("it had a turn");
    assert_eq!(turns[writer + 1..][..2], [None, Some(OTHER)], "{turns:?}");
}

#[test]
fn behind_one_that_goes_first_others_have_their_turns() {
    let turns = turns_of_ten(4);
    assert_eq!(turns.len(), 15, "{turns:?}");
    let writer = turns.iter().position(|turn| *turn == Some(4)).expect("it had a turn");
    let firsts: Vec<bool> = turns[writer + 1..][..8].iter().map(Option::is_none).collect();
    assert_eq!(firsts, [true, false, true, false, true, false, true, false], "{turns:?}");
}

/// Each letter is there before anybody has looked elsewhere.
#[test]
fn letters_without_end_do_not_keep_the_clock_waiting() {
    let counter = Arc::new(Counter::default());
    let (to, letters) = mailbox();
    *counter.reader.lock().unwrap() = Some(to);
    counting(&counter).block_on(async {
        let is_over = Arc::new(AtomicBool::new(false));
        let reader = {
            let (counter, is_over) = (Arc::clone(&counter), Arc::clone(&is_over));
            spawn(async move {
                while letters.recv().await.is_ok() && !is_over.load(Ordering::SeqCst) {
                    counter.letters.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        counter.letters.fetch_add(1, Ordering::SeqCst);
        after(Duration::from_millis(5)).await;
        is_over.store(true, Ordering::SeqCst);
        reader.join().await.expect("it ends");
    });
}
