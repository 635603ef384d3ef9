//! Repository chores: generated files, budgets, error rates, the kernel lab.
//!
//! `cargo xtask schema` writes the JSON Schema of the record. `man` and `completions` write the manual and the shell completions from the
//! definition of the command line. `bpf` compiles the programs in the kernel. `budget` checks size and start-up of the release binary. `aa`
//! shows the error rates of `punctual compare`. `vm` runs a command under a Debian kernel in QEMU. `install` builds and installs everything
//! that belongs to the command, `dist` makes the files of a release. `culprits` scores `punctual why` on programs with one known ailment
//! each. `fuzz` runs the tests of every parser with a million malformed inputs. `consumers` runs programs that read cyclictest. `tails`
//! records series for the bound of a longer run. `mutants` counts the small defects that the tests find.
#![forbid(unsafe_code)]

mod aa;
mod dist;
mod fuzz;
mod generated;
mod install;
mod manual;
mod mutants;
mod tails;
mod tools;
mod vm;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Repository chores")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write docs/punctual.run-2.schema.json, or check that it is up to date
    Schema {
        /// Change nothing; fail if the file differs
        #[arg(long)]
        check: bool,
    },
    /// Write the manual to target/man, a page per command, or check it against --help
    Man {
        /// Write nothing; fail if manual and help differ
        #[arg(long)]
        check: bool,
    },
    /// Write completions for bash, zsh and fish to target/completions, or check that they have every flag
    Completions {
        /// Write nothing; fail if a flag is missing
        #[arg(long)]
        check: bool,
    },
    /// Compile the programs in the kernel, or check that their object is made of the source; needs clang-16 and llvm-strip-16
    Bpf {
        /// Change nothing; fail if the object differs
        #[arg(long)]
        check: bool,
    },
    /// Check the release binary: size, start-up time, check-up time
    Budget,
    /// Show the error rates of `punctual compare`, `ramp` and the check-up on an unchanged machine
    Aa(Box<aa::AaArgs>),
    /// Score `punctual why` on programs with one known ailment each: culprits/culprits.py
    Culprits(CulpritsArgs),
    /// Run programs that read cyclictest on what `punctual` prints: peers/consumers.py; as root, some seconds
    Consumers {
        /// The folder with clones of their repositories
        dir: PathBuf,
        /// The command, instead of a release build
        command: Option<PathBuf>,
    },
    /// Record series for the test of the bound for longer runs, each with what came after it; as root, 15 minutes
    Tails(tails::TailsArgs),
    /// Run the tests of every parser with many malformed inputs; a panic, a hang or too much memory is a failure
    Fuzz(fuzz::FuzzArgs),
    /// Make the files of a release in target/dist: Debian packages, tarballs, wheels, static commands, SHA256SUMS
    Dist(dist::DistArgs),
    /// Build and install the command, its loaded libraries, manual and completions
    Install(install::InstallArgs),
    /// Show how many mutants of the code inside other programs the tests find; needs cargo-mutants
    Mutants(mutants::MutantsArgs),
    /// Boot a Debian kernel in QEMU and run a command in it
    Vm(Box<vm::VmArgs>),
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().chore {
        Chore::Schema { check } => generated::schema(check),
        Chore::Man { check } => manual::man(check),
        Chore::Completions { check } => manual::completions(check),
        Chore::Bpf { check } => generated::bpf(check),
        Chore::Budget => budget(),
        Chore::Aa(args) => aa::run(&args),
        Chore::Culprits(args) => culprits(&args),
        Chore::Consumers { dir, command } => consumers(&dir, command),
        Chore::Tails(args) => tails::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Dist(args) => dist::run(&args),
        Chore::Install(args) => install::run(&args),
        Chore::Mutants(args) => mutants::run(&args),
        Chore::Vm(args) => return vm::run(&args).map(ExitCode::from),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The script prints the verdicts.
fn consumers(dir: &Path, command: Option<PathBuf>) -> anyhow::Result<()> {
    let script = tools::root().join("peers/consumers.py");
    let mut run = Command::new(&script);
    run.arg(dir).arg(command.map_or_else(tools::punctual, Ok)?);
    let status = run.status().with_context(|| format!("starting {}", script.display()))?;
    ensure!(status.success(), "a consumer does not read it");
    Ok(())
}

/// Largest binary: 10.3 MB. The programs in the kernel, their loader and the judge of their sums take 1.5 of them, the causes of late
/// wake-ups one, the waits of programs (`run --rules`, `--observe`) 0.25.
const SIZE: u64 = 10_300_000;
/// Longest start-up: `punctual --version`, best of [`STARTS`], since other programs' load is not the binary's cost.
const START: Duration = Duration::from_millis(5);
const STARTS: u32 = 30;
/// Longest check-up: its parts add up to half a minute, and a busy machine takes longer.
const CHECKUP: Duration = Duration::from_secs(35);

/// Checks the release binary: size, start-up time, check-up time.
fn budget() -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let size = std::fs::metadata(&punctual).with_context(|| punctual.display().to_string())?.len();
    println!("size {:.2} MB (budget {:.1} MB)", size as f64 / 1e6, SIZE as f64 / 1e6);
    let time = |args: &[&str]| -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let status = Command::new(&punctual).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "punctual {args:?}: {status}");
        Ok(begin.elapsed())
    };
    let mut start = Duration::MAX;
    for _ in 0..STARTS {
        start = start.min(time(&["--version"])?);
    }
    println!("--version {start:.1?}, best of {STARTS} (budget {START:?})");
    let checkup = time(&[])?;
    println!("check-up {checkup:.1?} (budget {CHECKUP:?})");
    ensure!(size <= SIZE, "the binary is too large");
    ensure!(start <= START, "the binary starts too slowly");
    ensure!(checkup <= CHECKUP, "the check-up takes too long");
    Ok(())
}

/// What the script does without the command.
const ALONE: [&str; 4] = ["--list", "--bare", "--help", "-h"];

/// Options of `culprits`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct CulpritsArgs {
    /// What culprits/culprits.py takes: --seed N, --only NAME, --busy, the path of a release binary (--help shows all)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The scripts of `culprits/` play and score the programs; the command is built for them, unless the last word is one. This process becomes
/// the script. So its end is that of the chore, also where a signal ends it.
fn culprits(args: &CulpritsArgs) -> anyhow::Result<()> {
    let script = tools::root().join("culprits/culprits.py");
    let named = args.words.last().is_some_and(|word| Path::new(word).is_file());
    let mut command = Command::new(&script);
    command.args(&args.words);
    if !named && !args.words.iter().any(|word| ALONE.iter().any(|flag| word == flag)) {
        command.arg(tools::punctual()?);
    }
    Err(command.exec()).with_context(|| format!("starting {}", script.display()))
}
