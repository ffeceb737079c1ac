//! Results, as tables next to the papers'.

use chanter_programs::kit::Form;
use comfy_table::{Cell, Table, presets};

use super::cases::{BY_HAND, FORMS, HOST_STATE, LEFT, PARASITES, STATE, entries};
use super::{published, server};
use crate::measure::{Measured, Medians};
use crate::report::{number, right};
use crate::yardstick::{PLAIN, Yardstick};

/// A table with its title and its comments.
pub(super) struct Sheet {
    /// Name on the page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Columns of words; the others hold numbers.
    pub(super) words: usize,
}

impl Sheet {
    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(&self.head);
        for row in &self.rows {
            let cell =
                |(at, text): (usize, &String)| if at < self.words { Cell::new(text) } else { right(text) };
            table.add_row(row.iter().enumerate().map(cell));
        }
        format!("{}\n{table}", self.title)
    }
}

/// The medians of one case.
pub(super) fn find<'a>(
    measured: &'a [Measured],
    bench: &str,
    variant: &str,
    vps: usize,
) -> Option<&'a Medians> {
    let of = |m: &&Measured| (m.case.bench, m.case.variant, m.case.vps) == (bench, variant, vps);
    measured.iter().find(of)?.outcome.as_ref().ok()
}

/// Nanoseconds of one operation; of a program, which is one, the whole time.
pub(super) fn time(measured: &[Measured], bench: &str, variant: &str, vps: usize) -> Option<f64> {
    Some(find(measured, bench, variant, vps)?.ns_per_op)
}

/// Speed-ups of a form over the best serial program, and over the same one.
pub(super) fn speed_ups_of(measured: &[Measured], program: &str, form: Form, vps: usize) -> Option<[f64; 2]> {
    let Yardstick { best, same } = Yardstick::of(measured, program)?;
    let ns = time(measured, program, form.name(), vps)?;
    Some([best / ns, same / ns])
}

/// The sheets of which something was measured.
pub(super) fn sheets(measured: &[Measured], vps: usize) -> Vec<Sheet> {
    let all = [
        table_1(measured, vps),
        figure_9(measured, vps),
        figure_10(measured, vps),
        figure_16(measured),
        table_2(measured),
        speed_ups(measured, vps),
    ];
    all.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

fn count(value: Option<u64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn on_vps(vps: usize) -> impl Iterator<Item = String> {
    (1..=vps).map(|vps| if vps == 1 { "1 VP".to_owned() } else { format!("{vps} VPs") })
}

fn head(words: &[&str], more: impl Iterator<Item = String>) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).chain(more).collect()
}

/// The variants of a study that were measured, in their order.
pub(super) fn variants(measured: &[Measured], study: &str) -> Vec<&'static str> {
    let mut variants: Vec<&'static str> = Vec::new();
    for m in measured.iter().filter(|m| m.case.bench == study && m.outcome.is_ok()) {
        if !variants.contains(&m.case.variant) {
            variants.push(m.case.variant);
        }
    }
    variants
}

fn table_1(measured: &[Measured], vps: usize) -> Sheet {
    let row = |variant| {
        let paper = published::TABLE_1.iter().find(|(name, _)| *name == variant).map(|(_, value)| *value);
        let normal = (1..=vps).map(|vps| {
            let base = time(measured, "table-1", "sendEvt", vps)?;
            Some(time(measured, "table-1", variant, vps)? / base)
        });
        let one = or_dash(time(measured, "table-1", variant, 1));
        [variant.to_owned(), or_dash(paper), one].into_iter().chain(normal.map(or_dash)).collect()
    };
    Sheet {
        id: "table-1",
        title: "Table 1: a message from one producer to one consumer; time through that of sendEvt",
        note: "Featherweight Threads, table 1. `Sender::asend` is the short form of the event on parasites.",
        head: head(&["", "the paper", "ns, 1 VP"], on_vps(vps)),
        rows: variants(measured, "table-1").into_iter().map(row).collect(),
        words: 1,
    }
}

