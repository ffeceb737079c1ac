//! The page: the tables, and plots of table 2, the empty poll, and the papers' figures.

use std::error::Error;
use std::fmt::Write;

use plotters::prelude::*;

use super::process::{WAITING, What};
use super::published::TABLE_2;
use super::rows::Rows;
use super::{exercise, figure10, findings, others, patterns, pressed, table_2};
use crate::html::{self, END, begin, escaped, lines};

const SIZE: (u32, u32) = (760, 380);
const LINES: [(What, &str, RGBColor); 3] = [
    (What::Process, "MPI alone", RGBColor(90, 90, 90)),
    (What::ThreadPolls, "thread polls", RGBColor(200, 110, 30)),
    (What::SchedulerPolls, "scheduler polls", RGBColor(40, 100, 180)),
];

/// A line of a plot: its name, colour, and points.
type Line<'a> = (&'a str, RGBColor, Vec<(f64, f64)>);

/// The whole page.
pub(super) fn html(rows: &Rows, library: &str) -> Result<String, Box<dyn Error>> {
    let mut page = begin("chanter-bench cluster");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let library = escaped(library.lines().next().unwrap_or("no MPI: nothing was measured"));
    writeln!(
        page,
        "<p>{library}; {cores} processors. Two processes of one virtual processor each; medians of interleaved rounds; \
         every message was checked. What is called the paper is Chant (Haines, Cronk, Mehrotra), or for figure 10 and table 5 \
         Concert (Karamcheti, Plevyak, Chien).</p>"
    )?;
    let verdict = findings::verdict(rows).unwrap_or_default();
    let tables = [
        table_2(rows),
        exercise::tables(&rows.exercises),
        verdict,
        others(rows),
        figure10::table(rows),
        figure10::table_5(rows),
        pressed::table(&rows.pressed),
    ];
    for table in tables {
        page.push_str(&lines(&table));
    }
    let of = |what| TABLE_2.iter().filter_map(move |row| Some((row.bytes as f64, rows.ns(what, row.bytes)?)));
    let ours: Vec<Line<'_>> =
        LINES.into_iter().map(|(what, name, colour)| (name, colour, of(what).collect())).collect();
    let paper = |time: fn(&super::published::Table2) -> f64| -> Vec<(f64, f64)> {
        TABLE_2.iter().map(|row| (row.bytes as f64, time(row))).collect()
    };
    let times: [Vec<(f64, f64)>; 3] =
        [paper(|row| row.process), paper(|row| row.thread_polls), paper(|row| row.scheduler_polls)];
    let theirs: Vec<Line<'_>> =
        LINES.into_iter().zip(times).map(|((_, name, colour), points)| (name, colour, points)).collect();
    let empty =
        WAITING.iter().filter_map(|waiting| Some((*waiting as f64, rows.ns(What::EmptyPoll, *waiting)?)));
    let polls: Vec<Line<'_>> = vec![("empty poll", LINES[2].2, empty.collect())];
    for (title, unit, lines) in [
        ("A message, by its bytes: here", "ns", &ours),
        ("A message, by its bytes: the paper's figure 8", "us", &theirs),
        ("An empty poll, by receives that wait", "ns", &polls),
    ] {
        if lines.iter().all(|(.., points)| !points.is_empty()) {
            page.push_str(&plot(title, unit, lines)?);
        }
    }
    chants_figures(rows, &mut page)?;
    concerts_figures(rows, &mut page)?;
    page.push_str(END);
    Ok(page)
}

/// Figures 10 to 13 of Chant.
fn chants_figures(rows: &Rows, page: &mut String) -> Result<(), Box<dyn Error>> {
    for (figure, unit, value) in exercise::VALUES {
        for beta in exercise::BETAS {
            let title = format!("Chant, figure {figure}, with beta {beta}: {unit}, by alpha");
            let lines = of_exercises(&rows.exercises, beta, value);
            if !lines.is_empty() {
                page.push_str(&plot(&title, unit, &lines)?);
            }
        }
    }
    Ok(())
}

/// Figure 10 of Concert, and the same with slow receivers.
fn concerts_figures(rows: &Rows, page: &mut String) -> Result<(), Box<dyn Error>> {
    for by in figure10::ALL {
        let title =
            format!("Concert, figure 10, what a message costs its sender, by its bytes: {}", by.words());
        if let Some(lines) = of_patterns(|pattern, size| figure10::send(rows, by, pattern, size)) {
            page.push_str(&plot(&title, "ns", &lines)?);
        }
    }
    for processes in pressed::PROCESSES {
        for burst in pressed::BURSTS {
            for by in pressed::ALL {
                let title =
                    format!("Slow receivers, {processes} processes, bursts of {burst}: {}", by.words());
                let of = |pattern, size| {
                    pressed::send(&rows.pressed, by, processes, pressed::Cell { pattern, size, burst })
                };
                if let Some(lines) = of_patterns(of) {
                    page.push_str(&plot(&title, "ns", &lines)?);
                }
            }
        }
    }
    Ok(())
}

