//! Threads in other processes, by the public interface alone.

use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{JoinError, sync::CVar, thread::Activity};
use chanter_cluster::engine::{Local, ProcessId, Why};
use chanter_cluster::wire::Slot;
use chanter_cluster::{
    ANYONE, AskError, CallError, Context, Down, EndError, Function, GlobalThread, Offering, Plain, Process,
    Service, SpawnError, ThreadName, Unended, local,
};

const AREA: Function<(f64, f64), f64> = Function::new("test::area");
/// Does what the number says: see `body`.
const STATE: Function<u32, u32> = Function::new("test::state");
const ECHO: Function<ThreadName, u32> = Function::new("test::echo");

fn with_two<F, R>(body: fn(Process, Process) -> F) -> [R; 2]
where
    F: Future<Output = R> + Send + 'static,
    R: Send + 'static,
{
    [1, 2].map(|vps| {
        let machine = Machine::builder().vps(vps).build().unwrap();
        machine.block_on(async move {
            let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
            body(first, second).await
        })
    })
}

/// Runs, waits, ends, or fails.
async fn body(kind: u32) -> u32 {
    match kind {
        0 => loop {
            yield_now().await;
        },
        1 => never().await,
        2 => 42,
        _ => panic!("as planned"),
    }
}

fn offer_state(here: &Process) -> Offering {
    here.offer(STATE, |_, kind| body(kind)).unwrap()
}

#[test]
fn a_thread_is_spawned_and_joined_there_and_here() {
    with_two(|first, second| async move {
        let _offering = second.offer(AREA, |_, (w, h)| async move { w * h }).unwrap();
        for here in [&first, &second] {
            let thread = here.at(1).spawn(AREA.with(&(3.0, 4.0)).named("area").on_vp(0)).await.unwrap();
            assert_eq!(thread.name().process, ProcessId(1));
            for _ in 0..3 {
                assert_eq!(thread.join().await, Ok(12.0), "a value may be asked for again");
            }
            assert_eq!(thread.down().await, Down::Ended);
            let same = here.thread::<f64>(thread.name());
            assert_eq!(thread.await, Ok(12.0));
            assert_eq!(same.join().await, Err(EndError::NoThread), "it was taken");
        }
    });
}

#[test]
fn what_is_not_offered_is_not_run() {
    with_two(|first, second| async move {
        let plan = || AREA.with(&(3.0, 4.0));
        let error = first.at(1).spawn(plan()).await.unwrap_err();
        assert_eq!(error, SpawnError::NoFunction("test::area"));
        let offering = second.offer(AREA, |_, (w, h)| async move { w * h }).unwrap();
        assert!(second.offer(AREA, |_, _| async { 0.0 }).is_err());
        let error = first.at(1).spawn(plan().on_vp(7)).await.unwrap_err();
        assert!(matches!(error, SpawnError::NoSuchProcessor(1 | 2)), "{error}");
        let other: Function<String, f64> = Function::new("test::area");
        let error = first.at(1).spawn(other.with(&"x".to_owned())).await.unwrap_err();
        assert!(matches!(error, SpawnError::BadArguments(_)), "{error}");
        drop(offering);
        assert!(first.at(1).spawn(plan()).await.is_err());
        let error = first.at(9).spawn(plan()).await.unwrap_err();
        assert_eq!(error, SpawnError::Call(CallError::NoSuchProcess(ProcessId(9))));
    });
}

/// A thread has an inbox from its begin, and its name is what messages need.
#[test]
fn a_thread_talks_under_its_name() {
    with_two(|first, second| async move {
        let _offering = second.offer(ECHO, |context: Context, to: ThreadName| async move {
            let me = context.inbox();
            assert_eq!((context.here().number(), context.spawner()), (1, 0));
            let got = me.recv::<u32>(ANYONE, 7).await.unwrap();
            me.send(to, 7, &(got.value + 1)).await.unwrap();
            got.value
        });
        let me = first.inbox().unwrap();
        let thread = first.at(1).spawn(ECHO.with(&me.name())).await.unwrap();
        me.send(thread.name(), 7, &1_u32).await.unwrap();
        let got = me.recv::<u32>(thread.name(), 7).await.unwrap();
        assert_eq!((got.value, thread.join().await), (2, Ok(1)));
    });
}

