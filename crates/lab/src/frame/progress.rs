//! The progress of an experiment, who sees it, and its share of a whole run.

use std::time::Duration;

/// The progress of an experiment, reported while no clock runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The next measurement, in words.
    pub doing: String,
    /// A part of it, or what it has shown so far, in words.
    pub detail: Option<String>,
    /// The part done, 0 to 1.
    pub done: f64,
    /// Estimated time left.
    pub left: Duration,
}

/// The part of a run that an experiment is. The default is the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Duration of the experiments before it.
    pub before: Duration,
    /// Its duration.
    pub takes: Duration,
    /// Duration of the experiments after it.
    pub after: Duration,
}

impl Portion {
    /// The progress of the run, from that of the experiment.
    fn of_run(&self, progress: &Progress) -> Progress {
        let whole = (self.before + self.takes + self.after).as_secs_f64();
        let done = match whole > 0.0 {
            true => (self.before.as_secs_f64() + self.takes.as_secs_f64() * progress.done.clamp(0.0, 1.0)) / whole,
            false => progress.done,
        };
        Progress { done, left: progress.left.saturating_add(self.after), ..progress.clone() }
    }
}

/// Receives the progress of an experiment.
pub trait Observer {
    /// Called on the caller's thread, between two batches of measurements, never during one.
    fn progress(&mut self, progress: &Progress);

    /// A line of output from the experiment. Called under the same conditions as [`Observer::progress`].
    fn line(&mut self, _text: &str) {}

    /// A warning that cannot wait for the report. Called before an experiment starts.
    fn warn(&mut self, _text: &str) {}

    /// Called once at the end.
    fn finish(&mut self) {}
}

/// Shows the progress of an experiment as that of the run.
pub(crate) struct OfRun<'o> {
    pub(crate) observer: &'o mut dyn Observer,
    pub(crate) portion: Portion,
}

impl Observer for OfRun<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(&self.portion.of_run(progress));
    }

    fn line(&mut self, text: &str) {
        self.observer.line(text);
    }

    fn warn(&mut self, text: &str) {
        self.observer.warn(text);
    }

    fn finish(&mut self) {
        self.observer.finish();
    }
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_run_have_one_progress() {
        let s = Duration::from_secs;
        let (first, last) = (
            Portion { takes: s(6), after: s(2), ..Portion::default() },
            Portion { before: s(6), takes: s(2), after: s(0) },
        );
        let seen = |portion: Portion, done, left| {
            let its = portion.of_run(&Progress { doing: String::new(), detail: None, done, left: s(left) });
            (its.done, its.left)
        };
        assert_eq!(seen(first, 0.5, 3), (0.375, s(5)));
        assert_eq!(seen(first, 1.0, 0), (0.75, s(2)));
        assert_eq!(seen(last, 0.0, 2), (0.75, s(2)));
        assert_eq!(seen(last, 1.0, 0), (1.0, s(0)));
        assert_eq!(seen(Portion::default(), 0.5, 3), (0.5, s(3)), "a run of one part");
    }
}
