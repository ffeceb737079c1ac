//! Objects of launched processes: called, forwarded to, placed, moved; and one of the processes is killed.

use chanter_cluster::{ANYONE, Process};
use chanter_objects::{Lazy, ObjectError, Owner, Ref, object};
use nix::sys::signal::{Signal, raise};
use serde::{Deserialize, Serialize};

use super::{launch, lines};

/// Something in a chain through the processes.
#[derive(Serialize, Deserialize)]
struct Bead {
    number: u32,
    next: Option<Ref<Bead>>,
}

#[object(remote, moves)]
impl Bead {
    #[method(read)]
    fn number(&self) -> u32 {
        self.number
    }

    /// Blocks on the next ones.
    #[method(mut)]
    async fn sum(&mut self) -> Result<u32, ObjectError> {
        match self.next {
            Some(next) => Ok(self.number + Box::pin(next.sum().into_future()).await??),
            None => Ok(self.number),
        }
    }

    /// The last one answers.
    #[method(read)]
    async fn last(&self, k: Lazy<'_, u32>) {
        match self.next {
            Some(next) => k.forward_boxed(next.last()).await,
            None => k.fill(self.number),
        }
    }

    #[method(read)]
    fn die(&self) {
        raise(Signal::SIGKILL).unwrap();
    }
}

const BEAD: u32 = 1;

pub(super) fn test() {
    for args in [&["--keep-going"][..], &["--keep-going", "--tcp"], &["--keep-going", "--no-segment"]] {
        let output = launch("objects", args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*said),
            (Some(137), "chanter: process 3 failed (signal 9 SIGKILL)\n")
        );
        assert_eq!(lines(&output), ["[0] called, forwarded, placed, moved, lost"]);
    }
}

/// The body of each process.
pub(super) async fn process(here: &Process) {
    let me = here.open("beads").unwrap();
    let (number, count) = (here.number(), here.count());
    let is_last = number + 1 == count;
    let next = if is_last { None } else { Some(me.recv::<Ref<Bead>>(ANYONE, BEAD).await.unwrap().value) };
    if number > 0 {
        let mine = Owner::new(Bead { number, next });
        let before = here.lookup(&format!("beads@{}", number - 1)).await.unwrap();
        me.send(before, BEAD, &mine.reference()).await.unwrap();
        // The first one leaves, or has died.
        let _ = me.recv::<()>(ANYONE, 0).await;
        return;
    }
    let chain = next.expect("there are several");
    assert_eq!(chain.number().await, Ok(1));
    assert_eq!(chain.sum().await, Ok(Ok(6)));
    for _ in 0..100 {
        assert_eq!(chain.last().await, Ok(3));
    }
    let placed = Owner::new_on(2, Bead { number: 7, next: Some(chain) }).await.unwrap();
    assert_eq!(placed.reference().sum().await, Ok(Ok(13)));
    let moved = Owner::new(Bead { number: 8, next: None });
    for to in [3, 1, 2, 0, 3] {
        moved.reference().migrate(to).await.unwrap();
        assert_eq!(moved.reference().last().await, Ok(8));
    }
    placed.reference().migrate(1).await.unwrap();
    assert_eq!(placed.reference().number().await, Ok(7));
    // It is with process 3, and all that is there goes.
    let lost = moved.reference().die().await;
    assert!(matches!(lost, Err(ObjectError::Lost { .. })), "{lost:?}");
    assert!(matches!(moved.reference().number().await, Err(ObjectError::Lost { .. })));
    assert!(matches!(chain.last().await, Err(ObjectError::Lost { .. })));
    assert!(matches!(chain.sum().await, Ok(Err(ObjectError::Lost { .. }))));
    assert_eq!(placed.reference().number().await, Ok(7));
    println!("called, forwarded, placed, moved, lost");
    for other in 1..count {
        if let Ok(other) = here.lookup(&format!("beads@{other}")).await {
            let _ = me.send(other, 0, &()).await;
        }
    }
}
