//! `chanter launch-node`: the processes of a job on one of its computers. The launcher's side is in `nodes.rs`, and
//! their lines are in `protocol.rs`.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::shm::Protocol;
use chanter_cluster::launcher::{self, Address};

use super::job::{Job, Options};
use super::local::{Local, make_room, segment};
use super::process::Process;
use super::protocol::{Answer, Order, Start, VERSION, Word, line, read_first};
use super::{Failure, cannot, streams};

/// The standard input, waited for even if it does not block.
struct Input;

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        streams::read(io::stdin(), buffer)
    }
}

/// The lines of the standard input. The channel is closed when the launcher has gone.
fn lines() -> io::Result<Receiver<Vec<u8>>> {
    let (lines, read) = mailbox();
    thread::Builder::new().name("input".into()).spawn(move || {
        let mut input = BufReader::new(Input);
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                // A line without its end is cut: the launcher has died.
                Ok(_) if line.ends_with(b"\n") && lines.send(line).sync_blocking().is_ok() => {}
                _ => return,
            }
        }
    })?;
    Ok(read)
}

/// Does what the launcher orders: binds listeners, waits until all nodes have, and starts the processes.
pub(super) async fn start() -> Result<Job, Failure> {
    let launcher = lines().map_err(cannot)?;
    let gone = |_| (1, "the launcher has gone".to_owned());
    let first = launcher.recv().await.map_err(gone)?;
    let order: Order = read_first(&first, "an order of chanter launch", "the launcher", "this node")
        .map_err(|why| (2, format!("launch-node: {why}")))?;
    if order.here == 0 || order.program.is_empty() {
        return Err((2, "launch-node: the order is for no process".into()));
    }
    make_room(order.here);
    let listeners: Vec<TcpListener> = (0..order.here)
        .map(|_| TcpListener::bind((order.address, 0)))
        .collect::<io::Result<_>>()
        .map_err(|error| (1, format!("{}: cannot listen at {}: {error}", order.host, order.address)))?;
    let addresses =
        listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>().map_err(cannot)?;
    let answer = line(&Answer { version: VERSION, addresses });
    streams::write_all(io::stdout(), &answer).map_err(cannot)?;
    match serde_json::from_slice(&launcher.recv().await.map_err(gone)?) {
        Ok(Word::Start(start)) => begin(order, &start, listeners, launcher),
        // The job does not begin.
        Ok(Word::Signal(_)) => Err((1, format!("{}: the job has not begun", order.host))),
        // Quotes nothing: the line has the secret.
        Err(_) => Err((2, "launch-node: the launcher's second line is wrong".into())),
    }
}

/// Starts the processes.
fn begin(
    order: Order,
    start: &Start,
    listeners: Vec<TcpListener>,
    launcher: Receiver<Vec<u8>>,
) -> Result<Job, Failure> {
    if let Some(folder) = order.folder.as_deref().filter(|folder| Path::is_dir(folder)) {
        std::env::set_current_dir(folder).map_err(cannot)?;
    }
    let addresses: Vec<String> =
        start.addresses.iter().map(|address| Address::Tcp(*address).to_string()).collect();
    let mut variables = vec![
        (launcher::COUNT, order.count.to_string()),
        (launcher::ADDRESSES, addresses.join(",")),
        (launcher::SECRET, start.secret.clone()),
    ];
    variables.extend(start.variables.iter().map(|(name, value)| (name.as_str(), value.clone())));
    // It is for all processes of the job: those of other hosts leave their parts alone.
    let (segment, warning) =
        if order.segment && order.here > 1 { segment(order.count, Protocol::Pull)? } else { (None, None) };
    let first = order.first as usize;
    let processes = Local {
        program: &order.program,
        first,
        variables: &variables,
        listeners: listeners.into_iter().map(Into::into).collect(),
        segment,
        stdin: false,
    };
    let mut job = Job::new(Options {
        timeout: None,
        // A launcher sends no wrong time.
        grace: Duration::try_from_secs_f64(order.grace).unwrap_or_default(),
        keep_going: order.keep_going,
        status: order.status,
        prefix: order.prefix,
        host: Some(order.host.clone()),
    })
    .map_err(cannot)?;
    job.has_launcher(launcher);
    let children = processes.spawn()?;
    if let Some(warning) = warning {
        job.complain(&warning);
    }
    for (number, child) in (first..).zip(children) {
        job.watch(Process::new(number, &child), child, None).map_err(cannot)?;
    }
    Ok(job)
}
