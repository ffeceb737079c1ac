//! The base events that carry no messages of others: locks, time, threads, I/O,
//! futures, gatherings.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    event::{from_cancel_safe, from_future},
    sync::{
        Condvar, Mutex, OwnedMutexGuard, OwnedPermit, OwnedReadGuard, OwnedWriteGuard, RwLock, Semaphore,
        SemaphoreClosed,
    },
};

use super::kit::{Facts, Kit, Message, Row};

const SOON: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(20);

pub(crate) fn mutex(kit: &Kit) -> Row<impl Event<Output = OwnedMutexGuard<Message>> + Send + use<>> {
    let mutex = Arc::new(Mutex::new(kit.message()));
    let mut held = mutex.clone().try_lock_owned();
    assert!(held.is_some());
    let events = mutex.clone();
    let verify = move |taken: Option<_>, facts: Facts| {
        assert_eq!(mutex.try_lock().is_some(), facts.served && taken.is_none());
        drop(taken);
        assert_eq!(mutex.try_lock().is_some(), facts.served, "the lock is lost");
    };
    Row::new(move || events.clone().lock_owned(), move || drop(held.take()), verify)
}

pub(crate) fn rwlock_read(kit: &Kit) -> Row<impl Event<Output = OwnedReadGuard<Message>> + Send + use<>> {
    let lock = Arc::new(RwLock::new(kit.message()));
    let mut held = Some(lock.clone().write_owned().sync_blocking());
    let events = lock.clone();
    let verify = move |taken: Option<_>, facts: Facts| {
        assert_eq!(lock.try_read().is_some(), facts.served);
        drop(taken);
        assert_eq!(lock.try_write().is_some(), facts.served, "the lock is lost");
    };
    Row::new(move || events.clone().read_owned(), move || drop(held.take()), verify)
}

pub(crate) fn rwlock_write(kit: &Kit) -> Row<impl Event<Output = OwnedWriteGuard<Message>> + Send + use<>> {
    let lock = Arc::new(RwLock::new(kit.message()));
    let mut held = Some(lock.clone().read_owned().sync_blocking());
    let events = lock.clone();
    let verify = move |taken: Option<_>, facts: Facts| {
        // A writer that is gone keeps no readers out.
        assert_eq!(lock.try_read().is_some(), taken.is_none());
        drop(taken);
        assert_eq!(lock.try_write().is_some(), facts.served, "the lock is lost");
    };
    Row::new(move || events.clone().write_owned(), move || drop(held.take()), verify)
}

pub(crate) fn semaphore(
    _: &Kit,
) -> Row<impl Event<Output = Result<OwnedPermit, SemaphoreClosed>> + Send + use<>> {
    let semaphore = Arc::new(Semaphore::new(3));
    let mut held = Some(semaphore.clone().acquire_owned(2).sync_blocking().unwrap());
    let events = semaphore.clone();
    let verify = move |taken: Option<_>, facts: Facts| {
        let free = if facts.served { 3 } else { 1 };
        assert_eq!(semaphore.available(), if taken.is_some() { free - 2 } else { free });
        drop(taken);
        assert_eq!(semaphore.available(), free, "permits are lost");
        assert_eq!(semaphore.try_acquire(free).map(|permit| permit.count()), Ok(free));
    };
    Row::new(move || events.clone().acquire_owned(2), move || drop(held.take()), verify)
}

