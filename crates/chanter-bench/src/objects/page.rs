//! The page of `chanter-bench objects`: its measurements beside the paper's figures.

use std::error::Error;
use std::fmt::Write;

use plotters::prelude::*;

#[cfg(unix)]
use chanter_programs::microkernel::{Pattern, Row, Spec};

use super::{Found, programs, schemas};
#[cfg(unix)]
use super::{
    jobs::{self, By, Job, JobRow},
    kernel::{ACCEPTABLE, Efficiencies, Version},
    published,
};
use crate::html::{self, END, begin};
use crate::report::number;
use crate::table_of;

const HERE: RGBColor = RGBColor(40, 100, 180);
const PAPER: RGBColor = RGBColor(150, 150, 150);
/// Colours of the four versions, and of the four patterns.
#[cfg(unix)]
const COLOURS: [RGBColor; 4] =
    [RGBColor(70, 70, 70), RGBColor(200, 110, 30), RGBColor(40, 150, 90), RGBColor(40, 100, 180)];

/// The whole page.
pub(super) fn html(found: &Found) -> Result<String, Box<dyn Error>> {
    let mut page = begin("chanter-bench objects");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let size = if found.quick { "small inputs (--quick)" } else { "full inputs" };
    writeln!(
        page,
        "<p>Chanter {}, {size}, {cores} processors. Medians of interleaved rounds; every result was checked. What is called the \
         paper is Karamcheti, Plevyak and Chien, <em>Runtime Mechanisms for Efficient Dynamic Multithreading</em> (Illinois \
         Concert, on a Cray T3D).</p>",
        env!("CARGO_PKG_VERSION")
    )?;
    section(&mut page, "What is promised", &table_of(&found.findings))?;
    for (title, table) in found.tables() {
        section(&mut page, title, &table)?;
        if title.starts_with("Calls") {
            page.push_str(&bars("As a part of Base's heap invocation", &schemas::bars(&found.schemas))?);
        }
        #[cfg(unix)]
        if title.starts_with("The microkernel") {
            pictures(&mut page, &found.kernel)?;
        }
        if title.starts_with("Radiosity and molecular dynamics in one") {
            page.push_str(&bars(
                "One process: speed-up over the serial version",
                &programs::bars(&found.programs),
            )?);
        }
        #[cfg(unix)]
        if title.starts_with("Radiosity and molecular dynamics in several") {
            speed_ups(&mut page, &found.jobs)?;
        }
    }
    page.push_str(END);
    Ok(page)
}

/// Figures 14 and 15.
#[cfg(unix)]
fn speed_ups(page: &mut String, rows: &[JobRow]) -> Result<(), Box<dyn Error>> {
    for (program, figure) in std::iter::zip(Job::ALL, [14, 15]) {
        let bar = |by: By| {
            let here = jobs::speed_up(rows, program, by, 2)? / 2.0;
            let paper = published::speed_up(program, by).map(|(speed_up, processors)| speed_up / processors);
            Some((by.name().to_owned(), here, paper))
        };
        let title = format!("{}: speed-up through processors (figure {figure})", program.name());
        page.push_str(&bars(&title, &By::all().filter_map(bar).collect::<Vec<_>>())?);
    }
    page.push_str(
        "<p>Here: 2 processes, over the fastest job of one; plain MPI over its own. The paper: radiosity on 32 processors over the \
         fastest run on one (6, 12, 12 and 23 times; a version by hand on a DASH reached 26), molecular dynamics on 64 (24 and 36 \
         times), scaled by a run on 8. The text gives no other numbers of these figures.</p>\n",
    );
    Ok(())
}

/// Figures 11, 12 and 13.
#[cfg(unix)]
fn pictures(page: &mut String, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let found = Efficiencies::of(rows);
    page.push_str(&regions(&found)?);
    page.push_str(
        "<p>The paper's figure 13, on 32 processors: Base is acceptable above 300 us and 80 % local; +Stack from 10 us, and 60 % \
         local; +Pull down to 0 % local; both from 10 us where all is local, and from 150 us where nothing is.</p>\n",
    );
    page.push_str("<div class=\"pictures\">\n");
    for grain in Spec::GRAINS {
        let lines = Version::ALL.map(|version| {
            let point = |local| Some((f64::from(local), found.region(version, grain, local)?));
            (version.name().to_owned(), Spec::LOCAL.into_iter().filter_map(point).collect())
        });
        let title = format!("Grain {grain} us (figure 11)");
        page.push_str(&plot(&title, "% of accesses that are local", 0.0..100.0, false, &lines)?);
    }
    for version in Version::ALL.into_iter().filter(|version| version.stack) {
        for deviation in Spec::DEVIATIONS {
            let lines = Pattern::ALL.map(|pattern| {
                let point =
                    |grain| Some((f64::from(grain), found.pattern(version, pattern, deviation, grain)?));
                (pattern.to_string(), Spec::GRAINS.into_iter().filter_map(point).collect())
            });
            let title = format!("{}, deviation 0.{deviation} (figure 12)", version.name());
            let title = title.replace("0.10", "1.0");
            page.push_str(&plot(&title, "grain, us", 10.0..5000.0, true, &lines)?);
        }
    }
    page.push_str("</div>\n");
    Ok(())
}

