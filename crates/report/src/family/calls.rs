//! The waits of a program by call site: a table as that of watched programs, the call site that loses most time, and the one
//! that wastes most CPU time.

use punctual_record::experiment::calls::{Metrics, Parameters};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::family::shared::{ALWAYS, Family, Measured, measured};
use crate::format::{grouped, spoken, unbroken, units};
use crate::verdict::{Advice, Answer};

pub(super) const FAMILY: Family =
    Family { answer, ..Family::without_answer("calls", "Waits of the program", sections) };

/// Most rows of the report.
const MOST_ROWS: usize = 300;

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let sites = sites(series);
    if sites.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![
        Note::always("Calls through the C library, by the place that makes them. n: calls that began."),
        Note::on(
            "late p50",
            "late: from the end of the time asked to the return of the call, of the calls whose time was over; percentiles to 2\u{a0}%, min and max exact.",
        ),
        Note::on(
            "found nothing",
            "found nothing: calls without waiting that found nothing to do; event: calls that one ended, or that found one.",
        ),
        Note::on(
            "CPU",
            "CPU: mean CPU time of a call, from one wait in 8 and one look in 64. It contains the reading of a clock.",
        ),
    ];
    if sites.iter().any(|site| site.metrics().let_run_share.is_some()) {
        let text = "let run: yields during which another thread ran, from one yield in 64.";
        notes.push(Note::on("let run", text));
    }
    vec![
        Section::new("Waits by call site")
            .with(Block::Table(table(&sites, true, MOST_ROWS)))
            .with(Block::Legend(notes)),
    ]
}

/// Rows of the first screen.
const ROWS: usize = 6;
/// Fewer calls are no habit.
const FEWEST: u64 = 100;
/// Fewer timed calls do not show what a call costs.
const FEWEST_TIMED: u64 = 20;
/// The least part of the run that is worth a sentence: 1 %.
const LEAST: f64 = 0.01;

fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let mut sites = sites(series);
    let Some(first) = sites.first() else { return Answer::default() };
    let sentences: Vec<String> =
        [latest(&sites).or_else(|| none_late(&sites)), wasted(run, &sites)].into_iter().flatten().collect();
    // Calls that are never late are of interest where no other is.
    let late = first.late().is_some();
    if late {
        sites.retain(|site| site.late().is_some());
    }
    Answer { table: Some(table(&sites, !late, ROWS)), ..Answer::in_words(sentences) }
}

/// `usleep`, called from `waits:sleeps`.
fn name(site: &Site<'_>) -> String {
    format!("{} in {}", site.first.series.subject, site.first.parameters.site)
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
    let waits = |site: &Site<'_>| site.measured(Quantity::Away).is_some_and(|away| away.summary.count > 0);
    if !sites.iter().any(waits) {
        return None;
    }
    let sum = |count: fn(&Site<'_>) -> Option<u64>| {
        sites.iter().try_fold(0_u64, |sum, site| Some(sum.saturating_add(count(site)?)))
    };
    let (calls, expired) = (sum(|site| site.metrics().calls)?, sum(|site| site.metrics().expired)?);
    (calls > 0 && expired == 0)
        .then(|| format!("None of {} calls waited until the end of its time, so none was late.", units::count(calls)))
}

/// The call site that uses most CPU time to find nothing, or to yield to nobody.
fn wasted(run: &Run, sites: &[Site<'_>]) -> Option<String> {
    let waste = |site: &Site<'_>| {
        let metrics = site.metrics();
        let timed = site.measured(Quantity::CallCost)?.summary.count;
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

type Counted<'a> = Measured<'a, Parameters, Metrics>;

/// A call site: its series by quantity. The first has the metrics.
struct Site<'a> {
    first: Counted<'a>,
    all: Vec<Counted<'a>>,
}

impl<'a> Site<'a> {
    fn measured(&self, quantity: Quantity) -> Option<Counted<'a>> {
        self.all.iter().copied().find(|series| series.quantity == quantity)
    }

    fn late(&self) -> Option<Counted<'a>> {
        self.measured(Quantity::Lateness)
    }

    fn metrics(&self) -> &'a Metrics {
        self.first.metrics
    }

    /// CPU time per call that only looks.
    fn looks_cpu_ns(&self) -> Option<f64> {
        self.measured(Quantity::CallCost)?.cpu_ns_per_op.filter(|ns| ns.is_finite() && *ns >= 0.0)
    }
}

/// The call sites, in the order of their first series.
fn sites<'a>(series: &[&'a Series]) -> Vec<Site<'a>> {
    let all = measured(series, Experiment::calls);
    let name = |one: &Counted<'a>| {
        (&one.parameters.program, &one.series.subject, &one.parameters.site, &one.series.conditions)
    };
    let groups = grouped(&all, name).into_iter();
    groups.filter_map(|(_, all)| Some(Site { first: *all.first()?, all })).collect()
}

/// The columns of `why`, with the call site.
fn table(sites: &[Site<'_>], full: bool, most: usize) -> Table {
    let one_program = sites.iter().all(|site| site.first.parameters.program == sites[0].first.parameters.program);
    let late = sites.iter().any(|site| site.late().is_some());
    let yields = sites.iter().any(|site| site.metrics().let_run_share.is_some());
    Columns::new()
        .left("program", 60, |site: &Site<'_>| site.first.parameters.program.clone())
        .only_if(!one_program)
        .left("call", ALWAYS, |site| site.first.series.subject.clone())
        .left("call site", ALWAYS, |site| site.first.parameters.site.clone())
        .count("n", ALWAYS, |site| site.metrics().calls)
        .when(full, |columns| {
            columns
                .count("found nothing", 35, |site| site.metrics().nothing)
                .count("event", 30, |site| site.metrics().events)
        })
        .share("let run", 25, |site| site.metrics().let_run_share)
        .only_if(full && yields)
        .known("asked", 50, |site| site.metrics().asked_p50_ns, units::duration)
        .only_if(sites.iter().any(|site| site.metrics().asked_p50_ns.is_some()))
        .when(late, |columns| {
            columns.summary([("late p50", ALWAYS), ("p99", 90)], |site| Some(&site.late()?.series.summary))
        })
        .ns("max", 70, |site| site.late()?.summary.max)
        .only_if(late && full)
        .ns("event after", 20, |site| site.measured(Quantity::Away)?.summary.p50)
        .only_if(full && sites.iter().any(|site| site.measured(Quantity::Away).is_some()))
        .fine("CPU", 40, |site| site.first.cpu_ns_per_op.filter(|ns| ns.is_finite()))
        .first(most, sites, "call sites")
}
