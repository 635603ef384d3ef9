//! The cost of pacing at the limit: `punctual pace` at an impossible rate, and a bare C loop of `send()`, interleaved.

use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::pairs::Pairs;
use super::percentile::median;
use crate::tools;

/// A rate far above that of a core.
const RATE: &str = "4M";
const SIZE: &str = "64";
/// Least rate of pacing, as a share of the bare loop's.
const LEAST: f64 = 0.9;
const WAYS: [&str; 3] = ["spin", "hybrid", "hybrid_batch"];

/// Runs both interleaved and prints the medians.
pub(super) fn run(turns: u32, datagrams: u32, cpus: (usize, usize)) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let bare = tools::compile("send_loop")?;
    let (sender, receiver) = (cpus.0.to_string(), cpus.1.to_string());
    let datagrams = datagrams.to_string();
    let mut pairs: [Pairs; WAYS.len()] = Default::default();
    let mut theirs = Vec::new();
    for turn in 0..turns as usize {
        let (mut bare_rate, mut rates) = (0.0, [0.0; WAYS.len()]);
        for step in 0..=WAYS.len() {
            let who = (turn + step) % (WAYS.len() + 1);
            match WAYS.get(who) {
                None => {
                    let arguments = [&datagrams, SIZE, sender.as_str(), receiver.as_str()];
                    bare_rate = 1e9 / tools::output(Command::new(&bare).args(arguments))?.trim().parse::<f64>()?;
                }
                Some(way) => {
                    let mut command = Command::new(&punctual);
                    command.args(["pace", "--rate", RATE, "--to", "127.0.0.1:9999", "--size", SIZE, "--by", way]);
                    command.args(["--samples", &datagrams, "--cpu", &sender]);
                    command.args(["--rounds", "1", "--quiet", "--json", "-"]);
                    let run: Value = serde_json::from_str(&tools::output(&mut command)?).context("the run as JSON")?;
                    let reached = run["series"][0]["metrics"]["rate_reached"].as_f64();
                    rates[who] = reached.with_context(|| format!("{way}: {}", run["not_measured"]))?;
                }
            }
        }
        theirs.push(bare_rate);
        for (pairs, rate) in pairs.iter_mut().zip(rates) {
            pairs.push(rate, bare_rate);
        }
    }
    let bare = median(&mut theirs);
    println!("datagrams a second, {SIZE} bytes, medians of {turns} turns of {datagrams}; CPU {sender} sends");
    println!("bare C loop of send(): {bare:.0} ({:.2} µs each)", 1e6 / bare);
    for (way, pairs) in WAYS.iter().zip(pairs) {
        let ratio = pairs.ratio();
        println!(
            "{way}: {:.0}, {:.3} of the bare loop ({}); at least {LEAST}: {}",
            pairs.ours(),
            ratio.value,
            ratio.interval(|end| format!("{end:.3}")),
            ratio.is_within(LEAST..=f64::INFINITY)
        );
    }
    Ok(())
}
