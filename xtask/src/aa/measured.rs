//! Runs that are measured once and kept in a folder, one after the other, over several calls; what else runs on the machine meanwhile; and a
//! change injected into such a run: a monotonic map of its samples.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use punctual_record::{Distribution, Interval, Recorder, Run, Series, Summary};

use crate::tools;

/// How runs are measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Measuring {
    /// Folder of the runs; existing ones are not measured again
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Stop measuring after N seconds; the next call continues
    #[arg(long, default_value_t = 3600)]
    at_most: u64,
    /// Measure with this program instead of a release build
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Measuring {
    /// The folder; `usual`: the name of the default one.
    pub(super) fn folder(&self, usual: &str) -> anyhow::Result<PathBuf> {
        tools::made(self.folder.clone().unwrap_or_else(|| tools::target().join(usual)))
    }

    /// Measures the files that are missing, each with what it is of. False: some are still missing.
    pub(super) fn missing<T>(
        &self,
        files: &[(T, PathBuf)],
        measure: impl Fn(&Path, &T, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let missing: Vec<&(T, PathBuf)> = files.iter().filter(|(_, path)| !path.exists()).collect();
        if missing.is_empty() {
            return Ok(true);
        }
        let binary = self.binary.clone().map_or_else(tools::punctual, Ok)?;
        let begin = Instant::now();
        for (what, path) in missing {
            if begin.elapsed() > Duration::from_secs(self.at_most) {
                return Ok(false);
            }
            measure(&binary, what, path)?;
        }
        Ok(true)
    }
}

/// Measures one run into a file. Returns what the command printed.
pub(super) fn printed(binary: &Path, words: &[&str], into: &Path) -> anyhow::Result<String> {
    let output = Command::new(binary)
        .args(words)
        .args(["--quiet", "--no-keep", "--json"])
        .arg(into)
        .stderr(Stdio::null())
        .output()
        .with_context(|| binary.display().to_string())?;
    ensure!(output.status.success(), "punctual {}: {}", words.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Measures one run into a file.
pub(super) fn save(binary: &Path, words: &[&str], into: &Path) -> anyhow::Result<()> {
    printed(binary, words, into).map(drop)
}

/// A saved run.
pub(super) fn read(path: &Path) -> anyhow::Result<Run> {
    let run = File::open(path).map_err(anyhow::Error::from).and_then(|file| Ok(Run::from_json(file)?));
    run.with_context(|| path.display().to_string())
}

/// What else runs, on every CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Load {
    /// Nothing
    Quiet,
    /// A compiler: `cc`, over and over
    Compiler,
    /// A storm of short processes
    Forks,
    /// A loop that never sleeps
    Competitor,
}

impl Load {
    /// Its name in files and tables.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What each CPU does; `None`: nothing. The folder of C sources is `$1`.
    fn script(self) -> Option<&'static str> {
        match self {
            Self::Quiet => None,
            Self::Compiler => Some("while :; do for f in \"$1\"/*.c; do cc -O2 -c \"$f\" -o /dev/null; done; done"),
            Self::Forks => Some("while :; do /bin/true; done"),
            Self::Competitor => Some("while :; do :; done"),
        }
    }

    /// Starts it; it ends when the result is dropped.
    pub(super) fn start(self) -> anyhow::Result<Option<Running>> {
        self.script().map(|script| Running::start(&self.name(), script)).transpose()
    }
}

/// A load until it is dropped.
pub(super) struct Running(Child);

impl Running {
    fn start(name: &str, script: &str) -> anyhow::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let everywhere = format!("for cpu in $(seq $2); do ({script}) & done; wait");
        let child = Command::new("sh")
            .args(["-c", &everywhere, name])
            .arg(tools::root().join("peers/c"))
            .arg(cpus.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting the load {name}"))?;
        // Its first files are read before the measurement begins.
        std::thread::sleep(Duration::from_secs(1));
        Ok(Self(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group: its shells and what they started. Should kill be missing, they go on, so say it.
        let group = format!("-{}", self.0.id());
        let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
        if !killed.is_ok_and(|status| status.success()) {
            eprintln!("the load goes on: kill -KILL -- {group}");
        }
        drop(self.0.wait());
    }
}

/// The injected change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Injection {
    /// Every sample grows by this share.
    All(f64),
    /// Every sample above the series' 95th percentile grows by this share.
    Tail(f64),
}

/// The run with the change in one of its series, or in all.
pub(super) fn into_run(run: &Run, only: Option<usize>, injection: Injection) -> anyhow::Result<Run> {
    let mut run = run.clone();
    for (place, series) in run.series.iter_mut().enumerate() {
        if only.is_none_or(|only| only == place) {
            into_series(series, injection)?;
        }
    }
    Ok(run)
}

fn into_series(series: &mut Series, injection: Injection) -> anyhow::Result<()> {
    let distribution = Distribution::from_series(series)?;
    let (beyond, share) = match injection {
        Injection::All(share) => (i64::MIN, share),
        Injection::Tail(share) => {
            let rank = (distribution.count() as f64 * 0.95).ceil() as u64;
            (distribution.value_at_rank(rank).unwrap_or(i64::MAX), share)
        }
    };
    let map = |ns: i64| if ns > beyond { (ns as f64 * (1.0 + share)).round() as i64 } else { ns };
    let mut recorder = Recorder::new();
    for bucket in distribution.buckets() {
        (0..bucket.count).for_each(|_| recorder.record(map(bucket.high)));
    }
    let changed = recorder.distribution();
    (series.histogram, series.negative_histogram) = changed.to_histograms();
    series.summary = changed.summary();
    for round in &mut series.rounds {
        through(&mut round.summary, map);
    }
    Ok(())
}

fn through(summary: &mut Summary, map: impl Fn(i64) -> i64) {
    let figures = [&mut summary.min, &mut summary.p50, &mut summary.p90, &mut summary.p99, &mut summary.p999];
    figures.into_iter().chain([&mut summary.max]).flatten().for_each(|ns| *ns = map(*ns));
    let through = |interval: Interval| Interval { low: map(interval.low), high: map(interval.high) };
    summary.ci95.p50 = summary.ci95.p50.map(through);
    summary.ci95.p99 = summary.ci95.p99.map(through);
}
