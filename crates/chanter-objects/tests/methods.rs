//! `#[object]`, and Concert's schemas by it: answers that are returned, filled, forwarded and kept.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use chanter::base::{Pump, PumpRest};
use chanter::prelude::*;
use chanter_objects::{
    Continuation, Counter, Lazy, ObjectError, Owner, Promise, Ref, conc, conc_for, object,
};

/// A leaf of a tree answers itself; another node forwards.
struct Node {
    value: u64,
    child: Option<Ref<Node>>,
    asked: Vec<Continuation<u64>>,
    calls: u32,
}

#[object]
impl Node {
    #[method(read)]
    fn value(&self) -> u64 {
        self.value
    }

    #[method]
    fn set(&mut self, value: u64) -> u64 {
        std::mem::replace(&mut self.value, value)
    }

    #[method(mut)]
    async fn add(&mut self, (from, times): (Ref<Node>, u64)) -> Result<u64, ObjectError> {
        self.calls += 1;
        self.value += from.value().await? * times;
        // A call within the object is a plain one.
        Ok(self.value())
    }

    /// The answer of the last of the line.
    #[method(read)]
    async fn last(&self, add: u64, k: Lazy<'_, u64>) {
        match self.child {
            Some(child) => k.forward_boxed(child.last(add + 1)).await,
            None => k.fill(self.value + add),
        }
    }

    /// As soon as somebody says so.
    #[method(mut)]
    async fn later(&mut self, k: Lazy<'_, u64>) {
        self.asked.push(k.keep());
    }

    #[method(mut)]
    fn say(&mut self) -> usize {
        let value = self.value;
        self.asked.drain(..).map(|k| k.fill(value)).filter(Result::is_ok).count()
    }

    #[method(mut)]
    async fn forget(&mut self, k: Lazy<'_, u64>) {
        self.calls += 1;
        drop(k);
    }

    /// Forwards to one that keeps, and suspends before.
    #[method(read)]
    async fn later_of(&self, other: Ref<Node>, k: Lazy<'_, u64>) {
        yield_now().await;
        k.forward(other.later()).await;
    }
}

