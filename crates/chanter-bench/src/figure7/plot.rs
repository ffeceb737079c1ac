//! Figure 7 as a picture. For each program it shows the speed-up, and the part of its threads that were stolen, over
//! the number of virtual processors. The paper's lines are grey.

use std::error::Error;
use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::paper::{FIGURE, Paper, VPS};
use super::{WAYS, find};
use crate::measure::Measured;

const PANEL: (u32, u32) = (340, 260);
const TITLE: u32 = 44;
const PAPER: RGBColor = RGBColor(150, 150, 150);
const COLOURS: [RGBColor; 4] =
    [RGBColor(200, 30, 40), RGBColor(0, 120, 190), RGBColor(40, 140, 70), RGBColor(210, 140, 20)];

/// A name, its colour, and its points.
type Line = (&'static str, RGBColor, Vec<(f64, f64)>);

/// Quantity that a row of panels shows.
struct Quantity {
    name: &'static str,
    most: f64,
    of_paper: fn(&Paper, usize) -> f64,
    ours: fn(&[Measured], &str, &str, usize) -> Option<f64>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        name: "speed-up",
        most: 8.0,
        of_paper: |paper, column| paper.seconds[0] / paper.seconds[column],
        ours: |measured, program, way, vps| {
            let time = |vps| Some(find(measured, program, way, vps)?.ns_per_op);
            Some(time(1)? / time(vps)?)
        },
    },
    Quantity {
        name: "stolen",
        most: 1.05,
        of_paper: |paper, column| f64::from(paper.stolen[column]) / f64::from(paper.threads),
        ours: |measured, program, way, vps| {
            let detail = &find(measured, program, way, vps)?.detail;
            Some(detail.get("stolen")? / detail.get("threads")?)
        },
    },
];

fn lines(measured: &[Measured], paper: &Paper, quantity: &Quantity) -> Vec<Line> {
    let points = |of: &dyn Fn(usize) -> Option<f64>| -> Vec<_> {
        VPS.into_iter().enumerate().filter_map(|(at, vps)| Some((vps as f64, of(at)?))).collect()
    };
    let mut lines = vec![("paper", PAPER, points(&|column| Some((quantity.of_paper)(paper, column))))];
    for (way, colour) in WAYS.iter().zip(COLOURS) {
        let of = |column: usize| (quantity.ours)(measured, paper.program, way.name, VPS[column]);
        lines.push((way.name, colour, points(&of)));
    }
    lines
}

/// Writes an SVG file.
pub(crate) fn svg(path: &Path, measured: &[Measured]) -> Result<(), Box<dyn Error>> {
    let size = (PANEL.0 * FIGURE.len() as u32, PANEL.1 * QUANTITIES.len() as u32 + TITLE);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let title = ("sans-serif", 20).into_font().color(&BLACK);
    root.draw_text("chanter-bench sting: figure 7 over virtual processors", &title, (14, 12))?;
    for (down, quantity) in QUANTITIES.iter().enumerate() {
        for (across, paper) in FIGURE.iter().enumerate() {
            let place = (PANEL.0 * across as u32, TITLE + PANEL.1 * down as u32);
            let area = root.clone().shrink(place, PANEL);
            let mut chart = ChartBuilder::on(&area)
                .caption(format!("{}: {}", paper.program, quantity.name), ("sans-serif", 14))
                .margin(8)
                .x_label_area_size(24)
                .y_label_area_size(36)
                .build_cartesian_2d((0.9..9.0).log_scale(), 0.0..quantity.most)?;
            let mesh = |x: &f64| if VPS.contains(&(*x as usize)) { format!("{x:.0}") } else { String::new() };
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .disable_x_mesh()
                .x_label_formatter(&mesh)
                .y_labels(5)
                .draw()?;
            for (name, colour, points) in lines(measured, paper, quantity) {
                let dots: Vec<_> = points.iter().map(|at| Circle::new(*at, 3, colour.filled())).collect();
                chart
                    .draw_series([PathElement::new(points, colour.stroke_width(2))])?
                    .label(name)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
                chart.draw_series(dots)?;
            }
            if (down, across) == (0, 0) {
                chart
                    .configure_series_labels()
                    .position(SeriesLabelPosition::UpperLeft)
                    .background_style(WHITE.mix(0.9))
                    .draw()?;
            }
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::figure7::table::table;
    use crate::measure::measure;

    #[test]
    fn table_and_picture_show_ours_beside_the_papers() -> Result<(), Box<dyn Error>> {
        let case = |vps: usize| {
            let case = Case::new("primes", "chanter", "lifo", move |_| {
                let sample = Sample::new(1, Duration::from_millis(6) / vps as u32);
                Ok(sample.with("threads", 1501.0).with("stolen", 1234.0))
            });
            case.load_of(1, vps)
        };
        let measured = measure(vec![case(1), case(2)], 1).unwrap_or_else(|f| panic!("{f}"));
        let speed_up = lines(&measured, &FIGURE[1], &QUANTITIES[0]);
        assert_eq!(speed_up[1].2, [(1.0, 1.0), (2.0, 2.0)]);
        let shown = table(&measured, 1);
        for text in ["1234", "1499", "1.84 s", "6.00 ms", "3.00 ms"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(!shown.contains("| boyer"));
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("figure7.svg");
        svg(&path, &measured)?;
        let picture = std::fs::read_to_string(&path)?;
        for text in ["primes: stolen", "boyer: speed-up", "paper", "delayed", "fibers", "</svg>"] {
            assert!(picture.contains(text), "{text}");
        }
        Ok(())
    }
}
