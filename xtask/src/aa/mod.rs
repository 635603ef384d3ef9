//! The error rates of `punctual compare`: on identical runs (A/A), and on the same runs with an injected change.
//!
//! Measures the runs that the folder lacks, and compares them in several arrangements. Prints a table for docs/results/aa.md. `--at-most`
//! spreads the measurements over several calls.

mod checkup;
mod claims;
mod gate;
mod inject;
mod load;
mod measured;
mod ramp;
mod table;

use std::path::{Path, PathBuf};

use anyhow::ensure;
use measured::Measuring;
use punctual_record::Run;

/// Options of `aa`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, mut_arg("at_most", |most| most.default_value("450")))]
pub(crate) struct AaArgs {
    /// Of what instead of `punctual compare`
    #[command(subcommand)]
    of: Option<Of>,
    /// Pairs of sides
    #[arg(long, default_value_t = 40)]
    pairs: usize,
    /// Runs per side; several numbers are tried on the same runs
    #[arg(long, value_delimiter = ',', default_value = "1,4,10,20")]
    each: Vec<usize>,
    /// Command that each run measures
    #[arg(
        long,
        default_value = "wait nanosleep clock_nanosleep_abs ppoll futex timerfd spin_clock --for 100us --duration 500ms --rounds 10"
    )]
    command: String,
    /// Compare the existing runs; measure nothing
    #[arg(long)]
    measure_nothing: bool,
    #[command(flatten)]
    measuring: Measuring,
}

/// What else is measured without a change.
#[derive(Debug, clap::Subcommand)]
enum Of {
    /// Count the runs of `governor ramp` that claim something
    Ramp(ramp::RampArgs),
    /// Count advice of check-ups that another one denies, by trust and load; screens that contradict themselves; busy ones that do not say so
    Checkup(checkup::CheckupArgs),
    /// Count what `wait --until` says of an unchanged machine and of changed ones, quiet and beside a compiler
    Gate(gate::GateArgs),
}

/// Measures the missing runs, and shows the error rates once all exist.
pub(crate) fn run(args: &AaArgs) -> anyhow::Result<()> {
    match &args.of {
        Some(Of::Ramp(args)) => return ramp::run(args),
        Some(Of::Checkup(args)) => return checkup::run(args),
        Some(Of::Gate(args)) => return gate::run(args),
        None => {}
    }
    let folder = args.measuring.folder("xtask-aa")?;
    let most = args.each.iter().copied().max().unwrap_or(1);
    let file = |number: usize| ((), folder.join(format!("r{number:03}.json")));
    let files: Vec<((), PathBuf)> = (1..=2 * args.pairs * most).map(file).collect();
    let words: Vec<&str> = args.command.split_whitespace().collect();
    let measure = |binary: &Path, (): &(), path: &Path| measured::save(binary, &words, path);
    if !args.measure_nothing && !args.measuring.missing(&files, measure)? {
        println!("some runs are missing: call again");
        return Ok(());
    }
    let there = files.iter().filter(|(_, path)| path.exists());
    let runs: Vec<Run> = there.map(|(_, path)| measured::read(path)).collect::<anyhow::Result<_>>()?;
    ensure!(runs.len() >= 2, "{} has fewer than two runs", folder.display());
    print!("{}", table::all(&runs, &args.each)?);
    Ok(())
}