/// Each event has a mutex of its own, which it has locked.
pub(crate) fn condvar(kit: &Kit) -> Row<impl Event<Output = OwnedMutexGuard<Message>> + Send + use<>> {
    // Borrowed by its events.
    let condvar: &'static Condvar = Box::leak(Box::new(Condvar::new()));
    let mutexes = Rc::new(RefCell::new(Vec::new()));
    let (locked, kit) = (mutexes.clone(), kit.clone());
    let event = move || {
        let mutex = Arc::new(Mutex::new(kit.message()));
        let mut locked = locked.borrow_mut();
        if locked.len() > 8 {
            locked.retain(|mutex| Arc::strong_count(mutex) > 1);
        }
        locked.push(mutex.clone());
        condvar.wait(mutex.try_lock_owned().expect("new"))
    };
    let verify = move |taken: Option<OwnedMutexGuard<Message>>, _: Facts| {
        let held = usize::from(taken.is_some());
        let is_held = |mutex: &&Arc<Mutex<Message>>| mutex.try_lock().is_none();
        assert_eq!(mutexes.borrow().iter().filter(is_held).count(), held, "a lock is lost");
        drop(taken);
        assert_eq!(mutexes.borrow().iter().filter(is_held).count(), 0, "a lock is lost");
    };
    // A wait that begins later has missed the notification, so the row notifies until it is notified.
    Row::new(event, || condvar.notify_one(), verify).tended(|| condvar.notify_one())
}

pub(crate) fn timer(kit: &Kit) -> Row<impl Event<Output = ()> + Send + use<>> {
    let duration = if kit.served { SOON } else { 3600 * LONG };
    let row = Row::new(move || after(duration), || (), |_, _| ());
    if kit.served { row.early() } else { row }
}

pub(crate) fn always_ready(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let kit = kit.clone();
    Row::new(move || always(kit.message()), || (), |_, _| ()).ready()
}

pub(crate) fn nack(_: &Kit) -> Row<impl Event<Output = ()> + Send + use<>> {
    let told = Arc::new(std::sync::Mutex::new(None));
    let note = told.clone();
    let mut choice = Box::pin(
        with_nack(move |nack| {
            *note.lock().unwrap() = Some(nack);
            never::<()>()
        })
        .sync(),
    );
    assert!(crate::common::poll(&mut choice).is_pending());
    let nack: Nack = told.lock().unwrap().take().expect("told");
    let events = nack.clone();
    let mut choice = Some(choice);
    let verify = move |_: Option<()>, facts: Facts| assert_eq!(nack.is_enabled(), facts.served);
    Row::new(move || events.clone(), move || drop(choice.take()), verify)
}

/// The future of another library: an output that is ready when another branch
/// commits is dropped.
pub(crate) fn future_in_place(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let senders = Rc::new(RefCell::new(Vec::new()));
    let (made, kit) = (senders.clone(), kit.clone());
    let event = move || {
        let (tx, rx) = futures::channel::oneshot::channel::<Message>();
        let mut made = made.borrow_mut();
        made.retain(|tx: &futures::channel::oneshot::Sender<_>| !tx.is_canceled());
        made.push(tx);
        from_cancel_safe(async { rx.await.unwrap() })
    };
    let serve = move || {
        for tx in senders.borrow_mut().drain(..) {
            drop(tx.send(kit.message()));
        }
    };
    Row::new(event, serve, |_, _| ())
}

type Joined = Result<Result<Message, Closed>, JoinError>;

pub(crate) fn join(kit: &Kit) -> Row<impl Event<Output = Joined> + Send + use<>> {
    let (tx, rx) = mailbox();
    let thread = Rc::new(spawn(async move { rx.recv().await }));
    let (kit, events) = (kit.clone(), thread.clone());
    let verify = move |taken: Option<Joined>, facts: Facts| {
        let again = thread.join().timeout(if facts.served { LONG } else { Duration::ZERO });
        match (taken, again.sync_blocking()) {
            (Some(Ok(Ok(_))), Some(Err(error))) => assert!(error.is_taken()),
            (None, Some(Ok(Ok(_)))) => assert!(facts.served),
            (None, None) => assert!(!facts.served, "it never ended"),
            other => panic!("{other:?}"),
        }
    };
    // Dropped only at the end, or it would be told that the channel is closed.
    let keep = tx.clone();
    let mut row = Row::new(move || events.join(), move || tx.try_send(kit.message()).unwrap(), verify);
    row.tend = Box::new(move || drop(keep.clone()));
    row
}