fn figure_9(measured: &[Measured], vps: usize) -> Sheet {
    let base = time(measured, "figure-9", "hosts", 1);
    let row = |variant: &str| {
        let speed_ups = (1..=vps).map(|vps| Some(base? / time(measured, "figure-9", variant, vps)?));
        std::iter::once(variant.to_owned()).chain(speed_ups.map(or_dash)).collect()
    };
    Sheet {
        id: "figure-9",
        title: "Figure 9: long computations; speed-up relative to hosts on 1 VP",
        note: "Featherweight Threads, figure 9: \"without inflation, parasites offer no parallelism and hence do not \
               scale. With inflation, parasites perform identically to host threads\".",
        head: head(&[""], on_vps(vps)),
        rows: variants(measured, "figure-9").into_iter().map(row).collect(),
        words: 1,
    }
}

/// The number of producers in each variant of figure 10 of one kind, and the time of a message.
pub(super) fn gathering(measured: &[Measured], kind: &str, vps: usize) -> Vec<(f64, f64)> {
    let of_kind = measured
        .iter()
        .filter(|m| (m.case.bench, m.case.vps) == ("figure-10", vps) && m.case.variant.starts_with(kind));
    of_kind
        .filter_map(|m| m.outcome.as_ref().ok())
        .filter_map(|medians| Some((*medians.detail.get("producers")?, medians.ns_per_op)))
        .collect()
}

fn figure_10(measured: &[Measured], vps: usize) -> Sheet {
    let mut rows = Vec::new();
    for vps in 1..=vps {
        let hosts = gathering(measured, "hosts", vps);
        for ((producers, host), (_, parasite)) in hosts.into_iter().zip(gathering(measured, "parasites", vps))
        {
            let paper = if vps == 2 { number(published::CHOOSE_ALL) } else { "-".to_owned() };
            let numbers = [producers, vps as f64].map(|value| format!("{value:.0}"));
            let times = [host, parasite, host / parasite].map(number);
            let by_code = ["hosts", "parasites"].map(|kind| {
                let variant = format!("figure 5, {kind}");
                let points = gathering(measured, &variant, vps);
                points.into_iter().find(|point| point.0 == producers).map(|point| point.1)
            });
            let speed_up = by_code[0].zip(by_code[1]).map(|(host, parasite)| host / parasite);
            let by_code = [by_code[0], by_code[1], speed_up].map(or_dash);
            rows.push(numbers.into_iter().chain(times).chain(by_code).chain([paper]).collect());
        }
    }
    let names = [
        "producers",
        "VPs",
        "hosts, ns",
        "parasites, ns",
        "hosts / parasites",
        "figure 5: hosts, ns",
        "parasites, ns",
        "hosts / parasites",
        "the paper",
    ];
    Sheet {
        id: "figure-10",
        title: "Figure 10: chooseAll of a message from each producer; ns a message",
        note: "Featherweight Threads, section 5.4: \"parasitic threads perform 2X faster than the host thread \
               implementation on 2 cores\". First `gather`, which makes no thread for a receive; then the code of the \
               paper's figure 5, in which a thread receives from each producer.",
        head: head(&names, std::iter::empty()),
        rows,
        words: 0,
    }
}

fn figure_16(measured: &[Measured]) -> Sheet {
    let mut rows = Vec::new();
    for (study, one, two) in published::FIGURE_16 {
        for variant in variants(measured, study) {
            let rate = |vps| Some(1e9 / time(measured, study, variant, vps)?);
            let likes = time(measured, study, "as the policy likes", 1).map(|ns| 1e9 / ns);
            let millions = |rate: Option<f64>| or_dash(rate.map(|rate| rate / 1e6));
            let ratio = rate(2).zip(likes).map(|(two, one)| two / one);
            let apart = variant != "as the policy likes";
            let paper = if apart { [None, Some(two), Some(two / one)] } else { [Some(one), None, None] };
            let [p1, p2, p_ratio] = paper;
            let words = [study.trim_start_matches("figure-16-"), variant].map(str::to_owned);
            let ours = [millions(rate(1)), millions(rate(2)), or_dash(ratio)];
            rows.push(
                words.into_iter().chain(ours).chain([millions(p1), millions(p2), or_dash(p_ratio)]).collect(),
            );
        }
    }
    let names = [
        "",
        "threads are",
        "1P, million/s",
        "2P, million/s",
        "2P / 1P",
        "Manticore 1P",
        "Manticore 2P",
        "2P / 1P",
    ];
    Sheet {
        id: "figure-16",
        title: "Figure 16 of Parallel CML: operations a second",
        note: "In the paper the threads of the 2P runs are on a processor each; here also where the policy likes, \
               which keeps threads that talk together. 2P / 1P is relative to one processor.",
        head: head(&names, std::iter::empty()),
        rows,
        words: 2,
    }
}

