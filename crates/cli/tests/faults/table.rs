//! The table: each fault tried on each command, and what came of it.

use std::sync::Mutex;
use std::time::Instant;

use punctual_testing::Lack;

use crate::commands::{CPUFREQ, SUBJECTS, Subject};
use crate::{ipc_namespace, machine_changes, output_failures, resource_limits, signals};

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

/// Faults that need not be alone: they stay within their commands' own folders, locks and namespaces.
fn side_by_side() -> Vec<Fault> {
    [signals::FAULTS, resource_limits::FAULTS, output_failures::FAULTS].concat()
}

/// Has processes of their own try the faults of the whole table, a few at a time: commands under a fault mostly wait. A changed governor
/// is seen by all of them, so where there is one to change, one fault is tried after the other.
pub(crate) fn look_side_by_side(test: &str) {
    let only = std::env::var("PUNCTUAL_FAULTS_ONLY").unwrap_or_default();
    let at_a_time = if std::path::Path::new(CPUFREQ).exists() { 1 } else { AT_A_TIME };
    let failed = Mutex::new(Vec::new());
    say(&line("", |name| name));
    for (faults, at_a_time) in [(side_by_side(), at_a_time), (machine_changes::FAULTS.to_vec(), 1)] {
        let left = Mutex::new(faults.iter().filter(|fault| fault.name.contains(&only)));
        let next = || left.lock().unwrap().next();
        let try_the_rest = || {
            while let Some(fault) = next() {
                let tried = ipc_namespace::run_inside(test, fault.name);
                failed.lock().unwrap().extend(tried.err());
            }
        };
        std::thread::scope(|scope| (0..at_a_time).for_each(|_| drop(scope.spawn(try_the_rest))));
    }
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Attempts before what takes too long is a failure.
const ATTEMPTS: u32 = 8;
/// Faults of the whole table that are tried at the same time.
const AT_A_TIME: usize = 3;

/// Tries all that belongs to the depth, prints the lines of the table, and fails where something did not hold.
pub(crate) fn look(depth: Depth) {
    punctual_linux::signal::heed_what_ends_a_program().unwrap();
    if depth == Depth::Quick {
        say(&line("", |name| name));
    }
    if SUBJECTS.iter().any(|subject| !subject.is_possible()) {
        punctual_testing::lacks(Lack::File(CPUFREQ));
    }
    let faults = [side_by_side().as_slice(), machine_changes::FAULTS].concat();
    let [only, of] = ["PUNCTUAL_FAULTS_ONLY", "PUNCTUAL_FAULTS_OF"].map(|name| std::env::var(name).unwrap_or_default());
    let (mut skipped, mut failed) = (Vec::new(), Vec::new());
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
            let cell = |name: &str| row.iter().find(|(subject, _)| *subject == name).map_or("", |(_, cell)| cell);
            say(&format!("{} {:6.1} s", line(fault.name, cell), begin.elapsed().as_secs_f64()));
            ipc_namespace::has_tried();
        }
    }
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

/// A line of the table, with a cell for each command.
fn line<'a>(first: &'a str, cell: impl Fn(&'static str) -> &'a str) -> String {
    let cells: Vec<String> = SUBJECTS.iter().map(|subject| format!("{:>9}", cell(subject.name))).collect();
    format!("{first:24}{}", cells.concat())
}
