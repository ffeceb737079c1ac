//! A cluster that is restarted process by process, under load, and accounts for each message.
//!
//! ```text
//! $ chanter launch -n 3 --open job rolling serve        # three servers, which others may join
//! $ chanter join --file job rolling control 3 3         # load; it keeps 3 servers, and ends after 3 restarts
//! $ chanter join --file job rolling serve               # three times: each takes the place of the oldest one
//! ```
//!
//! The controller sends messages and requests to all servers. Whenever there are more servers than it wants, it asks the
//! oldest one to leave. At the end it asks the others, too. Each server tells what it has taken; the controller adds
//! up.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter::sync::Mutex as Turns;
use chanter_cluster::{ANYONE, Begun, CallError, Process, SendError, Service};

/// Answers with what it was asked.
const ECHO: Service<u64, u64> = Service::new("rolling::echo");
/// Tells a server to leave.
const LEAVE: Service<(), ()> = Service::new("rolling::leave");
const WORK: u32 = 1;
/// A server's last message to the controller: the number of messages that it has taken.
const TAKEN: u32 = 2;
/// Number of requests and messages to each server in a round of the load.
const BURST: u64 = 8;

#[chanter_cluster::main]
async fn main(here: Process) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve"] => serve(&here).await,
        ["control", servers, restarts] => match (servers.parse(), restarts.parse()) {
            (Ok(servers), Ok(restarts)) => return control(&here, servers, restarts).await,
            _ => return ExitCode::from(2),
        },
        _ => println!("usage: rolling serve | rolling control SERVERS RESTARTS"),
    }
    ExitCode::SUCCESS
}

/// Serves until the controller says that it is enough.
async fn serve(here: &Process) {
    let (enough, is_enough) = mailbox();
    here.serve(ECHO, |_, value| async move { value }).expect("the first service").forever();
    let told = here.serve(LEAVE, move |caller, ()| {
        let _ = enough.try_send(caller.process());
        async {}
    });
    told.expect("the first service").forever();
    let inbox = here.main_inbox().expect("taken once");
    let mut taken = 0_u64;
    let controller = loop {
        let message = inbox.recv::<u64>(ANYONE, WORK).wrap(Ok);
        match choose((
            is_enough.recv().wrap(|process| Err(process.expect("a service has the other end"))),
            message,
        ))
        .await
        {
            Ok(message) => {
                message.expect("this inbox is open");
                taken += 1;
            }
            Err(controller) => break controller,
        }
    };
    // The messages that have come by now are taken, too. The controller sends none after its request.
    while let Some(Ok(_)) = inbox.recv::<u64>(ANYONE, WORK).try_sync() {
        taken += 1;
    }
    let _ = inbox.send(here.main_of(controller), TAKEN, &taken).await;
}

/// The account of the load.
#[derive(Default)]
struct Account {
    /// Messages to each server.
    sent: BTreeMap<u32, u64>,
    answered: u64,
    /// Requests that were never begun, and were made again elsewhere.
    again: u64,
    /// Requests that may have run or not.
    unknown: u64,
}

/// Loads the servers, and lets them leave, until `restarts` of them have left.
async fn control(here: &Process, servers: usize, restarts: usize) -> ExitCode {
    let inbox = Arc::new(here.main_inbox().expect("taken once"));
    let account = Arc::new(Mutex::new(Account::default()));
    // Held during a burst, so that none is under way when a server is told to leave.
    let leaving = Arc::new(Turns::new(Vec::new()));
    let ends = Arc::new(AtomicBool::new(false));
    let load = {
        let (here, inbox, account, leaving, ends) =
            (here.clone(), Arc::clone(&inbox), Arc::clone(&account), Arc::clone(&leaving), Arc::clone(&ends));
        spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                for server in others(&here) {
                    // A server that leaves gets no more messages.
                    let leaving = leaving.lock().await;
                    if !leaving.contains(&server) {
                        burst(&here, &inbox, server, &account).await;
                    }
                }
                yield_now().await;
            }
        })
    };
    let members = here.members();
    let mut restarted = 0;
    while restarted < restarts {
        if others(here).len() <= servers {
            members.changed().await.expect("this process is there");
            continue;
        }
        let oldest = others(here)[0];
        retire(here, oldest, &leaving).await;
        restarted += 1;
        println!("process {oldest} has left, {restarted} of {restarts}");
    }
    ends.store(true, Ordering::Relaxed);
    load.join().await.expect("the load does not panic");
    for server in others(here) {
        retire(here, server, &leaving).await;
    }
    let mut taken = BTreeMap::new();
    while let Some(Ok(message)) = inbox.recv::<u64>(ANYONE, TAKEN).try_sync() {
        taken.insert(message.from.process.0, message.value);
    }
    let account = account.lock().unwrap();
    let messages: u64 = account.sent.values().sum();
    println!(
        "{} servers took {messages} messages; {} requests answered, {} made again, {} unknown",
        taken.len(),
        account.answered,
        account.again,
        account.unknown
    );
    taken.retain(|_, taken| *taken > 0);
    if taken == account.sent && account.unknown == 0 {
        ExitCode::SUCCESS
    } else {
        println!("sent: {:?}\ntaken: {taken:?}", account.sent);
        ExitCode::FAILURE
    }
}

/// Asks a server to leave, and waits until it has gone.
async fn retire(here: &Process, server: u32, leaving: &Turns<Vec<u32>>) {
    leaving.lock().await.push(server);
    let _ = here.at(server).call(LEAVE.ask(&())).await;
    let members = here.members();
    while members.borrow().contains(&server) {
        let _ = members.changed().await;
    }
}

/// All processes but this one, the oldest first.
fn others(here: &Process) -> Vec<u32> {
    here.members().get().into_iter().filter(|member| *member != here.number()).collect()
}

/// Some messages, and some requests, to one server.
async fn burst(here: &Process, inbox: &chanter_cluster::Inbox, server: u32, account: &Mutex<Account>) {
    for number in 0..BURST {
        match inbox.send(here.main_of(server), WORK, &number).await {
            Ok(()) => *account.lock().unwrap().sent.entry(server).or_default() += 1,
            Err(SendError::Lost(..) | SendError::Gone(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
    for number in 0..BURST {
        let answer = here.at(server).call(ECHO.ask(&number)).await;
        let mut account = account.lock().unwrap();
        match answer {
            Ok(value) if value == number => account.answered += 1,
            Ok(value) => panic!("{value} in place of {number}"),
            Err(CallError::Lost { begun: Begun::No, .. }) => account.again += 1,
            // It has not begun its services yet.
            Err(CallError::NoService { .. }) => return,
            Err(_) => account.unknown += 1,
        }
    }
}
