//! Compares `punctual` with cyclictest and with a bare C loop.
//!
//! All three wait for 1 ms with clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME), under SCHED_FIFO, with locked memory and without idle
//! states. The median of cyclictest is up to 1 µs too low, since it truncates to whole microseconds.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::percentile::{median, percentile};
use crate::tools;

const PERIOD_NS: u64 = 1_000_000;

/// Median and 99th percentile of one turn, in ns.
type TurnFigures = (f64, f64);

/// Runs the three interleaved and prints a table of medians over turns.
pub(crate) fn run(turns: u32, waits: u32, priority: u8) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let bare = tools::compile("absolute_sleep")?;
    let mut seen: [(&str, Vec<TurnFigures>); 3] =
        [("punctual", vec![]), ("cyclictest", vec![]), ("bare C loop", vec![])];
    for turn in 0..turns {
        // Each turn begins with another program, so that none always follows the same one.
        for step in 0..3 {
            let who = (turn as usize + step) % 3;
            let figures = match who {
                0 => by_punctual(&punctual, waits, priority)?,
                1 => by_cyclictest(waits, priority)?,
                _ => by_bare_loop(&bare, waits, priority)?,
            };
            seen[who].1.push(figures);
        }
    }
    println!(
        "lateness of clock_nanosleep to an absolute time 1 ms ahead, SCHED_FIFO {priority}, {turns} turns of {waits}"
    );
    println!("{:<12} {:>14} {:>22} {:>14}", "", "median of p50", "p50 lowest..highest", "median of p99");
    let mut medians = Vec::new();
    for (name, figures) in &mut seen {
        let mut p50: Vec<f64> = figures.iter().map(|f| f.0 / 1e3).collect();
        let mut p99: Vec<f64> = figures.iter().map(|f| f.1 / 1e3).collect();
        let middle = median(&mut p50);
        let range = format!("{:.2}..{:.2} µs", p50[0], p50[p50.len() - 1]);
        println!("{name:<12} {middle:>11.2} µs {range:>22} {:>11.2} µs", median(&mut p99));
        medians.push(middle);
    }
    println!(
        "punctual / cyclictest {:.3}, punctual / bare C loop {:.3}",
        medians[0] / medians[1],
        medians[0] / medians[2]
    );
    Ok(())
}

fn by_punctual(punctual: &Path, waits: u32, priority: u8) -> anyhow::Result<TurnFigures> {
    let json = tools::output(
        Command::new(punctual)
            .args(["wait", "clock_nanosleep_abs", "--for", "1ms", "--lock-memory", "--dma-latency", "0us", "--require"])
            .args(["--rounds", "1", "--quiet", "--json", "-"])
            .args(["--policy", &format!("fifo:{priority}"), "--samples", &waits.to_string()]),
    )?;
    let run = punctual_record::Run::from_json(json.as_bytes())?;
    let series = run.series.first().context("punctual measured nothing")?;
    let p50 = series.summary.p50.context("no median")?;
    let p99 = series.summary.p99.context("no 99th percentile: raise --waits")?;
    Ok((p50 as f64, p99 as f64))
}

/// From cyclictest's histogram of whole microseconds, plus half a microsecond, since it truncates.
fn by_cyclictest(waits: u32, priority: u8) -> anyhow::Result<TurnFigures> {
    let interval = (PERIOD_NS / 1000).to_string();
    let text = tools::output(
        Command::new("cyclictest")
            .args(["--quiet", "--mlockall", "--threads=1", "--policy=fifo", "--histogram=5000"])
            .args([&format!("--interval={interval}"), &format!("--priority={priority}"), &format!("--loops={waits}")]),
    )
    .context("Debian: apt-get install rt-tests")?;
    let mut values = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(us)), Some(Ok(count))) = (words.next(), words.next()) {
            values.extend(std::iter::repeat_n((us * 1000 + 500) as f64, count as usize));
        }
    }
    Ok((percentile(&values, 0.5), percentile(&values, 0.99)))
}

fn by_bare_loop(program: &Path, waits: u32, priority: u8) -> anyhow::Result<TurnFigures> {
    let text =
        tools::output(Command::new(program).args([waits.to_string(), PERIOD_NS.to_string(), priority.to_string()]))?;
    let mut values: Vec<f64> = text.lines().filter_map(|l| l.parse().ok()).collect();
    values.sort_by(f64::total_cmp);
    Ok((percentile(&values, 0.5), percentile(&values, 0.99)))
}
