//! The overhead of `punctual ipc` over the bare calls, and the figures of pmqtest and perf.
//!
//! Each mechanism makes round trips between two processes, under `punctual` and in a C program of the same calls (`xtask/c/ping_pong.c`).
//! Both are interleaved on the same CPUs. The ring, with both sides polling, is compared with two processes that only change a flag each.
//! That is the fastest exchange between two CPUs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::pairs::{Pairs, Verdict};
use super::percentile::percentile;
use crate::tools;

/// The name of the library's ring.
const RING: &str = "ring";
/// Limit of a round trip through the ring, as a multiple of that of two flags.
const RING_LIMIT: f64 = 1.3;

/// Mechanisms with a C counterpart, and their message sizes.
const MECHANISMS: [(&str, usize); 18] = [
    ("memfd-spin", 64),
    ("memfd-futex", 64),
    ("memfd-sem", 64),
    ("memfd-sysv-sem", 64),
    ("memfd-cond", 64),
    ("memfd-eventfd", 64),
    ("posix-mq", 64),
    ("sysv-mq", 64),
    ("pipe", 64),
    ("fifo", 64),
    ("unix-stream", 64),
    ("unix-dgram", 64),
    ("unix-seqpacket", 64),
    ("tcp", 64),
    ("udp", 64),
    ("eventfd", 8),
    ("sigqueue", 8),
    ("signalfd", 8),
];

/// The options of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Names of the mechanisms; empty: all.
    pub(crate) only: &'a [String],
    pub(crate) turns: u32,
    pub(crate) messages: u32,
    pub(crate) cpus: (usize, usize),
    pub(crate) limit: f64,
}

impl Request<'_> {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// Runs all interleaved, prints a table, and fails if one exceeds its limit.
pub(crate) fn run(request: &Request<'_>) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let bare = tools::compile("ping_pong")?;
    let (a, b) = request.cpus;
    let known = |name: &&String| *name == RING || MECHANISMS.iter().any(|(known, _)| *known == name.as_str());
    if let Some(unknown) = request.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = MECHANISMS.iter().map(|(name, _)| *name).collect();
        bail!("unknown mechanism '{unknown}': expected {RING}, {}", names.join(", "));
    }
    println!(
        "round trip, {} turns of {} messages, CPUs {a} and {b}; medians of the turns' p50, and of the turns' ratios with their 95 % interval",
        request.turns, request.messages
    );
    let limit = request.limit;
    println!("{:<16} {:>5} {:>12} {:>12} {:>24}  at most {limit}?", "", "bytes", "punctual", "bare C", "ratio");
    let mut over = Vec::new();
    for (name, size) in MECHANISMS.into_iter().filter(|(name, _)| request.wants(name)) {
        if a == b && name == "memfd-spin" {
            // On one CPU, each would wait for the end of the other's time slice.
            continue;
        }
        let pairs = in_turns(
            request.turns,
            || by_punctual(&punctual, &[name], size, request),
            || by_bare_calls(&bare, name, size, request),
        )?;
        if row(name, size, &pairs, limit) == Verdict::Fails {
            over.push(format!("{name} {:.3}", pairs.ratio().value));
        }
    }
    if a != b && request.wants(RING) {
        let pairs = in_turns(
            request.turns,
            || by_punctual(&punctual, &[RING, "--receive", "poll", "--verify=never"], 8, request),
            || by_bare_calls(&bare, "flag", 8, request),
        )?;
        println!("the ring, both sides polling, compared with two flags (both with two clock readings):");
        row(RING, 8, &pairs, RING_LIMIT);
    }
    if request.only.is_empty() {
        pmqtest(request)?;
        perf(request)?;
    }
    ensure!(over.is_empty(), "above {limit} times the bare calls: {}", over.join(", "));
    Ok(())
}

