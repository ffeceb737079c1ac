//! A pump brings messages for as long as a machine runs, and lets it sleep.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::base::{Pump, PumpRest};
use chanter::prelude::*;

/// Messages that nobody is told of: they lie there until somebody looks.
#[derive(Default)]
struct Post {
    letters: Mutex<Vec<u32>>,
    readers: Mutex<Vec<Sender<u32>>>,
    /// Whether drivers may sleep for ever: then somebody else must wake a thread.
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
