//! What the soup has besides channels: one of each place, lock and port.
//!
//! Messages are accounted for as the channels' are. Locks say by themselves
//! whether they exclude, and have all permits back at the end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::{
    Barrier, Broadcast, Client, Condvar, MVar, Multicast, Mutex as ChanterMutex, RwLock, Semaphore, Server,
    Subscriber, Swap, SwapChannel, Watched, Watcher, broadcast, multicast, rpc, swap, watch,
};

use crate::common::{Payload, Random};

/// What an event of the soup yields: a message that was received, or came back.
pub(crate) type Food = BoxEvent<'static, Option<Payload>>;

const PERMITS: usize = 3;

pub(crate) struct Larder {
    place: MVar<Payload>,
    equals: SwapChannel<Payload>,
    ends: Mutex<(Swap<Payload, Payload>, Swap<Payload, Payload>)>,
    news: Multicast<Arc<Payload>>,
    ticks: Broadcast<Arc<Payload>>,
    /// Ports, subscribers and watchers that several threads use.
    readers: Mutex<Readers>,
    value: Watched<Payload>,
    barrier: Barrier,
    calls: Mutex<(Client<Payload, Payload>, Server<Payload, Payload>)>,
    semaphore: Arc<Semaphore>,
    mutex: Arc<ChanterMutex<()>>,
    /// Somebody has the mutex.
    locked: Arc<AtomicBool>,
    rwlock: Arc<RwLock<()>>,
    /// How many read; `WRITES` if somebody writes.
    reading: Arc<AtomicUsize>,
    news_of_mutex: &'static Condvar,
    once: Mutex<IVar<Arc<Payload>>>,
}

const WRITES: usize = 1 << 20;

struct Readers {
    port: Arc<chanter::sync::Port<Arc<Payload>>>,
    subscriber: Arc<Subscriber<Arc<Payload>>>,
    watcher: Arc<Watcher<Payload>>,
}

/// Somebody has the mutex; dropped before the guard is.
struct Inside(Arc<AtomicBool>);

