//! What pacing costs at the limit: `punctual pace` asked for more than the machine can send, and a bare C loop of `send()`, in turns.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::{median, percentile};
use crate::tools;

/// Far beyond what a core sends.
const RATE: &str = "4M";
const SIZE: &str = "64";
const WAYS: [&str; 3] = ["spin", "hybrid", "hybrid_batch"];

/// Runs both in turns and prints the medians.
pub(super) fn run(turns: u32, datagrams: u32, cpus: (usize, usize)) -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let bare = tools::compile("send_loop")?;
    let (sender, receiver) = (cpus.0.to_string(), cpus.1.to_string());
    let datagrams = datagrams.to_string();
    let mut theirs = Vec::new();
    let mut ours: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for turn in 0..turns as usize {
        for step in 0..=WAYS.len() {
            match WAYS.get((turn + step) % (WAYS.len() + 1)) {
                None => {
                    let arguments = [&datagrams, SIZE, sender.as_str(), receiver.as_str()];
                    theirs.push(1e9 / tools::output(Command::new(&bare).args(arguments))?.trim().parse::<f64>()?);
                }
                Some(way) => {
                    let mut command = Command::new(&punctual);
                    command.args(["pace", "--rate", RATE, "--to", "127.0.0.1:9999", "--size", SIZE, "--by", way]);
                    command.args([
                        "--samples",
                        &datagrams,
                        "--cpu",
                        &sender,
                        "--rounds",
                        "1",
                        "--quiet",
                        "--json",
                        "-",
                    ]);
                    let run: Value = serde_json::from_str(&tools::output(&mut command)?).context("the run as JSON")?;
                    let reached = run["series"][0]["outcome"]["rate_reached"].as_f64();
                    ours.entry(way)
                        .or_default()
                        .push(reached.with_context(|| format!("{way}: {}", run["not_measured"]))?);
                }
            }
        }
    }
    let bare = median(&mut theirs);
    println!("datagrams a second, {SIZE} bytes, medians of {turns} turns of {datagrams}; CPU {sender} sends");
    println!("bare C loop of send(): {bare:.0} ({:.2} µs each)", 1e6 / bare);
    for (way, mut rates) in ours {
        let rate = median(&mut rates);
        let (low, high) = (percentile(&rates, 0.25), percentile(&rates, 0.75));
        println!("{way}: {rate:.0} (quartiles {low:.0} to {high:.0}), {:.3} of the bare loop", rate / bare);
    }
    Ok(())
}