fn node(value: u64, child: Option<Ref<Node>>) -> Owner<Node> {
    Owner::new(Node { value, child, asked: Vec::new(), calls: 0 })
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[chanter::test]
async fn methods_are_called_by_their_names() {
    let (c, d) = (node(1, None), node(20, None));
    assert_eq!(c.reference().set(2).await, Ok(1));
    assert_eq!(c.reference().add((d.reference(), 2)).await, Ok(Ok(42)));
    assert_eq!(c.reference().value().now().unwrap(), Ok(42));
    let gone = d.reference();
    drop(d);
    assert_eq!(c.reference().add((gone, 1)).await, Ok(Err(ObjectError::Ended)));
}

#[chanter::test]
async fn an_answer_is_forwarded_to_the_first_caller() {
    let last = node(7, None);
    let mut line = vec![last];
    for _ in 0..10 {
        line.push(node(0, line.last().map(Owner::reference)));
    }
    let first = line.last().unwrap().reference();
    assert_eq!(first.last(100).await, Ok(117));
    // Somebody in the middle is gone: that is the answer.
    line.remove(5);
    assert_eq!(first.last(0).await, Err(ObjectError::Ended));
    // The line is free: nobody holds anything.
    for node in &line {
        assert!(node.reference().set(1).now().is_ok());
    }
}

#[chanter::test]
async fn a_continuation_that_is_kept_is_filled_later() {
    let (a, b) = (node(5, None), node(6, None));
    let (to, middle) = (a.reference(), b.reference());
    let waits = spawn(async move { to.later().await });
    let forwarded = spawn(async move { middle.later_of(to).await });
    while a.reference().with(|node| node.asked.len()).await != Ok(2) {
        yield_now().await;
    }
    // The object is free while its callers wait.
    assert_eq!(to.set(8).await, Ok(5));
    assert_eq!(to.say().await, Ok(2));
    assert_eq!(waits.await.unwrap(), Ok(8));
    assert_eq!(forwarded.await.unwrap(), Ok(8));
    // A caller that has gone does not hear it; and who is never answered is told.
    {
        let mut gives_up = pin!(to.later().into_future());
        assert!(poll_once(gives_up.as_mut()).is_pending());
    }
    assert_eq!(to.say().await, Ok(0));
    let waits = spawn(async move { to.later().await });
    while a.reference().with(|node| node.asked.len()).await != Ok(1) {
        yield_now().await;
    }
    drop(a);
    assert_eq!(waits.await.unwrap(), Err(ObjectError::Unanswered));
}

#[chanter::test]
async fn who_is_not_answered_is_told() {
    let owner = node(5, None);
    assert_eq!(owner.reference().forget().await, Err(ObjectError::Unanswered));
    assert_eq!(owner.reference().with(|node| node.calls).await, Ok(1));
}

/// A call is dropped at each await of a line that suspends: no object is held, no continuation dangles.
#[chanter::test]
async fn forwarded_calls_are_dropped_at_any_await() {
    let (a, b) = (node(5, None), node(6, None));
    for polls in 0..4 {
        let mut call = Box::pin(b.reference().later_of(a.reference()).into_future());
        for _ in 0..polls {
            let _ = poll_once(call.as_mut());
        }
        drop(call);
        assert!(a.reference().set(1).now().is_ok());
        assert!(b.reference().set(1).now().is_ok());
        a.reference().say().await.unwrap();
    }
    let mut line = Box::pin(b.reference().with_mut_async(async |_| never::<()>().await).into_future());
    assert!(poll_once(line.as_mut()).is_pending());
    let mut waits = Box::pin(b.reference().last(0).into_future());
    assert!(poll_once(waits.as_mut()).is_pending());
    drop(waits);
    drop(line);
    assert_eq!(b.reference().last(2).await, Ok(3));
}

#[chanter::test]
async fn conc_makes_all_calls_and_waits_once() {
    let (a, b) = (node(1, None), node(2, None));
    let (a_ref, b_ref) = (a.reference(), b.reference());
    let mut inside = Box::pin(b_ref.with_mut_async(async |_| never::<()>().await).into_future());
    assert!(poll_once(inside.as_mut()).is_pending());
    let both = spawn(async move {
        conc! { x = a_ref.value(), y = b_ref.value(), z = a_ref.last(4), w = a_ref.later() }
        (x, y, z, w)
    });
    while a.reference().with(|node| node.asked.len()).await != Ok(1) {
        yield_now().await;
    }
    drop(inside);
    a_ref.say().await.unwrap();
    assert_eq!(both.await.unwrap(), (Ok(1), Ok(2), Ok(5), Ok(1)));
    // Dropped half-way: what is ready is dropped, what waits leaves.
    let mut inside = Box::pin(b_ref.with_mut_async(async |_| never::<()>().await).into_future());
    assert!(poll_once(inside.as_mut()).is_pending());
    {
        let mut half = pin!(async {
            conc! { x = a_ref.value(), y = b_ref.value() }
            (x, y)
        });
        assert!(poll_once(half.as_mut()).is_pending());
    }
    drop(inside);
    assert_eq!(b_ref.value().now().unwrap(), Ok(2));
}

#[chanter::test]
async fn conc_for_waits_for_all() {
    let sum = node(0, None);
    let to = sum.reference();
    conc_for(0..100_u64, move |i| async move {
        if i % 3 == 0 {
            yield_now().await;
        }
        to.with_mut(|node| node.value += i).await.unwrap();
    })
    .await;
    assert_eq!(to.value().await, Ok(4950));
    conc_for(0..0, |_: i32| async {}).await;
    // One that panics counts as well.
    let ends = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ends);
    conc_for(0..4, move |i| {
        let ends = Arc::clone(&counted);
        async move {
            yield_now().await;
            assert!(i != 2, "expected: one part");
            ends.fetch_add(1, SeqCst);
        }
    })
    .await;
    assert_eq!(ends.load(SeqCst), 3);
}

