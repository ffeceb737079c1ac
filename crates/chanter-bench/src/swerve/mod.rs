//! `chanter-bench swerve`: the web server under load, as in section 6.4 of the paper.
//!
//! - `server` starts the servers, each a process of its own, and sees that they give the same answers;
//!   the one by Tokio and hyper is `programs/peers/bench/web.rs`.
//! - `load` is the load on them: `wrk`, `httperf` as in the paper, and many silent connections.
//! - `page` draws the plots and writes the report.
//!
//! Rounds of servers that are compared are interleaved. On one virtual processor the server is kept to
//! the first core and the generator to the last; on more they share all cores. The seconds of `wrk` and
//! the connections of `httperf` are the `n` of a case.

mod load;
mod page;
mod server;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use comfy_table::{Cell, Table, presets};

use super::case::{Case, Load, Outcome};
use super::figures::{Figure, swerve_figures};
use super::measure::Measured;
use super::peers::web;
use super::report::{number, right};
use super::{Stop, json_out, known, measure_all, process, report, show, table_of};
use server::{Kind, Running};
pub(super) use server::{LENGTH, Site, ask, broken};

/// The forms beside each other, with a log, under `wrk`.
pub(super) const FORMS: &str = "swerve-forms";
/// Swerve on parasites beside others, without a log, under `wrk`.
pub(super) const PEERS: &str = "swerve";
/// The forms and the others under `httperf`.
pub(super) const RATES: &str = "swerve-httperf";
/// Silent connections.
pub(super) const IDLE: &str = "swerve-idle";
const STUDIES: [&str; 4] = [FORMS, PEERS, RATES, IDLE];

/// The peer's system name in records.
pub(super) const PEER: &str = "tokio-hyper";

/// Arguments of `chanter-bench swerve`.
#[derive(Args)]
pub(crate) struct SwerveArgs {
    /// Studies: `swerve-forms`, `swerve`, `swerve-httperf`, `swerve-idle`; all when none is named
    names: Vec<String>,
    /// A second of `wrk`, 2,000 connections of `httperf`, three rounds
    #[arg(long)]
    quick: bool,
    /// Virtual processors, the peer's worker threads, nginx's worker processes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    vps: u16,
    /// Rounds, of which the median is reported
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Only these systems (`chanter`, `tokio-hyper`, `nginx`)
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// First install the load generators and nginx, where that is possible (root, apt-get)
    #[arg(long)]
    setup: bool,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a report with the plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

/// Arguments of the peer's process.
#[derive(Args)]
pub(crate) struct PeerArgs {
    directory: PathBuf,
    #[arg(long)]
    vps: u16,
    #[arg(long, value_enum)]
    files: web::Files,
}

/// Is the peer, until it is killed.
pub(super) fn run_peer(args: PeerArgs) -> Result<(), Stop> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    web::serve(args.directory, addr, args.vps.into(), args.files)?;
    Ok(())
}

pub(super) fn run(args: &SwerveArgs) -> Result<(), Stop> {
    known(&args.names, STUDIES.iter().map(|&name| name.to_owned()), "study")?;
    let vps = args.vps.into();
    let mut cases = cases(vps, args.quick);
    known(&args.system, cases.iter().map(|case| case.system.to_owned()), "system")?;
    cases.retain(|case| {
        (args.names.is_empty() || args.names.iter().any(|name| name == case.bench))
            && (args.system.is_empty() || args.system.iter().any(|system| system == case.system))
    });
    if cases.is_empty() {
        return Err(Stop(2, "no study is left to run".to_owned()));
    }
    if args.setup {
        server::setup();
    }
    let json = json_out(args.json.as_deref())?;
    if cases.iter().any(|case| case.system == PEER) {
        let compared = Site::new().and_then(|site| server::compare(&site));
        compared.map_err(|failure| Stop(1, failure.to_string()))?;
    }
    let rounds = args.rounds.map_or(if args.quick { 3 } else { 5 }, usize::from);
    let measured = measure_all(cases, rounds)?;
    let figures = swerve_figures(vps);
    let findings: Vec<_> = figures
        .into_iter()
        .filter(|figure| measured.iter().any(|m| figure.needs(&m.case)))
        .map(|figure: Figure| figure.find(&measured))
        .collect();
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.html {
        page::write(path, &measured, &findings, &how(vps))?;
    }
    let tables = format!("{}\n\n{}\n\n{}", how(vps), table(&measured), table_of(&findings));
    show(args.json.as_deref(), &tables)?;
    super::strictly(args.strict, &findings)
}

/// The way in which it was measured, in a sentence.
fn how(vps: usize) -> String {
    let cores = process::cores();
    let where_to = if pins(vps) {
        format!("the server is kept to the first of {cores} cores and the generator to the last")
    } else {
        format!("the server and the generator share {cores} cores")
    };
    format!(
        "{vps} VPs; {where_to}; a file of 10 KB; `wrk` keeps 64 connections busy; medians of interleaved rounds."
    )
}

