//! `cargo xtask mutants`: shows how many small defects the tests find.
//!
//! cargo-mutants lists all mutants of the code that acts inside other programs. A printed seed draws some. Each is applied to one copy of
//! the last commit, and the tests of its crate run. It prints a table, and the difference of each mutant that survived.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use punctual_record::statistics::Random;
use serde_json::Value;

use crate::tools;

/// Files that are mutated, and the arguments of `cargo test` for them, the quickest first. The command alone uses parts of some.
const SUBJECTS: [(&str, &[&[&str]]); 4] = [
    (
        "crates/preload/src/",
        &[
            &["--package=punctual-preload", "--lib"],
            &["--package=punctual-preload", "--test=all", "--", "--skip=conformance"],
            &["--package=punctual-preload", "--test=all", "conformance"],
        ],
    ),
    ("crates/rules/src/", &[&["--package=punctual-rules"], &["--package=punctual-cli", "--test=command", "preload"]]),
    (
        "crates/linux/src/supervise.rs",
        &[&["--package=punctual-linux", "--lib", "supervise"], &["--package=punctual-cli", "--test=terminal"]],
    ),
    ("crates/trace/src/split", &[&["--package=punctual-trace", "--lib"]]),
];

/// Longest build, and longest run of the tests, s.
const LIMITS: [&str; 2] = ["900", "120"];

#[derive(Args)]
pub(crate) struct MutantsArgs {
    /// Draws the mutants
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many to draw
    #[arg(long, default_value_t = 120)]
    count: usize,
    /// Numbers of those to try (example: 97,101,113); all without it
    #[arg(long, value_delimiter = ',')]
    numbers: Vec<usize>,
    /// Only prints the draw
    #[arg(long)]
    list: bool,
    /// Only in files whose path contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Killed,
    Survived,
    Unviable,
    Timeout,
}

const OUTCOMES: [Outcome; 4] = [Outcome::Killed, Outcome::Survived, Outcome::Unviable, Outcome::Timeout];

/// A change of the source.
struct Mutant {
    name: String,
    diff: String,
    /// Index in [`SUBJECTS`].
    subject: usize,
}

pub(crate) fn run(args: &MutantsArgs) -> anyhow::Result<()> {
    let mut mutants = list(&args.only)?;
    let all = mutants.len();
    let mut random = Random::new(args.seed);
    // The first of a shuffled list (Fisher and Yates).
    let count = args.count.min(all);
    (0..count).for_each(|at| mutants.swap(at, at + random.below(all - at)));
    mutants.truncate(count);
    println!("seed {}: {count} of {all} mutants", args.seed);
    if args.list {
        mutants.iter().zip(1..).for_each(|(mutant, number)| println!("{number:4} {}\n{}", mutant.name, mutant.diff));
        return Ok(());
    }
    let copy = tools::target().join("mutants");
    prepare(&copy)?;
    let mut counts = [[0; OUTCOMES.len()]; SUBJECTS.len()];
    let mut survivors = String::new();
    let is_wanted = |number: usize| args.numbers.is_empty() || args.numbers.contains(&number);
    for (number, mutant) in (1..).zip(&mutants).filter(|(number, _)| is_wanted(*number)) {
        apply(&copy, &mutant.diff, false)?;
        let outcome = outcome(&copy, SUBJECTS[mutant.subject].1);
        apply(&copy, &mutant.diff, true)?;
        let outcome = outcome?;
        println!("{number:4} {outcome:?}: {}", mutant.name);
        counts[mutant.subject][outcome as usize] += 1;
        if outcome == Outcome::Survived {
            writeln!(survivors, "\n{}\n{}", mutant.name, mutant.diff)?;
        }
    }
    print(&counts, &survivors);
    Ok(())
}

/// All mutants, in the order of cargo-mutants.
fn list(only: &str) -> anyhow::Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "--diff"]).current_dir(tools::root());
    let said = tools::output(&mut command).context("cargo install --locked --debug cargo-mutants")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |mutant: &Value| {
        let file = mutant["file"].as_str()?;
        let subject = SUBJECTS.iter().position(|(start, _)| file.starts_with(start) && file.contains(only))?;
        Some(Mutant { name: text(&mutant["name"]), diff: text(&mutant["diff"]), subject })
    };
    let mutants: Vec<Value> = serde_json::from_str(&said)?;
    Ok(mutants.iter().filter_map(read).collect())
}

