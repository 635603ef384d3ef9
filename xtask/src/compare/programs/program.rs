//! A real program: how it is set up, what it does, what it measures.

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What Debian packages have it.
    pub(super) packages: &'static str,
    /// Prints its version; nothing, or an error, where it is not installed.
    pub(super) version: &'static str,
    /// Runs once, in an empty folder.
    pub(super) setup: &'static str,
    pub(super) work: Work,
    /// What it measures of itself: numbers that it writes to `$FIGURES`, a line each. None: the time that it takes.
    pub(super) figures: &'static [Figure],
    /// Whether `compare remedies` has it too.
    pub(super) remedies: bool,
}

impl Program {
    /// What it is judged by.
    pub(super) fn judged_by(&self) -> &[Figure] {
        if self.figures.is_empty() { TIME } else { self.figures }
    }
}

/// What it does.
#[derive(Debug)]
pub(super) enum Work {
    /// It runs to its end, and prints what has to be the same.
    Ends(&'static str),
    /// It serves until SIGTERM.
    Serves {
        /// The server.
        server: &'static str,
        /// Its child serves, and is the one to attach to.
        worker: bool,
        /// Succeeds once it serves.
        ready: &'static str,
        /// What is timed, and prints what has to be the same.
        load: &'static str,
    },
}

/// A number that a program measures.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) better: Better,
}

/// Which numbers are a gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Less,
    More,
}

/// The figure of a program that measures none itself.
const TIME: &[Figure] = &[less("time, s")];
/// The median lateness of a wait.
pub(super) const LATE: &[Figure] = &[less("late at p50, us")];

/// What most programs have.
pub(super) const PLAIN: Program =
    Program { name: "", packages: "", version: "", setup: "", work: Work::Ends(""), figures: &[], remedies: false };
/// What most programs have that `compare remedies` has too.
pub(super) const REMEDIED: Program = Program { remedies: true, ..PLAIN };

pub(super) const fn less(name: &'static str) -> Figure {
    Figure { name, better: Better::Less }
}

pub(super) const fn more(name: &'static str) -> Figure {
    Figure { name, better: Better::More }
}
