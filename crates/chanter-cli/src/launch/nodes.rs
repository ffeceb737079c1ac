//! The nodes of a job on several computers, as their launcher sees them.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::process::Child;
use chanter_cluster::launcher::{self, Address};

use super::addresses::secret;
use super::hosts::{self, Share};
use super::input;
use super::job::{Job, Options};
use super::lines::Lines;
use super::local::{cannot_run, make_room};
use super::output::{Output, Source, Stream};
use super::prefix::Prefix;
use super::process::{Process, node_command};
use super::protocol::{Answer, Order, Start, VERSION, line};
use super::{Failure, LaunchArgs, cannot, open};

/// A node's number, and its answer; or the reason why it is none.
pub(super) type Answered = (usize, Result<Vec<SocketAddr>, String>);

/// Nodes that the launcher has started. Until all have answered, no process of the job runs.
pub(super) struct Nodes {
    answers: Receiver<Answered>,
    waiting: Option<Waiting>,
}

/// The state until the job begins.
struct Waiting {
    limit: Duration,
    until: Instant,
    /// The addresses of each node's processes, once it has answered.
    addresses: Vec<Option<Vec<SocketAddr>>>,
    secret: String,
    /// Further variables of the processes.
    variables: Vec<(String, String)>,
    /// The file by which processes join the job, if they may.
    open: Option<PathBuf>,
}

impl Nodes {
    /// Whether a node's answer is missing, or was wrong.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The time at which all must have answered.
    pub(super) fn until(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.until)
    }

    /// The event of the next answer.
    pub(super) fn answer(&self) -> impl Event<Output = Option<Answered>> {
        self.answers.recv().wrap(Result::ok)
    }

    /// Notes an answer. If it was the last one, the answer is what all nodes are told.
    ///
    /// # Errors
    /// The file by which processes join cannot be written. Then the job has not begun.
    pub(super) fn note(&mut self, node: usize, addresses: Vec<SocketAddr>) -> io::Result<Option<Start>> {
        let Some(waiting) = &mut self.waiting else { return Ok(None) };
        waiting.addresses[node] = Some(addresses);
        if waiting.addresses.iter().any(Option::is_none) {
            return Ok(None);
        }
        let addresses: Vec<SocketAddr> = waiting.addresses.iter().flatten().flatten().copied().collect();
        if let Some(file) = &waiting.open {
            let text: Vec<String> =
                addresses.iter().map(|address| Address::Tcp(*address).to_string()).collect();
            open::write(file, &text.join(","), &waiting.secret)?;
        }
        Ok(self.waiting.take().map(|Waiting { secret, variables, .. }| Start {
            addresses,
            secret,
            variables,
        }))
    }

    /// The nodes that have not answered, in words.
    pub(super) fn silent(&self, processes: &[Process]) -> String {
        let Some(waiting) = &self.waiting else { return String::new() };
        let silent = processes.iter().zip(&waiting.addresses).filter(|(_, addresses)| addresses.is_none());
        let names: Vec<&str> = silent.map(|(process, _)| process.name()).collect();
        let mut text = format!("no answer from {}", names.join(", "));
        // Writing to a string does not fail.
        let _ = write!(text, " within {} s", waiting.limit.as_secs_f64());
        text
    }
}

/// The answer that a node owes.
pub(super) struct Expected {
    node: usize,
    address: IpAddr,
    count: u32,
    to: Sender<Answered>,
}

impl Expected {
    /// Passes on the answer, puts `heard`, and passes on all that comes later. After something else than an answer, nothing is
    /// read.
    pub(super) async fn forward<E: Event<Output = ()> + Clone>(
        self,
        mut from: Source<E>,
        output: Output,
        heard: IVar<()>,
    ) {
        let line = from.first_line(Answer::longest(self.count)).await;
        let answer = Answer::judge(&line, self.address, self.count);
        let is_answer = answer.is_ok();
        // The end of a node that has said nothing says more.
        if !line.is_empty() {
            let _ = self.to.send((self.node, answer)).await;
        }
        let _ = heard.put(());
        if is_answer {
            output.forward(from, Stream::Out, Lines::new(Vec::new())).await;
        }
    }
}

/// Starts the nodes of a job on the hosts of `file`.
pub(super) fn start(args: &LaunchArgs, file: &Path) -> Result<Job, Failure> {
    let wrong = |why: String| (1, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let hosts = hosts::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let shares = hosts::share(&hosts, args.processes).map_err(wrong)?;
    let mut variables = args.tls.there().map_err(cannot)?;
    variables.extend(args.open.as_ref().map(|_| (launcher::OPEN.to_owned(), "1".to_owned())));
    let secret = secret().map_err(cannot)?.to_hex();
    let mut job = Job::new(Options::new(args)).map_err(cannot)?;
    make_room(shares.len() as u32);
    let children = shares.iter().map(|share| spawn_node(args, &share.name)).collect::<Result<Vec<_>, _>>()?;
    let (answered, answers) = mailbox();
    let waiting = Waiting {
        limit: args.connect_timeout,
        until: Instant::now() + args.connect_timeout,
        addresses: vec![None; shares.len()],
        secret,
        variables,
        open: args.open.clone(),
    };
    job.has_nodes(Nodes { answers, waiting: Some(waiting) });
    let count = shares.iter().map(|share| share.count).sum();
    for (node, (share, mut child)) in shares.iter().zip(children).enumerate() {
        let (lines, to_node) = mailbox();
        let process = Process::node(node, &share.name, &child, lines);
        process.tell(&line(&order(args, share, count)));
        if let Some(stdin) = child.stdin.take() {
            input::pass_on(stdin, to_node);
        }
        let expected = Expected { node, address: share.address, count: share.count, to: answered.clone() };
        job.watch(process, child, Some(expected)).map_err(cannot)?;
    }
    Ok(job)
}

/// Runs the command that starts `chanter launch-node` on a host.
fn spawn_node(args: &LaunchArgs, host: &str) -> Result<Child, Failure> {
    let mut words: Vec<String> =
        args.by.split_whitespace().map(|word| word.replace("{host}", host)).collect();
    words.extend([args.remote_chanter.clone(), "launch-node".into()]);
    // Until the job has them all.
    node_command(&words).kill_on_drop(true).spawn().map_err(|error| cannot_run(&words[0], &error))
}

fn order(args: &LaunchArgs, share: &Share, count: u32) -> Order {
    Order {
        version: VERSION,
        host: share.name.clone(),
        program: args.program.clone(),
        folder: std::env::current_dir().ok(),
        first: share.first,
        here: share.count,
        count,
        address: share.address,
        segment: !args.no_segment,
        grace: args.grace.as_secs_f64(),
        keep_going: args.keep_going,
        status: args.status,
        prefix: Prefix::new(args),
    }
}
