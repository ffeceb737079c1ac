//! Answers, and the parts of a `conc!`, are dropped once, whatever ends them.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use chanter_objects::{Continuation, Lazy, ObjectError, Owner, Ref, conc, object};

/// Counted by its strong references.
type Counted = Arc<()>;

fn polled<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The use that a method makes of its continuation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answers {
    Fills,
    FillsAndPanics,
    FillsAndWaits,
    WaitsAndFills,
    WaitsAndPanics,
    FillsWhenDropped,
    Keeps,
    Nothing,
}

const ALL: [Answers; 8] = [
    Answers::Fills,
    Answers::FillsAndPanics,
    Answers::FillsAndWaits,
    Answers::WaitsAndFills,
    Answers::WaitsAndPanics,
    Answers::FillsWhenDropped,
    Answers::Keeps,
    Answers::Nothing,
];

struct Server {
    counted: Counted,
    kept: Option<Continuation<Counted>>,
}

/// Suspends once. (A thread's `yield_now` would need one.)
async fn pause() {
    let mut paused = false;
    poll_fn(|_| if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Answers when it is dropped: with the method's frame, if that does not get to its end.
struct Last<'a>(Option<(Lazy<'a, Counted>, Counted)>);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        if let Some((k, value)) = self.0.take() {
            k.fill(value);
        }
    }
}

#[object]
impl Server {
    #[method(mut)]
    fn keeps(&mut self) -> Option<Continuation<Counted>> {
        self.kept.take()
    }

    #[method(mut)]
    async fn ask(&mut self, answers: Answers, k: Lazy<'_, Counted>) {
        let held = Arc::clone(&self.counted);
        match answers {
            Answers::Fills => k.fill(held),
            Answers::FillsAndPanics => {
                k.fill(held);
                panic!("expected");
            }
            Answers::FillsAndWaits => {
                k.fill(held);
                pause().await;
            }
            Answers::WaitsAndFills => {
                pause().await;
                k.fill(held);
            }
            Answers::WaitsAndPanics => {
                pause().await;
                k.fill(held);
                panic!("expected");
            }
            Answers::FillsWhenDropped => {
                let _last = Last(Some((k, held)));
                pause().await;
            }
            Answers::Keeps => self.kept = Some(k.keep()),
            Answers::Nothing => drop(k),
        }
    }

    #[method(read)]
    async fn ask_other(&self, other: Ref<Server>, answers: Answers, k: Lazy<'_, Counted>) {
        k.forward(other.ask(answers)).await;
    }

    #[method(mut)]
    fn streak(&mut self) {}

    #[method(read)]
    fn reads(&self) {}
}

/// Polls `call` so often at most, then drops it: nothing of it is left, nor is anybody inside.
fn asked(
    answers: Answers,
    polls: u32,
    server: &Owner<Server>,
    call: impl Future<Output = Result<Counted, ObjectError>>,
) {
    let counted = server.reference().with(|server| Arc::clone(&server.counted)).now().unwrap().unwrap();
    let mut result = None;
    {
        let mut call = pin!(call);
        for poll in 0..polls {
            if poll == 1
                && answers == Answers::Keeps
                && let Some(kept) = server.reference().keeps().now().unwrap().unwrap()
            {
                assert!(kept.fill(Arc::clone(&counted)).is_ok());
            }
            match catch_unwind(AssertUnwindSafe(|| polled(call.as_mut()))) {
                Ok(Poll::Pending) => (),
                Ok(Poll::Ready(ready)) => {
                    result = Some(ready);
                    break;
                }
                Err(_) => {
                    server.forgive();
                    break;
                }
            }
        }
    }
    let expected = match (answers, polls) {
        (_, 0) | (Answers::FillsAndPanics | Answers::WaitsAndPanics, _) => None,
        (Answers::FillsAndWaits | Answers::WaitsAndFills, 1) => None,
        (Answers::FillsWhenDropped | Answers::Keeps, 1) => None,
        (Answers::Nothing, _) => Some(Err(ObjectError::Unanswered)),
        _ => Some(Ok(Arc::clone(&counted))),
    };
    assert_eq!(result, expected, "{answers:?}, {polls}");
    drop((result, expected));
    // Of a continuation that is kept nothing is left, either.
    drop(server.reference().keeps().now().unwrap());
    // The server's, and ours.
    assert_eq!(Arc::strong_count(&counted), 2, "{answers:?}, {polls}");
}