/// The programs of table 2: the web server is the last.
fn table_2_programs() -> impl Iterator<Item = &'static str> {
    entries().map(|entry| entry.name).chain([server::NAME])
}

fn table_2(measured: &[Measured]) -> Sheet {
    let mut rows = Vec::new();
    for program in table_2_programs() {
        let with = find(measured, program, PARASITES, 1);
        let without = find(measured, program, Form::Synchronous.name(), 1);
        if with.is_none() && without.is_none() {
            continue;
        }
        let detail = |medians: Option<&Medians>, name: &str| medians?.detail.get(name).copied();
        let whole = |medians, name| count(detail(medians, name).map(|value| value as u64));
        rows.push(vec![
            program.to_owned(),
            "Chanter".to_owned(),
            whole(with, "hosts"),
            whole(without, "hosts"),
            whole(with, "parasites"),
            whole(with, "communications"),
            or_dash(detail(with, HOST_STATE)),
            or_dash(detail(with, STATE)),
            count(None),
            or_dash(detail(with, STATE)),
            whole(with, "reified"),
            whole(with, "attached"),
            whole(with, "inflated"),
            whole(find(measured, program, LEFT, 1), "left"),
        ]);
        rows.extend(published::TABLE_2.iter().find(|row| row.program == program).map(published_row));
    }
    let mean = mean_state(measured);
    if let Some(mean) = mean {
        let blanks = |count| vec![String::new(); count];
        let row =
            |who: &str, value| [vec!["mean".to_owned(), who.to_owned()], blanks(5), vec![value], blanks(6)];
        rows.push(row("Chanter", number(mean)).concat());
        rows.push(row("the paper", number(published::MEAN_PARASITE_STACK)).concat());
    }
    let names = [
        "program",
        "",
        "hosts",
        "hosts, no parasites",
        "parasites",
        "messages",
        "host, bytes",
        "reified, bytes",
        "stack growths",
        "closure, bytes",
        "reified",
        "attached",
        "inflated",
        "left",
    ];
    Sheet {
        id: "table-2",
        title: "Table 2: threads and communication, on 1 VP",
        note: "Featherweight Threads, table 2 (8 cores), and ours in its form: a parasite for each message. Bytes \
               are averages: of a host's state and of a reified parasite's, headers apart; in the paper, of stacks. \
               A parasite here lies in its frame, and is polled there wherever it goes on: nothing grows, and what \
               it refers to is not copied. Attached, inflated: how often. Left: messages that Sender::asend leaves \
               in their channels instead, without a parasite, in the form that uses it. Swerve, in this process, \
               answers 8000 connections with a request each; `bench swerve` has its speed. Means are over all programs.",
        head: head(&names, std::iter::empty()),
        rows,
        words: 2,
    }
}

/// The paper's own.
fn published_row(paper: &published::Row) -> Vec<String> {
    let numbers = [
        Some(paper.hosts),
        paper.hosts_without,
        Some(paper.parasites),
        Some(paper.communications),
        Some(paper.host_stack),
        paper.parasite_stack,
        Some(paper.growths),
        paper.closure,
        None,
        None,
        None,
        None,
    ];
    ["", "the paper"].map(str::to_owned).into_iter().chain(numbers.map(count)).collect()
}

