//! The report: a page with the plots of the studies.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use plotters::prelude::*;

use super::load::{RATES as OFFERED, at_rate};
use super::{FORMS, IDLE, PEERS, RATES, shown};
use crate::figures::Finding;
use crate::html::{self, END, begin, escaped};
use crate::measure::Measured;
use crate::report::number;

const SIZE: (u32, u32) = (860, 460);
const COLOURS: [RGBColor; 6] = [
    RGBColor(150, 90, 40),
    RGBColor(210, 140, 20),
    RGBColor(200, 30, 40),
    RGBColor(0, 120, 190),
    RGBColor(90, 170, 220),
    RGBColor(60, 60, 60),
];

/// The paper's figures at 2500 connections a second, on 16 cores.
const PAPER: [(&str, f64); 3] = [("synchronous", 1610.0), ("hosts", 1580.0), ("parasites", 2230.0)];

struct Line {
    name: String,
    /// Offered and answered, a second.
    points: Vec<(f64, f64)>,
}

fn lines(measured: &[Measured]) -> Vec<Line> {
    let of = |m: &Measured| {
        let detail = &m.outcome.as_ref().ok()?.detail;
        let points = OFFERED.into_iter().filter_map(|rate| Some((rate.into(), *detail.get(&at_rate(rate))?)));
        let points: Vec<_> = points.collect();
        (!points.is_empty()).then(|| Line { name: format!("{}, {}", shown(&m.case), m.case.variant), points })
    };
    measured.iter().filter(|m| m.case.bench == RATES).filter_map(of).collect()
}

/// Replies a second against connections a second, as an SVG.
fn rates(lines: &[Line]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let points = || lines.iter().flat_map(|line| line.points.iter());
        let across = points().fold(1.0_f64, |most, point| most.max(point.0));
        let up = points().fold(1.0_f64, |most, point| most.max(point.1));
        let mut chart = ChartBuilder::on(&root)
            .caption("httperf: replies a second", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..across * 1.03, 0.0..up * 1.1)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("connections offered a second")
            .y_desc("replies a second")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .draw()?;
        for (line, colour) in lines.iter().zip(COLOURS.into_iter().cycle()) {
            chart.draw_series([PathElement::new(line.points.clone(), colour.stroke_width(2))])?;
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        root.present()?;
    }
    Ok(html::plot(&svg, lines.iter().map(|line| line.name.as_str()).zip(COLOURS.into_iter().cycle())))
}

