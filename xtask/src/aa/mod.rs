//! How often `punctual compare` errs: runs that differ in nothing (A/A), and the same runs with a change injected.
//!
//! Measures runs one after the other, as many as are missing in the folder, then compares them in several arrangements and prints a table
//! for docs/results/aa.md. Measuring can be spread over several calls (`--at-most`).

mod inject;
mod table;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use punctual_record::Run;

use crate::tools;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct AaArgs {
    /// Pairs of sides
    #[arg(long, default_value_t = 40)]
    pairs: usize,
    /// Runs of each side; of several numbers, each is tried on the same runs
    #[arg(long, value_delimiter = ',', default_value = "1,4,10,20")]
    each: Vec<usize>,
    /// What each run measures
    #[arg(
        long,
        default_value = "wait nanosleep clock_nanosleep_abs ppoll futex timerfd spin_clock --for 100us --duration 500ms --rounds 10"
    )]
    command: String,
    /// Stop measuring after so many seconds; the next call goes on
    #[arg(long, default_value_t = 450)]
    at_most: u64,
    /// Where the runs are kept
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Compare what is there; measure nothing
    #[arg(long)]
    measure_nothing: bool,
}

/// Measures what is missing, and shows the error rates once nothing is.
pub(crate) fn run(args: &AaArgs) -> anyhow::Result<()> {
    let folder = args.folder.clone().unwrap_or_else(|| tools::target().join("xtask-aa"));
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let most = args.each.iter().copied().max().unwrap_or(1);
    let wanted = 2 * args.pairs * most;
    if !args.measure_nothing && !measure(args, &folder, wanted)? {
        println!("not all runs are there yet: call again");
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

/// Measures the runs that are not there yet; false: some are still missing.
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
