//! The table: each fault tried on each command, and what came of it.

use std::time::Instant;

use punctual_testing::Lack;

use crate::commands::{CPUFREQ, SUBJECTS, Subject};
use crate::{machine_changes, output_failures, resource_limits, signals};

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A few seconds.
    Quick,
    /// Everything.
    Whole,
}

impl Depth {
    /// One or the other.
    pub(crate) fn choose<T>(self, quick: T, whole: T) -> T {
        if self == Self::Quick { quick } else { whole }
    }
}

/// Why a fault did not leave things as promised, or could not be tried.
#[derive(Debug)]
pub(crate) enum No {
    /// It makes no sense on this command.
    NotHere,
    /// A program is missing that makes the fault, or this user may not.
    Skipped(String),
    /// This machine cannot make the fault.
    Lacks(Lack),
    /// It took too long: on a busy machine that is tried again.
    Late(String),
    /// Something else than promised.
    Wrong(String),
}

/// What one attempt gives.
pub(crate) type Tried = Result<(), No>;

/// One fault.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// In the table.
    pub(crate) name: &'static str,
    /// Tried in `cargo test`, on these commands.
    pub(crate) quick: &'static [&'static str],
    /// Tries it.
    pub(crate) attempt: fn(&Subject, Depth) -> Tried,
}

/// Attempts before what takes too long is a failure.
const ATTEMPTS: u32 = 8;

/// Tries all that belongs to the depth, prints the table, and fails where something did not hold.
pub(crate) fn look(depth: Depth) {
    punctual_linux::signal::heed_what_ends_a_program().unwrap();
    let _alone = punctual_testing::alone_on_this_machine();
    let faults = [signals::FAULTS, resource_limits::FAULTS, output_failures::FAULTS, machine_changes::FAULTS].concat();
    let [only, of] = ["PUNCTUAL_FAULTS_ONLY", "PUNCTUAL_FAULTS_OF"].map(|name| std::env::var(name).unwrap_or_default());
    let (mut rows, mut skipped, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for fault in faults.iter().filter(|fault| fault.name.contains(&only)) {
        let begin = Instant::now();
        let mut row = Vec::new();
        for subject in SUBJECTS.iter().filter(|subject| subject.is_possible() && subject.name.contains(&of)) {
            if depth == Depth::Quick && !fault.quick.contains(&subject.name) {
                continue;
            }
            let place = format!("{} x {}", fault.name, subject.name);
            let cell = match persistently(fault, subject, depth) {
                Ok(()) => "held",
                Err(No::NotHere) => "-",
                Err(No::Skipped(why)) => {
                    skipped.push(format!("{place}: {why}"));
                    "skipped"
                }
                Err(No::Lacks(lack)) => {
                    punctual_testing::lacks(lack);
                    "lacking"
                }
                Err(No::Late(what) | No::Wrong(what)) => {
                    say(&format!("FAILED {place}: {what}"));
                    failed.push(format!("{place}: {what}"));
                    "FAILED"
                }
            };
            row.push((subject.name, cell));
        }
        if !row.is_empty() {
            say(&format!("{}: {:.1} s", fault.name, begin.elapsed().as_secs_f64()));
            rows.push((fault.name, row));
        }
    }
    print(&rows);
    assert!(failed.is_empty(), "{} did not hold:\n{}", failed.len(), failed.join("\n"));
    skipped.iter().for_each(|line: &String| punctual_testing::skip(line));
}

fn persistently(fault: &Fault, subject: &Subject, depth: Depth) -> Tried {
    for _ in 1..ATTEMPTS {
        match (fault.attempt)(subject, depth) {
            Err(No::Late(what)) => say(&format!("once more: {} x {}: {what}", fault.name, subject.name)),
            tried => return tried,
        }
    }
    (fault.attempt)(subject, depth)
}

/// The test harness keeps what `eprintln!` prints in a test that passes; it does not keep this.
fn say(line: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn print(rows: &[(&str, Vec<(&str, &str)>)]) {
    if SUBJECTS.iter().any(|subject| !subject.is_possible()) {
        punctual_testing::lacks(Lack::File(CPUFREQ));
    }
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |name: &str, cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
        say(&format!("{name:first$}{}", cells.concat()));
    };
    line("", &names);
    for (fault, row) in rows {
        let cell = |name: &&str| row.iter().find(|(subject, _)| subject == name).map_or("", |(_, cell)| cell);
        line(fault, &names.iter().map(cell).collect::<Vec<_>>());
    }
}
