//! The page: what was measured beside the paper's figures.

use std::error::Error;
use std::fmt::Write;

use plotters::prelude::*;

use super::schemas;
use crate::figures::Finding;
use crate::measure::Measured;
use crate::report::number;
use crate::table_of;

const HERE: RGBColor = RGBColor(40, 100, 180);
const PAPER: RGBColor = RGBColor(150, 150, 150);

/// The whole page.
pub(super) fn html(
    measured: &[Measured],
    findings: &[Finding],
    quick: bool,
) -> Result<String, Box<dyn Error>> {
    let mut page = String::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let size = if quick { "small inputs (--quick)" } else { "full inputs" };
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>chanter-bench objects</title></head>\
         <body style=\"font: 15px sans-serif; max-width: 1150px; margin: 2em auto\">\n<h1>chanter-bench objects</h1>\n\
         <p>Chanter {}, {size}, {cores} processors. Medians of interleaved rounds; every result was checked. What is called the \
         paper is Karamcheti, Plevyak and Chien, <em>Runtime Mechanisms for Efficient Dynamic Multithreading</em> (Illinois \
         Concert, on a Cray T3D).</p>\n",
        env!("CARGO_PKG_VERSION")
    )?;
    section(&mut page, "What is promised", &table_of(findings))?;
    if !measured.is_empty() {
        section(&mut page, "Calls and fallbacks (tables 3 and 4)", &schemas::tables(measured))?;
        page.push_str(&bars("As a part of Base's heap invocation", &schemas::bars(measured))?);
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn section(page: &mut String, title: &str, table: &str) -> std::fmt::Result {
    writeln!(page, "<h2>{title}</h2>\n<pre>{}</pre>", table.replace('&', "&amp;").replace('<', "&lt;"))
}

/// Bars: here, and the paper's.
fn bars(title: &str, bars: &[(String, f64, Option<f64>)]) -> Result<String, Box<dyn Error>> {
    let (left, row, width) = (220, 34, 820);
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
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_tables_and_a_picture() {
        let measured = crate::measure::measure(schemas::cases(true), 1).unwrap_or_else(|f| panic!("{f}"));
        let findings = schemas::findings(&measured);
        assert!(findings.iter().all(|finding| finding.value.is_some()), "each is measured");
        let page = html(&measured, &findings, true).unwrap();
        assert_eq!(page.matches("<svg").count(), 1);
        for text in ["table 4", "MB -&gt; CP", "conc! of 8", "ractor"] {
            assert!(page.contains(text) || page.contains(&text.replace("&gt;", ">")), "{text}");
        }
    }
}
