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

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use punctual_record::Run;

use crate::tools;

/// Options of `aa`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
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
    /// Stop measuring after N seconds; the next call continues
    #[arg(long, default_value_t = 450)]
    at_most: u64,
    /// Folder of the runs
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Compare the existing runs; measure nothing
    #[arg(long)]
    measure_nothing: bool,
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
    let folder = args.folder.clone().unwrap_or_else(|| tools::target().join("xtask-aa"));
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let most = args.each.iter().copied().max().unwrap_or(1);
    let wanted = 2 * args.pairs * most;
    if !args.measure_nothing && !measure(args, &folder, wanted)? {
        println!("some runs are missing: call again");
        return Ok(());
    }
    let runs = read(&folder, wanted)?;
    ensure!(runs.len() >= 2, "{} has fewer than two runs", folder.display());
    print!("{}", table::all(&runs, &args.each)?);
    Ok(())
}

fn file(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("r{:03}.json", number + 1))
}

/// Measures the missing runs. False: some are still missing.
fn measure(args: &AaArgs, folder: &Path, wanted: usize) -> anyhow::Result<bool> {
    let missing: Vec<PathBuf> = (0..wanted).map(|i| file(folder, i)).filter(|path| !path.exists()).collect();
    if missing.is_empty() {
        return Ok(true);
    }
    let punctual = tools::punctual()?;
    let begin = Instant::now();
    for path in missing {
        if begin.elapsed() > Duration::from_secs(args.at_most) {
            return Ok(false);
        }
        let status = Command::new(&punctual)
            .args(args.command.split_whitespace())
            .args(["--quiet", "--json"])
            .arg(&path)
            .stdout(Stdio::null())
            .status()
            .with_context(|| punctual.display().to_string())?;
        ensure!(status.success(), "punctual {}: {status}", args.command);
    }
    Ok(true)
}

fn read(folder: &Path, wanted: usize) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for path in (0..wanted).map(|i| file(folder, i)).filter(|path| path.exists()) {
        let run = File::open(&path).map_err(anyhow::Error::from).and_then(|file| Ok(Run::from_json(file)?));
        runs.push(run.with_context(|| path.display().to_string())?);
    }
    Ok(runs)
}
