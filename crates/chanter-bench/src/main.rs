//! The command `chanter-bench`: the runtime measured beside its peers, in one run.
//!
//! - `case` is one system doing one piece of work, checked; `measure` is the one harness that runs
//!   cases in interleaved rounds and takes medians.
//! - `micro` holds Chanter's bodies and lists who else does the same work; `peers` holds theirs.
//! - `ablate` builds the core with each mechanism off, and says what programs lose.
//! - `capi` is the C interface, beside Rust and OS threads.
//! - `choice` is the benchmark of choice: every system that can choose, over the number of branches.
//! - `cluster` is threads that talk across processes, over MPI and over sockets, beside these alone.
//! - `objects` is the evaluation of Concert: methods that cost a call, and the paper's programs.
//! - `scale` is what more virtual processors bring, and what they cost, counted on up to sixteen.
//! - `sting` collects what has to do with threads and processors as values; `figure7` is the paper's table.
//! - `policies` is what policies cost, and what they do: a study of requests beside computations.
//! - `swerve` is the web server under load, beside others.
//! - `versus` is `bench peers`: whole programs beside every peer of `programs/peers`, each in a process of its own.
//! - `paper` runs the papers' programs and micro-studies as the papers ran them.
//! - `figures` says what Chanter promises, and shows it; `report` prints what was found; `process` starts and watches others.

mod ablate;
mod capi;
mod case;
mod choice;
mod cluster;
mod figure7;
mod figures;
mod html;
mod measure;
mod memory;
mod micro;
mod objects;
mod paper;
#[path = "../../../programs/peers/bench/mod.rs"]
mod peers;
mod policies;
mod process;
mod report;
mod scale;
mod sting;
mod swerve;
mod versus;
mod yardstick;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use comfy_table::{Cell, Table, presets};

use case::{Case, Load};
use figures::run::Run;
use measure::Measured;
use report::{number, right};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Chanter beside its peers, in one run.
#[derive(Parser)]
#[command(name = "chanter-bench", version, about)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measure single operations
    Micro(MicroArgs),
    /// Measure what Chanter promises, and say whether it holds
    Figures(FiguresArgs),
    /// Measure what each mechanism of the core earns: builds with each one off, and the whole, in turns
    Ablate(ablate::AblateArgs),
    /// Measure choice over 2 to 1024 branches, beside every peer that can choose
    Choice(choice::ChoiceArgs),
    /// Measure threads and processors as values: fibers, delayed threads, figure 7 of STING
    Sting(sting::StingArgs),
    /// Measure threads that talk across processes, over MPI and sockets, beside these alone, and the paper's figures
    Cluster(cluster::ClusterArgs),
    /// Measure the C interface beside the Rust one, and beside OS threads
    Capi(capi::CapiArgs),
    /// Be a process of the job that is measured over MPI
    #[command(hide = true)]
    ClusterProcess(cluster::ProcessArgs),
    /// Be a process of a job on one node
    #[command(hide = true)]
    ClusterScene(cluster::SceneArgs),
    /// Measure objects: calls and fallbacks in all schemas, and Concert's programs, beside the paper's figures
    Objects(objects::ObjectsArgs),
    /// Be a process of the microkernel's job
    #[cfg(unix)]
    #[command(hide = true)]
    KernelProcess(objects::ProcessArgs),
    /// Be a process of the job of one of Concert's programs
    #[cfg(unix)]
    #[command(hide = true)]
    JobProcess(objects::JobProcessArgs),
    /// Be a process of the jobs that are measured by several engines
    #[command(hide = true)]
    ClusterMember(cluster::MemberArgs),
    /// Start a job, as `chanter launch` does (how processes of a node are measured)
    #[cfg(unix)]
    #[command(hide = true)]
    Launch(chanter_cli::LaunchArgs),
    /// Measure what a policy of one's own costs, and requests beside computations under five policies
    Policies(policies::PoliciesArgs),
    /// Measure the web server under load: its three forms, beside Tokio and hyper, and nginx
    Swerve(swerve::SwerveArgs),
    /// Be the peer of the web server (how it gets a process of its own)
    #[command(hide = true)]
    SwervePeer(swerve::PeerArgs),
    /// Run the papers' programs and micro-studies, next to the papers' figures, and write an HTML report
    Paper(paper::PaperArgs),
    /// Run whole programs beside the systems in `programs/peers`, after setting these up
    Peers(versus::PeersArgs),
    /// Be Chanter's side of these programs, once (how it gets a process of its own)
    #[command(hide = true)]
    PeersSample(versus::SampleArgs),
    /// Time rows on one virtual processor and on two, and count what operations cost on up to sixteen
    Scale(scale::ScaleArgs),
    /// Be one sample of these
    #[command(hide = true)]
    ScaleSample(scale::ScaleSampleArgs),
    /// Serve a directory, as `chanter serve` does (how the web server gets a process of its own)
    #[command(hide = true)]
    Serve(chanter_cli::ServeArgs),
    /// Run one case once and print its sample (how samples get a process of their own)
    #[command(hide = true)]
    Case(CaseArgs),
}

