//! Calls of objects that wait for each other through several processes. Each process reports the circle; a call that only waits for long is
//! not reported.

#![cfg(all(feature = "cluster", not(miri)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;
use chanter_cluster::{Process, local};
use chanter_objects::remote::{enter, on_circle};
use chanter_objects::{Lazy, ObjectError, Owner, Ref, object};

struct Desk {
    next: Option<Ref<Desk>>,
    /// Number of objects whose method is inside.
    inside: Arc<AtomicU32>,
    wanted: u32,
    opens: Receiver<()>,
}

#[object(remote)]
impl Desk {
    #[method(mut)]
    fn set(&mut self, next: Ref<Desk>) {
        self.next = Some(next);
    }

    /// Calls the next one, once all are inside of theirs.
    #[method(mut)]
    async fn ask_next(&mut self) -> Result<u32, ObjectError> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) < self.wanted {
            yield_now().await;
        }
        self.next.expect("there is one").answer().await
    }

    #[method(mut)]
    fn answer(&mut self) -> u32 {
        7
    }

    /// Waits until somebody opens it.
    #[method(mut)]
    async fn wait(&mut self) {
        let _ = self.opens.recv().await;
    }

    /// Lets the next one wait.
    #[method(mut)]
    async fn let_wait(&mut self, k: Lazy<'_, ()>) {
        self.next.expect("there is one").wait().await.unwrap();
        k.fill(());
    }
}

/// Some desks, and the sender that opens them.
fn desks<const N: usize>(wanted: u32) -> ([Owner<Desk>; N], Sender<()>) {
    let (open, opens) = channel();
    let inside = Arc::new(AtomicU32::new(0));
    let desk = |_| Owner::new(Desk { next: None, inside: Arc::clone(&inside), wanted, opens: opens.clone() });
    (std::array::from_fn(desk), open)
}

/// As the processes `from` and `to` see it after it has been sent.
async fn sent<T: 'static + Send>(object: Ref<T>, from: &Process, to: &Process) -> Ref<T> {
    let bytes = enter(from, async { postcard::to_allocvec(&object).unwrap() }).await;
    enter(to, async { postcard::from_bytes(&bytes).unwrap() }).await
}

/// The reports of a process.
fn told(here: &Process) -> Receiver<String> {
    let (tx, rx) = mailbox();
    on_circle(here, move |circle| tx.try_send(circle.to_string()).unwrap());
    rx
}

/// How a circle is told that goes by those objects; each begins somewhere.
fn is_of(told: &str, names: &[String]) -> bool {
    let steps: Vec<&str> = told.lines().skip(1).collect();
    steps.len() == names.len()
        && names.iter().enumerate().all(|(at, name)| {
            let next = &names[(at + 1) % names.len()];
            let step = format!("  object {name} waits for object {next}: a call of circles::Desk::answer");
            steps.contains(&step.as_str())
        })
}

fn name(of: Ref<Desk>, here: &Process) -> String {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let named = std::pin::pin!(enter(here, async move { format!("{of:?}") }));
    let std::task::Poll::Ready(name) = named.poll(&mut cx) else { unreachable!("it does not block") };
    name.trim_start_matches("Ref(").trim_end_matches(')').to_owned()
}

/// One object in each process, each of which calls the one in the next process.
async fn in_a_circle<const N: usize>() {
    let all: [Process; N] = local(N as u32).try_into().unwrap();
    let tells = all.each_ref().map(told);
    let (owners, _open) = desks::<N>(N as u32);
    let mut calls = Vec::new();
    for at in 0..N {
        let next = (at + 1) % N;
        let seen = sent(owners[next].reference(), &all[next], &all[at]).await;
        enter(&all[at], async { owners[at].reference().set(seen).await }).await.unwrap();
    }
    for at in 0..N {
        let object = owners[at].reference();
        calls.push(spawn(enter(&all[at], async move { object.ask_next().await })));
    }
    let names: Vec<String> = (0..N).map(|at| name(owners[at].reference(), &all[at])).collect();
    for (at, tells) in tells.iter().enumerate() {
        let told = tells.recv().await.unwrap();
        assert!(is_of(&told, &names), "process {at}: {told}\nthe objects are {names:?}");
    }
    // One gives up: the others have their answers, and nobody is told again.
    assert!(calls.remove(0).cancel().await.is_ok());
    for call in calls {
        assert_eq!(call.join().await.unwrap(), Ok(Ok(7)));
    }
    assert!(tells.iter().all(|tells| tells.try_recv().is_err()), "it is told once");
}

#[chanter::test]
async fn two_objects_of_different_processes_call_each_other() {
    in_a_circle::<2>().await;
}

/// Time passes at once there.
#[chanter::test(explore(strategy = "random", schedules = 100))]
async fn a_circle_is_told_of_under_many_schedules() {
    in_a_circle::<2>().await;
}

#[chanter::test]
async fn a_circle_goes_through_three_processes() {
    in_a_circle::<3>().await;
}

/// The object's own process reports it, once the caller has waited for a second.
#[chanter::test]
async fn a_far_object_calls_itself() {
    let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
    let tells = told(&second);
    let ([owner], _open) = desks(1);
    owner.reference().set(owner.reference()).await.unwrap();
    let remote: Ref<Desk> = sent(owner.reference(), &second, &first).await;
    let calls = spawn(enter(&first, async move { remote.ask_next().await }));
    let told = tells.recv().await.unwrap();
    let name = name(owner.reference(), &second);
    assert!(told.ends_with(&format!("\n  object {name} waits for object {name}")), "{told}");
    assert!(told.contains("waits for itself"), "{told}");
    assert!(calls.cancel().await.is_ok());
    assert_eq!(remote.answer().await, Ok(7), "it is free again");
}

/// Calls that wait for long are in no circle: neither several for one object, nor a chain of them.
#[chanter::test]
async fn waiting_for_long_is_no_circle() {
    let [first, second, third] = <[_; 3]>::try_from(local(3)).unwrap();
    let tells = [told(&first), told(&second), told(&third)];
    let ([one, other], open) = desks(1);
    one.reference().set(sent(other.reference(), &third, &second).await).await.unwrap();
    let remote: Ref<Desk> = sent(one.reference(), &second, &first).await;
    let last: Ref<Desk> = sent(other.reference(), &third, &first).await;
    let waits = spawn(enter(&first, async move { remote.let_wait().await }));
    let others =
        [remote, remote, last].map(|object| spawn(enter(&first, async move { object.answer().await })));
    // All have looked around at least twice.
    after(std::time::Duration::from_secs(4)).await;
    assert!(tells.iter().all(|tells| tells.try_recv().is_err()));
    open.send(()).await.unwrap();
    assert_eq!(waits.join().await.unwrap(), Ok(()));
    for other in others {
        assert_eq!(other.join().await.unwrap(), Ok(7));
    }
}
