//! The cost of each way of yielding alone: `punctual yield` and a bare C loop of the same call, interleaved.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::pairs::{Pairs, Verdict};
use super::percentile::median;
use crate::tools;

/// Ways to yield with a C counterpart, and the calls per turn: some milliseconds.
const METHODS: &[(&str, u32)] = &[
    ("nothing", 3_000_000),
    ("nop", 3_000_000),
    ("pause", 200_000),
    ("sched_yield", 10_000),
    ("sleep0", 200),
    ("usleep0", 200),
    ("nanosleep0", 200),
    ("nanosleep1", 200),
    ("clock_nanosleep_past", 500),
    ("select0", 15_000),
    ("poll0", 30_000),
    ("ppoll0", 20_000),
    ("epoll_wait0", 20_000),
    ("futex_changed", 20_000),
];

/// Largest difference within the claim: 3 ns, or 2 %.
const CLAIM: (f64, f64) = (3.0, 0.02);

/// The bare loop in a process of one thread, and the same with a sleeping second thread. The third is `punctual`, which has such
/// threads.
const CONTESTANTS: usize = 3;

/// Runs all interleaved and prints the medians. `punctual` is compared with the loop that has a second thread. Blocking calls cost more in
/// a process of several threads.
pub(super) fn run(turns: u32, cpu: usize) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let bare = tools::compile("yield_calls")?;
    let mut figures: Vec<(Vec<f64>, Pairs)> = METHODS.iter().map(|_| Default::default()).collect();
    for turn in 0..turns as usize {
        for place in 0..METHODS.len() {
            let place = (place + turn) % METHODS.len();
            let (name, calls) = METHODS[place];
            let mut ns = [0.0; CONTESTANTS];
            for step in 0..CONTESTANTS {
                // The order changes from turn to turn.
                let who = (turn + step) % CONTESTANTS;
                ns[who] = match who {
                    0 | 1 => of_bare_loop(&bare, name, calls, cpu, who)?,
                    _ => of_punctual(&punctual, name, calls, cpu)?,
                };
            }
            let [alone, theirs, ours] = ns;
            figures[place].0.push(alone);
            figures[place].1.push(ours, theirs);
        }
    }
    println!(
        "ns per call, medians of {turns} turns on CPU {cpu}; difference: median of the turns' and its 95 % interval"
    );
    println!("| method | bare C loop | beside a second thread | punctual | difference | of it | within 3 ns or 2 % |");
    println!("|---|---:|---:|---:|---:|---:|---|");
    let mut outside = 0;
    for ((name, _), (mut alone, pairs)) in METHODS.iter().zip(figures) {
        let (theirs, difference) = (pairs.theirs(), pairs.difference());
        let allowed = CLAIM.0.max(theirs * CLAIM.1);
        let verdict = difference.is_within(-allowed..=allowed);
        outside += u32::from(verdict == Verdict::Fails);
        let share = |ns: f64| ns / theirs * 100.0;
        println!(
            "| {name} | {:.1} | {theirs:.1} | {:.1} | {:+.1} | {:+.1} % ({}) | {verdict} |",
            median(&mut alone),
            pairs.ours(),
            difference.value,
            share(difference.value),
            difference.interval(|end| format!("{:+.1}", share(end))),
        );
    }
    println!("{outside} of {} outside", METHODS.len());
    Ok(())
}

fn of_bare_loop(bare: &Path, name: &str, calls: u32, cpu: usize, company: usize) -> anyhow::Result<f64> {
    let arguments = [name.to_owned(), calls.to_string(), cpu.to_string(), company.to_string()];
    Ok(tools::output(Command::new(bare).args(arguments))?.trim().parse()?)
}

fn of_punctual(punctual: &Path, name: &str, calls: u32, cpu: usize) -> anyhow::Result<f64> {
    let mut command = Command::new(punctual);
    command.args(["yield", name, "--competitors", "0", "--rounds", "1", "--quiet", "--json", "-"]);
    command.args(["--samples", &calls.min(300_000).to_string(), "--cpu", &cpu.to_string()]);
    let run: Value = serde_json::from_str(&tools::output(&mut command)?).context("the run as JSON")?;
    let series = run["series"].as_array().and_then(|all| all.iter().find(|s| s["quantity"] == "call_cost"));
    match series.and_then(|s| s["metrics"]["bare_ns"].as_f64()) {
        Some(ns) => Ok(ns),
        None => bail!("{name}: no figure in {}", run["not_measured"]),
    }
}
