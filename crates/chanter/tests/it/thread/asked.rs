//! Threads that are asked without their own handles: handles without a type, threads of the machine's list, and the thread
//! itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use chanter::policy::{Attributes, Policy, Ready, ReadyQueue, Reason};
use chanter::prelude::*;
use chanter::sync::Mutex;
use chanter::thread::{Activity, AnyThread, Progress, this};

use crate::common::{alone, machine, until};

fn keeping(vps: usize) -> Machine {
    let quantum = (vps > 1).then_some(Duration::from_millis(10));
    Machine::builder().vps(vps).hand_off_after(quantum).genealogy(true).build().unwrap()
}

async fn forever() {
    never::<()>().await;
}

/// Spawns a tree of threads that block, as hosts and as parasites; `count` is told of each.
fn branch(depth: u32, width: u32, count: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        count.fetch_add(1, SeqCst);
        for n in 0..if depth == 0 { 0 } else { width } {
            let below = branch(depth - 1, width, Arc::clone(&count));
            if n % 3 == 0 { spawn_parasite(below) } else { drop(spawn(below)) }
        }
        forever().await;
    })
}

#[test]
fn a_subtree_of_ten_thousand_threads_is_found_and_cancelled() {
    let (depth, width, all) = if cfg!(miri) { (2, 3, 13) } else { (4, 10, 11_111) };
    for vps in [1, 2] {
        let machine = keeping(vps);
        let count = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&count);
        let root = machine.spawn(branch(depth, width, told));
        let bystander = machine.spawn(forever());
        let counted = Arc::clone(&count);
        let found = machine.block_on(async move {
            until("all are there", || counted.load(SeqCst) == all).await;
            let handle = Machine::current().unwrap();
            let listed = handle.threads().unwrap();
            assert!(listed.living() >= all + 2);
            // The list names the root; its handle finds the others.
            let id = listed.iter().find_map(|(_, kin)| (kin.id() == root.id()).then(|| kin.id())).unwrap();
            let family = handle.thread(id.unwrap()).unwrap().family();
            assert_eq!(family.len(), all);
            let answers: Vec<_> = family.iter().map(AnyThread::cancel).collect();
            for answer in answers {
                answer.await.unwrap();
            }
            assert!(family.iter().all(|thread| thread.progress() == Progress::Determined));
            assert!(root.await.unwrap_err().is_cancelled());
            family.len()
        });
        assert_eq!(found, all);
        assert!(!bystander.is_determined());
        machine.block_on(until("only the bystander lives", || machine.threads().unwrap().living() == 2));
    }
}

#[test]
fn a_thread_asks_itself() {
    alone(async {
        let (tx, rx) = mailbox();
        let thread = spawn(async move {
            let me = this().unwrap();
            assert_eq!(me.activity(), Activity::Running);
            tx.send(me.clone()).await.unwrap();
            drop(me.suspend());
            yield_now().await;
            drop(me.cancel());
            forever().await;
        });
        let other = rx.recv().await.unwrap();
        assert!(other == thread.any());
        until("it stands still", || other.activity() == Activity::Suspended).await;
        assert!(other.resume());
        assert!(thread.await.unwrap_err().is_cancelled());
        assert!(other.cancel().await.unwrap_err().is_determined());
        other.wait().unwrap().await;
        assert!(this().is_some());
    });
    assert!(this().is_none());
}

/// A parasite has no handle of its own. It is asked while it runs in place, and after it has blocked.
#[test]
fn parasites_are_asked() {
    for observed in [false, true] {
        let machine = if observed { keeping(1) } else { machine(1) };
        machine.block_on(async {
            let dropped = Arc::new(());
            for blocks in [false, true] {
                let kept = Arc::new(Mutex::new(None));
                let (place, inside) = (Arc::clone(&kept), Arc::clone(&dropped));
                spawn_parasite(async move {
                    let _inside = inside;
                    *place.lock().await = this();
                    if blocks {
                        forever().await;
                    }
                });
                let parasite: AnyThread = kept.lock().await.take().unwrap();
                assert!(parasite.wait().is_none() && !parasite.set_attributes(Attributes::new()));
                assert_eq!(parasite.is_determined(), !blocks);
                assert_eq!(parasite.cancel().await.is_ok(), blocks);
                assert!(parasite.is_determined());
            }
            assert_eq!(Arc::strong_count(&dropped), 1);
        });
    }
}

#[test]
fn a_handle_from_the_list_counts_and_names() {
    let machine = keeping(1);
    machine.block_on(async {
        let handle = Machine::current().unwrap();
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let lazy = delay(async move { drop(inside) });
        let found = handle.thread(lazy.id().unwrap()).unwrap();
        assert!(found.name().is_none() && found.kin().name().is_none());
        assert!(found.set_name("lazy"));
        assert_eq!(found.kin().name(), Some("lazy"));
        assert_eq!(found.name().as_deref(), Some("lazy"));
        assert_eq!(format!("{found:?}"), r#"AnyThread { name: "lazy", progress: Delayed, .. }"#);
        assert!(handle.threads().unwrap().to_string().contains("'lazy'"));
        // It keeps the delayed thread, as a handle does.
        drop(lazy);
        assert_eq!(Arc::strong_count(&held), 2);
        drop(found);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(handle.thread(9_999).is_none());
        // The error of a renamed thread has its last name.
        let thread = spawn(forever());
        assert!(thread.any().set_name("renamed"));
        thread.cancel().await.unwrap();
        assert_eq!(thread.await.unwrap_err().name(), Some("renamed"));
    });
    assert!(!alone(async { spawn(async {}).any().set_name("nobody keeps it") }));
}

#[derive(Default)]
struct Urgent(std::sync::Mutex<ReadyQueue>);

impl Policy for Urgent {
    fn enqueue(&self, thread: Ready, _: Reason) -> Option<Ready> {
        let mut queue = self.0.lock().unwrap();
        if thread.attributes().priority > 0 {
            queue.push_front(thread)
        } else {
            queue.push_back(thread)
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        self.0.lock().unwrap().pop_front()
    }
}

#[test]
fn attributes_are_changed_by_others() {
    let machine = Machine::builder()
        .vps(1)
        .hand_off_after(None)
        .policy(|_| Box::new(Urgent::default()))
        .build()
        .unwrap();
    let order = machine.block_on(async {
        let (tx, rx) = mailbox();
        let threads = [0, 1, 2].map(|n| {
            let tx = tx.clone();
            let builder = Thread::builder().attributes(Attributes::new());
            builder.spawn(async move {
                yield_now().await;
                tx.send(n).await.unwrap();
            })
        });
        let last = threads[2].any();
        assert_eq!(last.attributes(), Some(Attributes::new()));
        assert!(last.set_attributes(Attributes::new().priority(1)));
        assert!(!spawn(async {}).any().set_attributes(Attributes::new()));
        [rx.recv().await, rx.recv().await, rx.recv().await]
    });
    assert_eq!(order, [Ok(2), Ok(0), Ok(1)]);
}