/// What a request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Resumed(bool),
    Overruled,
    Withdrawn,
    Determined,
    NoThread,
}
use Answer::*;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Suspend,
    SuspendFor,
    Block,
    Resume,
    Cancel,
    Terminate,
}
use What::*;

const WHATS: [What; 6] = [Suspend, SuspendFor, Block, Resume, Cancel, Terminate];

/// In which state the thread is that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Running,
    Waiting,
    Suspended,
    BlockedByRequest,
    Ended,
    Panicked,
    Cancelled,
    Terminated,
}

impl Target {
    fn kind(self) -> u32 {
        match self {
            Self::Running => 0,
            Self::Ended => 2,
            Self::Panicked => 3,
            _ => 1,
        }
    }
}

/// The table: what each request comes to in each state, and how the thread ends if it is cancelled after that.
const TABLE: [(Target, [Answer; 6]); 8] = {
    const ALIVE: [Answer; 6] = [Done, Done, Done, Resumed(false), Done, Done];
    const GONE: [Answer; 6] = [Determined, Determined, Determined, Resumed(false), Determined, Determined];
    [
        (Target::Running, ALIVE),
        (Target::Waiting, ALIVE),
        (Target::Suspended, [Done, Done, Overruled, Resumed(true), Done, Done]),
        (Target::BlockedByRequest, [Done, Done, Done, Resumed(true), Done, Done]),
        (Target::Ended, GONE),
        (Target::Panicked, GONE),
        (Target::Cancelled, GONE),
        (Target::Terminated, GONE),
    ]
};

fn of_local<T>(result: Result<(), chanter::thread::Refused<T>>) -> Answer {
    match result {
        Ok(()) => Done,
        Err(refused) if refused.is_overruled() => Overruled,
        Err(refused) if refused.is_withdrawn() => Withdrawn,
        Err(_) => Determined,
    }
}

fn of_remote(result: Result<(), AskError>) -> Answer {
    match result {
        Ok(()) => Done,
        Err(AskError::Overruled) => Overruled,
        Err(AskError::Withdrawn) => Withdrawn,
        Err(AskError::Determined) => Determined,
        Err(AskError::NoThread) => NoThread,
        Err(other) => panic!("{other}"),
    }
}

async fn ask_local(thread: &Thread<u32>, what: What) -> Answer {
    match what {
        Suspend => of_local(thread.suspend().await),
        SuspendFor => of_local(thread.suspend_for(Duration::from_secs(3600)).await),
        Block => of_local(thread.block(never()).await),
        Resume => Resumed(thread.resume()),
        Cancel => of_local(thread.cancel().await),
        Terminate => of_local(thread.terminate(7).await),
    }
}

async fn ask_remote(thread: &GlobalThread<u32>, what: What) -> Answer {
    match what {
        Suspend => of_remote(thread.suspend().await),
        SuspendFor => of_remote(thread.suspend_for(Duration::from_secs(3600)).await),
        Block => of_remote(thread.block(never()).await),
        Resume => match thread.resume().await {
            Ok(any) => Resumed(any),
            Err(error) => of_remote(Err(error)),
        },
        Cancel => of_remote(thread.cancel().await),
        Terminate => of_remote(thread.terminate(7).await.map_err(|Unended { value, why }| {
            assert_eq!(value, 7, "it comes back");
            why
        })),
    }
}

/// How it ended, in words.
fn local_end(result: Result<u32, JoinError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) if error.is_panic() => format!("panicked: {}", error.message().unwrap()),
        Err(_) => "cancelled".to_owned(),
    }
}

fn remote_end(result: Result<u32, EndError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(EndError::Panicked(message)) => format!("panicked: {message}"),
        Err(error) if error.is_cancelled() => "cancelled".to_owned(),
        Err(error) => panic!("{error}"),
    }
}

