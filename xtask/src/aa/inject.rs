//! Injects a change into a run: a monotonic map of its samples.

use punctual_record::{Distribution, Interval, Recorder, Run, Series, Summary};

/// The injected change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Injection {
    /// Every sample grows by this share.
    All(f64),
    /// Every sample above the series' 95th percentile grows by this share.
    Tail(f64),
}

/// The run with the change in one of its series, or in all.
pub(crate) fn into_run(run: &Run, only: Option<usize>, injection: Injection) -> anyhow::Result<Run> {
    let mut run = run.clone();
    for (place, series) in run.series.iter_mut().enumerate() {
        if only.is_none_or(|only| only == place) {
            into_series(series, injection)?;
        }
    }
    Ok(run)
}

fn into_series(series: &mut Series, injection: Injection) -> anyhow::Result<()> {
    let distribution = Distribution::from_series(series)?;
    let (beyond, share) = match injection {
        Injection::All(share) => (i64::MIN, share),
        Injection::Tail(share) => {
            let rank = (distribution.count() as f64 * 0.95).ceil() as u64;
            (distribution.value_at_rank(rank).unwrap_or(i64::MAX), share)
        }
    };
    let map = |ns: i64| if ns > beyond { (ns as f64 * (1.0 + share)).round() as i64 } else { ns };
    let mut recorder = Recorder::new();
    for bucket in distribution.buckets() {
        (0..bucket.count).for_each(|_| recorder.record(map(bucket.high)));
    }
    let changed = recorder.distribution();
    (series.histogram, series.negative_histogram) = changed.to_histograms();
    series.summary = changed.summary();
    for round in &mut series.rounds {
        through(&mut round.summary, map);
    }
    Ok(())
}

fn through(summary: &mut Summary, map: impl Fn(i64) -> i64) {
    let figures = [&mut summary.min, &mut summary.p50, &mut summary.p90, &mut summary.p99, &mut summary.p999];
    figures.into_iter().chain([&mut summary.max]).flatten().for_each(|ns| *ns = map(*ns));
    let through = |interval: Interval| Interval { low: map(interval.low), high: map(interval.high) };
    summary.ci95.p50 = summary.ci95.p50.map(through);
    summary.ci95.p99 = summary.ci95.p99.map(through);
}
