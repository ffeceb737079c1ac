//! The figures as a picture: one bar each, as a part of its floor.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::Finding;
use crate::report::number;

const ROW: i32 = 26;
const LEFT: i32 = 400;
const WIDTH: i32 = 1100;
const TOP: i32 = 60;

const GOOD: RGBColor = RGBColor(46, 125, 80);
const BAD: RGBColor = RGBColor(190, 60, 50);
const QUIET: RGBColor = RGBColor(110, 110, 110);

/// Bars end where the floor is exceeded this many times.
const FULL_SCALE: f64 = 2.0;

/// The part of its floor that a figure uses: up to 1 it holds.
fn share(finding: &Finding) -> Option<f64> {
    let value = finding.value?;
    Some(match finding.bound {
        "at least" => finding.floor / value,
        _ => value / finding.floor,
    })
}

/// Writes an SVG file.
pub(crate) fn svg(path: &Path, heading: &str, findings: &[Finding]) -> Result<(), Box<dyn Error>> {
    let height = TOP + ROW * findings.len() as i32 + 30;
    let root = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = ("sans-serif", 25).into_font().color(&BLACK);
    let text = ("sans-serif", 18).into_font().color(&BLACK);
    let quiet = ("sans-serif", 16).into_font().color(&QUIET);
    root.draw_text(heading, &title, (16, 16))?;
    let scale = f64::from(WIDTH - LEFT - 170) / FULL_SCALE;
    for (row, finding) in findings.iter().enumerate() {
        let y = TOP + ROW * row as i32;
        root.draw_text(&finding.figure, &text, (16, y + 4))?;
        let Some(share) = share(finding) else {
            root.draw_text("not measured: the peer is missing", &quiet, (LEFT + 6, y + 4))?;
            continue;
        };
        let length = (share.min(FULL_SCALE) * scale) as i32;
        let colour = if finding.holds == Some(true) { GOOD } else { BAD };
        let corners = [(LEFT, y + 3), (LEFT + length.max(1), y + ROW - 5)];
        root.draw(&Rectangle::new(corners, colour.filled()))?;
        let value = finding.value.map(number).unwrap_or_default();
        let words = format!("{value} ({} {})", finding.bound, number(finding.floor));
        root.draw_text(&words, &quiet, (LEFT + length + 8, y + 4))?;
    }
    let floor = LEFT + scale as i32;
    let line = [(floor, TOP - 4), (floor, height - 26)];
    root.draw(&PathElement::new(line, BLACK.stroke_width(1)))?;
    root.draw_text("floor", &quiet, (floor - 14, height - 22))?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(figure: &str, value: Option<f64>, floor: f64, bound: &'static str) -> Finding {
        let holds = value.map(|value| (value <= floor) == (bound == "at most"));
        Finding { figure: figure.to_owned(), value, floor, holds, bound }
    }

    #[test]
    fn a_share_up_to_one_holds_on_either_side() {
        assert_eq!(share(&finding("a", Some(1.5), 3.0, "at most")), Some(0.5));
        assert_eq!(share(&finding("b", Some(92.0), 46.0, "at least")), Some(0.5));
        assert_eq!(share(&finding("c", None, 46.0, "at least")), None);
    }

    #[test]
    fn the_picture_names_each_figure() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("figures.svg");
        let findings = [
            finding("parasite / call", Some(2.5), 3.0, "at most"),
            finding("pingpong / go & co", None, 0.25, "at most"),
            finding("lost choices", Some(0.0), 1e6, "at most"),
        ];
        svg(&path, "what is promised", &findings)?;
        let picture = std::fs::read_to_string(&path)?;
        assert!(picture.starts_with("<svg") && picture.contains("</svg>"));
        for text in ["parasite / call", "pingpong / go &amp; co", "not measured", "floor"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        Ok(())
    }
}
