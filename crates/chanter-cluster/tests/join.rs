//! Processes that join and leave a running cluster, in one OS process: each has a socket of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use chanter_cluster::engine::Why;
use chanter_cluster::engine::socket::{Config, StartError};
use chanter_cluster::join::{Join, Seed};
use chanter_cluster::launcher::{Address, Secret};
use chanter_cluster::{ANYONE, Process, SendError, Service};
use tempfile::TempDir;

const TAG: u32 = 1;
const ECHO: Service<u64, u64> = Service::new("test::echo");

/// Addresses in a folder, of which that of `0` is the seed.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn address(&self, name: u32) -> Address {
        Address::Unix(self.folder.path().join(name.to_string()))
    }

    /// Joins by way of the processes with these names.
    fn join(&self, name: u32, seeds: &[u32]) -> Join {
        let join = Join::new(Secret::new([7; 32]), self.address(name)).founds_after(Duration::ZERO);
        // No process becomes suspect, however slow the machine is.
        let config = unhurried();
        seeds.iter().fold(join.config(config), |join, seed| join.seed(Seed::Address(self.address(*seed))))
    }
}

fn unhurried() -> Config {
    let mut config = Config::default();
    (config.heartbeat, config.start) = (Duration::from_secs(60), Duration::from_secs(600));
    config.hello = Duration::from_secs(60);
    config
}

/// Waits until a process sees exactly these.
async fn sees(here: &Process, members: &[u32]) {
    let watcher = here.members();
    while watcher.update().as_slice() != members {
        watcher.changed().await.unwrap();
    }
}

#[chanter::test]
async fn each_process_that_joins_talks_to_all() {
    let place = Place::new();
    let first = Process::join(place.join(0, &[0])).await.unwrap();
    assert_eq!((first.number(), first.count(), first.members().get()), (0, 1, vec![0]));
    let mut cluster = vec![first];
    for name in 1..5 {
        // By way of the one that has joined last.
        let here = Process::join(place.join(name, &[name - 1])).await.unwrap();
        assert_eq!((here.number(), here.count()), (name, name + 1));
        cluster.push(here);
    }
    for here in &cluster {
        sees(here, &[0, 1, 2, 3, 4]).await;
        here.serve(ECHO, |caller, value| async move { value + u64::from(caller.process()) })
            .unwrap()
            .forever();
    }
    let inboxes: Vec<_> = cluster.iter().map(|here| here.main_inbox().unwrap()).collect();
    for (from, here) in cluster.iter().enumerate() {
        for to in 0..5 {
            assert_eq!(here.at(to).call(ECHO.ask(&100)).await, Ok(100 + from as u64));
            inboxes[from].send(here.main_of(to), TAG, &(from as u32)).await.unwrap();
        }
    }
    for inbox in &inboxes {
        let mut got = Vec::new();
        for _ in 0..5 {
            got.push(inbox.recv::<u32>(ANYONE, TAG).await.unwrap().value);
        }
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3, 4]);
    }
}

#[chanter::test]
async fn many_join_at_once() {
    let place = Arc::new(Place::new());
    let first = Process::join(place.join(0, &[0])).await.unwrap();
    let joins: Vec<_> = (1..9)
        .map(|name| {
            let place = Arc::clone(&place);
            spawn(async move { Process::join(place.join(name, &[0])).await.unwrap() })
        })
        .collect();
    let mut cluster = vec![first];
    for join in joins {
        cluster.push(join.join().await.unwrap());
    }
    let mut numbers: Vec<u32> = cluster.iter().map(Process::number).collect();
    numbers.sort_unstable();
    for here in &cluster {
        sees(here, &numbers).await;
    }
}

/// Names, and the numbers of the next processes, survive each leader.
#[chanter::test]
async fn a_cluster_outlives_each_of_its_processes() {
    let place = Place::new();
    let mut cluster = vec![Process::join(place.join(0, &[0])).await.unwrap()];
    for name in 1..3 {
        cluster.push(Process::join(place.join(name, &[0])).await.unwrap());
    }
    for name in 3..9 {
        let oldest = cluster.remove(0);
        let number = oldest.number();
        oldest.leave().await;
        let here = Process::join(place.join(name, &[name - 1, name - 2])).await.unwrap();
        assert_eq!(here.number(), name, "numbers go on");
        assert_eq!(here.down(number), Some(Why::Left), "it had gone before this one joined");
        cluster.push(here);
        let inbox = cluster[2].inbox().unwrap();
        let registered = cluster[2].register("newest", &inbox).await.unwrap();
        for here in &cluster {
            assert_eq!(here.find("newest").await.unwrap(), inbox.name());
            sees(here, &[name - 2, name - 1, name]).await;
        }
        drop(registered);
    }
    let gone = cluster[0].main_inbox().unwrap();
    let error = gone.send(cluster[0].main_of(0), TAG, &0_u32).await.unwrap_err();
    assert!(matches!(error, SendError::Lost(_, Why::Left)), "{error}");
    let error = gone.send(cluster[0].main_of(99), TAG, &0_u32).await.unwrap_err();
    assert!(matches!(error, SendError::NoSuchProcess(_)), "{error}");
}