const COLOURS: [RGBColor; patterns::PATTERNS.len()] = [
    RGBColor(90, 90, 90),
    RGBColor(40, 100, 180),
    RGBColor(60, 150, 90),
    RGBColor(210, 160, 40),
    RGBColor(200, 110, 30),
    RGBColor(180, 40, 50),
];

/// A line for each form of polling that was measured.
fn of_exercises(rounds: &[exercise::Round], beta: u32, value: exercise::Value) -> Vec<Line<'static>> {
    let lines = exercise::ALL.into_iter().zip(COLOURS).filter_map(|(who, colour)| {
        let point = |alpha| Some((f64::from(alpha), exercise::cell(rounds, who, (alpha, beta), value)?));
        let points: Option<Vec<_>> = exercise::ALPHAS.into_iter().map(point).collect();
        Some((who.words(), colour, points?))
    });
    lines.collect()
}

/// A line for each pattern.
fn of_patterns(send: impl Fn(patterns::Pattern, usize) -> Option<f64>) -> Option<Vec<Line<'static>>> {
    let of = |pattern: patterns::Pattern| -> Option<Vec<(f64, f64)>> {
        let point = |size| Some((size as f64, send(pattern, size)?));
        patterns::SIZES.into_iter().map(point).collect()
    };
    let lines = patterns::PATTERNS.into_iter().zip(COLOURS);
    lines.map(|(pattern, colour)| Some((pattern.words(), colour, of(pattern)?))).collect()
}

fn plot(title: &str, unit: &str, lines: &[Line<'_>]) -> Result<String, Box<dyn Error>> {
    let points = || lines.iter().flat_map(|(.., points)| points);
    let least = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let most = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let highest = points().map(|(_, y)| *y).fold(1.0, f64::max);
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 15))
            .margin(12)
            .margin_right(32)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d((least..most).log_scale(), 0.0..highest * 1.1)?;
        chart
            .configure_mesh()
            .y_desc(unit)
            .x_label_formatter(&|bytes| label(*bytes))
            .light_line_style(WHITE)
            .draw()?;
        for (_, colour, points) in lines {
            let style = colour.stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style).point_size(3))?;
        }
        root.present()?;
    }
    Ok(html::plot(&picture, lines.iter().map(|(name, colour, _)| (*name, *colour))))
}

/// The label of a place on a logarithmic axis. There is room for one place in three.
fn label(value: f64) -> String {
    let leading = value / 10_f64.powf(value.log10().floor());
    if [1.0, 2.0, 5.0].iter().any(|shown| (leading - shown).abs() < 0.01) {
        format!("{value:.0}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::By;
    use super::super::process::{Line, Round};
    use super::*;

    #[test]
    fn the_page_has_a_plot_for_each_figure_that_was_measured() {
        assert_eq!(html(&Rows::of(&[]), "").unwrap().matches("<svg").count(), 1, "the paper's alone");
        let mut rounds = Vec::new();
        for row in &TABLE_2 {
            rounds.extend(
                LINES.map(|(what, ..)| Line::Row(Round { what, size: row.bytes, ns: 200.0, tests: 1.0 })),
            );
        }
        rounds.extend(
            WAITING.map(|size| Line::Row(Round { what: What::EmptyPoll, size, ns: 40.0, tests: 2.0 })),
        );
        for who in exercise::CHANTS {
            rounds.extend(exercise::cells(false).map(|(alpha, beta)| {
                let (ms, switches, tests, waiting) = (f64::from(alpha), 1200.0, 2400.0, Some(3.5));
                Line::Exercise(exercise::Round {
                    who,
                    alpha,
                    beta,
                    ms,
                    switches,
                    tests,
                    waiting,
                    checked: true,
                })
            }));
        }
        let by = By::Segment;
        for pattern in patterns::PATTERNS {
            rounds.extend(patterns::SIZES.map(|size| {
                Line::Pattern(patterns::Round { by, pattern, size, send_ns: 100.0, receive_ns: 200.0 })
            }));
        }
        for pattern in patterns::PATTERNS {
            rounds.extend(patterns::SIZES.map(|size| {
                let cell = pressed::Cell { pattern, size, burst: pressed::BURSTS[0] };
                let (processes, aside_ns) = (pressed::PROCESSES[1], Some(100.0));
                let (work_us, send_ns, receive_ns) = (20.0, 123_456.0, 200.0);
                Line::Pressed(pressed::Round { by, processes, cell, work_us, send_ns, aside_ns, receive_ns })
            }));
        }
        let page = html(&Rows::of(&rounds), "An <MPI>").unwrap();
        html::tests::fits(&page);
        assert_eq!(page.matches("<svg").count(), 5 + 12);
        assert!(
            page.contains("Concert, figure 10")
                && page.contains("Chant, figure 13")
                && page.contains("hotspot x16")
        );
        assert!(page.contains("An &lt;MPI&gt;") && page.contains("thread polls"));
    }
}
