//! Policies are values, and a virtual processor changes its policy while it runs: a service that is
//! fair while it is quiet, and heeds priorities while it is pressed.

use chanter::policy::{Attributes, Fifo, Priority};
use chanter::prelude::*;

const BATCH: usize = 4;

/// Jobs of both kinds, all ready at once; the order in which they ran.
async fn jobs() -> String {
    let (tx, rx) = mailbox();
    for n in 0..2 * BATCH {
        let tx = tx.clone();
        let (name, priority) = if n % 2 == 0 { ('b', -1) } else { ('R', 3) };
        Thread::builder()
            .attributes(Attributes::new().priority(priority))
            .spawn(async move { tx.send(name).await });
    }
    drop(tx);
    let mut order = String::new();
    while let Ok(name) = rx.recv().await {
        order.push(name);
    }
    order
}

fn main() -> std::io::Result<()> {
    let machine = Machine::builder().vps(1).policy(|_vp| Box::new(Fifo::new())).build()?;
    let vp = machine.vp(0);
    machine.block_on(async {
        let quiet = jobs().await;
        // From any thread, in or outside of the machine; what is queued passes to the new one.
        vp.set_policy(Priority::new()).wait().await;
        let pressed = jobs().await;
        vp.set_policy(Fifo::new()).wait().await;
        let quiet_again = jobs().await;

        println!("quiet:   {quiet}\npressed: {pressed}\nquiet:   {quiet_again}");
        assert_eq!(quiet, "bRbRbRbR");
        assert_eq!(pressed, "RRRRbbbb");
        assert_eq!(quiet_again, quiet);
    });
    Ok(())
}
