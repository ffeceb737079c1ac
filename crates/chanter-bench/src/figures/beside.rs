//! The chart of the README: times of single operations, a group of bars for each, a bar for each system.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::run::Run;
use crate::report::number;

/// Groups of bars: the benchmark, and its name for people.
const GROUPS: [(&str, &str); 5] = [
    ("host", "spawn a thread, wait for it"),
    ("pingpong", "a rendezvous message"),
    ("choose", "choose one of 8 receives"),
    ("send", "a send that waits"),
    ("mailbox", "a send to a mailbox"),
];

/// Systems, each with its colour. The first is ours.
const SYSTEMS: [(&str, &str, RGBColor); 6] = [
    ("chanter", "Chanter", RGBColor(200, 60, 40)),
    ("tokio", "Tokio", RGBColor(70, 110, 160)),
    ("go", "Go", RGBColor(80, 160, 180)),
    ("kanal", "kanal on Tokio", RGBColor(150, 130, 180)),
    ("flume", "flume on Tokio", RGBColor(180, 170, 130)),
    ("crossbeam", "crossbeam", RGBColor(130, 130, 130)),
];

const WIDTH: i32 = 860;
const LEFT: i32 = 230;
const TOP: i32 = 52;
const BAR: i32 = 15;
const GAP: i32 = 14;

/// Bars end at this time; longer ones say so with their number.
const MOST_NS: f64 = 1_000.0;

/// Writes an SVG file.
///
/// # Errors
///
/// The run has none of the benchmarks that are shown, or the file cannot be written.
pub(crate) fn svg(path: &Path, run: &Run) -> Result<(), Box<dyn Error>> {
    let groups: Vec<(&str, Vec<_>)> = GROUPS
        .iter()
        .map(|(bench, name)| (*name, bars(run, bench)))
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    if groups.is_empty() {
        return Err("the run has none of the operations that the chart shows".into());
    }
    let height: i32 = groups.iter().map(|(_, bars)| BAR * bars.len() as i32 + GAP).sum::<i32>() + TOP + 40;
    let root = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = ("sans-serif", 18).into_font().color(&BLACK);
    let text = ("sans-serif", 14).into_font().color(&BLACK);
    let small = ("sans-serif", 12).into_font().color(&RGBColor(90, 90, 90));
    root.draw_text("Nanoseconds for one operation, on one processor: shorter is better", &title, (16, 14))?;
    let scale = f64::from(WIDTH - LEFT - 150) / MOST_NS;
    let mut y = TOP;
    for (name, bars) in groups {
        root.draw_text(name, &text, (16, y))?;
        for ((system, colour), ns) in bars {
            let length = (ns.min(MOST_NS) * scale).max(1.0) as i32;
            root.draw(&Rectangle::new([(LEFT, y), (LEFT + length, y + BAR - 3)], colour.filled()))?;
            root.draw_text(&format!("{} {system}", number(ns)), &small, (LEFT + length + 6, y))?;
            y += BAR;
        }
        y += GAP;
    }
    let foot = "Medians of interleaved rounds; the fastest variant of each system. Bars end at 1000 ns.";
    root.draw_text(foot, &small, (16, y + 6))?;
    root.present()?;
    Ok(())
}

type Bar = ((&'static str, RGBColor), f64);

fn bars(run: &Run, bench: &str) -> Vec<Bar> {
    SYSTEMS
        .iter()
        .filter_map(|(system, name, colour)| Some(((*name, *colour), run.best(bench, system, 1)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::run::Time;
    use super::*;

    fn time(bench: &str, system: &str, ns_per_op: f64) -> Time {
        let (bench, system) = (bench.to_owned(), system.to_owned());
        Time { bench, system, variant: String::new(), vps: 1, ns_per_op }
    }

    #[test]
    fn a_chart_has_a_bar_for_each_system_that_was_measured() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("beside.svg");
        let times = vec![
            time("pingpong", "chanter", 27.0),
            time("pingpong", "go", 150.0),
            time("host", "tokio", 5_000.0),
            time("lost-choice", "chanter", 9.0),
        ];
        svg(&path, &Run { findings: Vec::new(), times })?;
        let picture = std::fs::read_to_string(&path)?;
        for text in ["27.0 Chanter", "150 Go", "5000 Tokio", "a rendezvous message", "</svg>"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        assert!(!picture.contains("mailbox"), "nothing was measured there");
        Ok(())
    }

    #[test]
    fn a_run_without_these_operations_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("beside.svg");
        assert!(svg(&path, &Run { findings: Vec::new(), times: Vec::new() }).is_err());
    }
}