/// A copy of the last commit, in which the tests pass.
fn prepare(copy: &Path) -> anyhow::Result<()> {
    let git = |args: &[&str], folder: &Path| tools::output(Command::new("git").args(args).current_dir(folder));
    let head = git(&["rev-parse", "HEAD"], &tools::root())?;
    if !copy.exists() {
        let to = copy.to_str().context("a path in UTF-8")?;
        git(&["clone", "--quiet", "--shared", ".", to], &tools::root())?;
    }
    git(&["fetch", "--quiet"], copy)?;
    git(&["checkout", "--quiet", "--force", "--detach", head.trim()], copy)?;
    for (subject, tests) in SUBJECTS {
        let unchanged = outcome(copy, tests)?;
        if unchanged != Outcome::Survived {
            bail!("{subject}: the tests do not pass without a mutant: {unchanged:?}");
        }
    }
    Ok(())
}

/// Changes the copy, or takes the change back.
fn apply(copy: &Path, diff: &str, back: bool) -> anyhow::Result<()> {
    let mut command = Command::new("git");
    command.args(["apply", "-p0", "--unidiff-zero", "--recount", "-"]).args(back.then_some("--reverse"));
    let mut git = command.current_dir(copy).stdin(Stdio::piped()).spawn().context("git apply")?;
    // Its second name has no path.
    let file = diff.lines().next().and_then(|line| line.strip_prefix("--- ")).context("a difference")?;
    let rest: Vec<&str> = diff.lines().skip(2).collect();
    let whole = format!("--- {file}\n+++ {file}\n{}\n", rest.join("\n"));
    git.stdin.take().context("a pipe")?.write_all(whole.as_bytes())?;
    if !git.wait()?.success() {
        bail!("this does not apply:\n{whole}");
    }
    Ok(())
}

/// What the first of these tests that finds something says.
fn outcome(copy: &Path, tests: &[&[&str]]) -> anyhow::Result<Outcome> {
    for test in tests {
        let outcome = outcome_of(copy, test)?;
        if outcome != Outcome::Survived {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Survived)
}

/// Builds tests and runs them.
fn outcome_of(copy: &Path, test: &[&str]) -> anyhow::Result<Outcome> {
    let log_path = copy.join("target/mutant.log");
    fs::create_dir_all(copy.join("target"))?;
    let run = |limit: &str, more: &[&str]| -> anyhow::Result<Option<i32>> {
        let log = fs::File::create(&log_path)?;
        // timeout(1) ends what the tests started too.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", limit, "cargo", "test", "--quiet"]).args(more).args(test);
        // Only the copy's own settings count.
        command.current_dir(copy).env_remove("CARGO_TARGET_DIR").env("PUNCTUAL_NO_SKIP", "0");
        // Nobody reads a backtrace here.
        command.envs([("CARGO_PROFILE_DEV_DEBUG", "0"), ("RUST_BACKTRACE", "0")]);
        let mut tests = command.stdout(log.try_clone()?).stderr(log).spawn().context("timeout(1)")?;
        loop {
            if let Some(ended) = tests.try_wait()? {
                return Ok(ended.code());
            }
            // One is enough. Others may wait for long for what the mutant never does.
            if fs::read_to_string(&log_path)?.contains(" --- FAILED") {
                tools::output(Command::new("kill").arg(tests.id().to_string()))?;
                tests.wait()?;
                return Ok(Some(1));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    if run(LIMITS[0], &["--no-run"])? != Some(0) {
        return Ok(Outcome::Unviable);
    }
    Ok(match run(LIMITS[1], &[])? {
        Some(0) => Outcome::Survived,
        Some(124 | 137) | None => Outcome::Timeout,
        Some(_) => Outcome::Killed,
    })
}

fn print(counts: &[[usize; OUTCOMES.len()]; SUBJECTS.len()], survivors: &str) {
    println!("\n| files | killed | survived | unviable | timeout |\n|---|---:|---:|---:|---:|");
    let row = |name: &str, of: [usize; OUTCOMES.len()]| {
        println!("| {name} | {} |", of.map(|number| number.to_string()).join(" | "));
    };
    SUBJECTS.iter().zip(counts).for_each(|((name, _), of)| row(name, *of));
    let sum = OUTCOMES.map(|outcome| counts.iter().map(|of| of[outcome as usize]).sum());
    row("all", sum);
    // A mutant that does not end is found.
    let found = sum[0] + sum[3];
    println!(
        "\n{found} of {} that compile are found ({:.1} %)",
        found + sum[1],
        found as f64 * 100.0 / (found + sum[1]).max(1) as f64
    );
    println!("{survivors}");
}
