//! Objects, as a program uses them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::prelude::*;
use chanter_objects::prelude::*;

/// Runs `body` on one virtual processor and on two.
fn run(body: impl AsyncFn()) {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(body());
    }
}

/// Counts itself while it lives.
struct Count {
    value: u64,
    inside: AtomicUsize,
    alive: Arc<AtomicUsize>,
}

impl Drop for Count {
    fn drop(&mut self) {
        assert_eq!(self.inside.load(Ordering::SeqCst), 0, "somebody was inside");
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn count(alive: &Arc<AtomicUsize>) -> Owner<Count> {
    alive.fetch_add(1, Ordering::SeqCst);
    Owner::new(Count { value: 0, inside: AtomicUsize::new(0), alive: Arc::clone(alive) })
}

#[object]
impl Count {
    #[method(read)]
    fn get(&self) -> u64 {
        self.value
    }

    #[method(mut)]
    fn add(&mut self, more: u64) -> u64 {
        self.value += more;
        self.value
    }

    /// Alone, all the time.
    #[method(mut)]
    async fn add_slowly(&mut self, yields: u32) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0);
        let _inside = Inside(&self.inside, 1);
        let before = self.value;
        for _ in 0..yields {
            yield_now().await;
        }
        self.value = before + 1;
    }

    /// Beside others that read.
    #[method(read)]
    async fn meet(&self, all: Arc<Barrier>) {
        self.inside.fetch_add(1 << 16, Ordering::SeqCst);
        let _inside = Inside(&self.inside, 1 << 16);
        all.wait().await;
    }

    #[method(mut)]
    async fn wait_for(&mut self, event: CVar) {
        event.wait().await;
    }

    #[method(mut)]
    fn panic(&mut self) {
        panic!("on purpose");
    }

    #[method(read)]
    fn panic_reading(&self) {
        panic!("on purpose");
    }
}

struct Inside<'a>(&'a AtomicUsize, usize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::SeqCst);
    }
}

#[test]
fn methods_answer_and_change() {
    run(async || {
        let alive = Arc::default();
        let owner = count(&alive);
        let by = owner.by_ref();
        assert_eq!(by.add(3).await, Ok(3));
        assert_eq!(by.get().await, Ok(3));
        by.add_slowly(2).await.unwrap();
        assert_eq!(by.get().await, Ok(4));
    });
}

