//! Repository chores: what the project keeps in files and could get out of date, and comparisons with its peers.
//!
//! `cargo xtask schema` writes the JSON Schema of the record; `man` and `completions` write the manual and what shells complete, from
//! the one definition of the command line; `budget` checks size and start-up of the release binary; `compare PEER` measures beside
//! cyclictest, bare C loops and others, in turns; `aa` shows how often comparisons of runs err; `vm` runs a command under one
//! of Debian's kernels in QEMU; `fuzz` feeds wrong inputs to every parser.
#![forbid(unsafe_code)]

mod aa;
mod budget;
mod compare;
mod fuzz;
mod manual;
mod schema;
mod tools;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Repository chores")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write docs/punctual.run-1.schema.json, or check that it is up to date
    Schema {
        /// Change nothing; fail when the file differs
        #[arg(long)]
        check: bool,
    },
    /// Write the manual to target/man, a page for each command, or check that it tells what --help tells
    Man {
        /// Write nothing; fail when manual and help differ
        #[arg(long)]
        check: bool,
    },
    /// Write completions for bash, zsh and fish to target/completions, or check that they know every flag
    Completions {
        /// Write nothing; fail when a flag is missing
        #[arg(long)]
        check: bool,
    },
    /// Check the release binary: size, time to start, the check-up's time
    Budget,
    /// Compare runs that differ in nothing, and runs with an injected change: how often `punctual compare` errs
    Aa(aa::AaArgs),
    /// Measure beside a peer, in turns
    Compare {
        #[command(subcommand)]
        peer: compare::Peer,
    },
    /// Feed inputs that are wrong in some way to every parser; a panic, a hang or too much memory is a failure
    Fuzz(fuzz::FuzzArgs),
    /// Boot one of Debian's kernels in QEMU and run a command in it
    Vm(Box<vm::VmArgs>),
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().chore {
        Chore::Schema { check } => schema::run(check),
        Chore::Man { check } => manual::man(check),
        Chore::Completions { check } => manual::completions(check),
        Chore::Budget => budget::run(),
        Chore::Aa(args) => aa::run(&args),
        Chore::Compare { peer } => compare::run(&peer),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Vm(args) => return vm::run(&args).map(ExitCode::from),
    }
    .map(|()| ExitCode::SUCCESS)
}
