//! One trip again and again, in steady state: `cargo xtask walk` builds this with counters and reads them.
//!
//! The counters begin anew after [`WARM`] rounds, and are written after [`ROUNDS`] more.

use chanter::prelude::*;
use chanter_cluster::local;
use chanter_objects::Owner;
use std::error::Error;
use std::process::ExitCode;

/// Rounds that are not counted: queues, caches and biases settle in them.
const WARM: u64 = 1_000;
/// Rounds that are counted; `xtask/src/walk/mod.rs` divides by it.
const ROUNDS: u64 = 1_000;
const TAG: u32 = 1;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The counters of `-Cinstrument-coverage`.
#[cfg(walk)]
mod counters {
    // SAFETY: `-Cinstrument-coverage` links the profiler's runtime, which defines these functions with these
    // signatures. Each may be called at any time. A count that races with the reset or the write is one more or less.
    unsafe extern "C" {
        safe fn __llvm_profile_reset_counters();
        safe fn __llvm_profile_write_file() -> std::ffi::c_int;
        safe fn __llvm_profile_set_dumped();
    }

    pub(crate) fn begin() {
        __llvm_profile_reset_counters();
    }

    /// Writes the counts to the file that `LLVM_PROFILE_FILE` names; the end of the process adds nothing.
    pub(crate) fn end() {
        assert_eq!(__llvm_profile_write_file(), 0, "the counts are not written");
        __llvm_profile_set_dumped();
    }
}

#[cfg(not(walk))]
mod counters {
    pub(crate) fn begin() {}
    pub(crate) fn end() {}
}

/// The number of each round; the counters run while the later ones do.
fn rounds() -> impl Iterator<Item = u64> {
    (0..=WARM + ROUNDS).take_while(|&round| {
        if round == WARM {
            counters::begin();
        }
        if round == WARM + ROUNDS {
            counters::end();
        }
        round < WARM + ROUNDS
    })
}

fn main() -> ExitCode {
    let trip = std::env::args().nth(1).unwrap_or_default();
    match run(&trip) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chanter-walk: {trip}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(trip: &str) -> Outcome {
    let machine = Machine::builder().vps(1).build()?;
    match trip {
        "message" => machine.block_on(message()),
        "choice" => machine.block_on(choice()),
        "spawn" => machine.block_on(spawn_and_await()),
        "cluster" => machine.block_on(cluster()),
        "object" => machine.block_on(object()),
        _ => Err("this program is run by `cargo xtask walk`".into()),
    }
}

/// One round: a message over a rendezvous, from one thread to another, and one back.
async fn message() -> Outcome {
    let (ping, pings) = channel();
    let (pong, pongs) = channel();
    let echo = spawn(async move {
        while let Ok(round) = pings.recv().await {
            let _ = pong.send(round).await;
        }
    });
    let caller = spawn(async move {
        for round in rounds() {
            ping.send(round).await?;
            assert_eq!(pongs.recv().await?, round);
        }
        Ok(())
    });
    let outcome = caller.join().await?;
    echo.join().await?;
    outcome
}

/// One round: a choice between two channels, and a message that ends it, of either channel in turn.
async fn choice() -> Outcome {
    let (left, lefts) = channel();
    let (right, rights) = channel();
    let sender = spawn(async move {
        for round in 0..WARM + ROUNDS {
            let side = if round % 2 == 0 { &left } else { &right };
            let _ = side.send(round).await;
        }
    });
    let chooser = spawn(async move {
        for round in rounds() {
            assert_eq!(choose((lefts.recv(), rights.recv())).await?, round);
        }
        Ok(())
    });
    let outcome = chooser.join().await?;
    sender.join().await?;
    outcome
}

/// One round: a thread is spawned, and its value awaited.
async fn spawn_and_await() -> Outcome {
    let parent = spawn(async {
        for round in rounds() {
            assert_eq!(spawn(async move { round }).join().await?, round);
        }
        Ok(())
    });
    parent.join().await?
}

/// One round: a message from one process to another, and one back. Both are processes of one machine, so that the
/// count depends on no clock. Between real processes it depends on the lengths and kinds of waits.
async fn cluster() -> Outcome {
    let [first, second] = <[_; 2]>::try_from(local(2)).map_err(|_| "there are not two processes")?;
    let (me, there) = (first.open("walk")?, second.open("walk")?);
    let (mine, its) = (first.lookup("walk@0").await?, first.lookup("walk@1").await?);
    let echo = spawn(async move {
        for round in 0..WARM + ROUNDS {
            let Ok(got) = there.recv::<u64>(mine, TAG).await else { return };
            assert_eq!(got.value, round);
            let _ = there.send(mine, TAG, &round).await;
        }
    });
    let caller = spawn(async move {
        for round in rounds() {
            me.send(its, TAG, &round).await?;
            assert_eq!(me.recv::<u64>(its, TAG).await?.value, round);
        }
        Ok(())
    });
    let outcome = caller.join().await?;
    echo.join().await?;
    first.leave().await;
    second.leave().await;
    outcome
}

/// One round: a method of an object that nobody else is in.
async fn object() -> Outcome {
    let count = Owner::new(0_u64);
    let counter = count.reference();
    for round in rounds() {
        counter.with_mut(|count| *count += 1).await?;
        assert_eq!(counter.with(|count| *count).await?, round + 1);
    }
    Ok(())
}
