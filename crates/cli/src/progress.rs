//! The progress line: current operation and time left. Drawn only while the clock does not run.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_lab::{Observer, Progress};
use punctual_record::{Run, sanitize};

use crate::live::Live;
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