#[test]
fn who_changes_is_alone_and_nothing_is_lost() {
    run(async || {
        let alive = Arc::default();
        let owner = count(&alive);
        let by = owner.by_ref();
        let threads: Vec<_> = (0..20)
            .map(|thread| {
                spawn(async move {
                    for round in 0..50 {
                        match (thread + round) % 3 {
                            0 => by.add_slowly(round % 4).await.unwrap(),
                            1 => drop(by.add(1).await.unwrap()),
                            _ => drop(by.get().await.unwrap()),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().await.unwrap();
        }
        let changes = (0..20)
            .flat_map(|thread| (0..50).map(move |round| (thread + round) % 3))
            .filter(|kind| *kind < 2);
        assert_eq!(by.get().await, Ok(changes.count() as u64));
    });
}

#[test]
fn who_reads_is_beside_others() {
    run(async || {
        let alive = Arc::default();
        let owner = count(&alive);
        let (by, all) = (owner.by_ref(), Arc::new(Barrier::new(5)));
        let threads: Vec<_> = (0..5).map(|_| spawn(by.meet(Arc::clone(&all)))).collect();
        for thread in threads {
            thread.join().await.unwrap().unwrap();
        }
    });
}

#[test]
fn the_last_inside_drops_an_object_without_an_owner() {
    run(async || {
        let alive: Arc<AtomicUsize> = Arc::default();
        let owner = count(&alive);
        let (by, go) = (owner.by_ref(), CVar::new());
        let first = spawn(by.wait_for(go.clone()));
        yield_now().await;
        let second = spawn(by.add(1));
        yield_now().await;
        drop(owner);
        assert_eq!(by.get().await, Err(Gone::Dropped));
        assert_eq!(alive.load(Ordering::SeqCst), 1, "somebody is inside");
        go.set();
        assert_eq!(first.join().await.unwrap(), Ok(()));
        let second = second.join().await.unwrap();
        assert!(
            matches!(second, Err(Gone::Dropped)),
            "{second:?}: the first one was inside until the owner had gone"
        );
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert!(!by.is_alive());
        let other = count(&alive);
        assert_ne!(other.by_ref(), by, "a name is not used again");
        assert_eq!(by.get().await, Err(Gone::Dropped));
    });
}

#[test]
fn who_gives_up_in_line_or_inside_hinders_nobody() {
    run(async || {
        let alive: Arc<AtomicUsize> = Arc::default();
        let owner = count(&alive);
        let (by, go) = (owner.by_ref(), CVar::new());
        for _ in 0..20 {
            let inside = spawn(by.wait_for(go.clone()));
            let in_line: Vec<_> = (0..4).map(|_| spawn(by.add(1))).collect();
            let reads = spawn(by.get());
            yield_now().await;
            for thread in in_line {
                let _ = thread.cancel().await;
            }
            inside.cancel().await.unwrap();
            reads.join().await.unwrap().unwrap();
            by.add(0).await.unwrap();
        }
        drop(owner);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_panic_is_its_callers_and_poisons_what_it_changes() {
    run(async || {
        let alive: Arc<AtomicUsize> = Arc::default();
        let owner = count(&alive);
        let by = owner.by_ref();
        assert!(spawn(by.panic_reading()).join().await.is_err());
        assert_eq!(by.add(1).await, Ok(1), "reading leaves it whole");
        assert!(spawn(by.panic()).join().await.is_err());
        assert_eq!(by.add(1).await, Err(Gone::Poisoned));
        assert_eq!(by.get().await, Err(Gone::Poisoned));
        drop(owner);
        assert_eq!((by.get().await, alive.load(Ordering::SeqCst)), (Err(Gone::Dropped), 0));
    });
}

#[test]
fn references_travel_and_are_checked() {
    run(async || {
        let alive: Arc<AtomicUsize> = Arc::default();
        let owner = count(&alive);
        let bytes = postcard::to_allocvec(&owner.by_ref()).unwrap();
        let by: Ref<Count> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(by.add(1).await, Ok(1));
        let as_other: Ref<Tree> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(as_other.sum().await, Err(Gone::Dropped), "it is no tree");
        let nothing: Ref<Count> =
            postcard::from_bytes(&postcard::to_allocvec(&(0_u32, u32::MAX, 7_u32)).unwrap()).unwrap();
        assert_eq!(nothing.get().await, Err(Gone::Dropped));
        assert_eq!(size_of::<Ref<Count>>(), 12);
    });
}

/// A tree that is asked for the number at the end of a path.
struct Tree {
    number: u64,
    children: Vec<Ref<Tree>>,
}

#[object]
impl Tree {
    #[method(free)]
    async fn find(&self, path: Vec<usize>, lazy: Lazy<'_, u64>) {
        match path.split_first() {
            None => lazy.fill(self.number),
            Some((first, rest)) => {
                // The answer goes to the first caller, and not through here.
                if let Some(child) = self.children.get(*first) {
                    Box::pin(child.find_with(rest.to_vec(), lazy)).await;
                }
            }
        }
    }

    #[method(free)]
    async fn find_later(&self, lazy: Lazy<'_, u64>) {
        let (continuation, number) = (lazy.keep(), self.number);
        spawn(async move {
            yield_now().await;
            continuation.fill(number);
        });
    }

    #[method(free)]
    async fn forget(&self, lazy: Lazy<'_, u64>) {
        let continuation = lazy.keep();
        spawn(async move { drop(continuation) });
    }

    #[method(free)]
    fn sum(&self) -> u64 {
        self.number
    }
}

fn tree(number: u64, children: &[&Owner<Tree>]) -> Owner<Tree> {
    Owner::new(Tree { number, children: children.iter().map(|child| child.by_ref()).collect() })
}

#[test]
fn answers_go_to_the_first_caller() {
    run(async || {
        let leaves = [tree(1, &[]), tree(2, &[])];
        let inner = tree(3, &[&leaves[0], &leaves[1]]);
        let root = tree(4, &[&inner]);
        let by = root.by_ref();
        assert_eq!(by.find(vec![]).await, Ok(4));
        assert_eq!(by.find(vec![0, 1]).await, Ok(2));
        assert_eq!(by.find(vec![0, 5]).await, Err(Gone::Unanswered));
        assert_eq!(by.find_later().await, Ok(4));
        assert_eq!(by.forget().await, Err(Gone::Unanswered));
        drop(leaves);
        assert_eq!(
            by.find(vec![0, 1]).await,
            Err(Gone::Dropped),
            "the object in the middle tells the first caller"
        );
    });
}

#[test]
fn calls_that_overlap() {
    run(async || {
        let alive: Arc<AtomicUsize> = Arc::default();
        let (one, other) = (count(&alive), count(&alive));
        let go = CVar::new();
        let (a, b) = (one.by_ref(), other.by_ref());
        // The first one waits for what the second one does.
        conc! {
            x = a.wait_for(go.clone()),
            y = async { go.set(); b.add(5).await },
            z = b.get(),
        }
        assert_eq!((x, y), (Ok(()), Ok(5)));
        assert_eq!(z, Ok(5));
        let sum = Arc::new(AtomicUsize::new(0));
        conc_for(0..100_usize, |number| {
            let sum = Arc::clone(&sum);
            async move {
                if number % 3 == 0 {
                    yield_now().await;
                }
                a.add(1).await.unwrap();
                sum.fetch_add(number, Ordering::Relaxed);
            }
        })
        .await;
        assert_eq!((sum.load(Ordering::Relaxed), a.get().await), (4950, Ok(100)));
    });
}

#[test]
fn a_conc_for_with_a_panic_panics_when_all_are_done() {
    run(async || {
        let done = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&done);
        let all = spawn(async move {
            conc_for(0..10, |number| {
                let counts = Arc::clone(&counts);
                async move {
                    yield_now().await;
                    assert!(number != 3, "on purpose");
                    counts.fetch_add(1, Ordering::SeqCst);
                }
            })
            .await;
        });
        assert!(all.join().await.is_err());
        assert_eq!(done.load(Ordering::SeqCst), 9);
    });
}

#[test]
fn promises_take_part_in_choices() {
    run(async || {
        let (continuation, promise) = Promise::<u32>::new();
        let (_kept, other) = Promise::<u32>::new();
        spawn(async move { continuation.fill(7) });
        assert_eq!(choose((promise, other)).await, Ok(7));
        let (continuation, promise) = Promise::<u32>::new();
        let promise = promise.try_get().unwrap_err();
        drop(continuation);
        assert_eq!(promise.await, Err(Gone::Unanswered));
    });
}

#[test]
fn counters_wait_for_all() {
    run(async || {
        let counter = Counter::new(3);
        for _ in 0..3 {
            let counter = counter.clone();
            spawn(async move { counter.count() });
        }
        counter.wait().await;
        assert_eq!(counter.left(), 0);
        Counter::new(0).wait().await;
    });
}