/// A bar for each server, as an SVG.
fn bars(title: &str, rows: &[(String, f64)]) -> Result<String, Box<dyn Error>> {
    const ROW: i32 = 30;
    let left = 32 + html::widest(rows.iter().map(|row| row.0.as_str()), 16);
    let wide = left + 620;
    let mut svg = String::new();
    {
        let height = 60 + ROW * rows.len() as i32;
        let root = SVGBackend::with_string(&mut svg, (wide as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw_text(title, &("sans-serif", 20).into_font().color(&BLACK), (16, 14))?;
        let text = ("sans-serif", 16).into_font().color(&BLACK);
        let most = rows.iter().fold(f64::MIN_POSITIVE, |most, row| most.max(row.1));
        let scale = f64::from(wide - left - 120) / most;
        for (at, ((name, value), colour)) in rows.iter().zip(COLOURS.into_iter().cycle()).enumerate() {
            let y = 48 + ROW * at as i32;
            let end = left + (value * scale).max(1.0) as i32;
            root.draw_text(name, &text, (16, y + 4))?;
            root.draw(&Rectangle::new([(left, y), (end, y + ROW - 8)], colour.filled()))?;
            root.draw_text(&number(*value), &text, (end + 8, y + 4))?;
        }
        root.present()?;
    }
    Ok(html::picture(&svg))
}

fn rows(measured: &[Measured], study: &str, value: impl Fn(&Measured) -> Option<f64>) -> Vec<(String, f64)> {
    let of = |m: &Measured| Some((format!("{}, {}", shown(&m.case), m.case.variant), value(m)?));
    measured.iter().filter(|m| m.case.bench == study).filter_map(of).collect()
}

fn detail(m: &Measured, name: &str) -> Option<f64> {
    m.outcome.as_ref().ok()?.detail.get(name).copied()
}

/// Writes the page.
pub(super) fn write(
    path: &Path,
    measured: &[Measured],
    findings: &[Finding],
    how: &str,
) -> Result<(), Box<dyn Error>> {
    let mut page = begin("Swerve under load");
    writeln!(page, "<p>{}</p>", escaped(how))?;
    let lines = lines(measured);
    if !lines.is_empty() {
        writeln!(page, "<h2>Replies against connections offered</h2>\n{}", rates(&lines)?)?;
        let paper = PAPER.map(|(form, replies)| format!("{form} {replies:.0}")).join(", ");
        writeln!(page, "<p>The paper (section 6.4), 2500 connections a second, 16 cores: {paper}.</p>")?;
    }
    let charts = [
        ("Three forms, with a log: replies a second", rows(measured, FORMS, |m| detail(m, "replies_per_s"))),
        (
            "Beside others, without a log: replies a second",
            rows(measured, PEERS, |m| detail(m, "replies_per_s")),
        ),
        ("p99 in microseconds", rows(measured, PEERS, |m| detail(m, "p99_us"))),
        ("p99.9 in microseconds", rows(measured, PEERS, |m| detail(m, "p999_us"))),
        (
            "Processor time of a reply in microseconds",
            rows(measured, PEERS, |m| detail(m, "cpu_us_per_reply")),
        ),
        (
            "Bytes of memory for a silent connection",
            rows(measured, IDLE, |m| m.outcome.as_ref().ok()?.bytes_per_thread),
        ),
    ];
    for (title, rows) in charts.iter().filter(|(_, rows)| !rows.is_empty()) {
        writeln!(page, "{}", bars(title, rows)?)?;
    }
    page.push_str("<h2>Floors</h2>\n<div class=\"wide\"><table><tr><th class=\"word\">figure</th>");
    page.push_str("<th>value</th><th>floor</th><th>holds</th></tr>\n");
    for finding in findings {
        let value = finding.value.map_or("-".to_owned(), number);
        let holds = finding.holds.map_or("not measured", |holds| if holds { "yes" } else { "NO" });
        let floor = format!("{} {}", finding.bound, number(finding.floor));
        let figure = escaped(&finding.figure);
        writeln!(
            page,
            "<tr><td class=\"word\">{figure}</td><td>{value}</td><td>{floor}</td><td>{holds}</td></tr>"
        )?;
    }
    page.push_str("</table></div>\n");
    for m in measured {
        if let Err(why) = &m.outcome {
            writeln!(page, "<p>Skipped: {}, {}: {}</p>", shown(&m.case), m.case.variant, escaped(why))?;
        }
    }
    page.push_str(END);
    std::fs::write(path, page)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Failure, Sample};
    use crate::figures::Bound;
    use crate::measure::measure;

    #[test]
    fn the_page_has_a_line_and_a_bar_for_each_server_and_says_what_is_missing() -> Result<(), Box<dyn Error>>
    {
        let sample = |load: crate::case::Load| Sample::new(load.n, Duration::from_millis(1));
        let httperf = Case::new(RATES, "chanter", "hosts", move |load| {
            Ok(OFFERED
                .into_iter()
                .fold(sample(load), |s, rate| s.with(&at_rate(rate), f64::from(rate) / 2.0)))
        });
        let wrk = Case::new(PEERS, "nginx", "sendfile", move |load| {
            Ok(sample(load).with("replies_per_s", 12_345.0).with("p99_us", 7.0))
        });
        let absent = Case::new(IDLE, "nginx", "none", |_| Err(Failure::Unavailable("no <nginx>".into())));
        let measured = measure(vec![httperf, wrk, absent], 1).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(lines(&measured)[0].points[0], (2500.0, 1250.0));
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("report.html");
        let findings = [Finding::new("parasites / synchronous".into(), Some(1.5), Bound::AtLeast(1.39))];
        write(&path, &measured, &findings, "1 VP")?;
        let page = std::fs::read_to_string(&path)?;
        html::tests::fits(&page);
        for text in [
            "swerve, hosts",
            "nginx, sendfile",
            "12345",
            "no &lt;nginx&gt;",
            "parasites 2230",
            "at least 1.39",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("p99.9 in"), "nothing of it was measured");
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        Ok(())
    }
}
