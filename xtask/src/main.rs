//! Repository chores: generated files, budgets, error rates, the kernel lab.
//!
//! `cargo xtask schema` writes the JSON Schema of the record. `man` and `completions` write the manual and the shell completions from
//! the definition of the command line. `bpf` compiles the programs in the kernel. `budget` checks size and start-up of the
//! release binary. `aa` shows the error rates of
//! `punctual compare`. `vm` runs a command under a Debian kernel in QEMU. `install` builds and installs everything that belongs to the
//! command, `dist` makes the files of a release. `culprits` scores `punctual why` on programs with one known ailment each. `fuzz` runs
//! the tests of every parser with a million malformed inputs. `consumers` runs programs that read cyclictest. `tails` records series for the bound of a
//! longer run. `mutants` counts the small defects that the tests find.
#![forbid(unsafe_code)]

mod aa;
mod bpf;
mod budget;
mod culprits;
mod dist;
mod fuzz;
mod install;
mod manual;
mod mutants;
mod schema;
mod tails;
mod tools;
mod vm;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

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
    Culprits(culprits::CulpritsArgs),
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
        Chore::Schema { check } => schema::run(check),
        Chore::Man { check } => manual::man(check),
        Chore::Completions { check } => manual::completions(check),
        Chore::Bpf { check } => bpf::run(check),
        Chore::Budget => budget::run(),
        Chore::Aa(args) => aa::run(&args),
        Chore::Culprits(args) => culprits::run(&args),
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
