//! What each way of yielding costs alone: `punctual yield` and a bare C loop of the same call, in turns.

use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::median;
use crate::tools;

/// Ways to yield that C knows, with the calls of a turn: some milliseconds of each.
const METHODS: &[(&str, u32)] = &[
    ("nothing", 3_000_000),
    ("nop", 3_000_000),
    ("pause", 300_000),
    ("sched_yield", 30_000),
    ("sleep0", 300),
    ("usleep0", 300),
    ("nanosleep0", 300),
    ("nanosleep1", 300),
    ("clock_nanosleep_past", 1000),
    ("select0", 30_000),
    ("poll0", 30_000),
    ("ppoll0", 30_000),
    ("epoll_wait0", 30_000),
    ("futex_changed", 30_000),
];

/// Differences up to this are within the claim: 3 ns, or 2 %.
const CLAIM: (f64, f64) = (3.0, 0.02);

/// Runs both in turns and prints the medians.
pub(super) fn run(turns: u32, cpu: usize) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let bare = tools::compile("yield_calls")?;
    let mut figures: Vec<(Vec<f64>, Vec<f64>)> = METHODS.iter().map(|_| Default::default()).collect();
    for turn in 0..turns {
        for place in 0..METHODS.len() {
            let place = (place + turn as usize) % METHODS.len();
            let (name, calls) = METHODS[place];
            let (ours, theirs) = &mut figures[place];
            let mut c = || -> anyhow::Result<f64> {
                let arguments = [name.to_owned(), calls.to_string(), cpu.to_string()];
                Ok(tools::output(Command::new(&bare).args(arguments))?.trim().parse()?)
            };
            // Who comes first changes from turn to turn.
            if turn % 2 == 0 {
                theirs.push(c()?);
                ours.push(of_punctual(&punctual, name, calls, cpu)?);
            } else {
                ours.push(of_punctual(&punctual, name, calls, cpu)?);
                theirs.push(c()?);
            }
        }
    }
    println!("ns per call, medians of {turns} turns on CPU {cpu}");
    println!("| method | bare C loop | punctual | difference | within 3 ns or 2 % |");
    println!("|---|---|---|---|---|");
    let mut outside = 0;
    for ((name, _), (mut ours, mut theirs)) in METHODS.iter().zip(figures) {
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        let difference = ours - theirs;
        let within = difference.abs() <= CLAIM.0.max(theirs * CLAIM.1);
        outside += u32::from(!within);
        let verdict = if within { "yes" } else { "no" };
        println!(
            "| {name} | {theirs:.1} | {ours:.1} | {difference:+.1} ({:+.1} %) | {verdict} |",
            difference / theirs * 100.0
        );
    }
    println!("{outside} of {} outside", METHODS.len());
    Ok(())
}

fn of_punctual(punctual: &std::path::Path, name: &str, calls: u32, cpu: usize) -> anyhow::Result<f64> {
    let mut command = Command::new(punctual);
    command.args(["yield", name, "--competitors", "0", "--rounds", "1", "--quiet", "--json", "-"]);
    command.args(["--samples", &calls.min(300_000).to_string(), "--cpu", &cpu.to_string()]);
    let run: Value = serde_json::from_str(&tools::output(&mut command)?).context("the run as JSON")?;
    let series = run["series"].as_array().and_then(|all| all.iter().find(|s| s["quantity"] == "call_cost"));
    match series.and_then(|s| s["outcome"]["bare_ns"].as_f64()) {
        Some(ns) => Ok(ns),
        None => bail!("{name}: no figure in {}", run["not_measured"]),
    }
}
