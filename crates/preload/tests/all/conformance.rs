//! Calls with every argument in every situation: a row of a table in C is the same with every remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_linux::call_table;

use crate::support::{compiled_with, library};

/// The parts of the table whose rows are the same with every remedy.
const PARTS: [&str; 9] =
    ["sleeps", "events", "locks", "names", "signals", "cancellation", "processes", "room", "filters"];
/// A program that turns on a filter, of all calls that kills or of one call, meets it with no remedy.
const KILLS: &str = "kills";
/// A filter that was on before the program was loaded may kill a program with a remedy.
const INHERITED: &str = "inherited";
/// Repeats of a row that differs, and how many of them must differ too. A defect shows in nearly all of them. A busy machine delays the thread
/// that signals or cancels.
const REPEATS: usize = 10;
const DIFFER: usize = 5;

/// The one difference that is documented: an epoll call that polls is stopped and continued without EINTR. Nothing shows a thread that it
/// was stopped, unless it blocks in epoll (signal(7)).
fn is_documented(name: &str, setting: &str) -> bool {
    let polls = setting.contains("poll-first") || setting.contains("rules=");
    polls && name.starts_with("epoll_") && name.ends_with("SIGSTOP and SIGCONT")
}

/// The settings that every change of the library is tried with.
const FAST: [&str; 3] = ["", "usleep0=yield,sched-yield=backoff,precise-sleep,poll-first=100ms", "rules=everything"];

/// All others.
const ALL: [&str; 20] = [
    "unknown=1",
    "usleep0=yield",
    "usleep0=pause",
    "usleep0=backoff",
    "sched-yield=pause",
    "sched-yield=backoff",
    "sched-yield=sleep",
    "precise-sleep",
    "precise-sleep=5us",
    "precise-sleep=5%",
    "poll-first=20us",
    "poll-first=100ms",
    "precise-sleep,poll-first=20us",
    "usleep0=pause,sched-yield=sleep,precise-sleep=5us,poll-first=500us",
    "rules=threads",
    "rules=libraries",
    "rules=sites",
    "rules=scheduling",
    "precise-sleep,rules=threads",
    "poll-first=20us,rules=scheduling",
];

/// Files of rules by their names in the settings.
const RULES: [(&str, &str); 5] = [
    ("everything", "* precise-sleep poll-first=20us usleep0=yield sched-yield=pause\n"),
    (
        "threads",
        "thread=main* precise-sleep=5us\nthread=child poll-first=100ms\nthread=parent usleep0=yield precise-sleep\n",
    ),
    ("libraries", "library=libc.so* precise-sleep\nlibrary=main poll-first=20us usleep0=pause precise-sleep=5us\n"),
    (
        "sites",
        "site=main:w_* precise-sleep poll-first=50us\nsite=main:run_* usleep0=yield sched-yield=sleep precise-sleep=5us\n",
    ),
    (
        "scheduling",
        "* timer-slack=2us\nthread=child slice=1ms precise-sleep\nthread=parent timer-slack=1ms poll-first=20us\n",
    ),
];

/// Lines by the names of their rows.
type Lines = BTreeMap<String, String>;

struct Table {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Table {
    /// `None` where there is no compiler.
    fn prepare() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/conformance");
        let others = ["sleeps.c", "events.c", "locks.c", "names.c", "waits.c", "situations.c", "filters.c"];
        let others: Vec<String> = others.iter().map(|file| sources.join(file).display().to_string()).collect();
        let options: Vec<&str> = others.iter().map(String::as_str).collect();
        let program = compiled_with("conformance/main.c", folder.path(), &options)?;
        for (name, text) in RULES {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        call_table::format(&File::create_new(folder.path().join("table")).unwrap()).unwrap();
        Some(Self { folder, program })
    }

    /// The lines of these rows: parts, or `row` and names. Without settings, the library is not loaded.
    fn lines(&self, rows: &[&str], setting: Option<(&str, bool)>) -> Lines {
        let mut command = Command::new(&self.program);
        command.args(rows);
        if let Some((setting, observed)) = setting {
            let rules = format!("rules={}/", self.folder.path().display());
            command.env("LD_PRELOAD", library()).env("PUNCTUAL_PRELOAD", setting.replace("rules=", &rules));
            if observed {
                command.env("PUNCTUAL_OBSERVE", self.folder.path().join("table"));
            }
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && output.stderr.is_empty(), "{setting:?}: {output:?}");
        // Names have no colon.
        let line = |line: &str| line.split_once(':').map(|(name, line)| (name.to_owned(), line.to_owned()));
        said.lines().filter_map(line).collect()
    }

