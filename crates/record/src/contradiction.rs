//! Figures of a run that cannot all be true: their contradiction, in words. An absent figure contradicts nothing, and a histogram that cannot
//! be decoded is left to the reports.

use crate::distribution::{Distribution, Error};
use crate::model::{Ci95, Notice, Run, Series, Summary};
use crate::sanitize::{self, NAME};

/// Largest magnitude of a computed figure: about twice the longest duration that fits (2^63 ns).
const LARGEST: f64 = 2e19;

/// Most rounds of a series: ten runs of 10 000 rounds, merged. Some statistics of a report take time with the square of their number.
const MOST_ROUNDS: usize = 100_000;

/// The first contradiction of the run.
pub(crate) fn contradiction(run: &Run) -> Option<String> {
    let of_series = |series: &Series| {
        let why = in_series(series).err()?;
        Some(format!("series {}: {why}", sanitize::line(&series.subject, NAME)))
    };
    let head = required(run).find_map(|(name, figure)| possible(name, Some(figure)).err());
    head.or_else(|| run.series.iter().find_map(of_series))
}

/// The figures beside the series, which no file of a run may lack, by name.
pub(crate) fn required(run: &Run) -> impl Iterator<Item = (&'static str, f64)> + '_ {
    let busiest = run.disturbance.busiest.iter().map(|process| ("disturbance.busiest", process.cpu_share));
    let shares = run.notices.iter().filter_map(|notice| match notice {
        Notice::Steal { share } | Notice::BusyMachine { share } => Some(("the share of a notice", *share)),
        _ => None,
    });
    std::iter::once(("clock.read_ns", run.clock.read_ns)).chain(busiest).chain(shares)
}

fn in_series(series: &Series) -> Result<(), String> {
    in_summary(&series.summary)?;
    if series.rounds.len() > MOST_ROUNDS {
        return Err(format!("{} rounds, where a series has at most {MOST_ROUNDS}", series.rounds.len()));
    }
    for round in &series.rounds {
        in_summary(&round.summary).map_err(|why| format!("round {}: {why}", round.round))?;
        possible("cpu_ns_per_op", round.cpu_ns_per_op)?;
    }
    for part in &series.parts {
        in_summary(&part.summary).map_err(|why| format!("part {}: {why}", part.source))?;
        possible("cpu_ns_per_op", part.cpu_ns_per_op)?;
    }
    possible("cpu_ns_per_op", series.cpu_ns_per_op)?;
    possible("cpu_share", series.cpu_share)?;
    possible("voluntary_switches_per_op", series.voluntary_switches_per_op)?;
    possible("involuntary_switches_per_op", series.involuntary_switches_per_op)?;
    if series.histogram.is_none() && series.negative_histogram.is_none() {
        return Ok(());
    }
    match Distribution::from_series(series) {
        Err(Error::Contradiction { why, .. }) => Err(why),
        Err(Error::Histogram { .. }) | Ok(_) => Ok(()),
    }
}

fn in_summary(summary: &Summary) -> Result<(), String> {
    let Summary { count, negative, overflow, min, p50, p90, p99, p999, max, mean, stdev, ci95 } = summary;
    if negative > count || overflow > count {
        return Err(format!("negative {negative} and overflow {overflow} of {count} samples"));
    }
    let ascending = [("min", min), ("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)];
    let known: Vec<(&str, i64)> = ascending.into_iter().filter_map(|(name, value)| Some((name, (*value)?))).collect();
    if let Some([(lower, least), (name, value)]) = known.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        return Err(format!("{lower} {least} is above {name} {value}"));
    }
    in_mean(*mean, *min, *max)?;
    possible("stdev", *stdev)?;
    if stdev.is_some_and(|stdev| stdev < 0.0) {
        return Err("stdev is below 0".into());
    }
    let Ci95 { p50, p99 } = ci95;
    match [p50, p99].into_iter().flatten().find(|interval| interval.low > interval.high) {
        Some(interval) => Err(format!("a confidence interval goes from {} down to {}", interval.low, interval.high)),
        None => Ok(()),
    }
}

/// A mean lies between the extremes, apart from rounding.
fn in_mean(mean: Option<f64>, min: Option<i64>, max: Option<i64>) -> Result<(), String> {
    possible("mean", mean)?;
    let Some(((mean, min), max)) = mean.zip(min).zip(max) else { return Ok(()) };
    let rounding = 1.0 + 1e-9 * (min.unsigned_abs().max(max.unsigned_abs())) as f64;
    if mean < min as f64 - rounding || mean > max as f64 + rounding {
        return Err(format!("mean {mean:.3e} is not between min {min} and max {max}"));
    }
    Ok(())
}

/// Refuses a figure that is not finite, or larger than any that is measured.
fn possible(name: &str, figure: Option<f64>) -> Result<(), String> {
    match figure {
        Some(figure) if !figure.is_finite() || figure.abs() > LARGEST => {
            Err(format!("{name} is {figure:e}, beyond everything that is measured (±{LARGEST:e})"))
        }
        _ => Ok(()),
    }
}