/// The mean over the programs of the state that a reified parasite keeps.
fn mean_state(measured: &[Measured]) -> Option<f64> {
    let state = |program| find(measured, program, PARASITES, 1)?.detail.get(STATE).copied();
    let all: Vec<f64> = table_2_programs().filter_map(state).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn speed_ups(measured: &[Measured], vps: usize) -> Sheet {
    let mut rows = Vec::new();
    for entry in
        entries().filter(|e| measured.iter().any(|m| m.case.bench == e.name && m.case.system != PLAIN))
    {
        let serial = Yardstick::of(measured, entry.name);
        let serial = [serial.map(|y| y.best / 1e6), serial.map(|y| y.same / 1e6)].map(or_dash);
        let forms = FORMS.into_iter().chain([BY_HAND]);
        for form in forms.filter(|form| entry.forms.contains(form)) {
            let first = form == FORMS[0];
            let name = if first { entry.name } else { "" };
            let paper = if first { published::speed_up(entry.name) } else { "" };
            let words = [name, form.name(), paper].map(str::to_owned);
            let ours = (1..=vps).flat_map(|vps| {
                let both = speed_ups_of(measured, entry.name, form, vps);
                [both.map(|[best, _]| best), both.map(|[_, same]| same)].map(or_dash)
            });
            rows.push(words.into_iter().chain(serial.clone()).chain(ours).collect());
        }
    }
    Sheet {
        id: "figure-11",
        title: "Figure 11: speed-up relative to the best serial algorithm, and to the same one run serially",
        note: "Featherweight Threads, figure 11, is a picture and has no numbers; what the papers say of a program \
               in words stands beside it. The two serial programs differ in k-clustering, mergesort and the sieves; \
               elsewhere they are one, and have one figure. The pictures have the speed-up relative to the best one. \
               by-hand: the same messages between as many OS threads, with the standard library's channels. It \
               shows what a second core gives at the grain of the program.",
        head: head(
            &["program", "threads", "the papers", "best serial, ms", "same serial, ms"],
            on_vps(vps).flat_map(|vps| [format!("{vps}, best"), format!("{vps}, same")]),
        ),
        rows,
        words: 3,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::measure::measure;

    fn case(bench: &'static str, variant: &'static str, vps: usize, ns: u64) -> Case {
        let body =
            move |_| Ok(Sample::new(1, Duration::from_nanos(ns)).with(STATE, ns as f64).with("hosts", 5.0));
        Case::new(bench, if variant.starts_with("serial") { PLAIN } else { "chanter" }, variant, body)
            .load_of(1, vps)
    }

    #[test]
    fn tables_compare_with_the_right_yardstick() {
        let cases = vec![
            case("table-1", "sendEvt", 1, 100),
            case("table-1", "aSendEvt on hosts", 1, 350),
            case("mandelbrot", "serial", 1, 800),
            case("mandelbrot", "paper-parasites", 1, 1000),
            case("mandelbrot", "paper-parasites", 2, 500),
            case("mergesort", "serial", 1, 300),
            case("mergesort", "serial-same", 1, 1200),
            case("mergesort", "sync-hosts", 1, 600),
            case("figure-9", "hosts", 1, 60),
            case("figure-9", "hosts", 2, 30),
        ];
        let measured = measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        let sheets = sheets(&measured, 2);
        let of = |id| sheets.iter().find(|sheet| sheet.id == id).unwrap();
        assert_eq!(of("table-1").rows[1], ["aSendEvt on hosts", "4.96", "350", "3.50", "-"]);
        assert_eq!(of("figure-9").rows[0], ["hosts", "1.00", "2.00"]);
        let parasites = of("figure-11").rows.iter().find(|row| row[1] == "paper-parasites").unwrap();
        assert_eq!(parasites[5..], ["0.80", "0.80", "1.60", "1.60"]);
        let sorts = of("figure-11").rows.iter().find(|row| row[0] == "mergesort").unwrap();
        assert_eq!(sorts[5..7], ["0.50", "2.00"]);
        let ours = &of("table-2").rows[0];
        assert_eq!((&*ours[0], &*ours[2], &*ours[7]), ("mandelbrot", "5", "1000"));
        assert_eq!(of("table-2").rows[1][2..4], ["4083", "6161"]);
        assert!(!sheets.iter().any(|sheet| sheet.id == "figure-16"));
        assert!(of("table-1").text().contains("the paper"));
    }

    #[test]
    fn every_row_of_the_papers_table_is_a_program_of_ours() {
        for row in &published::TABLE_2 {
            assert!(table_2_programs().any(|program| program == row.program), "{}", row.program);
        }
        // Of Swerve figure 11 has no speed-up.
        for row in published::TABLE_2.iter().filter(|row| row.program != server::NAME) {
            assert!(!published::speed_up(row.program).is_empty(), "{}", row.program);
        }
    }
}
