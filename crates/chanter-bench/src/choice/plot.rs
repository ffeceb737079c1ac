//! Plot of the time of a choice over the number of branches, on logarithmic axes. Each system has a line. Each shape
//! of row, and each number of processors, has a panel.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::row::{ROWS, Shape};
use crate::measure::Measured;

const PANEL: (u32, u32) = (560, 380);
const LEGEND: u32 = 260;
const TITLE: u32 = 50;

const SHAPES: [(Shape, &str); 3] = [
    (Shape::Busy, "receives, all fed"),
    (Shape::One, "receives, one ever fed"),
    (Shape::Mixed, "half sends, half receives"),
];

const COLOURS: [RGBColor; 13] = [
    RGBColor(200, 30, 40),
    RGBColor(240, 130, 130),
    RGBColor(120, 0, 20),
    RGBColor(0, 120, 190),
    RGBColor(110, 190, 230),
    RGBColor(60, 60, 60),
    RGBColor(140, 90, 180),
    RGBColor(190, 160, 220),
    RGBColor(90, 30, 120),
    RGBColor(40, 140, 70),
    RGBColor(150, 190, 60),
    RGBColor(210, 140, 20),
    RGBColor(110, 160, 130),
];

type Point = (f64, f64);

/// The lines of a panel, by system and variant.
fn lines(measured: &[Measured], shape: Shape, vps: usize) -> BTreeMap<(&str, &str), Vec<Point>> {
    let mut lines: BTreeMap<_, Vec<Point>> = BTreeMap::new();
    for row in ROWS.into_iter().filter(|row| row.shape == shape) {
        for m in measured.iter().filter(|m| (m.case.bench, m.case.vps) == (row.bench, vps)) {
            if let Ok(medians) = &m.outcome {
                let line = lines.entry((m.case.system, m.case.variant)).or_default();
                line.push((row.branches as f64, medians.ns_per_op));
            }
        }
    }
    lines
}

/// Writes an SVG file.
pub(super) fn svg(path: &Path, measured: &[Measured]) -> Result<(), Box<dyn Error>> {
    let mut systems: Vec<(&str, &str)> = Vec::new();
    for m in measured.iter().filter(|m| m.outcome.is_ok() && ROWS.iter().any(|r| r.bench == m.case.bench)) {
        if !systems.contains(&(m.case.system, m.case.variant)) {
            systems.push((m.case.system, m.case.variant));
        }
    }
    let colour = |system: &(&str, &str)| {
        let at = systems.iter().position(|s| s == system).unwrap_or(0);
        COLOURS[at % COLOURS.len()]
    };
    let size = (PANEL.0 * 2 + LEGEND, PANEL.1 * SHAPES.len() as u32 + TITLE);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let title = ("sans-serif", 25).into_font().color(&BLACK);
    root.draw_text("chanter-bench choice: ns per choice over the number of branches", &title, (16, 14))?;
    for (down, (shape, words)) in SHAPES.into_iter().enumerate() {
        for vps in [1_usize, 2] {
            let (x, y) = (PANEL.0 * (vps as u32 - 1), TITLE + PANEL.1 * down as u32);
            let area = root.clone().shrink((x, y), PANEL);
            let lines = lines(measured, shape, vps);
            let times = lines.values().flatten().map(|point| point.1);
            let (least, most) = times.fold((f64::INFINITY, 0.0_f64), |(l, m), t| (l.min(t), m.max(t)));
            if most == 0.0 {
                continue;
            }
            let mut chart = ChartBuilder::on(&area)
                .caption(format!("{words}, {vps} VP"), ("sans-serif", 18))
                .margin(12)
                .x_label_area_size(34)
                .y_label_area_size(70)
                .build_cartesian_2d(
                    (1.5..1400.0).log_scale().with_key_points(vec![2.0, 8.0, 64.0, 1024.0]),
                    (least / 2.0..most * 2.0).log_scale(),
                )?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_desc("branches")
                .y_desc("ns per choice")
                .x_label_formatter(&|branches| format!("{branches:.0}"))
                .y_label_formatter(&|ns| format!("{ns:.0}"))
                .draw()?;
            for (system, points) in &lines {
                let width = if system.0 == "chanter" { 3 } else { 1 };
                let style = colour(system).stroke_width(width);
                chart.draw_series([PathElement::new(points.clone(), style)])?;
                chart.draw_series(points.iter().map(|p| Circle::new(*p, 3, colour(system).filled())))?;
            }
        }
    }
    let text = ("sans-serif", 15).into_font().color(&BLACK);
    for (at, system) in systems.iter().enumerate() {
        let (x, y) = (PANEL.0 as i32 * 2 + 16, TITLE as i32 + 30 + 24 * at as i32);
        root.draw(&Rectangle::new([(x, y), (x + 22, y + 12)], colour(system).filled()))?;
        root.draw_text(&format!("{} {}", system.0, system.1), &text, (x + 32, y - 1))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Failure, Sample};
    use crate::measure::measure;

    #[test]
    fn the_picture_has_a_line_for_each_system_that_was_measured() -> Result<(), Box<dyn Error>> {
        let case = |bench, system, ns: u64| {
            Case::new(bench, system, "select", move |load| {
                Ok(Sample::new(load.n, Duration::from_nanos(ns * load.n)))
            })
        };
        let no = Case::new("busy-2", "tokio", "x", |_| Err(Failure::Cannot("no".to_owned())));
        let cases = vec![
            case("busy-2", "chanter", 50),
            case("busy-8", "chanter", 90),
            case("busy-2", "go", 150),
            case("timer", "clock", 7),
            no,
        ];
        let measured = measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(lines(&measured, Shape::Busy, 1)[&("chanter", "select")], [(2.0, 50.0), (8.0, 90.0)]);
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("choice.svg");
        svg(&path, &measured)?;
        let picture = std::fs::read_to_string(&path)?;
        for text in ["chanter select", "go select", "receives, all fed, 1 VP", "</svg>"] {
            assert!(picture.contains(text), "{text}");
        }
        assert!(!picture.contains("tokio") && !picture.contains("clock"));
        Ok(())
    }
}
