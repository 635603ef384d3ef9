//! The call site that loses most time, and the one that wastes most CPU time.

use punctual_record::{Quantity, Run, Series};

use crate::format::{sanitize, spoken, unbroken, units};
use crate::verdict::{Advice, Answer};

use super::site::{Site, sites};
use super::table::table;

/// Rows of the first screen.
const ROWS: usize = 6;
/// Fewer calls are no habit.
const FEWEST: u64 = 100;
/// Fewer timed calls do not show what a call costs.
const FEWEST_TIMED: u64 = 20;
/// The least part of the run that is worth a sentence: 1 %.
const LEAST: f64 = 0.01;

pub(super) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let mut sites = sites(series);
    let Some(first) = sites.first() else { return Answer::default() };
    let sentences: Vec<String> =
        [latest(&sites).or_else(|| none_late(&sites)), wasted(run, &sites)].into_iter().flatten().collect();
    // Calls that are never late are of interest where no other is.
    let late = first.late().is_some();
    if late {
        sites.retain(|site| site.late().is_some());
    }
    Answer { table: Some(table(&sites, !late, ROWS)), ..Answer::of(sentences) }
}

/// `usleep`, called from `waits:sleeps`.
fn name(site: &Site<'_>) -> String {
    format!("{} in {}", sanitize(&site.first.series.subject), sanitize(&site.first.parameters.site))
}

/// The call site that loses most time by lateness.
fn latest(sites: &[Site<'_>]) -> Option<String> {
    let late = sites.iter().filter(|site| site.late().is_some_and(|late| late.summary.p50.is_some()));
    let site = late.max_by_key(|site| site.metrics().late_total_ns)?;
    let summary = &site.late()?.summary;
    let total =
        site.metrics().late_total_ns.map_or(String::new(), |total| format!(", {} in all", spoken::duration(total)));
    let p50 = spoken::duration(summary.p50?);
    let p99 = summary.p99.map_or(String::new(), |p99| format!(", p99 {}", spoken::duration(p99)));
    let count = units::count(summary.count);
    Some(format!("{} is {p50} late (p50 of {count} waits{p99}){total}.", name(site)))
}

/// That no wait reached the end of its time, where there were waits and that was counted.
fn none_late(sites: &[Site<'_>]) -> Option<String> {
    let waits = |site: &Site<'_>| site.of(Quantity::Away).is_some_and(|its| its.summary.count > 0);
    if !sites.iter().any(waits) {
        return None;
    }
    let sum = |of: fn(&Site<'_>) -> Option<u64>| {
        sites.iter().try_fold(0_u64, |sum, site| Some(sum.saturating_add(of(site)?)))
    };
    let (calls, expired) = (sum(|site| site.metrics().calls)?, sum(|site| site.metrics().expired)?);
    (calls > 0 && expired == 0)
        .then(|| format!("None of {} calls waited until the end of its time, so none was late.", units::count(calls)))
}

/// The call site that uses most CPU time to find nothing, or to yield to nobody.
fn wasted(run: &Run, sites: &[Site<'_>]) -> Option<String> {
    let waste = |site: &Site<'_>| {
        let metrics = site.metrics();
        let timed = site.of(Quantity::CallCost)?.summary.count;
        let share = metrics.let_run_share.filter(|share| share.is_finite());
        let calls = match share {
            Some(share) => (metrics.calls? as f64 * (1.0 - share.clamp(0.0, 1.0))).round() as u64,
            None => metrics.nothing?,
        };
        let cpu_ns = calls as f64 * site.looks_cpu_ns()?;
        let much = cpu_ns >= LEAST * run.elapsed_ns as f64;
        (much && calls >= FEWEST && timed >= FEWEST_TIMED).then_some((cpu_ns, calls, share.is_some()))
    };
    let all = sites.iter().filter_map(|site| Some((site, waste(site)?)));
    let (site, (cpu_ns, calls, yields)) = all.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (calls, cpu) = (unbroken(&format!("{} times", units::count(calls))), spoken::fine(cpu_ns));
    Some(if yields {
        format!(
            "{} gives the CPU to no other thread about {calls}: {cpu} of CPU time (one yield in 64 is timed).",
            name(site)
        )
    } else {
        format!("{} finds nothing {calls}: about {cpu} of CPU time (one call in 64 is timed).", name(site))
    })
}
