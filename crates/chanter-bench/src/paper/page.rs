//! The report: one HTML file that needs no other.

use std::error::Error;
use std::fmt::Write;

use super::tables::Sheet;
use super::{Found, plots};
use crate::html::{END, begin, escaped};
use crate::report::{ALLOCATOR, number};

/// The whole page.
pub(super) fn html(found: &Found) -> Result<String, Box<dyn Error>> {
    let mut page = begin("chanter-bench paper");
    let size = if found.quick { "small inputs (--quick)" } else { "the papers' sizes" };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    writeln!(
        page,
        "<p>The papers' programs and micro-studies on Chanter {}: {size}, on 1 to {} virtual processors, on a \
         machine with {cores} processors, {} {}, allocator: {ALLOCATOR}. Medians of interleaved runs; every result \
         was checked. What is called <em>the paper</em> is typed in from Featherweight Threads (Sivaramakrishnan, \
         Ziarek, Prasad, Jagannathan) or Parallel Concurrent ML (Reppy, Russo, Xiao).</p>",
        env!("CARGO_PKG_VERSION"),
        found.vps,
        std::env::consts::ARCH,
        std::env::consts::OS,
    )?;
    if !found.findings.is_empty() {
        floors(&mut page, found)?;
    }
    for sheet in &found.sheets {
        write!(
            page,
            "<h2 id=\"{}\">{}</h2>\n<p class=\"note\">{}</p>\n",
            sheet.id,
            escaped(sheet.title),
            escaped(sheet.note)
        )?;
        table(&mut page, sheet)?;
        let pictures = plots::of(sheet.id, &found.measured, found.vps)?;
        if !pictures.is_empty() {
            write!(page, "<div class=\"pictures\">\n{}\n</div>\n", pictures.join("\n"))?;
        }
    }
    page.push_str(END);
    Ok(page)
}

fn floors(page: &mut String, found: &Found) -> std::fmt::Result {
    page.push_str(
        "<h2 id=\"floors\">What is promised</h2>\n<div class=\"wide\"><table><tr><th class=\"word\">figure</th><th>value</th>",
    );
    page.push_str("<th>floor</th><th>holds</th></tr>\n");
    for finding in &found.findings {
        let (class, holds) = if finding.holds == Some(true) { ("yes", "yes") } else { ("no", "no") };
        writeln!(
            page,
            "<tr><td class=\"word\">{}</td><td>{}</td><td>{} {}</td><td class=\"{class}\">{holds}</td></tr>",
            escaped(&finding.figure),
            finding.value.map(number).unwrap_or_default(),
            finding.bound,
            number(finding.floor),
        )?;
    }
    page.push_str("</table></div>\n");
    Ok(())
}

fn table(page: &mut String, sheet: &Sheet) -> std::fmt::Result {
    page.push_str("<div class=\"wide\"><table>\n");
    let rows = std::iter::once((&sheet.head, "th")).chain(sheet.rows.iter().map(|row| (row, "td")));
    for (row, tag) in rows {
        page.push_str("<tr>");
        for (at, text) in row.iter().enumerate() {
            let class = if at < sheet.words { " class=\"word\"" } else { "" };
            write!(page, "<{tag}{class}>{}</{tag}>", escaped(text))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
    Ok(())
}
