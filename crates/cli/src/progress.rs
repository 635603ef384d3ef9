//! The progress line: current operation and time left; and [`Live`], the answer while it is measured: the first screen, drawn on the
//! terminal after three seconds and refined in place.
//!
//! Both are drawn between two batches, while the clock does not run. The answer takes at most a small share of the time.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_lab::{Observer, Progress};
use punctual_record::{Run, sanitize};
use punctual_report::export::text;
use punctual_report::{Document, Style};

use crate::terminal;

/// Steps of the bar: finer than any terminal is wide.
const STEPS: u64 = 1000;
/// Shortest time between two drawings: more would load the terminal and show nothing.
const BETWEEN: Duration = Duration::from_millis(100);

/// Most characters of the current operation: no terminal is wider.
const LONGEST: usize = 500;

/// A line on the terminal, or nothing.
pub(crate) struct Line {
    bar: ProgressBar,
    drawn: Option<Instant>,
    lines_to_stderr: bool,
    live: Option<Live>,
}

impl Line {
    /// Draws on stderr if that is a terminal and `wanted`. Lines of the experiment go to stdout, or to stderr with `lines_to_stderr`.
    pub(crate) fn new(wanted: bool, lines_to_stderr: bool) -> Self {
        let show = wanted && std::io::stderr().is_terminal();
        let target = if show { ProgressDrawTarget::stderr_with_hz(20) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {prefix:>6} left  {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, drawn: None, lines_to_stderr, live: None }
    }

    /// Shows the answer above the line as soon as there is one.
    pub(crate) fn with_answer(self, live: Option<Live>) -> Self {
        Self { live: live.filter(|_| !self.bar.is_hidden()), ..self }
    }
}

impl Observer for Line {
    fn progress(&mut self, progress: &Progress) {
        if self.bar.is_hidden() || self.drawn.is_some_and(|at| at.elapsed() < BETWEEN) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.bar.set_prefix(format!("{}s", progress.left.as_secs_f64().ceil()));
        let message = match &progress.detail {
            Some(detail) => format!("{}: {detail}", progress.doing),
            None => progress.doing.clone(),
        };
        self.bar.set_message(sanitize::line(&message, LONGEST));
        self.bar.set_position((progress.done * STEPS as f64) as u64);
    }

    fn takes_runs(&self) -> bool {
        self.live.is_some()
    }

    fn so_far(&mut self, run: &dyn Fn() -> Run) {
        if let Some(live) = self.live.as_mut().filter(|live| live.is_due()) {
            let drawing = live.drawing(&run());
            // A write error shows again when the last screen is printed.
            self.bar.suspend(|| drop(terminal::print(&drawing)));
        }
    }

    fn line(&mut self, text: &str) {
        self.bar.suspend(|| {
            // A write error shows again when the tables are printed.
            let _ = if self.lines_to_stderr {
                writeln!(std::io::stderr().lock(), "{text}")
            } else {
                writeln!(std::io::stdout().lock(), "{text}")
            };
        });
    }

    /// To stderr: on stdout the report is first.
    fn warn(&mut self, text: &str) {
        self.bar.suspend(|| drop(writeln!(std::io::stderr().lock(), "warning: {text}")));
    }

    /// Clears the line, and what it shows of the answer: the last screen takes its place.
    fn finish(&mut self) {
        self.bar.finish_and_clear();
        if let Some(mut live) = self.live.take() {
            drop(terminal::print(&live.erasing()));
        }
    }
}

/// Time after which there is something to say.
const FIRST: Duration = Duration::from_secs(3);
/// Shortest time between two drawings.
const BETWEEN_SCREENS: Duration = Duration::from_secs(1);
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
            Some((at, took)) => at.elapsed() >= BETWEEN_SCREENS.max(took * SHARE),
        }
    }

    /// What shows this run in place of the last one.
    pub(crate) fn drawing(&mut self, run: &Run) -> String {
        let begun = Instant::now();
        let text = text::unfinished(&Document::from_run(run), &self.style, self.rows);
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
