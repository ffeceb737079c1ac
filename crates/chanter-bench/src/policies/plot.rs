//! How long requests took: a line for each policy over the percentiles, on a logarithmic axis.

use std::error::Error;
use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::requests::{BENCH, PERCENTILES};
use crate::measure::Measured;

const SIZE: (u32, u32) = (860, 480);
const COLOURS: [RGBColor; 5] = [
    RGBColor(60, 60, 60),
    RGBColor(0, 120, 190),
    RGBColor(210, 140, 20),
    RGBColor(200, 30, 40),
    RGBColor(40, 140, 70),
];

type Point = (f64, f64);

/// A policy and its percentiles, from left to right.
fn lines(measured: &[Measured]) -> Vec<(&'static str, Vec<Point>)> {
    let of = |m: &Measured| {
        let detail = &m.outcome.as_ref().ok()?.detail;
        let points = PERCENTILES.into_iter().enumerate();
        let points = points.filter_map(|(at, (name, _))| Some((at as f64, *detail.get(name)?)));
        Some((m.case.variant, points.collect()))
    };
    measured.iter().filter(|m| m.case.bench == BENCH).filter_map(of).collect()
}

/// Writes an SVG file.
pub(super) fn svg(path: &Path, measured: &[Measured]) -> Result<(), Box<dyn Error>> {
    let lines = lines(measured);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
    let (least, most) = all.fold((f64::INFINITY, 1.0_f64), |(l, m), t| (l.min(t), m.max(t)));
    let names = PERCENTILES.map(|(name, _)| name.trim_end_matches("_us"));
    let mut chart = ChartBuilder::on(&root)
        .caption("chanter-bench policies: short requests beside long computations", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(80)
        .build_cartesian_2d(
            -0.2..PERCENTILES.len() as f64 - 0.8,
            (least.min(most) / 2.0..most * 2.0).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .disable_x_mesh()
        .x_labels(PERCENTILES.len())
        .x_label_formatter(&|at| {
            let whole = (at - at.round()).abs() < 1e-9;
            names.get(at.round() as usize).filter(|_| whole).map_or(String::new(), |name| (*name).to_owned())
        })
        .y_desc("latency, us")
        .y_label_formatter(&|us| format!("{us:.0}"))
        .draw()?;
    for ((policy, points), colour) in lines.into_iter().zip(COLOURS) {
        let dots: Vec<_> = points.iter().map(|point| Circle::new(*point, 4, colour.filled())).collect();
        chart
            .draw_series([PathElement::new(points, colour.stroke_width(2))])?
            .label(policy)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], colour.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::measure::measure;

    #[test]
    fn the_picture_has_a_line_for_each_policy() -> Result<(), Box<dyn Error>> {
        let case = |policy, factor: f64| {
            Case::new(BENCH, "chanter", policy, move |load| {
                let sample = Sample::new(load.n, Duration::from_nanos(1));
                Ok(PERCENTILES.into_iter().fold(sample, |s, (name, part)| s.with(name, part * factor)))
            })
        };
        let other =
            Case::new("yield", "chanter", "custom", |load| Ok(Sample::new(load.n, Duration::from_nanos(1))));
        let cases = vec![case("fifo", 1000.0), case("priority", 100.0), other];
        let measured = measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        let lines = lines(&measured);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].1[..2], [(0.0, 50.0), (1.0, 90.0)]);
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("policies.svg");
        svg(&path, &measured)?;
        let picture = std::fs::read_to_string(&path)?;
        for text in ["fifo", "priority", "p99.9", "latency, us", "</svg>"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        assert!(!picture.contains("custom"));
        Ok(())
    }
}