/// What brings a thread into its state, once it runs.
fn preparation(target: Target) -> Option<What> {
    match target {
        Target::Suspended => Some(Suspend),
        Target::BlockedByRequest => Some(Block),
        Target::Cancelled => Some(Cancel),
        Target::Terminated => Some(Terminate),
        _ => None,
    }
}

/// Each request against each state: a thread of another process answers as one of this process, and as the table says.
#[test]
fn each_request_against_each_state() {
    with_two(|first, second| async move {
        let _offering = offer_state(&second);
        for (target, answers) in TABLE {
            for (what, answer) in WHATS.into_iter().zip(answers) {
                let case = format!("{what:?} of {target:?}");
                let near = spawn(body(target.kind()));
                let far = first.at(1).spawn(STATE.with(&target.kind())).await.unwrap();
                let is_gone = matches!(target, Target::Ended | Target::Panicked);
                while near.activity() == Activity::Initialized || is_gone && !near.is_determined() {
                    yield_now().await;
                }
                if is_gone {
                    far.down().await;
                }
                if let Some(prepare) = preparation(target) {
                    assert_eq!(ask_local(&near, prepare).await, Done, "{case}");
                    assert_eq!(ask_remote(&far, prepare).await, Done, "{case}");
                }
                assert_eq!(ask_local(&near, what).await, answer, "here: {case}");
                assert_eq!(ask_remote(&far, what).await, answer, "there: {case}");
                let _ = (ask_local(&near, Cancel).await, ask_remote(&far, Cancel).await);
                let end = local_end(near.join().await);
                assert_eq!(remote_end(far.join().await), end, "{case}");
            }
        }
    });
}

/// A detached thread that has ended, and one that never was.
#[test]
fn who_is_gone_is_nobody() {
    with_two(|first, second| async move {
        let _offering = offer_state(&second);
        let thread = first.at(1).spawn(STATE.with(&1)).await.unwrap();
        let name = thread.name();
        let same = first.thread::<u32>(name);
        drop(thread);
        assert_eq!(ask_remote(&same, Suspend).await, Done, "detached, and alive");
        assert_eq!(ask_remote(&same, Cancel).await, Done);
        while same.join().await != Err(EndError::NoThread) {
            yield_now().await;
        }
        let mut other = name;
        other.thread.generation += 1000;
        for nobody in [same, first.thread(other)] {
            for what in WHATS {
                assert_eq!(ask_remote(&nobody, what).await, NoThread, "{what:?}");
            }
            assert_eq!(nobody.down().await, Down::NoThread);
        }
    });
}

/// The condition is here, the thread there.
#[test]
fn a_thread_blocks_on_a_condition_of_another_process() {
    with_two(|first, second| async move {
        let _offering = offer_state(&second);
        let (run, runs) = mailbox::<()>();
        let spin: Function<(), ()> = Function::new("test::spin");
        let _spinning = second.offer(spin, move |_, ()| {
            let run = run.clone();
            async move {
                while run.send(()).await.is_ok() {
                    yield_now().await;
                }
            }
        });
        let thread = first.at(1).spawn(spin.with(&())).await.unwrap();
        runs.recv().await.unwrap();
        let condition = CVar::new();
        thread.block(condition.wait()).await.unwrap();
        while runs.try_recv().is_ok() {}
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(runs.try_recv().is_err(), "it is blocked");
        condition.set();
        runs.recv().await.unwrap();
        drop(runs);
        assert_eq!(thread.join().await, Ok(()));
    });
}

