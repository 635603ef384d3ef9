//! Why a typical sleep is late, where wake-ups were watched. Its causes are set beside the figure and the comparisons of the run.

use punctual_record::{Cause, Run, Series};

use crate::causes::{self, Share};
use crate::evidence::noise::MIN_ROUNDS;
use crate::evidence::scatter;
use crate::evidence::{Effect, Outcome};
use crate::format::spoken;
use crate::words::Figure;

/// Most causes in a sentence.
const MOST: usize = 2;
/// A cause below this part of the lateness explains nothing.
const LEAST: f64 = 0.1;
/// Figures that differ by less than this part of the lateness agree: watching itself adds a little.
const ALIKE: f64 = 0.1;

/// `: 50.0 µs of it is timer slack, 14.2 µs is leaving an idle state.` Watched wake-ups that differ from the measured ones are said apart. A
/// comparison that contradicts them is said too. `None` where nothing is shown.
pub(super) fn clause(run: &Run, asked_ns: i64, row: &Figure<'_>, slack: Option<&Effect>) -> Option<String> {
    let p50 = row.p50?;
    let scatter = scattered(row.series)?;
    let typical = causes::typical(run, asked_ns)?;
    let least = scatter.max(LEAST * p50 as f64);
    let large = |share: &&Share| share.ns as f64 > least;
    let shares: Vec<&Share> = typical.shares.iter().filter(large).take(MOST).collect();
    let first = shares.first()?;
    let alike = |one: i64, other: i64, more: f64| one.abs_diff(other) as f64 <= more.max(ALIKE * p50 as f64);
    let mut text = if alike(typical.late_ns, p50, 2.0 * scatter) {
        format!(": {} of it {}", spoken::duration(first.ns), first.predicate)
    } else {
        let late = spoken::duration(typical.late_ns);
        format!("; when watched, {late}: {} of that {}", spoken::duration(first.ns), first.predicate)
    };
    for share in &shares[1..] {
        text.push_str(&format!(", {} {}", spoken::duration(share.ns), share.predicate));
    }
    text.push('.');
    let found = typical.shares.iter().find(|share| share.cause == Cause::TimerSlack).map_or(0, |share| share.ns);
    if let Some(effect) = slack
        && let Some(gain) = effect.gain
    {
        let reach = (gain.high_ns - gain.low_ns) as f64 / 2.0;
        let agrees = alike(found, gain.ns, reach.max(gain.scatter_ns as f64).max(scatter));
        match effect.outcome {
            _ if agrees => {}
            Outcome::Better => text.push_str(&format!(" Less slack alone gains {}.", spoken::duration(gain.ns))),
            Outcome::Worse | Outcome::NoDifference => text.push_str(" Less slack alone shows no gain."),
            Outcome::NotTested => {}
        }
    }
    Some(text)
}

/// How much the median varies between rounds; `None` with few of them.
fn scattered(series: &Series) -> Option<f64> {
    let medians: Vec<f64> = series.rounds.iter().filter_map(|round| round.summary.p50).map(|ns| ns as f64).collect();
    (medians.len() >= MIN_ROUNDS).then(|| scatter(&medians))
}
