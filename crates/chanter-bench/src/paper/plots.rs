//! Pictures: figures 9, 10 and 11 as lines, table 1 as bars. Each is an SVG of its own, to lie in a page.

use std::error::Error;

use plotters::prelude::*;

use super::cases::{FORMS, entries};
use super::published;
use super::tables::{gathering, speed_ups_of, time, variants};
use crate::html;
use crate::measure::Measured;

const SIZE: (u32, u32) = (460, 320);
const COLOURS: [RGBColor; 4] =
    [RGBColor(200, 30, 40), RGBColor(0, 120, 190), RGBColor(60, 60, 60), RGBColor(210, 140, 20)];

type Point = (f64, f64);

/// A line and its name.
type Line = (String, Vec<Point>);

type Picture = Result<String, Box<dyn Error>>;

/// A chart of lines over whole numbers. Nothing to draw, nothing drawn.
struct Chart<'a> {
    title: &'a str,
    across: &'a str,
    up: &'a str,
    lines: Vec<Line>,
    /// Whether the plot shows the lines of an ideal use of all processors.
    ideal: bool,
}

impl Chart<'_> {
    fn svg(self) -> Picture {
        let mut picture = String::new();
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let right = points().map(|point| point.0).fold(1.0, f64::max);
        let top = points().map(|point| point.1).fold(if self.ideal { right } else { 0.0 }, f64::max);
        {
            let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
            root.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&root)
                .caption(self.title, ("sans-serif", 17))
                .margin(10)
                .x_label_area_size(34)
                .y_label_area_size(52)
                .build_cartesian_2d(0.7..right + 0.3, 0.0..top * 1.15)?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_labels((right as usize).min(16) + 1)
                .x_label_formatter(&|at| {
                    if (at - at.round()).abs() < 1e-9 { format!("{at:.0}") } else { String::new() }
                })
                .x_desc(self.across)
                .y_desc(self.up)
                .draw()?;
            if self.ideal {
                let grey = RGBColor(190, 190, 190);
                chart.draw_series([PathElement::new(
                    vec![(1.0, 1.0), (right, right)],
                    grey.stroke_width(1),
                )])?;
            }
            for ((_, points), colour) in self.lines.iter().zip(COLOURS) {
                let dots = points.iter().map(|point| Circle::new(*point, 4, colour.filled()));
                chart.draw_series([PathElement::new(points.clone(), colour.stroke_width(2))])?;
                chart.draw_series(dots)?;
            }
            root.present()?;
        }
        let names = self.lines.iter().map(|(name, _)| name.as_str());
        Ok(html::plot(&picture, names.zip(COLOURS)))
    }
}

/// The plots of the sheet `id`.
pub(super) fn of(id: &str, measured: &[Measured], vps: usize) -> Result<Vec<String>, Box<dyn Error>> {
    match id {
        "table-1" => Ok(vec![table_1(measured)?]),
        "figure-9" => Ok(vec![figure_9(measured, vps)?]),
        "figure-10" => (1..=vps).map(|vps| figure_10(measured, vps)).collect(),
        "figure-11" => figure_11(measured, vps),
        _ => Ok(Vec::new()),
    }
}

fn figure_9(measured: &[Measured], vps: usize) -> Picture {
    let base = time(measured, "figure-9", "hosts", 1);
    let line = |variant: &str| {
        let point = |vps| Some((vps as f64, base? / time(measured, "figure-9", variant, vps)?));
        (variant.to_owned(), (1..=vps).filter_map(point).collect())
    };
    let lines = variants(measured, "figure-9").into_iter().map(line).collect();
    let title = "Long computations (figure 9)";
    Chart { title, across: "virtual processors", up: "speed-up", lines, ideal: true }.svg()
}

fn figure_10(measured: &[Measured], vps: usize) -> Picture {
    let line = |kind: &str| (kind.to_owned(), gathering(measured, kind, vps));
    let lines = ["parasites", "hosts", "figure 5, parasites", "figure 5, hosts"].map(line).to_vec();
    let title = format!("chooseAll, {vps} VP (figure 10)");
    Chart { title: &title, across: "producers", up: "ns a message", lines, ideal: false }.svg()
}

fn figure_11(measured: &[Measured], vps: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let mut pictures = Vec::new();
    for entry in entries() {
        let line = |form: chanter_programs::kit::Form| {
            let point = |vps| Some((vps as f64, speed_ups_of(measured, entry.name, form, vps)?[0]));
            (form.name().to_owned(), (1..=vps).filter_map(point).collect::<Vec<_>>())
        };
        let mut lines: Vec<Line> = FORMS.into_iter().rev().map(line).collect();
        lines.retain(|(_, points)| !points.is_empty());
        if !lines.is_empty() {
            let chart =
                Chart { title: entry.name, across: "virtual processors", up: "speed-up", lines, ideal: true };
            pictures.push(chart.svg()?);
        }
    }
    Ok(pictures)
}

/// Bars: ours on 1 VP, and the paper's.
fn table_1(measured: &[Measured]) -> Picture {
    let ours = |variant| {
        let base = time(measured, "table-1", "sendEvt", 1)?;
        Some(time(measured, "table-1", variant, 1)? / base)
    };
    let mut bars = Vec::new();
    for variant in variants(measured, "table-1") {
        bars.extend(ours(variant).map(|value| (format!("{variant}, here"), value, COLOURS[0])));
        let paper = published::TABLE_1.into_iter().find(|(name, _)| *name == variant);
        bars.extend(paper.map(|(_, value)| (format!("{variant}, the paper"), value, COLOURS[2])));
    }
    let mut picture = String::new();
    let most = bars.iter().map(|bar| bar.1).fold(1.0, f64::max);
    {
        let (left, row) = (24 + html::widest(bars.iter().map(|bar| bar.0.as_str()), 14), 28);
        let size = (left + 470, 60 + row * bars.len() as i32);
        let root = SVGBackend::with_string(&mut picture, (size.0 as u32, size.1 as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let text = ("sans-serif", 14).into_font().color(&BLACK);
        root.draw_text(
            "Time through that of sendEvt (table 1)",
            &("sans-serif", 17).into_font().color(&BLACK),
            (12, 10),
        )?;
        let scale = f64::from(size.0 - left - 70) / most;
        for (index, (name, value, colour)) in bars.into_iter().enumerate() {
            let y = 42 + row * index as i32;
            let end = left + (value * scale) as i32;
            root.draw_text(&name, &text, (12, y + 4))?;
            root.draw(&Rectangle::new([(left, y), (end.max(left + 1), y + row - 8)], colour.filled()))?;
            root.draw_text(&format!("{value:.2}"), &text, (end + 6, y + 4))?;
        }
        root.present()?;
    }
    Ok(html::picture(&picture))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_line_for_each_name() {
        let line = |name: &str, factor: f64| (name.to_owned(), vec![(1.0, factor), (2.0, 2.0 * factor)]);
        let lines = vec![line("hosts", 1.0), line("parasites", 1.5)];
        let picture =
            Chart { title: "both", across: "VPs", up: "speed-up", lines, ideal: true }.svg().unwrap();
        for text in ["<svg", "hosts", "parasites", "both", "VPs", "</svg>"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        assert_eq!(picture.matches("<circle").count(), 4);
    }

    #[test]
    fn a_chart_of_nothing_is_a_picture_all_the_same() {
        let lines = Vec::new();
        assert!(Chart { title: "none", across: "", up: "", lines, ideal: false }.svg().is_ok());
    }
}
