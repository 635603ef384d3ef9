//! `cargo xtask tails`: recorded series, each with the maximum of ten times as many wake-ups after it. They are lines on stdout. A
//! test counts how often the bound for a longer run holds:
//! `PUNCTUAL_TAILS=FILE cargo test -p punctual-report --lib recorded_series -- --ignored --nocapture`.
//!
//! A line has the CPU, the policy and the load; the samples, the maxima of the rounds, the larger buckets (`value:count`), and the later
//! samples with their maximum, in ns. The smaller values are no part of a tail, so their number is enough.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use punctual_record::{Distribution, Run, Series};

use crate::tools;

/// Options of `tails`.
#[derive(Debug, clap::Args)]
pub(crate) struct TailsArgs {
    /// Series; each CPU has one of each run
    #[arg(long, default_value_t = 100)]
    series: usize,
    /// The command, instead of a release build
    command: Option<PathBuf>,
}

/// Wake-ups every 100 us: ten thousand, and then a hundred thousand.
const FORM: [&str; 5] = ["cyclic", "--every", "100us", "--no-causes", "--no-keep"];
const DURATIONS: [&str; 2] = ["1s", "10s"];
/// What is recorded by turns: a policy, a load.
const SCENES: [(&str, &str); 7] = [
    ("fifo:90", ""),
    ("fifo:90", "cpu"),
    ("fifo:90", "timers"),
    ("other", ""),
    ("fifo:90", "memory"),
    ("fifo:90", "fork"),
    ("fifo:90", "io"),
];
/// The part of the samples that is written as buckets: the tail.
const PART: u64 = 50;

pub(crate) fn run(args: &TailsArgs) -> anyhow::Result<()> {
    let command = args.command.clone().map_or_else(tools::punctual, Ok)?;
    let mut written = 0;
    for (policy, load) in SCENES.into_iter().cycle() {
        if written >= args.series {
            break;
        }
        let [first, later] = DURATIONS.map(|duration| recorded(&command, (policy, load), duration));
        let (first, later) = (first?, later?);
        for (one, after) in first.series.iter().zip(&later.series) {
            let load = if load.is_empty() { "none" } else { load };
            println!("{} {policy} {load}; {}", one.subject, figures(one, after)?);
            written += 1;
        }
    }
    Ok(())
}

fn recorded(command: &Path, (policy, load): (&str, &str), duration: &str) -> anyhow::Result<Run> {
    let mut run = Command::new(command);
    run.args(FORM).args(["--policy", policy, "--duration", duration, "--quiet", "--json", "-"]).stdin(Stdio::null());
    if !load.is_empty() {
        run.args(["--load", load]);
    }
    let out = run.output().with_context(|| format!("starting {}", command.display()))?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(Run::from_json(&out.stdout[..])?)
}

fn figures(one: &Series, after: &Series) -> anyhow::Result<String> {
    let (samples, later) = (Distribution::from_series(one)?, Distribution::from_series(after)?);
    let maxima: Vec<String> = one.rounds.iter().filter_map(|round| Some(round.summary.max?.to_string())).collect();
    let (mut buckets, mut written) = (Vec::new(), 0);
    for bucket in samples.buckets().iter().rev() {
        if written >= samples.count() / PART {
            break;
        }
        written += bucket.count;
        buckets.push(format!("{}:{}", bucket.low, bucket.count));
    }
    let [max, later_max] = [&samples, &later].map(|all| all.extremes().map_or(0, |(_, max)| max));
    Ok(format!("{} {max}; {}; {}; {} {later_max}", samples.count(), maxima.join(" "), buckets.join(" "), later.count()))
}