/// A spawn that loses a choice leaves no thread that runs: each that has begun is dropped.
#[test]
fn a_thread_that_is_not_wanted_is_cancelled() {
    struct Ends(chanter::Sender<bool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.try_send(false);
        }
    }
    with_two(|first, second| async move {
        let (tell, told) = mailbox::<bool>();
        let wait: Function<(), ()> = Function::new("test::wait");
        let _waiting = second.offer(wait, move |_, ()| {
            let _ = tell.try_send(true);
            let ends = Ends(tell.clone());
            async move {
                let _ends = ends;
                never::<()>().await;
            }
        });
        for round in 0..40 {
            let spawning = first.at(1).spawn(wait.with(&())).wrap(Some);
            let mut alive = 0;
            let wanted = if round % 2 == 0 {
                choose_biased((spawning, always(None))).await
            } else {
                let (wanted, more) = choose((
                    spawning.wrap(|spawned| (spawned, 0)),
                    told.recv().wrap(|begun| (None, if begun.unwrap() { 1 } else { -1 })),
                ))
                .await;
                alive = more;
                wanted
            };
            // Who comes last has been spawned last: all before it have begun.
            let last = first.at(1).spawn(wait.with(&())).await.unwrap();
            let mut rest = 2 - alive;
            drop(last.cancel());
            if let Some(wanted) = wanted {
                drop(wanted.unwrap().cancel());
            }
            while alive > 0 || rest > 0 {
                match told.recv().await.unwrap() {
                    true => (alive, rest) = (alive + 1, rest - 1),
                    false => alive -= 1,
                }
            }
        }
    });
}

/// `Down` comes after the last message.
#[test]
fn a_monitor_is_told_after_the_last_message() {
    with_two(|first, second| async move {
        let talk: Function<ThreadName, ()> = Function::new("test::talk");
        let _talking = second.offer(talk, |context: Context, to| async move {
            for n in 0..50_u32 {
                context.inbox().send(to, 1, &n).await.unwrap();
            }
        });
        for _ in 0..20 {
            let me = first.inbox().unwrap();
            let thread = first.at(1).spawn(talk.with(&me.name())).await.unwrap();
            assert_eq!(thread.down().await, Down::Ended);
            assert_eq!(me.len(), 50);
        }
    });
}

#[test]
fn a_thread_of_a_process_that_dies_is_down() {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
            let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
            let _offering = offer_state(&second);
            let thread = first.at(1).spawn(STATE.with(&1)).await.unwrap();
            let down =
                spawn(async move { (thread.down().await, thread.join().await, thread.cancel().await) });
            // Its calls are under way, or not: both are right.
            killer.kill();
            let (down, joined, cancelled) = down.await.unwrap();
            assert_eq!(down, Down::ProcessLost(ProcessId(1), Why::Died));
            assert!(matches!(joined, Err(EndError::Call(CallError::Lost { .. }))), "{joined:?}");
            assert!(matches!(cancelled, Err(AskError::Call(CallError::Lost { .. }))), "{cancelled:?}");
        });
    }
}

/// A condition whose leader has died counts as if it held.
#[test]
fn a_thread_does_not_wait_for_the_dead() {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            let [killer, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
            let (first, second) = (Process::start(Arc::clone(&killer)), Process::start(second));
            let (run, runs) = mailbox::<()>();
            let spin: Function<(), ()> = Function::new("test::spin");
            let _spinning = second.offer(spin, move |_, ()| {
                let run = run.clone();
                async move {
                    while run.send(()).await.is_ok() {
                        yield_now().await;
                    }
                }
            });
            let thread = first.at(1).spawn(spin.with(&())).await.unwrap();
            thread.block(never()).await.unwrap();
            while runs.try_recv().is_ok() {}
            killer.kill();
            runs.recv().await.unwrap();
        });
    }
}

/// How a thread in that state ends, if it is cancelled.
fn end_of(target: Target) -> (Result<u32, EndError>, Down) {
    match target {
        Target::Ended => (Ok(42), Down::Ended),
        Target::Terminated => (Ok(7), Down::Ended),
        Target::Panicked => {
            (Err(EndError::Panicked("as planned".into())), Down::Panicked("as planned".into()))
        }
        _ => (Err(EndError::Cancelled), Down::Cancelled),
    }
}

fn is_over(target: Target) -> bool {
    matches!(target, Target::Ended | Target::Panicked | Target::Cancelled | Target::Terminated)
}

/// A thread of the second process, in that state.
async fn brought_into(first: &Process, target: Target) -> GlobalThread<u32> {
    let far = first.at(1).spawn(STATE.with(&target.kind())).await.unwrap();
    if matches!(target, Target::Ended | Target::Panicked) {
        far.down().await;
    }
    if let Some(prepare) = preparation(target) {
        assert_eq!(ask_remote(&far, prepare).await, Done, "{target:?}");
    }
    far
}

