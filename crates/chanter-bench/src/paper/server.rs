//! Swerve's row of table 2: the web server in this process, under a load from this process.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use chanter::{Event, Machine, Stats};
use chanter_programs::kit::Form;
use swerve::{AccessLog, Config, Mode, Server, Summary};

use super::cases::{FORMS, measured_in};
use crate::case::{Case, Failure, expect};
use crate::swerve::{LENGTH, Site, ask, broken};

/// Its name in the table.
pub(super) const NAME: &str = "swerve";

/// Connections, with a request each, as `httperf` makes them in the paper.
const CONNECTIONS: u64 = 8_000;
/// Number of requests in the run that records births.
const COUNTED: u64 = 500;
/// OS threads that ask.
const CLIENTS: u64 = 4;

/// Counts of a server.
struct Served {
    elapsed: Duration,
    stats: Stats,
    messages: u64,
}

/// The server in each of the paper's forms, on 1 VP as the table is.
pub(super) fn cases() -> Vec<Case> {
    let site = Arc::new(Mutex::new(None));
    let case = |form: Form| {
        let site = Arc::clone(&site);
        let run = move |load: crate::case::Load| {
            let mut site = site.lock().unwrap_or_else(PoisonError::into_inner);
            let site = match &mut *site {
                Some(site) => site,
                none => none.insert(Site::new()?),
            };
            let served = serve(site, form, load.n, false)?;
            Ok(measured_in(load.n, served.elapsed, &served.stats, served.messages))
        };
        Case::new(NAME, "chanter", form.name(), run).load_of(CONNECTIONS, 1).at_most_rounds(3)
    };
    FORMS.into_iter().map(case).collect()
}

/// A run that records births. Its time means nothing.
pub(super) fn counted(form: Form) -> Result<Stats, Failure> {
    Ok(serve(&Site::new()?, form, COUNTED, true)?.stats)
}

fn mode(form: Form) -> Mode {
    match form {
        Form::AsynchronousHosts => Mode::Hosts,
        Form::AsynchronousParasites => Mode::Parasites,
        Form::PaperParasites => Mode::PaperParasites,
        _ => Mode::Synchronous,
    }
}

/// Serves that number of connections, and checks each reply and the log.
fn serve(site: &Site, form: Form, connections: u64, births: bool) -> Result<Served, Failure> {
    site.ripen();
    let lines = Arc::new(AtomicU64::new(0));
    let mut config = Config::new(site.www(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    config.mode = mode(form);
    config.log = AccessLog::To(Box::new(Lines(Arc::clone(&lines))));
    let machine = Machine::builder().vps(1).name(NAME).genealogy(births).build().map_err(broken)?;
    // Sockets are made on a thread of the machine.
    let bound = machine.spawn(async move { Server::bind(config) }).join().sync_blocking();
    let bound = bound.map_err(|error| Failure::Broken(error.to_string()))?;
    let server = bound.map_err(|error| Failure::Broken(error.to_string()))?;
    let (addr, stop) = (server.local_addr(), server.stop());
    let running = machine.spawn(server.run());
    let began = Instant::now();
    let asked = ask_all(addr, connections);
    let elapsed = began.elapsed();
    stop.ease();
    let summary = running.join().sync_blocking().map_err(|error| Failure::Broken(error.to_string()))?;
    let Summary { connections: taken, lines_lost, .. } = summary.map_err(broken)?;
    asked?;
    let lines = lines.load(Ordering::Relaxed);
    expect("connections, lines and lost lines", (taken, lines, lines_lost), (connections, connections, 0))?;
    // A connection goes to the manager, and its end too; a request has an answer and a record.
    Ok(Served { elapsed, stats: machine.stats(), messages: 2 * taken + 2 * lines })
}

/// Asks for the file that number of times, by a connection each. Every reply has to be the first one, which is the
/// file.
fn ask_all(addr: SocketAddr, connections: u64) -> Result<(), Failure> {
    let body: Vec<u8> = (b'a'..=b'z').cycle().take(LENGTH).collect();
    let first = OnceLock::new();
    let client = |count: u64| {
        for _ in 0..count {
            let reply = ask(addr, "GET", "").map_err(broken)?;
            let is_right = reply.starts_with(b"HTTP/1.1 200 ") && reply.ends_with(&body);
            expect("whether the reply is the file", is_right, true)?;
            let length = *first.get_or_init(|| reply.len());
            expect("bytes of a reply", reply.len(), length)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let share = |at| connections / CLIENTS + u64::from(at < connections % CLIENTS);
        let client = &client;
        let clients: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || client(share(at)))).collect();
        clients.into_iter().try_for_each(|client| {
            client.join().unwrap_or_else(|_| Err(Failure::Broken("a client panicked".to_owned())))
        })
    })
}

/// Counts the lines of the access log.
struct Lines(Arc<AtomicU64>);

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let lines = text.iter().filter(|&&byte| byte == b'\n').count();
        self.0.fetch_add(lines as u64, Ordering::Relaxed);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_papers_form_a_message_is_a_parasite() {
        let site = Site::new().unwrap_or_else(|failure| panic!("{failure}"));
        let of = |form| serve(&site, form, 40, false).unwrap_or_else(|failure| panic!("{failure}")).stats;
        let [paper, synchronous] = [Form::PaperParasites, Form::Synchronous].map(of);
        // A file processor, its answer and the record of a request are a parasite each.
        assert_eq!(paper.parasites_created - synchronous.parasites_created, 3 * 40);
        assert!(paper.attached > 0 && paper.reified >= 40 && paper.left == 0, "{paper:?}");
        assert!(synchronous.hosts_created >= paper.hosts_created + 40, "{synchronous:?}");
    }
}
