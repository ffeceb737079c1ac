use std::sync::mpsc;

use chanter::prelude::Machine;

use super::*;

/// Longer than anything here takes, on any machine.
const LONG: Duration = Duration::from_secs(300);
/// Time limit of a call that hangs.
const SHORT: Duration = Duration::from_millis(20);

fn on_a_machine<T: Send>(body: impl Future<Output = T> + Send) -> T {
    Machine::builder().vps(1).build().unwrap().block_on(body)
}

/// Calls that hang until this is dropped.
struct Hang {
    _end: mpsc::Sender<()>,
    ended: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Hang {
    fn new() -> Hang {
        let (_end, ended) = mpsc::channel();
        Hang { _end, ended: Arc::new(Mutex::new(ended)) }
    }

    fn call(&self) -> impl FnOnce() + Send + use<> {
        let ended = self.ended.clone();
        move || assert!(lock(&ended).recv().is_err(), "nothing is ever sent")
    }
}

async fn hangs(disk: &Disk, place: &Arc<Place>, path: &str, hang: &Hang) -> Result<(), Unanswered> {
    disk.run_within(SHORT, place, Path::new(path), hang.call()).await
}

async fn answers(disk: &Disk, place: &Arc<Place>, path: &str) -> Result<u8, Unanswered> {
    disk.run(place, Path::new(path), || 7).await
}

/// One file that hangs takes [`ON_A_FILE`] threads and no more, and its neighbours are served.
#[test]
fn a_file_that_hangs_leaves_the_others_theirs() {
    on_a_machine(async {
        let (disk, hang) = (Disk::new(LONG), Hang::new());
        let place = disk.beyond(Path::new("mounted"));
        for _ in 0..ON_A_FILE {
            assert_eq!(hangs(&disk, &place, "hung", &hang).await, Err(Unanswered::Late));
        }
        for _ in 0..100 {
            assert_eq!(hangs(&disk, &place, "hung", &hang).await, Err(Unanswered::Crowded));
            assert_eq!(answers(&disk, &place, "healthy").await, Ok(7));
        }
        // A hung call comes back, and so do its threads.
        drop(hang);
        assert_eq!(answers(&disk, &place, "hung").await, Ok(7));
    });
}

/// Many that hang take the threads of their place; other places, and our own disk, keep theirs.
#[test]
fn a_place_that_hangs_leaves_the_others_theirs() {
    on_a_machine(async {
        let (disk, hang) = (Disk::new(LONG), Hang::new());
        let place = disk.beyond(Path::new("mounted"));
        for i in 0..AT_A_PLACE {
            assert_eq!(hangs(&disk, &place, &format!("hung {i}"), &hang).await, Err(Unanswered::Late));
        }
        assert_eq!(hangs(&disk, &place, "another", &hang).await, Err(Unanswered::Crowded));
        assert_eq!(answers(&disk, &disk.beyond(Path::new("other")), "another").await, Ok(7));
        for own in [disk.own(), disk.listings()] {
            assert_eq!(answers(&disk, &own, "hung 0").await, Ok(7));
        }
        drop(hang);
        assert_eq!(answers(&disk, &place, "another").await, Ok(7));
    });
}

/// All places that hang together have a bound too, and our own disk still answers.
#[test]
fn the_threads_that_hang_are_bounded() {
    on_a_machine(async {
        let (disk, hang) = (Disk::new(LONG), Hang::new());
        let mut late = 0;
        for place in 0..2 * ELSEWHERE / AT_A_PLACE {
            let place = disk.beyond(Path::new(&format!("mounted {place}")));
            for i in 0..AT_A_PLACE {
                match hangs(&disk, &place, &format!("hung {i}"), &hang).await {
                    Err(Unanswered::Late) => late += 1,
                    other => assert_eq!(other, Err(Unanswered::Crowded)),
                }
            }
        }
        assert_eq!(late, ELSEWHERE);
        // Neither do those who ask for files hold up listings, nor the other way round.
        for i in 0..DETAILS {
            let place = disk.details(Path::new(&format!("mounted {i}")));
            assert_eq!(hangs(&disk, &place, "directory", &hang).await, Err(Unanswered::Late));
        }
        assert_eq!(
            hangs(&disk, &disk.details(Path::new("another")), "directory", &hang).await,
            Err(Unanswered::Crowded)
        );
        assert_eq!(answers(&disk, &disk.own(), "file").await, Ok(7));
    });
}

/// Threads are used again: there are never more of them than calls at once.
#[test]
fn threads_are_used_again() {
    on_a_machine(async {
        let disk = Disk::new(LONG);
        let mut used = std::collections::HashSet::new();
        for _ in 0..200 {
            let of = |place: &Arc<Place>| {
                let (disk, place) = (disk.clone(), place.clone());
                async move { disk.run(&place, Path::new("f"), || thread::current().id()).await.unwrap() }
            };
            used.insert(of(&disk.own()).await);
            used.insert(of(&disk.beyond(Path::new("mounted"))).await);
        }
        assert!(used.len() <= OWN + AT_A_PLACE, "{} threads", used.len());
    });
}

#[test]
fn a_call_that_panics_costs_nothing() {
    on_a_machine(async {
        let disk = Disk::new(LONG);
        for _ in 0..3 * AT_A_PLACE {
            let place = disk.beyond(Path::new("mounted"));
            let call = || -> u8 { std::panic::resume_unwind(Box::new("")) };
            assert_eq!(disk.run(&place, Path::new("f"), call).await, Err(Unanswered::Failed));
        }
    });
}

/// A machine ends while calls hang, and who waited for one is let go.
#[test]
fn nothing_waits_for_threads_that_hang() {
    let hang = Hang::new();
    on_a_machine(async {
        let disk = Disk::new(LONG);
        let place = disk.beyond(Path::new("mounted"));
        let (begun, has_begun) = bounded(1);
        let call = hang.call();
        drop(spawn(async move {
            let call = move || {
                let _ = begun.try_send(());
                call();
            };
            let _ = disk.run(&place, Path::new("hung"), call).await;
        }));
        has_begun.recv().await.unwrap();
    });
    // Here the machine is gone, and the call still hangs.
    drop(hang);
}

#[test]
fn names_that_nobody_has_are_forgotten() {
    let mut named = Named::<u8>::default();
    let held: Vec<_> = (0..10).map(|i| named.get(Path::new(&format!("held {i}")), || i)).collect();
    for i in 0..10_000 {
        named.get(Path::new(&i.to_string()), || 0);
    }
    assert!(named.by_path.len() <= 128);
    for (i, held) in held.iter().enumerate() {
        assert!(Arc::ptr_eq(held, &named.get(Path::new(&format!("held {i}")), || 99)));
    }
}
