//! The effect of the progress line on the figures. The same run is made on a terminal with the line, and with
//! `--quiet`.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::percentile::median;
use crate::tools;

/// Runs both interleaved and prints the medians over turns.
pub(crate) fn run(turns: u32, waits: u32) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let folder = tools::target().join("xtask-progress");
    std::fs::create_dir_all(&folder)?;
    let json = folder.join("run.json");
    let mut seen: [(&str, Vec<[f64; 3]>); 2] = [("drawn", vec![]), ("--quiet", vec![])];
    for turn in 0..turns {
        for step in 0..2 {
            let quiet = (turn + step) % 2 == 1;
            let more = if quiet { " --quiet" } else { "" };
            let line = format!(
                "{} wait clock_nanosleep_abs --for 200us --policy fifo:40 --rounds 20 --samples {waits} --json {}{more}",
                punctual.display(),
                json.display()
            );
            // script(1) gives the command its own terminal; the drawing is counted and discarded.
            let drawn = tools::output(Command::new("script").args(["-qec", &line, "/dev/null"]))?;
            ensure!(quiet != drawn.contains("left"), "the progress line must appear without --quiet only");
            let run = punctual_record::Run::from_json(std::fs::File::open(&json)?)?;
            let series = run.series.first().context("nothing was measured")?.clone();
            let figure = |ns: Option<i64>| ns.map(|ns| ns as f64 / 1e3).context("too few samples: raise --waits");
            let summary = series.summary;
            seen[usize::from(quiet)].1.push([figure(summary.p50)?, figure(summary.p99)?, figure(summary.p999)?]);
        }
    }
    println!(
        "lateness of clock_nanosleep to 200 µs ahead, SCHED_FIFO 40, {turns} turns of {waits}, medians over turns"
    );
    let mut rows = Vec::new();
    for (name, turns) in &seen {
        let column = |i: usize| median(&mut turns.iter().map(|t| t[i]).collect::<Vec<_>>());
        let row = [column(0), column(1), column(2)];
        println!("{name:<8} p50 {:.2} µs   p99 {:.2} µs   p99.9 {:.2} µs", row[0], row[1], row[2]);
        rows.push(row);
    }
    let ratio = |i: usize| rows[0][i] / rows[1][i];
    println!("drawn / quiet: p50 {:.3}, p99 {:.3}, p99.9 {:.3}", ratio(0), ratio(1), ratio(2));
    Ok(())
}