#[chanter::test]
async fn answers_are_dropped_once() {
    let server = || Owner::new(Server { counted: Arc::new(()), kept: None });
    // Without a bias, and by one. (Under Miri there is none.)
    let streaks: &[u32] = if cfg!(miri) { &[0] } else { &[0, 200] };
    for &streak in streaks {
        for answers in ALL {
            for polls in 0..3 {
                let (first, other) = (server(), server());
                for _ in 0..streak {
                    other.reference().streak().await.unwrap();
                    first.reference().reads().await.unwrap();
                }
                asked(answers, polls, &other, other.reference().ask(answers).into_future());
                asked(
                    answers,
                    polls,
                    &other,
                    first.reference().ask_other(other.reference(), answers).into_future(),
                );
                assert!(first.reference().streak().now().is_ok());
            }
        }
    }
}

/// The behaviour of a part when it is polled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    IsThere,
    Panics,
    Waits,
    WaitsAndPanics,
}

/// A part that notes its end. It is not moved once it was polled, and not polled once it has ended.
struct HoldKind {
    part: Part,
    was_polled: bool,
    has_ended: bool,
    _future: Counted,
    output: Counted,
    place: Option<*const HoldKind>,
    _pinned: std::marker::PhantomPinned,
}

impl Future for HoldKind {
    type Output = Counted;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Counted> {
        // SAFETY: it is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let here = std::ptr::from_ref(this);
        assert_eq!(*this.place.get_or_insert(here), here, "it has been moved");
        assert!(!this.has_ended, "it is polled behind its end");
        let first = !std::mem::replace(&mut this.was_polled, true);
        this.has_ended = !(first && matches!(this.part, Part::Waits | Part::WaitsAndPanics));
        match this.part {
            Part::IsThere => Poll::Ready(Arc::clone(&this.output)),
            Part::Panics => panic!("expected"),
            Part::Waits | Part::WaitsAndPanics if first => Poll::Pending,
            Part::Waits => Poll::Ready(Arc::clone(&this.output)),
            Part::WaitsAndPanics => panic!("expected"),
        }
    }
}

#[test]
fn parts_are_dropped_once() {
    use Part::{IsThere, Panics, Waits, WaitsAndPanics};
    let all = [IsThere, Panics, Waits, WaitsAndPanics];
    for (a, b, c) in all.into_iter().flat_map(|a| all.into_iter().flat_map(move |b| all.map(|c| (a, b, c)))) {
        for polls in 0..4 {
            let (future, output) = (Arc::new(()), Arc::new(()));
            let part = |part| HoldKind {
                part,
                was_polled: false,
                has_ended: false,
                _future: Arc::clone(&future),
                output: Arc::clone(&output),
                place: None,
                _pinned: std::marker::PhantomPinned,
            };
            let mut is_there = false;
            {
                let parts = (part(a), part(b), part(c));
                let mut all = pin!(async {
                    let (x, y, z) = parts;
                    // The name of a part may be a name that the macro uses inside.
                    conc! { x = x, y = y, z = z }
                    [x, y, z].len()
                });
                for _ in 0..polls {
                    match catch_unwind(AssertUnwindSafe(|| polled(all.as_mut()))) {
                        Ok(Poll::Pending) => (),
                        Ok(Poll::Ready(parts)) => {
                            is_there = parts == 3;
                            break;
                        }
                        Err(_) => break,
                    }
                }
            }
            let panics = [a, b, c].iter().any(|part| matches!(part, Panics | WaitsAndPanics));
            let waits = [a, b, c].contains(&Waits);
            assert_eq!(is_there, !panics && polls > u32::from(waits), "{a:?}, {b:?}, {c:?}, {polls}");
            let left = (Arc::strong_count(&future), Arc::strong_count(&output));
            assert_eq!(left, (1, 1), "{a:?}, {b:?}, {c:?}, {polls}");
        }
    }
}
