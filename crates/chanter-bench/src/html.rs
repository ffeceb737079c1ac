//! The parts that the pages of all benchmarks share. A page is one file that needs no other. No table or picture is
//! wider than the page: it scrolls in a box of its own. The lines of a plot are named below it, so that no name lies on
//! another one or on a line.

use std::fmt::Write;

use plotters::style::RGBColor;

const STYLE: &str = "
* { box-sizing: border-box; }
body { font: 15px/1.45 sans-serif; color: #222; max-width: 1150px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2.2em; }
h1, h2, p, li, td.word { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 2px 10px; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #888; } th.word, td.word { text-align: left; }
pre { margin: 0; font: 13px/1.35 monospace; width: max-content; }
.wide { overflow-x: auto; max-width: 100%; margin: 0.8em 0; } .wide svg { display: block; }
.pictures { display: flex; flex-wrap: wrap; gap: 8px; } figure { margin: 0.8em 0; max-width: 100%; }
figure .wide { margin: 0; } figcaption { display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 0 8px; font-size: 13px; }
figcaption span::before { content: ''; display: inline-block; width: 14px; height: 10px; margin-right: 5px; \
background: var(--line); }
.no { color: #b03030; font-weight: bold; } p.note { color: #555; }
";

/// The begin of a page. It ends with [`END`].
pub(crate) fn begin(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    )
}

pub(crate) const END: &str = "</body></html>\n";

/// Text as it stands in a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text in lines, such as a table of the terminal's.
pub(crate) fn lines(text: &str) -> String {
    format!("<div class=\"wide\"><pre>{}</pre></div>\n", escaped(text))
}

/// A picture without a legend.
pub(crate) fn picture(svg: &str) -> String {
    format!("<div class=\"wide\">{svg}</div>\n")
}

/// A plot, and the names of its lines below it.
pub(crate) fn plot<'a>(svg: &str, names: impl IntoIterator<Item = (&'a str, RGBColor)>) -> String {
    let mut figure = format!("<figure><div class=\"wide\">{svg}</div><figcaption>");
    for (name, RGBColor(red, green, blue)) in names {
        let _ = write!(figure, "<span style=\"--line: rgb({red},{green},{blue})\">{}</span>", escaped(name));
    }
    figure + "</figcaption></figure>\n"
}

/// Width of a text without serifs, in pixels. It is an upper estimate, as fonts differ.
pub(crate) fn width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.6).ceil() as i32
}

/// Width of the longest of some names.
pub(crate) fn widest<'a>(names: impl IntoIterator<Item = &'a str>, size: u32) -> i32 {
    names.into_iter().map(|name| width(name, size)).max().unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A text of a picture, and about where it lies: left, top, right and bottom.
    struct Label(String, [f64; 4]);

    fn labels(svg: &str) -> Vec<Label> {
        let mut found = Vec::new();
        for part in svg.split("<text ").skip(1) {
            let (attributes, rest) = part.split_once('>').expect("a tag ends");
            let text = rest.split("</text>").next().unwrap_or("").trim().to_owned();
            let value = |name: &str| {
                let rest = attributes.split(&format!("{name}=\"")).nth(1)?;
                rest.split('"').next()
            };
            let pixels = |name| value(name).and_then(|value| value.parse::<f64>().ok());
            if value("transform").is_some() || text.is_empty() {
                // A name of an axis, on its side.
                continue;
            }
            let (x, y) = (pixels("x").expect("a place"), pixels("y").expect("a place"));
            let size = pixels("font-size").expect("a size");
            // Less than fonts have, so that labels that only touch are let through.
            let width = text.chars().count() as f64 * size * 0.5;
            let left = match value("text-anchor") {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            };
            // The baseline stands in `dy`, or `y` is the top.
            let up = value("dy").and_then(|dy| dy.trim_end_matches("em").parse::<f64>().ok()).unwrap_or(0.0);
            let bottom = y + up * size;
            found.push(Label(text, [left, bottom - 0.7 * size, left + width, bottom]));
        }
        found
    }

    /// Asserts that a page fits any screen. Its tables and pictures lie in boxes that scroll. No two labels of a picture
    /// overlap, and none ends outside of it.
    pub(crate) fn fits(page: &str) {
        assert!(page.contains("width=device-width") && page.contains("overflow-x: auto"));
        for tag in ["<table", "<pre", "<svg"] {
            for (at, _) in page.match_indices(tag) {
                assert!(
                    page[..at].ends_with("<div class=\"wide\">"),
                    "{tag} is in no box: {}",
                    &page[at..][..80]
                );
            }
        }
        for picture in page.split("<svg ").skip(1) {
            let picture = picture.split("</svg>").next().unwrap_or("");
            let wide = picture.split("width=\"").nth(1).and_then(|rest| rest.split('"').next());
            let wide: f64 = wide.and_then(|wide| wide.parse().ok()).expect("a picture has a width");
            let labels = labels(picture);
            for (at, Label(text, [left, top, right, bottom])) in labels.iter().enumerate() {
                assert!(
                    *left >= -1.0 && *right <= wide + 1.0,
                    "{text:?} leaves its picture: {left} to {right}"
                );
                for Label(other, [l, t, r, b]) in &labels[..at] {
                    let is_over = left < r && l < right && top < b && t < bottom;
                    // The place 1000 of a logarithmic axis may be named twice.
                    assert!(!is_over || text == other, "{text:?} lies on {other:?}");
                }
            }
        }
    }

    #[test]
    fn labels_on_top_of_each_other_are_noticed() {
        let page = |second: u32| {
            let text = |x: u32| format!("<text x=\"{x}\" y=\"10\" font-size=\"10\">\nna{x:02}\n</text>");
            begin("a") + &picture(&format!("<svg width=\"100\">{}{}</svg>", text(0), text(second))) + END
        };
        fits(&page(40));
        assert!(std::panic::catch_unwind(|| fits(&page(10))).is_err());
        assert!(std::panic::catch_unwind(|| fits(&page(95))).is_err());
        let unboxed = begin("a")
            + "<pre>x</pre>                                                                             ";
        assert!(std::panic::catch_unwind(|| fits(&unboxed)).is_err());
    }

    #[test]
    fn text_is_escaped_and_lines_are_named() {
        assert!(lines("a < b & c").contains("<pre>a &lt; b &amp; c</pre>"));
        let shown = plot("<svg></svg>", [("push & pull", RGBColor(1, 2, 3))]);
        assert!(shown.contains("rgb(1,2,3)") && shown.contains("push &amp; pull"));
        assert_eq!((width("abcde", 10), widest(["a", "abcde"], 10)), (30, 30));
    }
}