#[chanter::test]
async fn promises_and_counters_are_events() {
    let (promise, k) = Promise::<u32>::new();
    let parts = Counter::new(2);
    assert_eq!(promise.try_touch(), None);
    let counted = parts.touch();
    let first = spawn(async move {
        let first = choose((promise.touch().wrap(|_| "promise"), counted.wrap(|()| "counter"))).await;
        (first, promise)
    });
    parts.count_down();
    assert_eq!(parts.left(), 1);
    k.fill(3).unwrap();
    let (first, promise) = first.await.unwrap();
    assert_eq!(first, "promise");
    parts.count_down();
    parts.touch().await;
    // Determined once: it was taken.
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
    let (promise, k) = Promise::<u32>::new();
    drop(promise);
    assert_eq!(k.fill(4), Err(4));
    let (promise, k) = Promise::<u32>::new();
    drop(k);
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
}

/// Objects with parameters, and calls by threads that must be `Send`.
struct Stack<T> {
    items: Vec<T>,
}

#[object(name = StackCalls)]
impl<T: Clone + Send + Sync + 'static> Stack<T> {
    #[method(mut)]
    fn push(&mut self, item: T) {
        self.items.push(item);
    }

    #[method(read)]
    async fn first_that(&self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        yield_now().await;
        self.items.iter().find(|item| is_it(item)).cloned()
    }

    #[method(read)]
    fn same<U: PartialEq<T>>(&self, others: &[U]) -> bool {
        others.len() == self.items.len() && others.iter().zip(&self.items).all(|(a, b)| a == b)
    }
}

/// Nobody writes, so all are inside at a time.
struct Shop {
    inside: AtomicU32,
}

#[object]
impl Shop {
    #[method(free)]
    async fn visit(&self, others: u32) -> u32 {
        self.inside.fetch_add(1, SeqCst);
        while self.inside.load(SeqCst) < others {
            yield_now().await;
        }
        self.inside.load(SeqCst)
    }
}

#[chanter::test]
async fn objects_may_be_generic_and_free() {
    let owner = Owner::new(Stack { items: vec![1, 2] });
    let stack = owner.reference();
    stack.push(3).await.unwrap();
    let found = spawn(async move { stack.first_that(|item| *item > 1).await });
    assert_eq!(found.await.unwrap(), Ok(Some(2)));
    assert_eq!(stack.same(&[1, 2, 3]).await, Ok(true));
    let shop = Owner::new(Shop { inside: AtomicU32::new(0) });
    let door = shop.reference();
    let visitors = Vec::from_iter((0..5).map(|_| spawn(async move { door.visit(5).await })));
    for visitor in visitors {
        assert_eq!(visitor.await.unwrap(), Ok(5));
    }
}

/// A pump that has a message once it was sent.
#[derive(Default)]
struct Mail {
    has_come: AtomicBool,
    is_taken: AtomicBool,
}

impl Pump for Mail {
    fn has_work(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }

    fn has_work_at_a_turn(&self) -> Option<bool> {
        Some(self.has_work())
    }

    fn pump(&self) {
        if self.has_come.swap(false, Ordering::Relaxed) {
            self.is_taken.store(true, Ordering::Relaxed);
        }
    }

    fn rest(&self) -> PumpRest {
        if self.has_work() { PumpRest::Work } else { PumpRest::Notified }
    }

    fn rise(&self) {}
}

#[test]
fn a_message_that_comes_in_a_loop_of_threads_is_taken_before_its_end() {
    let mail = Arc::new(Mail::default());
    let machine = Machine::builder().vps(1).pump(Arc::clone(&mail) as _).build().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (post, seen) = (Arc::clone(&mail), Arc::clone(&taken));
    machine.block_on(async move {
        conc_for(0..6, move |number| {
            let (post, seen) = (Arc::clone(&post), Arc::clone(&seen));
            async move {
                seen.lock().unwrap().push(post.is_taken.load(Ordering::Relaxed));
                post.has_come.fetch_or(number == 2, Ordering::Relaxed);
            }
        })
        .await;
    });
    assert_eq!(*taken.lock().unwrap(), [false, false, false, true, true, true]);
}