fn pins(vps: usize) -> bool {
    vps == 1 && process::cores() > 1 && process::find("taskset").is_some()
}

/// Every case. `n` is seconds under `wrk`, connections otherwise.
pub(super) fn cases(vps: usize, quick: bool) -> Vec<Case> {
    let forms = ["synchronous", "hosts", "parasites"];
    let logged = |mode| Kind::Swerve { mode, logs: true, keeps: true };
    let quiet = |keeps| Kind::Swerve { mode: "parasites", logs: false, keeps };
    let in_place = Kind::Peer { files: "in-place" };
    let pool = Kind::Peer { files: "pool" };
    let others = [
        ("chanter", "parasites", quiet(true)),
        (PEER, "in place", in_place),
        (PEER, "tokio::fs", pool),
        ("nginx", "sendfile", Kind::Nginx),
    ];

    let site = Shared::default();
    let wrk = |kind| {
        let site = site.clone();
        move |load: Load| with(&site, kind, load, |server| load::wrk(server, load.n, pins(load.vps)))
    };
    let httperf = |kind| {
        let site = site.clone();
        move |load: Load| with(&site, kind, load, |server| load::httperf(server, load.n, pins(load.vps)))
    };
    let idle = |kind| {
        let site = site.clone();
        move |load: Load| with(&site, kind, load, |server| load::idle(server, load.n))
    };

    let seconds = if quick { 1 } else { 4 };
    let connections = if quick { 2_000 } else { 20_000 };
    let crowd = if quick { 1_000 } else { 5_000 };
    let mut cases = Vec::new();
    for mode in forms {
        cases.push(Case::new(FORMS, "chanter", mode, wrk(logged(mode))).load_of(seconds, vps));
    }
    let bare = [("chanter", "parasites, nothing kept", quiet(false))];
    for (system, variant, kind) in others.into_iter().chain(bare) {
        cases.push(Case::new(PEERS, system, variant, wrk(kind)).load_of(seconds, vps));
    }
    for mode in forms {
        let case = Case::new(RATES, "chanter", mode, httperf(logged(mode)));
        cases.push(case.load_of(connections, vps).at_most_rounds(3));
    }
    for (system, variant, kind) in others.into_iter().skip(1) {
        let case = Case::new(RATES, system, variant, httperf(kind));
        cases.push(case.load_of(connections, vps).at_most_rounds(3));
    }
    for (system, variant, kind) in others {
        let case = Case::new(IDLE, system, variant, idle(kind));
        cases.push(case.load_of(crowd, vps).at_most_rounds(3));
    }
    // Each server is new for each round: there is nothing to warm up beforehand.
    cases.into_iter().map(Case::cold).collect()
}

/// The files that all servers serve, made when the first one starts.
type Shared = Arc<Mutex<Option<Site>>>;

/// A server of its own for one sample.
fn with(site: &Shared, kind: Kind, load: Load, study: impl Fn(&Running) -> Outcome) -> Outcome {
    let mut site = site.lock().unwrap_or_else(PoisonError::into_inner);
    let site = match &mut *site {
        Some(site) => site,
        none => none.insert(Site::new()?),
    };
    site.ripen();
    let server = Running::start(kind, load.vps, site, pins(load.vps))?;
    let outcome = study(&server);
    drop(server);
    outcome
}

/// The table for people: replies a second, and how long they took.
fn table(measured: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "study",
        "server",
        "variant",
        "replies/s",
        "p50, us",
        "p99, us",
        "p99.9, us",
        "CPU us/reply",
        "of it its own",
        "bytes/connection",
    ]);
    for Measured { case, outcome } in measured {
        let mut row = vec![Cell::new(case.bench), Cell::new(shown(case)), Cell::new(case.variant)];
        match outcome {
            Err(why) => row.push(Cell::new(format!("skipped: {why}"))),
            Ok(medians) => {
                let detail =
                    |names: &[&str]| names.iter().find_map(|name| medians.detail.get(*name).copied());
                let columns = [
                    detail(&["replies_per_s", "replies_per_s_best"]),
                    detail(&["p50_us"]),
                    detail(&["p99_us"]),
                    detail(&["p999_us"]),
                    detail(&["cpu_us_per_reply"]),
                    detail(&["own_us_per_reply"]),
                    medians.bytes_per_thread,
                ];
                row.extend(columns.map(|value| right(&value.map_or(String::new(), number))));
            }
        }
        table.add_row(row);
    }
    table.to_string()
}

/// Chanter's server has a name.
fn shown(case: &Case) -> &'static str {
    if case.system == "chanter" { "swerve" } else { case.system }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_has_cases_and_every_figure_has_them() {
        let cases = cases(1, true);
        for study in STUDIES {
            assert!(cases.iter().filter(|case| case.bench == study).count() >= 3, "{study}");
        }
        for figure in swerve_figures(1) {
            assert!(cases.iter().any(|case| figure.needs(case)));
        }
    }
}