/// Runs both N times, in alternating order.
fn in_turns(
    turns: u32,
    ours: impl Fn() -> anyhow::Result<f64>,
    theirs: impl Fn() -> anyhow::Result<f64>,
) -> anyhow::Result<Pairs> {
    let mut pairs = Pairs::default();
    for turn in 0..turns {
        let (ours, theirs) = if turn % 2 == 0 {
            let ours = ours()?;
            (ours, theirs()?)
        } else {
            let theirs = theirs()?;
            (ours()?, theirs)
        };
        pairs.push(ours, theirs);
    }
    Ok(pairs)
}

fn row(name: &str, size: usize, pairs: &Pairs, limit: f64) -> Verdict {
    let ratio = pairs.ratio();
    let verdict = ratio.is_within(0.0..=limit);
    println!(
        "{name:<16} {size:>5} {:>9.3} µs {:>9.3} µs {:>7.3} ({})  {verdict}",
        pairs.ours() / 1e3,
        pairs.theirs() / 1e3,
        ratio.value,
        ratio.interval(|end| format!("{end:>6.3}"))
    );
    verdict
}

fn by_punctual(punctual: &Path, what: &[&str], size: usize, request: &Request<'_>) -> anyhow::Result<f64> {
    let (a, b) = request.cpus;
    let json = tools::output(
        Command::new(punctual)
            .arg("ipc")
            .args(what)
            .args(["--mode", "ping-pong", "--rounds", "1", "--warmup", "100", "--quiet", "--json", "-"])
            .args([
                "--size",
                &size.to_string(),
                "--cpus",
                &format!("{a},{b}"),
                "--samples",
                &request.messages.to_string(),
            ]),
    )?;
    let run = punctual_record::Run::from_json(json.as_bytes())?;
    let series = run.series.first().with_context(|| format!("punctual measured nothing of {what:?}"))?;
    Ok(series.summary.p50.context("no median: raise --messages")? as f64)
}

fn by_bare_calls(program: &Path, name: &str, size: usize, request: &Request<'_>) -> anyhow::Result<f64> {
    let (a, b) = request.cpus;
    let text = tools::output(
        Command::new(program).arg(name).args([size, request.messages as usize, a, b].map(|n| n.to_string())),
    )?;
    let mut values: Vec<f64> = text.lines().filter_map(|l| l.parse().ok()).collect();
    values.sort_by(f64::total_cmp);
    Ok(percentile(&values, 0.5))
}

/// The figures of pmqtest: one way through a POSIX queue under SCHED_FIFO in whole microseconds; minimum, mean and maximum.
fn pmqtest(request: &Request<'_>) -> anyhow::Result<()> {
    let (a, b) = request.cpus;
    let affinity = if a == b { a.to_string() } else { String::new() };
    let mut command = Command::new("pmqtest");
    command.args(["--quiet", "--prio=80", "--interval=500", "--loops=2000"]);
    command.args([if a == b { format!("--affinity={affinity}") } else { "--smp".to_owned() }]);
    match tools::output(&mut command) {
        Ok(text) => println!("pmqtest, one way, FIFO 80, whole µs:\n{}", text.trim_end()),
        Err(e) => println!("pmqtest: not compared: {e:#}; Debian: apt-get install rt-tests"),
    }
    Ok(())
}

/// The figure of perf: the mean duration of an exchange through two pipes.
fn perf(request: &Request<'_>) -> anyhow::Result<()> {
    let (a, b) = request.cpus;
    let cpus = if a == b { a.to_string() } else { format!("{a},{b}") };
    let loops = request.messages.to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", &cpus, "perf", "bench", "-f", "simple", "sched", "pipe", "-l", &loops]);
    match tools::output(&mut command) {
        Ok(text) => {
            let seconds: f64 = text
                .trim()
                .parse()
                .with_context(|| format!("unexpected output of perf bench sched pipe: '{}'", text.trim()))?;
            let mean = seconds / f64::from(request.messages) * 1e6;
            println!("perf bench sched pipe: mean {mean:.2} µs per exchange (4 bytes there and back)");
        }
        Err(e) => println!("perf bench sched pipe: not compared: {e:#}; Debian: apt-get install linux-perf"),
    }
    Ok(())
}