/// Join, monitor, the last join, detach and link, against each state.
#[test]
fn each_question_against_each_state() {
    with_two(|first, second| async move {
        let _offering = [offer_state(&second), offer_state(&first)];
        for (target, _) in TABLE {
            let (value, down) = end_of(target);
            // Asked in that state, and again when it has ended.
            let far = brought_into(&first, target).await;
            let (joining, watching) = (spawn(async_of(far.join())), spawn(async_of(far.down())));
            for _ in 0..20 {
                yield_now().await;
            }
            assert!(is_over(target) || !joining.is_determined() && !watching.is_determined(), "{target:?}");
            let _ = ask_remote(&far, Cancel).await;
            assert_eq!(joining.await.unwrap(), value, "{target:?}");
            assert_eq!(watching.await.unwrap(), down, "{target:?}");
            assert_eq!((far.join().await, far.down().await), (value.clone(), down.clone()), "{target:?}");

            // Joined for the last time.
            let same = first.thread::<u32>(far.name());
            assert_eq!(far.await, value, "{target:?}");
            assert_eq!((same.join().await, same.down().await), (Err(EndError::NoThread), Down::NoThread));

            // Detached: it goes on if it lives, and what is over is nobody's.
            let far = brought_into(&first, target).await;
            let same = first.thread::<u32>(far.name());
            drop(far);
            let expected = if is_over(target) { NoThread } else { Done };
            assert_eq!(ask_remote(&same, Cancel).await, expected, "detached: {target:?}");
            while same.join().await != Err(EndError::NoThread) {
                yield_now().await;
            }

            // Tied to another one, which ends with it unless it has a value.
            let far = brought_into(&first, target).await;
            let near = first.at(0).spawn(STATE.with(&1)).await.unwrap();
            near.link(&far).await.unwrap();
            let _ = ask_remote(&far, Cancel).await;
            if down.is_well() {
                assert_eq!(ask_remote(&near, Suspend).await, Done, "linked: {target:?}");
                assert_eq!(ask_remote(&near, Terminate).await, Done);
            } else {
                assert_eq!(near.down().await, Down::Cancelled, "linked: {target:?}");
            }
        }
    });
}

async fn async_of<E: Event>(event: E) -> E::Output {
    event.await
}

/// Whatever is asked of a thread whose process has died: it is lost, and nobody waits.
#[test]
fn each_request_to_the_dead_is_lost() {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
            let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
            let _offering = [offer_state(&second), offer_state(&first)];
            let far = first.at(1).spawn(STATE.with(&1)).await.unwrap();
            let near = first.at(0).spawn(STATE.with(&1)).await.unwrap();
            killer.kill();
            far.down().await;
            let lost = |result: Result<(), AskError>| {
                assert!(matches!(result, Err(AskError::Call(CallError::Lost { .. }))), "{result:?}");
            };
            lost(far.suspend().await);
            lost(far.suspend_for(Duration::from_secs(1)).await);
            lost(far.block(never()).await);
            lost(far.resume().await.map(drop));
            lost(far.cancel().await);
            lost(far.terminate(7).await.map_err(|unended| unended.why));
            lost(far.link(&near).await);
            // It is tied to one that has gone.
            lost(near.link(&far).await);
            assert_eq!(near.down().await, Down::Cancelled);
            assert_eq!(far.down().await, Down::ProcessLost(ProcessId(1), Why::Died));
            assert!(matches!(far.join().await, Err(EndError::Call(CallError::Lost { .. }))));
            assert!(matches!(far.await, Err(EndError::Call(CallError::Lost { .. }))));
        });
    }
}