    /// Rows that differ from all bare lines of theirs, in several repeats too.
    fn differing(&self, bare: &Lines, with: &Lines, setting: (&str, bool)) -> Vec<String> {
        assert!(bare.keys().eq(with.keys()), "the same rows");
        let differs = |name: &&String| bare[*name] != with[*name] && !is_documented(name, setting.0);
        let first: Vec<&str> = bare.keys().filter(differs).map(String::as_str).collect();
        if first.is_empty() {
            return Vec::new();
        }
        let names: Vec<&str> = ["row"].into_iter().chain(first.iter().copied()).collect();
        let mut seen: BTreeMap<&str, BTreeSet<String>> =
            first.iter().map(|name| (*name, BTreeSet::from([bare[*name].clone()]))).collect();
        let mut later: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for _ in 0..REPEATS {
            let (bare, with) = (self.lines(&names, None), self.lines(&names, Some(setting)));
            for name in &first {
                seen.get_mut(name).unwrap().insert(bare[*name].clone());
                later.entry(name).or_default().push(with[*name].clone());
            }
        }
        let differ = |name: &&str| later[name].iter().filter(|line| !seen[name].contains(*line)).count();
        let failed = first.iter().filter(|name| differ(name) >= DIFFER);
        let said = |name: &&str| {
            format!("{name}\n  bare{}\n  with{}\n  {} of {REPEATS} repeats", bare[*name], with[*name], differ(name))
        };
        failed.map(said).collect()
    }

    /// Compares all rows of these parts under these settings, and says how many there were.
    fn compare(&self, parts: &[&str], settings: &[(&str, bool)]) {
        let mut bare = self.lines(parts, None);
        assert!(bare.len() > 500, "{} rows", bare.len());
        let is_wrong = |line: &str| line.contains("EARLY") || line.contains("HANGS");
        // On a busy machine, a row may take longer than its limit.
        for _ in 0..REPEATS {
            let wrong: Vec<String> =
                bare.iter().filter(|(_, line)| is_wrong(line)).map(|(name, _)| name.clone()).collect();
            if wrong.is_empty() {
                break;
            }
            let names: Vec<&str> = ["row"].into_iter().chain(wrong.iter().map(String::as_str)).collect();
            bare.extend(self.lines(&names, None));
        }
        let wrong = bare.values().filter(|line| is_wrong(line)).count();
        assert_eq!(wrong, 0, "a program without the library waits as long as it asks for");
        let mut failed = Vec::new();
        for setting in settings {
            let with = self.lines(parts, Some(*setting));
            let differing = self.differing(&bare, &with, *setting);
            println!("{:5} rows, {:3} differ: {:?}{}", with.len(), differing.len(), setting.0, observed(setting.1));
            failed.extend(differing.into_iter().map(|row| format!("{:?}{}: {row}", setting.0, observed(setting.1))));
        }
        println!("{} rows x {} settings = {}", bare.len(), settings.len(), bare.len() * settings.len());
        assert!(failed.is_empty(), "{} rows differ:\n{}", failed.len(), failed.join("\n"));
    }
}

fn observed(observed: bool) -> &'static str {
    if observed { ", observed" } else { "" }
}

#[test]
fn a_row_is_the_same_with_the_remedies() {
    let Some(table) = Table::prepare() else { return };
    table.compare(&PARTS, &[(FAST[0], true), (FAST[1], false), (FAST[2], false)]);
}

/// The whole product: a minute.
#[test]
#[ignore = "a minute"]
fn every_row_is_the_same_with_every_remedy() {
    let Some(table) = Table::prepare() else { return };
    let parts: Vec<&str> = PARTS.into_iter().chain([KILLS]).collect();
    let settings: Vec<(&str, bool)> = FAST.into_iter().chain(ALL).map(|setting| (setting, false)).collect();
    let watched = [("", true), (FAST[1], true), ("rules=everything", true)];
    table.compare(&parts, &[settings, watched.to_vec()].concat());
}

/// The library alone makes no call that a filter could punish. With a remedy it may, where the filter was on before.
#[test]
fn a_filter_that_kills_is_met_by_remedies_only() {
    let Some(table) = Table::prepare() else { return };
    let bare = table.lines(&[INHERITED], None);
    for setting in FAST.into_iter().chain(ALL) {
        let with = table.lines(&[INHERITED], Some((setting, false)));
        let met: Vec<&str> = bare.keys().filter(|name| bare[*name] != with[*name]).map(String::as_str).collect();
        println!("{:3} of {} calls meet it: {setting:?}", met.len(), bare.len());
        assert!(!setting.is_empty() || met.is_empty(), "{met:?}");
    }
}
