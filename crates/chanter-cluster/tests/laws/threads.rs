//! What is asked of a thread of another process is answered once, and as it was answered the thread ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;
use chanter_cluster::engine::Local;
use chanter_cluster::{
    AskError, CallError, Context, Down, EndError, Function, Process, SpawnError, ThreadName,
};

const WAIT: Function<(), u32> = Function::new("laws::wait");

fn is_lost(error: &CallError) -> bool {
    matches!(error, CallError::Lost { .. })
}

/// Two ask for different things while the process may be killed at any point; then somebody joins.
pub(super) async fn requests_to_a_thread_are_answered_once() {
    let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
    let offering = second.offer(WAIT, |_, ()| async { never().await }).unwrap();
    let killing = spawn(async move { killer.kill() });
    match first.at(1).spawn(WAIT.with(&())).await {
        Err(SpawnError::Call(error)) => assert!(is_lost(&error), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(thread) => {
            let suspending = spawn({
                let thread = first.thread::<u32>(thread.name());
                async move { thread.suspend().await }
            });
            let terminated = thread.terminate(7).await;
            let joined = thread.join().await;
            match (&terminated, &joined) {
                (Ok(()), Ok(7)) => {}
                (Ok(()), Err(EndError::Call(error))) if is_lost(error) => {}
                (Err(unended), Err(EndError::Call(error))) if is_lost(error) => {
                    assert_eq!(unended.value, 7);
                    assert!(matches!(&unended.why, AskError::Call(error) if is_lost(error)));
                }
                wrong => panic!("{wrong:?}"),
            }
            match suspending.join().await.unwrap() {
                Ok(()) | Err(AskError::Overruled | AskError::Determined) => {}
                Err(AskError::Call(error)) if is_lost(&error) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    killing.join().await.unwrap();
    drop(offering);
}

/// A spawn that loses a choice, at whatever point, leaves nobody behind.
pub(super) async fn a_spawn_that_loses_leaves_no_thread() {
    struct Alive(Arc<AtomicU32>, IVar<()>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
            let _ = self.1.put(());
        }
    }
    let [first, second] = super::two();
    let (alive, ended) = (Arc::new(AtomicU32::new(0)), IVar::new());
    let (counts, ends) = (Arc::clone(&alive), ended.clone());
    let offering = second.offer(WAIT, move |_, ()| {
        counts.fetch_add(1, Ordering::SeqCst);
        let guard = Alive(Arc::clone(&counts), ends.clone());
        async move {
            let _guard = guard;
            never().await
        }
    });
    let (tx, rx) = channel::<()>();
    let rival = spawn(async move { tx.send(()).await });
    let spawned = choose((first.at(1).spawn(WAIT.with(&())).wrap(Some), rx.recv().wrap(|_| None))).await;
    if let Some(thread) = spawned {
        let thread = thread.unwrap();
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        thread.cancel().await.unwrap();
    }
    // Or it hangs, which the explorer finds.
    ended.get().await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    drop(rx);
    let _ = rival.join().await.unwrap();
    drop(offering);
}

const TALK: Function<ThreadName, ()> = Function::new("laws::talk");

/// D3, of a monitor: the thread's process is killed at any point of its two messages; nothing comes after the news of its end, and
/// if it has ended by itself, all has come.
pub(super) async fn a_monitor_is_told_last() {
    let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
    let offering = second.offer(TALK, |context: Context, to| async move {
        for n in 0..2_u32 {
            // It may be told that it is alone.
            let _ = context.inbox().send(to, 1, &n).await;
        }
    });
    let me = first.inbox().unwrap();
    let killing = spawn(async move { killer.kill() });
    match first.at(1).spawn(TALK.with(&me.name())).await {
        Err(SpawnError::Call(error)) => assert!(is_lost(&error), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(thread) => {
            let down = thread.down().await;
            let came = me.len();
            match down {
                Down::Ended => assert_eq!(came, 2),
                Down::ProcessLost(..) => assert!(came <= 2),
                down => panic!("{down}"),
            }
            killing.join().await.unwrap();
            assert_eq!(me.len(), came, "something came afterwards");
            for n in 0..came as u32 {
                assert_eq!(me.recv::<u32>(thread.name(), 1).await.unwrap().value, n);
            }
            drop(offering);
            return;
        }
    }
    killing.join().await.unwrap();
    drop(offering);
}

/// A thread here is tied to one there, whose process is killed at any point: it is tied and ends, or it was not tied.
pub(super) async fn who_is_tied_to_the_dead_ends() {
    let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
    let offering = [&first, &second].map(|here| here.offer(WAIT, |_, ()| async { never().await }).unwrap());
    let near = first.at(0).spawn(WAIT.with(&())).await.unwrap();
    let killing = spawn(async move { killer.kill() });
    match first.at(1).spawn(WAIT.with(&())).await {
        Err(SpawnError::Call(error)) => {
            assert!(is_lost(&error), "{error}");
            near.cancel().await.unwrap();
        }
        Err(error) => panic!("{error}"),
        // The first half of a link is here, and cannot fail: it is tied either way.
        Ok(far) => match near.link(&far).await {
            Ok(()) => {}
            Err(AskError::Call(error)) => assert!(is_lost(&error), "{error}"),
            // The news was faster.
            Err(AskError::Determined | AskError::NoThread) => {}
            Err(error) => panic!("{error}"),
        },
    }
    // Or it hangs, which the explorer finds.
    assert_eq!(near.down().await, Down::Cancelled);
    killing.join().await.unwrap();
    drop(offering);
}