impl Inside {
    fn new(locked: &Arc<AtomicBool>) -> Self {
        assert!(!locked.swap(true, Ordering::SeqCst), "locked by two");
        Self(locked.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Larder {
    pub(crate) fn new(first: Payload) -> Self {
        let (news, ticks) = (multicast(), broadcast(3));
        let (value, watcher) = watch(first);
        let readers = Readers {
            port: Arc::new(news.port()),
            subscriber: Arc::new(ticks.subscribe()),
            watcher: Arc::new(watcher),
        };
        Self {
            place: MVar::empty(),
            equals: SwapChannel::new(),
            ends: Mutex::new(swap()),
            news,
            ticks,
            readers: Mutex::new(readers),
            value,
            barrier: Barrier::new(3),
            calls: Mutex::new(rpc()),
            semaphore: Arc::new(Semaphore::new(PERMITS)),
            mutex: Arc::default(),
            locked: Arc::default(),
            rwlock: Arc::default(),
            reading: Arc::default(),
            news_of_mutex: Box::leak(Box::new(Condvar::new())),
            once: Mutex::default(),
        }
    }

    /// An event that may have to wait for ever.
    pub(crate) fn event(&self, random: &mut Random, mut payload: impl FnMut() -> Payload) -> Food {
        match random.below(19) {
            0 => self.place.take().wrap(Some).boxed(),
            1 => self.place.put(payload()).wrap(|()| None).boxed(),
            2 => self.place.swap(payload()).wrap(Some).boxed(),
            3 | 4 => self.equals.swap(payload()).wrap(Some).boxed(),
            5 => {
                let ends = self.ends.lock().unwrap();
                let end = if random.below(2) == 0 { &ends.0 } else { &ends.1 };
                end.swap(payload()).wrap(|got| Some(got.unwrap_or_else(|back| back.0))).boxed()
            }
            6 => {
                let port = self.readers.lock().unwrap().port.clone();
                // Half of them read for themselves.
                let event = if random.below(2) == 0 { port.recv() } else { (*port).clone().recv() };
                event.wrap(|_| None).boxed()
            }
            7 => {
                let subscriber = self.readers.lock().unwrap().subscriber.clone();
                let event =
                    if random.below(2) == 0 { subscriber.recv() } else { (*subscriber).clone().recv() };
                event.wrap(|_| None).boxed()
            }
            8 => self.readers.lock().unwrap().watcher.changed().wrap(|_| None).boxed(),
            9 => self.barrier.wait().wrap(|_| None).boxed(),
            10 => {
                let client = self.calls.lock().unwrap().0.clone();
                client.call(payload()).wrap(Result::ok).boxed()
            }
            11 | 12 => {
                let server = self.calls.lock().unwrap().1.clone();
                let answer = payload();
                // The answer is sent later, by whoever comes by, or never.
                let event = server.accept().wrap(move |accepted| {
                    let (request, reply) = accepted.ok()?;
                    drop(reply.send(answer).try_sync());
                    Some(request)
                });
                event.boxed()
            }
            13 => {
                let permits = 1 + random.below(PERMITS);
                self.semaphore.clone().acquire_owned(permits).wrap(|_permit| None).boxed()
            }
            14 => self.exclusive().boxed(),
            15 => {
                let reading = self.reading.clone();
                let event = self.rwlock.clone().read_owned().wrap(move |guard| {
                    assert!(reading.fetch_add(1, Ordering::SeqCst) < WRITES, "read while written");
                    reading.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                    None
                });
                event.boxed()
            }
            16 => {
                let reading = self.reading.clone();
                let event = self.rwlock.clone().write_owned().wrap(move |guard| {
                    assert_eq!(reading.fetch_add(WRITES, Ordering::SeqCst), 0, "written by two");
                    reading.fetch_sub(WRITES, Ordering::SeqCst);
                    drop(guard);
                    None
                });
                event.boxed()
            }
            17 => match self.mutex.clone().try_lock_owned() {
                Some(guard) => self.news_of_mutex.wait(guard).wrap(|_guard| None).boxed(),
                None => self.exclusive().boxed(),
            },
            _ => self.once.lock().unwrap().get().wrap(|_| None).boxed(),
        }
    }

    fn exclusive(&self) -> impl Event<Output = Option<Payload>> + Send + use<> {
        let locked = self.locked.clone();
        self.mutex.clone().lock_owned().wrap(move |guard| {
            drop(Inside::new(&locked));
            drop(guard);
            None
        })
    }

    /// Something that needs no wait, and that others may wait for.
    pub(crate) fn stir(&self, random: &mut Random, mut payload: impl FnMut() -> Payload) {
        match random.below(10) {
            0 => drop(self.place.try_put(payload())),
            1 => drop(self.place.try_take()),
            2 => drop(self.equals.try_swap(payload())),
            3 => drop(self.news.send(Arc::new(payload()))),
            4 => drop(self.ticks.send(Arc::new(payload()))),
            5 => drop(self.value.send(payload())),
            6 => self.news_of_mutex.notify_one(),
            7 => self.news_of_mutex.notify_all(),
            8 => drop(self.once.lock().unwrap().put(Arc::new(payload()))),
            // New ones for old ones, which may be waited for.
            _ => match random.below(4) {
                0 => drop(std::mem::take(&mut *self.once.lock().unwrap())),
                1 => {
                    let old = std::mem::replace(&mut *self.calls.lock().unwrap(), rpc());
                    drop(old);
                }
                2 => {
                    let old = std::mem::replace(&mut *self.ends.lock().unwrap(), swap());
                    drop(old);
                }
                _ => {
                    let mut readers = self.readers.lock().unwrap();
                    let old = std::mem::replace(&mut readers.port, Arc::new(self.news.port()));
                    drop(readers);
                    drop(old);
                }
            },
        }
    }

    /// Has some permits or the mutex for a while, in which others wait.
    pub(crate) async fn hold(&self, random: &mut Random) {
        let late = after(Duration::from_micros(random.next() % 300));
        if random.below(2) == 0 {
            let permits = 1 + random.below(PERMITS);
            let acquire = self.semaphore.clone().acquire_owned(permits);
            let permit = choose((acquire.wrap(Result::ok), late.wrap(|()| None))).await;
            yield_now().await;
            drop(permit);
        } else {
            let lock = self.mutex.clone().lock_owned();
            let guard = choose((lock.wrap(Some), late.wrap(|()| None))).await;
            if guard.is_some() {
                // The thread may be cancelled in the middle.
                let inside = Inside::new(&self.locked);
                yield_now().await;
                drop(inside);
            }
            drop(guard);
        }
    }

    /// Everybody has gone: everything is back, and nobody waits.
    pub(crate) fn check(&self) {
        assert_eq!(self.semaphore.available(), PERMITS, "permits are lost");
        assert_eq!(self.semaphore.try_acquire(PERMITS).map(|permit| permit.count()), Ok(PERMITS));
        assert!(self.mutex.try_lock().is_some(), "the mutex is lost");
        assert!(self.rwlock.try_write().is_some(), "the lock is lost");
        assert!(self.barrier.wait().try_sync().is_none(), "a ghost waits");
        assert!(self.calls.lock().unwrap().1.is_empty(), "a call of nobody");
    }
}