#[chanter::test]
async fn who_does_not_know_the_secret_or_finds_nobody_stays_outside() {
    let place = Place::new();
    let first = Process::join(place.join(0, &[0])).await.unwrap();
    let brief = || {
        let mut config = unhurried();
        config.start = Duration::from_millis(500);
        config
    };
    let stranger = Join::new(Secret::new([8; 32]), place.address(1)).config(brief());
    let error = Process::join(stranger.seed(Seed::Address(place.address(0)))).await.unwrap_err();
    assert!(error.to_string().contains("it does not know the job's secret"), "{error}");
    let lost = place.join(2, &[3]).config(brief());
    assert!(matches!(Process::join(lost).await.unwrap_err(), StartError::Seed(..)));
    let alone = place.join(2, &[2]).never_founds().config(brief());
    assert!(matches!(Process::join(alone).await.unwrap_err(), StartError::NoSeed(_)));
    assert_eq!(first.members().get(), [0]);
    let second = Process::join(place.join(2, &[0])).await.unwrap();
    assert_eq!(second.number(), 1, "nobody else had a number");
}

/// A joining process that is dropped is not awaited for long, and the next one is let in.
#[chanter::test]
async fn who_gives_up_joining_does_not_delay_others() {
    let place = Arc::new(Place::new());
    let first = Process::join(place.join(0, &[0])).await.unwrap();
    for name in 1..20 {
        let joining = {
            let place = Arc::clone(&place);
            spawn(async move { drop(Process::join(place.join(name, &[0])).await) })
        };
        for _ in 0..name {
            yield_now().await;
        }
        let _ = joining.cancel().await;
    }
    let here = Process::join(place.join(20, &[0])).await.unwrap();
    sees(&first, &[0, here.number()]).await;
    sees(&here, &[0, here.number()]).await;
}

/// Requests go on while each process in turn leaves and another one joins; and each is accounted for.
#[chanter::test]
async fn a_rolling_restart_under_load_loses_nothing() {
    const PROCESSES: u32 = 4;
    let place = Arc::new(Place::new());
    let served = Arc::new(AtomicU32::new(0));
    let start = |name: u32, seeds: Vec<u32>| {
        let (place, served) = (Arc::clone(&place), Arc::clone(&served));
        async move {
            let here = Process::join(place.join(name, &seeds)).await.unwrap();
            let count = move |_, value| {
                served.fetch_add(1, Ordering::Relaxed);
                async move { value }
            };
            here.serve(ECHO, count).unwrap().forever();
            here
        }
    };
    let mut cluster = Vec::new();
    for name in 0..PROCESSES {
        cluster.push(start(name, vec![0]).await);
    }
    let client = start(PROCESSES, vec![0]).await;
    let (stop, stopped) = mailbox::<()>();
    let load = {
        let client = client.clone();
        spawn(async move {
            let (mut answered, mut lost) = (0_u32, 0_u32);
            while stopped.try_recv().is_err() {
                let others = client.members().get().into_iter().filter(|member| *member != client.number());
                for member in others.collect::<Vec<_>>() {
                    match client.at(member).call(ECHO.ask(&u64::from(answered))).await {
                        Ok(value) => {
                            assert_eq!(value, u64::from(answered));
                            answered += 1;
                        }
                        Err(_) => lost += 1,
                    }
                }
            }
            (answered, lost)
        })
    };
    for restart in 0..PROCESSES {
        let name = PROCESSES + 1 + restart;
        let oldest = cluster.remove(0);
        oldest.leave().await;
        drop(oldest);
        cluster.push(start(name, vec![PROCESSES, name - 1]).await);
        // Some load passes in each state.
        let before = served.load(Ordering::Relaxed);
        while served.load(Ordering::Relaxed) < before + 20 {
            from_cancel_safe(yield_now()).await;
        }
    }
    stop.try_send(()).unwrap();
    let (answered, lost) = load.join().await.unwrap();
    let served = served.load(Ordering::Relaxed);
    // A request that began may have been lost with its process; one that is answered was served.
    assert!(
        answered <= served && served <= answered + lost,
        "{answered} answered, {served} served, {lost} lost"
    );
    assert!(answered >= 20 * PROCESSES);
    let last: Vec<u32> = (PROCESSES..2 * PROCESSES + 1).collect();
    sees(&client, &last).await;
}

/// All start at once, and one of them begins the cluster; the others wait for it.
#[chanter::test]
async fn a_cluster_starts_cold() {
    let place = Arc::new(Place::new());
    let joins: Vec<_> = (0..6)
        .map(|name| {
            let place = Arc::clone(&place);
            spawn(async move { Process::join(place.join(name, &[0, 1, 2, 3, 4, 5])).await.unwrap() })
        })
        .collect();
    let mut cluster = Vec::new();
    for join in joins {
        cluster.push(join.join().await.unwrap());
    }
    assert_eq!(cluster[0].number(), 0, "its address is the first of the seeds");
    let mut numbers: Vec<u32> = cluster.iter().map(Process::number).collect();
    numbers.sort_unstable();
    for here in &cluster {
        sees(here, &numbers).await;
    }
}

/// A port ends when its last sender goes with a process that has joined, also for members that have come since.
#[chanter::test]
async fn ports_count_processes_that_join() {
    let place = Place::new();
    let first = Process::join(place.join(0, &[0])).await.unwrap();
    let second = Process::join(place.join(1, &[0])).await.unwrap();
    let port = first.port::<u32>().unwrap();
    let outlet = second.connect(port.sender()).unwrap();
    outlet.send(7).await.unwrap();
    assert_eq!(port.recv().await, Ok(7));
    let third = Process::join(place.join(2, &[1])).await.unwrap();
    let outlet_there = third.connect(port.sender()).unwrap();
    second.leave().await;
    drop((outlet, second));
    // It has never known the second one, which has gone.
    let fourth = Process::join(place.join(3, &[0])).await.unwrap();
    outlet_there.send(8).await.unwrap();
    assert_eq!(port.recv().await, Ok(8));
    drop((outlet_there, third));
    assert!(port.recv().await.is_err(), "no process has a sender");
    sees(&fourth, &[0, 3]).await;
}
