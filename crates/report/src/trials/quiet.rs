//! The pairs of blocks that count: those that others disturbed far more than their like are left out.
//!
//! The usual is what a quarter of the blocks stay below. A machine that is busy all the time is what the program lives on. No pair of it
//! is left out.

use punctual_record::{Trial, TrialBlock, TrialPair};

/// Most pairs that a file is believed to have.
const MOST: usize = 10_000;
/// Share of a block for which its threads wait for a CPU. Above it, the block can be disturbed: 2 ms of 100 ms.
const WAITED: f64 = 0.02;
/// How many times the usual share.
const TIMES: f64 = 4.0;
/// Share of a CPU that the host takes, from which a block is disturbed. The kernel counts it in ticks, of which one says little.
const STOLEN: f64 = 0.05;
const TICK_NS: u64 = 10_000_000;

/// The pairs that count, and how many do not.
#[derive(Debug)]
pub(super) struct Quiet<'a> {
    pub(super) pairs: Vec<&'a TrialPair>,
    pub(super) left_out: usize,
}

impl<'a> Quiet<'a> {
    /// Of all trials of a program: without a remedy, their blocks are alike.
    pub(super) fn of_all(trials: &[&'a Trial]) -> Vec<Self> {
        let off = usual(trials.iter().flat_map(|trial| &trial.pairs).take(MOST).map(|pair| &pair.off));
        trials.iter().map(|trial| Self::of(trial, off)).collect()
    }

    fn of(trial: &'a Trial, off: f64) -> Self {
        let all: Vec<&TrialPair> = trial.pairs.iter().take(MOST).collect();
        // A remedy may let its threads wait longer.
        let on = usual(all.iter().map(|pair| &pair.on)).max(off);
        let limits = [off, on].map(|share| WAITED.max(TIMES * share));
        let is_quiet = |pair: &&TrialPair| {
            let of =
                |block: &TrialBlock, limit: f64| waited(block).is_none_or(|share| share <= limit) && !is_robbed(block);
            of(&pair.off, limits[0]) && of(&pair.on, limits[1])
        };
        let pairs: Vec<&TrialPair> = all.iter().copied().filter(is_quiet).collect();
        Self { left_out: all.len() - pairs.len(), pairs }
    }
}

/// The share of a block for which threads wait, which a quarter of the blocks stay below.
fn usual<'a>(blocks: impl Iterator<Item = &'a TrialBlock>) -> f64 {
    let mut shares: Vec<f64> = blocks.filter_map(waited).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 4).copied().unwrap_or(0.0)
}

fn waited(block: &TrialBlock) -> Option<f64> {
    Some(block.run_delay_ns? as f64 / block.ns.max(1) as f64)
}

fn is_robbed(block: &TrialBlock) -> bool {
    block.stolen_ns.is_some_and(|ns| ns > TICK_NS && ns as f64 >= STOLEN * block.ns as f64)
}