/// What one process may hold in another, and that this keeps nobody else out.
#[test]
fn what_a_process_holds_in_another_one_is_bounded() {
    const KEEP: Function<Plain<u8>, Plain<u8>> = Function::new("test::keep");
    let machine = Machine::builder().vps(2).build().unwrap();
    machine.block_on(async {
        let [first, second, third] = <[Process; 3]>::try_from(local(3)).unwrap();
        let _offering = second.offer(KEEP, |_, bytes| async { bytes }).unwrap();
        const MIB: usize = 1 << 20;
        let plan = |length: usize| KEEP.with(&Plain(vec![1_u8; length]));
        let mut kept = Vec::new();
        let full = loop {
            match first.at(1).spawn(plan(MIB)).await {
                Ok(thread) => kept.push(thread),
                Err(error) => break error,
            }
        };
        assert_eq!(full, SpawnError::Full);
        assert!(full.to_string().contains("drop, the handles"), "{full}");
        assert!((60..=64).contains(&kept.len()), "{}", kept.len());
        let other = third.at(1).spawn(plan(MIB)).await.unwrap();
        assert_eq!(other.await.map(|bytes| bytes.0.len()), Ok(MIB));
        // Whoever takes a value makes room.
        assert_eq!(kept.pop().unwrap().await.map(|bytes| bytes.0.len()), Ok(MIB));
        kept.push(first.at(1).spawn(plan(MIB)).await.unwrap());
    });
}

/// Whoever may not spawn threads of a function may not ask anything of them: they go on.
#[chanter::test]
async fn a_thread_obeys_those_alone_who_may_spawn_it() {
    let [first, second, third] = <[Process; 3]>::try_from(local(3)).unwrap();
    let offered = second.offer_if(STATE, |caller| caller.process() == 0, |_, kind| crate::body(kind));
    let _offering = offered.unwrap();
    let refused = third.at(1).spawn(STATE.with(&1)).await.unwrap_err();
    assert_eq!(refused, SpawnError::Refused("test::state"));
    let thread = first.at(1).spawn(STATE.with(&1)).await.unwrap();

    let stranger = third.thread::<u32>(thread.name());
    assert_eq!(stranger.cancel().await, Err(AskError::Refused));
    assert_eq!(stranger.terminate(7).await, Err(Unended { value: 7, why: AskError::Refused }));
    assert_eq!(stranger.suspend().await, Err(AskError::Refused));
    assert_eq!(stranger.suspend_for(Duration::from_secs(1)).await, Err(AskError::Refused));
    assert_eq!(stranger.block(async {}).await, Err(AskError::Refused));
    assert_eq!(stranger.resume().await, Err(AskError::Refused));
    assert_eq!(stranger.link(&stranger).await, Err(AskError::Refused));
    assert_eq!(stranger.join().await, Err(EndError::Refused));
    assert_eq!(stranger.down().await, Down::Refused);
    assert_eq!(stranger.await, Err(EndError::Refused));

    // Its own process, and its spawner, as before.
    let own = second.thread::<u32>(thread.name());
    assert_eq!(own.suspend().await, Ok(()));
    assert_eq!(own.resume().await, Ok(true));
    assert_eq!(thread.terminate(9).await, Ok(()));
    assert_eq!((own.join().await, own.down().await), (Ok(9), Down::Ended));
    assert_eq!(third.thread::<u32>(thread.name()).join().await, Err(EndError::Refused));
    assert_eq!(thread.await, Ok(9));
}

/// A thread's value is its spawner's: no other process takes it, or says that nobody wants it.
#[chanter::test]
async fn nobody_takes_or_detaches_anothers_thread() {
    // As `remote/order.rs` has them; the answer is the number of what is said.
    let order: Service<(Slot, u32), u32> = Service::new("chanter::order");
    let (take, detach, not_allowed) = (1, 9, 6);
    let [first, second, third] = <[Process; 3]>::try_from(local(3)).unwrap();
    let _offering = offer_state(&second);
    for kind in [1, 2] {
        let thread = first.at(1).spawn(STATE.with(&kind)).await.unwrap();
        let slot = thread.name().thread;
        for what in [take, detach] {
            for here in [&second, &third] {
                assert_eq!(here.at(1).call(order.ask(&(slot, what))).await, Ok(not_allowed));
            }
        }
        if kind == 1 {
            assert_eq!(thread.terminate(42).await, Ok(()));
        }
        assert_eq!((thread.join().await, thread.await), (Ok(42), Ok(42)));
    }
}
