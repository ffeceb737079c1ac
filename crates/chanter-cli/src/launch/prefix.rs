//! The number before each line.

use std::io;

use anstyle::{AnsiColor, Style};
use serde::{Deserialize, Serialize};

use super::output::Stream;
use super::{Color, LaunchArgs};

/// Colours of the numbers, in turns.
const COLORS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Yellow,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Red,
];

/// Which numbers are shown.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Prefix {
    is_shown: bool,
    colored_out: bool,
    colored_err: bool,
}

impl Prefix {
    /// Settings for the streams of this process.
    pub(super) fn new(args: &LaunchArgs) -> Self {
        let color: Color = args.color;
        Self {
            is_shown: !args.no_prefix,
            colored_out: color.is_wanted(&io::stdout()),
            colored_err: color.is_wanted(&io::stderr()),
        }
    }

    /// The beginning of the lines of the process with that number.
    pub(super) fn of(self, number: usize, stream: Stream) -> Vec<u8> {
        let is_colored = match stream {
            Stream::Out => self.colored_out,
            Stream::Err => self.colored_err,
        };
        if !self.is_shown {
            Vec::new()
        } else if is_colored {
            let style = Style::new().fg_color(Some(COLORS[number % COLORS.len()].into()));
            format!("{style}[{number}]{style:#} ").into()
        } else {
            format!("[{number}] ").into()
        }
    }
}