pub(crate) fn readable(_: &Kit) -> Row<impl Event<Output = std::io::Result<()>> + Send + use<>> {
    let (here, there) = chanter::io::UnixStream::pair().unwrap();
    // Readiness is assumed until a read finds nothing.
    assert!(here.try_read(&mut [0; 8]).is_err());
    let here = Rc::new(here);
    let events = here.clone();
    let serve = move || assert_eq!(there.try_write(b"x").unwrap(), 1);
    let verify = move |taken: Option<std::io::Result<()>>, facts: Facts| {
        assert!(taken.is_none_or(|taken| taken.is_ok()));
        if facts.served {
            // Readiness is not consumed, so it is still there.
            assert!(matches!(here.readable().timeout(LONG).sync_blocking(), Some(Ok(()))));
            assert_eq!(here.try_read(&mut [0; 8]).unwrap(), 1);
        }
    };
    Row::new(move || events.readable(), serve, verify)
}

type Connection = std::io::Result<(chanter::io::TcpStream, std::net::SocketAddr)>;

pub(crate) fn accept_socket(_: &Kit) -> Row<impl Event<Output = Connection> + Send + use<>> {
    // Borrowed by its events.
    let listener: &'static _ = Box::leak(Box::new(chanter::io::TcpListener::bind("127.0.0.1:0").unwrap()));
    let address = listener.local_addr().unwrap();
    let mut connections = Vec::new();
    let serve = move || connections.push(std::net::TcpStream::connect(address).unwrap());
    let verify = move |taken: Option<Connection>, facts: Facts| {
        let accepted = usize::from(taken.is_some_and(|taken| taken.is_ok()));
        let left = if facts.served && accepted == 0 { LONG } else { Duration::ZERO };
        let again = usize::from(listener.accept().timeout(left).sync_blocking().is_some());
        assert_eq!(accepted + again, usize::from(facts.served), "a connection is lost or doubled");
    };
    Row::new(|| listener.accept(), serve, verify)
}

/// The exception: what had ended when it was not chosen is dropped.
pub(crate) fn future_on_host(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let (tx, rx) = mailbox::<Message>();
    let (kit, keep) = (kit.clone(), rx.clone());
    let event = move || {
        let rx = rx.clone();
        from_future(async move { rx.recv().await.unwrap() })
    };
    let serve = move || (0..3).for_each(|_| tx.try_send(kit.message()).unwrap());
    let verify = move |_: Option<Message>, facts: Facts| assert!(facts.served || keep.is_empty());
    Row::new(event, serve, verify).used_up()
}

pub(crate) type Both = (Result<Message, Closed>, Result<Message, Closed>);

/// The values that members have committed are reclaimed, so that nothing is lost.
pub(crate) fn gathered(kit: &Kit) -> Row<impl Event<Output = Both> + Send + use<>> {
    let (one, two) = (channel::<Message>(), mailbox::<Message>());
    let back = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (ones, twos) = (one.1.clone(), two.1.clone());
    let reclaimed = back.clone();
    let event = move || {
        let back = back.clone();
        gather((ones.clone().into_recv(), twos.clone().into_recv())).reclaim(
            move |partial: (Option<_>, Option<_>)| {
                back.lock().unwrap().extend(partial.0);
                back.lock().unwrap().extend(partial.1);
            },
        )
    };
    let kit = kit.clone();
    // Two of each: twins may each take one of theirs.
    let serve = move || {
        for _ in 0..3 {
            one.0.asend(kit.message()).unwrap();
            two.0.try_send(kit.message()).unwrap();
        }
    };
    let (ones, twos) = (one.1, two.1);
    let verify = move |taken: Option<Both>, facts: Facts| {
        let left = std::iter::from_fn(|| ones.try_recv().or_else(|_| twos.try_recv()).ok()).count();
        let taken = if taken.is_some() { 2 } else { 0 };
        let back = reclaimed.lock().unwrap().len();
        assert_eq!(taken + left + back, if facts.served { 6 } else { 0 }, "lost or doubled");
    };
    Row::new(event, serve, verify).used_up()
}