#[derive(Args)]
struct MicroArgs {
    /// Benchmarks: `pingpong` with its peers, `tokio-pingpong` alone; all when none is named
    names: Vec<String>,
    /// Virtual processors, or a peer's worker threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    vps: u16,
    /// Operations of each round; each benchmark has its own default
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..))]
    n: Option<u64>,
    /// Rounds, of which the median is reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Only this kind of thread, where Chanter offers two
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Only these systems (`chanter`, `tokio`, `go`, ...)
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Kind {
    Host,
    Parasite,
}

#[derive(Args)]
struct FiguresArgs {
    /// A tenth of the work, three rounds: minutes become seconds
    #[arg(long)]
    quick: bool,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw the figures
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also draw the times of single operations, beside other systems
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Also write the figures as a page of Markdown
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Measure nothing: show what an earlier run wrote with `--json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "json"])]
    from: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
struct CaseArgs {
    key: String,
    #[arg(long)]
    n: u64,
    #[arg(long)]
    vps: usize,
}

/// A message for people and the exit code that goes with it.
struct Stop(u8, String);

impl<E: Into<Box<dyn Error>>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self(1, error.into().to_string())
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().what {
        What::Serve(args) => return chanter_cli::serve(args),
        #[cfg(unix)]
        What::Launch(args) => return chanter_cli::launch(args),
        What::Micro(args) => bench_micro(&args),
        What::Figures(args) => bench_figures(&args),
        What::Ablate(args) => ablate::run(&args),
        What::Choice(args) => choice::run(&args),
        What::Sting(args) => sting::run(&args),
        What::Cluster(args) => cluster::run(&args),
        What::Capi(args) => capi::run(&args),
        What::ClusterProcess(args) => cluster::run_process(&args),
        What::ClusterScene(args) => cluster::run_scene(&args),
        What::Objects(args) => objects::run(&args),
        #[cfg(unix)]
        What::JobProcess(args) => objects::run_job_process(&args),
        #[cfg(unix)]
        What::KernelProcess(args) => objects::run_process(&args),
        What::ClusterMember(args) => cluster::run_member(&args),
        What::Policies(args) => policies::run(&args),
        What::Swerve(args) => swerve::run(&args),
        What::SwervePeer(args) => swerve::run_peer(args),
        What::Paper(args) => paper::run(&args),
        What::Peers(args) => versus::run(&args),
        What::PeersSample(args) => versus::sample(&args),
        What::Scale(args) => scale::run(&args),
        What::ScaleSample(args) => scale::sample(&args),
        What::Case(args) => run_case(&args),
    };
    peers::go::clean_up();
    peers::boost::clean_up();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop(code, why)) => {
            eprintln!("chanter-bench: {why}");
            ExitCode::from(code)
        }
    }
}

fn bench_micro(args: &MicroArgs) -> Result<(), Stop> {
    let mut cases = micro::all(args.vps.into());
    known(&args.names, cases.iter().flat_map(names_of), "benchmark")?;
    known(&args.system, cases.iter().map(|case| case.system.to_owned()), "system")?;
    cases.retain(|case| {
        (args.names.is_empty() || names_of(case).any(|name| args.names.contains(&name)))
            && (args.system.is_empty() || args.system.iter().any(|s| s == case.system))
            && args.kind.is_none_or(|kind| is_of(kind, case))
    });
    if cases.is_empty() {
        return Err(Stop(2, "no benchmark is left to run".to_owned()));
    }
    for case in &mut cases {
        case.n = args.n.unwrap_or(case.n);
    }
    let json = json_out(args.json.as_deref())?;
    let measured = measure_all(cases, args.rounds.into())?;
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        out.flush()?;
    }
    show(args.json.as_deref(), &report::table(&measured))
}

fn bench_figures(args: &FiguresArgs) -> Result<(), Stop> {
    let run = match &args.from {
        Some(path) => Run::read(path)?,
        None => measure_figures(args)?,
    };
    if let Some(path) = &args.svg {
        figures::plot::svg(path, "chanter-bench figures: each as a part of its floor", &run.findings)?;
    }
    if let Some(path) = &args.chart {
        figures::beside::svg(path, &run)?;
    }
    if let Some(path) = &args.md {
        std::fs::write(path, figures::page::markdown(&run.findings))
            .map_err(|error| Stop(2, format!("{}: {error}", path.display())))?;
    }
    show(args.json.as_deref(), &table_of(&run.findings))?;
    strictly(args.strict, &run.findings)
}

fn measure_figures(args: &FiguresArgs) -> Result<Run, Stop> {
    let rounds = if args.quick { 3 } else { 7 };
    let json = json_out(args.json.as_deref())?;
    let mut cases = figures::cases(args.quick);
    cases.extend(versus::figure_cases(args.quick)?);
    let measured = measure_all(cases, rounds)?;
    let mut findings = figures::findings(&measured);
    findings.extend(versus::findings(&measured));
    findings.extend(cluster::figures(args.quick)?);
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    show(args.json.as_deref(), &report::table(&measured))?;
    Ok(Run::new(&measured, findings))
}

fn strictly(strict: bool, findings: &[figures::Finding]) -> Result<(), Stop> {
    let missed = findings.iter().filter(|f| f.holds == Some(false)).count();
    if strict && missed > 0 {
        return Err(Stop(1, format!("{missed} figures do not hold")));
    }
    Ok(())
}

fn run_case(args: &CaseArgs) -> Result<(), Stop> {
    let case = micro::all(args.vps)
        .into_iter()
        .find(|case| case.key() == args.key)
        .ok_or_else(|| Stop(2, format!("unknown case `{}`", args.key)))?;
    let load = Load { n: args.n, vps: args.vps };
    let sample = case.run_here(load).map_err(|failure| Stop(1, failure.to_string()))?;
    report::json_line(&mut io::stdout(), &sample)?;
    Ok(())
}

fn measure_all(cases: Vec<Case>, rounds: usize) -> Result<Vec<Measured>, Stop> {
    measure::measure(cases, rounds).map_err(|failure| Stop(1, failure.to_string()))
}

/// The family's name, and the system's own name for it.
fn names_of(case: &Case) -> impl Iterator<Item = String> + use<> {
    [case.bench.to_owned(), case.name()].into_iter()
}

/// Whether a case is of a kind of thread. Peers have one kind of thread, and count as every kind.
fn is_of(kind: Kind, case: &Case) -> bool {
    let parasite = case.variant.starts_with("parasite") || case.bench == "parasite";
    case.system != "chanter" || parasite == (kind == Kind::Parasite)
}

fn known(asked: &[String], offered: impl Iterator<Item = String>, what: &str) -> Result<(), Stop> {
    let offered: BTreeSet<String> = offered.collect();
    match asked.iter().find(|name| !offered.contains(*name)) {
        None => Ok(()),
        Some(name) => {
            let list = offered.into_iter().collect::<Vec<_>>().join(", ");
            Err(Stop(2, format!("unknown {what} `{name}`; known: {list}")))
        }
    }
}

const STANDARD_OUTPUT: &str = "-";

fn json_out(path: Option<&Path>) -> Result<Option<Box<dyn Write>>, Stop> {
    Ok(match path {
        None => None,
        Some(path) if path == Path::new(STANDARD_OUTPUT) => Some(Box::new(io::stdout())),
        Some(path) => {
            let file = File::create(path).map_err(|error| Stop(2, format!("{}: {error}", path.display())))?;
            Some(Box::new(BufWriter::new(file)))
        }
    })
}

fn show(json: Option<&Path>, table: &str) -> Result<(), Stop> {
    if json != Some(Path::new(STANDARD_OUTPUT)) {
        writeln!(io::stdout(), "{table}")?;
    }
    Ok(())
}

fn table_of(findings: &[figures::Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["figure", "value", "floor", "holds"]);
    for finding in findings {
        table.add_row([
            Cell::new(&finding.figure),
            right(&finding.value.map_or("-".to_owned(), number)),
            right(&format!("{} {}", finding.bound, number(finding.floor))),
            Cell::new(match finding.holds {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "not measured",
            }),
        ]);
    }
    table.to_string()
}