/// Plots efficiency in per cent. Without a point, the result is empty.
#[cfg(unix)]
fn plot(
    title: &str,
    across: &str,
    range: std::ops::Range<f64>,
    is_log: bool,
    lines: &[(String, Vec<(f64, f64)>); 4],
) -> Result<String, Box<dyn Error>> {
    if lines.iter().all(|(_, points)| points.is_empty()) {
        return Ok(String::new());
    }
    let scaled = |x: f64| if is_log { x.log10() } else { x };
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (375, 300)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(56)
            .build_cartesian_2d(scaled(range.start)..scaled(range.end), 0.0..105.0)?;
        let label = |x: &f64| format!("{:.0}", if is_log { 10_f64.powf(*x) } else { *x });
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(across)
            .y_desc("%")
            .x_label_formatter(&label)
            .draw()?;
        for ((_, points), colour) in lines.iter().zip(COLOURS) {
            let points = points.iter().map(|(x, y)| (scaled(*x), *y));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
        }
        root.present()?;
    }
    Ok(html::plot(&picture, lines.iter().map(|(name, _)| name.as_str()).zip(COLOURS)))
}

/// Figure 13: where each version is acceptable. A cell has a part for each version.
#[cfg(unix)]
fn regions(found: &Efficiencies) -> Result<String, Box<dyn Error>> {
    let (left, top, width, height) = (90, 66, 120, 56);
    let size = (left + width * Spec::GRAINS.len() as i32 + 20, top + height * Spec::LOCAL.len() as i32 + 50);
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (size.0 as u32, size.1 as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let text = ("sans-serif", 13).into_font().color(&BLACK);
        let title = format!("Where efficiency is at least {ACCEPTABLE:.0} % (figure 13)");
        root.draw_text(&title, &("sans-serif", 17).into_font().color(&BLACK), (12, 8))?;
        for (index, (version, colour)) in Version::ALL.into_iter().zip(COLOURS).enumerate() {
            let x = left + 150 * index as i32;
            root.draw(&Rectangle::new([(x, 38), (x + 14, 52)], colour.filled()))?;
            root.draw_text(version.name(), &text, (x + 20, 38))?;
        }
        for (row, local) in Spec::LOCAL.into_iter().rev().enumerate() {
            let y = top + height * row as i32;
            root.draw_text(&format!("{local} % local"), &text, (8, y + 20))?;
            for (column, grain) in Spec::GRAINS.into_iter().enumerate() {
                let x = left + width * column as i32;
                root.draw(&Rectangle::new([(x, y), (x + width, y + height)], BLACK.mix(0.3)))?;
                for (part, (version, colour)) in Version::ALL.into_iter().zip(COLOURS).enumerate() {
                    let Some(efficiency) = found.region(version, grain, local) else { continue };
                    let x = x + 4 + 28 * part as i32;
                    let inside = [(x, y + 6), (x + 27, y + height - 6)];
                    if efficiency >= ACCEPTABLE {
                        root.draw(&Rectangle::new(inside, colour.mix(0.75).filled()))?;
                    }
                    root.draw_text(&format!("{efficiency:.0}"), &text, (x + 4, y + 20))?;
                }
            }
        }
        let y = top + height * Spec::LOCAL.len() as i32 + 8;
        for (column, grain) in Spec::GRAINS.into_iter().enumerate() {
            root.draw_text(&format!("{grain} us"), &text, (left + width * column as i32 + 40, y))?;
        }
        root.present()?;
    }
    Ok(html::picture(&picture))
}

fn section(page: &mut String, title: &str, table: &str) -> std::fmt::Result {
    writeln!(page, "<h2>{}</h2>\n{}", html::escaped(title), html::lines(table))
}

