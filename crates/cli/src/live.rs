//! The answer while it is measured: the first screen, drawn on the terminal after three seconds and refined in place.
//!
//! It is drawn between two batches, as the progress line is, and takes at most a small share of the time.

use std::time::{Duration, Instant};

use punctual_record::Run;
use punctual_report::export::text;
use punctual_report::{Document, Style};

/// Time after which there is something to say.
const FIRST: Duration = Duration::from_secs(3);
/// Shortest time between two drawings.
const BETWEEN: Duration = Duration::from_secs(1);
/// A drawing takes at most the time since the last one, divided by this.
const SHARE: u32 = 20;
/// Lines of a terminal that are left to the progress line and the prompt.
const LEFT: usize = 2;
/// Most lines, and fewest that hold an answer.
const LINES: std::ops::RangeInclusive<usize> = 12..=22;

/// The answer on a terminal.
pub(crate) struct Live {
    style: Style,
    /// Lines of the terminal that it may use.
    rows: usize,
    begun: Instant,
    /// When it was drawn last, and how long that took.
    drawn: Option<(Instant, Duration)>,
    /// Lines that it fills now.
    lines: usize,
}

impl Live {
    /// `None`: the terminal has too few lines, or cannot move its cursor.
    pub(crate) fn new(style: Style, height: usize) -> Option<Self> {
        let rows = height.saturating_sub(LEFT).min(*LINES.end());
        let moves = std::env::var_os("TERM").is_none_or(|name| name != "dumb");
        let begun = Instant::now();
        (rows >= *LINES.start() && moves).then_some(Self { style, rows, begun, drawn: None, lines: 0 })
    }

    /// Whether it is time for a drawing.
    pub(crate) fn is_due(&self) -> bool {
        match self.drawn {
            None => self.begun.elapsed() >= FIRST,
            Some((at, took)) => at.elapsed() >= BETWEEN.max(took * SHARE),
        }
    }

    /// What shows this run in place of the last one.
    pub(crate) fn drawing(&mut self, run: &Run) -> String {
        let begun = Instant::now();
        let text = text::unfinished(&Document::of(run), &self.style, self.rows);
        let drawing = self.erasing() + &text;
        self.lines = text.lines().count();
        self.drawn = Some((Instant::now(), begun.elapsed()));
        drawing
    }

    /// What removes it: CUU and ED of ECMA-48.
    pub(crate) fn erasing(&mut self) -> String {
        match std::mem::take(&mut self.lines) {
            0 => String::new(),
            lines => format!("\r\x1b[{lines}A\x1b[J"),
        }
    }
}