/// Draws bars: of what was measured here, and of the paper's values.
fn bars(title: &str, bars: &[(String, f64, Option<f64>)]) -> Result<String, Box<dyn Error>> {
    let left = 24 + html::widest(bars.iter().map(|(name, ..)| name.as_str()), 13);
    let (row, width) = (34, left + 600);
    let height = 60 + row * bars.len() as i32;
    let most = bars.iter().map(|(_, here, paper)| here.max(paper.unwrap_or(0.0))).fold(0.1, f64::max);
    let scale = f64::from(width - left - 80) / most;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (width as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let text = ("sans-serif", 13).into_font().color(&BLACK);
        root.draw_text(title, &("sans-serif", 17).into_font().color(&BLACK), (12, 8))?;
        root.draw_text("here", &text.color(&HERE), (left, 30))?;
        root.draw_text("the paper", &text.color(&PAPER), (left + 60, 30))?;
        for (index, (name, here, paper)) in bars.iter().enumerate() {
            let y = 50 + row * index as i32;
            root.draw_text(name, &text, (12, y + 6))?;
            for (value, colour, top) in [(Some(*here), HERE, y), (*paper, PAPER, y + 13)] {
                let Some(value) = value else { continue };
                let end = left + ((value * scale) as i32).max(1);
                root.draw(&Rectangle::new([(left, top), (end, top + 11)], colour.filled()))?;
                root.draw_text(&number(value), &text, (end + 6, top))?;
            }
        }
        root.present()?;
    }
    Ok(html::picture(&picture))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_tables_and_a_picture() {
        let cases = schemas::cases(true);
        let mut found = Found { quick: true, ..Found::default() };
        found.schemas = crate::measure::measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        found.findings = schemas::findings(&found.schemas);
        assert!(found.findings.iter().all(|finding| finding.value.is_some()), "each is measured");
        let page = html(&found).unwrap();
        html::tests::fits(&page);
        assert_eq!(page.matches("<svg").count(), 1);
        for text in ["table 4", "MB -&gt; CP", "conc! of 8", "ractor"] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_speed_ups_are_drawn_beside_the_papers() {
        let row = |program, by, processes, ms| JobRow { program, by, processes, ms, checked: true };
        let mut found = Found::default();
        for program in Job::ALL {
            for (by, both) in By::all().zip([90.0, 60.0, 80.0, 50.0, 30.0]) {
                found.jobs.extend([row(program, by, 1, 100.0), row(program, by, 2, both)]);
            }
        }
        let findings = jobs::findings(&found.jobs);
        let values: Vec<_> = findings.iter().map(|finding| (finding.value, finding.holds)).collect();
        // Two processes are twice as fast as one, and all forms are as fast on one.
        assert_eq!(values, [(Some(2.0), Some(true)), (Some(1.0), Some(false))].repeat(Job::ALL.len()));
        let page = html(&found).unwrap();
        html::tests::fits(&page);
        assert_eq!(page.matches("<svg").count(), 2);
        for text in ["figure 14", "figure 15", "plain MPI", "0.72", "0.56"] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_regions_are_drawn_and_judged() {
        use chanter_programs::microkernel::Threads;

        use super::super::kernel;

        let mut found = Found::default();
        for (threads, pull, efficiency) in
            [(Threads::Heap, false, 40.0), (Threads::Stack, false, 75.0), (Threads::Stack, true, 96.0)]
        {
            for (grain, local) in [(10, 100), (150, 0)] {
                let (pattern, deviation, count) = (Pattern::AllToAll, 0, 1);
                let spec = Spec { threads, local, pattern, grain, deviation, count };
                let (useful_ns, elapsed_ns, processes, checked) = (1.0, 1.0, 2, true);
                found.kernel.push(Row { spec, processes, pull, useful_ns, elapsed_ns, efficiency, checked });
            }
        }
        let judged = kernel::findings(&found.kernel);
        assert!(judged.iter().all(|finding| finding.holds == Some(true)));
        let page = html(&found).unwrap();
        html::tests::fits(&page);
        assert!(page.contains("figure 13") && page.contains("figure 11") && page.contains("Base+Stack+Pull"));
        // A cell that the version of both lacks is found.
        found.kernel[2].efficiency = 80.0;
        found.kernel[4].efficiency = 60.0;
        assert_eq!(kernel::findings(&found.kernel)[2].value, Some(1.0));
    }
}
