//! Waits that signals cut short: how many, what the call says is left, and how late they end once continued.

use std::collections::BTreeMap;

use punctual_record::experiment::wait;
use punctual_record::{Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::at_p50;
use crate::format::{listed, spoken, unbroken, units};
use crate::verdict::Answer;

use super::super::shared::{ALWAYS, Measured, interval_note, measured};

type Cut<'a> = Measured<'a, wait::Parameters, wait::Metrics>;

/// What was asked: the wait, and from one signal to the next.
type Asked = (i64, i64);

/// Most methods in a sentence: all that can be interrupted.
const NAMES: usize = 5;
/// The call that continues with its remainder, and the one that continues to its deadline.
const REMAINDER: &str = "nanosleep";
const DEADLINE: &str = "clock_nanosleep_abs";

/// The series that no signal interrupts.
pub(super) fn undisturbed<'a>(series: &[&'a Series]) -> Vec<&'a Series> {
    series.iter().copied().filter(|wait| period(wait).is_none()).collect()
}

fn period(series: &Series) -> Option<i64> {
    series.experiment.any_wait()?.parameters.interrupt_ns
}

fn groups<'a>(series: &[&'a Series]) -> BTreeMap<Asked, Vec<Cut<'a>>> {
    let mut groups: BTreeMap<Asked, Vec<Cut<'a>>> = BTreeMap::new();
    for cut in measured(series, |experiment| experiment.any_wait()) {
        if let Some(period) = cut.parameters.interrupt_ns {
            groups.entry((cut.parameters.asked_ns, period)).or_default().push(cut);
        }
    }
    groups
}

/// A table for each wait and period.
pub(super) fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let section = |((asked, period), cuts): (Asked, Vec<Cut<'_>>)| {
        let heading = format!("wait {}, a signal every {}", units::exact(asked), units::exact(period));
        Section::new(heading).with(Block::Table(table(&cuts)))
    };
    let mut sections: Vec<Section> = groups(series).into_iter().map(section).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend()));
    }
    sections
}

fn table(cuts: &[Cut<'_>]) -> Table {
    Columns::new()
        .left("method", ALWAYS, |cut: &Cut<'_>| cut.subject.clone())
        .left("conditions", ALWAYS, |cut| cut.conditions.clone())
        .only_if(cuts.iter().any(|cut| cut.conditions != cuts[0].conditions))
        .count("n", 20, |cut| Some(cut.summary.count))
        .share("cut short", ALWAYS, |cut| cut.metrics.cut_short_share)
        .ns("remainder error", 90, |cut| cut.metrics.remainder_error_ns)
        .share("given up", 80, |cut| cut.metrics.given_up_share)
        .estimate("p50", (ALWAYS, 40), |cut| (cut.summary.p50, cut.summary.ci95.p50))
        .ns("p99", ALWAYS, |cut| cut.summary.p99)
        .plain(cuts)
}

fn legend() -> Vec<Note> {
    vec![
        Note::always("Each wait continues after a signal with what the call says is left, or to the same deadline."),
        Note::always("p50, p99: how late the whole wait ends; negative: early."),
        interval_note(),
        Note::on("cut short", "cut short: share of waits whose first call a signal ended before its time."),
        Note::on("remainder error", "remainder error: what that call says is left minus what is left, at the median."),
        Note::on("given up", "given up: share of waits given up at ten times their length."),
    ]
}

/// What signals make of the first of these waits: sentences, and a table.
pub(super) fn answer(run: &Run, series: &[&Series]) -> Option<Answer> {
    let (asked, cuts) = groups(series).into_iter().next()?;
    let base = cuts.first()?.series.conditions.as_str();
    let cuts_here: Vec<Cut<'_>> = cuts.iter().copied().filter(|cut| cut.series.conditions == base).collect();
    let said = [shares(asked, &cuts_here), lost(&cuts_here), drift(run, &cuts_here), given_up(&cuts_here)];
    Some(Answer { table: Some(table(&cuts)), ..Answer::in_words(said.into_iter().flatten().collect()) })
}

/// `Signals every 50 µs cut waits of 100 µs short: 99 % by nanosleep; 98 % by usleep.`
fn shares((asked, period): Asked, cuts: &[Cut<'_>]) -> Option<String> {
    let known: Vec<_> = cuts.iter().filter_map(|cut| Some((cut, cut.metrics.cut_short_share?))).collect();
    let [asked, period] = [asked, period].map(spoken::exact);
    let parts = known.iter().filter(|(_, share)| *share > 0.0).map(|(cut, share)| (*share, *cut));
    let parts = by_share(parts);
    match (known.is_empty(), parts.is_empty()) {
        (true, _) => None,
        (_, true) => Some(format!("Signals every {period} cut no wait of {asked} short.")),
        _ => Some(format!("Signals every {period} cut waits of {asked} short: {parts}.")),
    }
}

/// `100 % by usleep and nanosleep; 16 % by sleep`: calls of one share together, the largest first.
fn by_share<'c>(parts: impl Iterator<Item = (f64, &'c Cut<'c>)>) -> String {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let parts: Vec<_> = parts.iter().map(|(share, cut)| (units::share(*share), cut.subject.clone())).collect();
    let alike = parts.chunk_by(|(one, _), (other, _)| one == other).map(|alike| {
        let names: Vec<String> = alike.iter().map(|(_, name)| name.clone()).collect();
        format!("{} by {}", unbroken(&alike[0].0), listed(&names, NAMES))
    });
    alike.collect::<Vec<_>>().join("; ")
}

/// `Without a remainder the wait ends early (p50): 50.1 µs by usleep.` Only where the whole interval of p50 is early.
fn lost(cuts: &[Cut<'_>]) -> Option<String> {
    let early = |cut: &&Cut<'_>| cut.summary.ci95.p50.is_some_and(|interval| interval.high < 0);
    let part = |cut: &Cut<'_>| {
        let early = spoken::duration(cut.summary.p50?.saturating_neg());
        Some(format!("{early} by {}", cut.subject))
    };
    let parts: Vec<String> = cuts.iter().filter(early).filter_map(part).collect();
    (!parts.is_empty()).then(|| format!("Without a remainder the wait ends early (p50): {}.", listed(&parts, NAMES)))
}

/// What a restart with the remainder costs against a restart to the deadline, tested by rounds.
fn drift(run: &Run, cuts: &[Cut<'_>]) -> Option<String> {
    let find = |name: &str| cuts.iter().find(|cut| cut.subject == name).map(|cut| cut.series);
    let (before, after) = (find(DEADLINE)?, find(REMAINDER)?);
    let effect = at_p50(run, [[before, after]]).pop()?;
    let loss = spoken::duration(effect.worse()?.ns);
    Some(format!("{REMAINDER} restarted with its remainder ends {loss} later than {DEADLINE} restarted (p50)."))
}

/// `Waits not over after ten times their length: 95 % by nanosleep.`
fn given_up<'a>(cuts: &'a [Cut<'a>]) -> Option<String> {
    let part = |cut: &'a Cut<'a>| Some((cut.metrics.given_up_share.filter(|share| *share > 0.0)?, cut));
    let parts = by_share(cuts.iter().filter_map(part));
    (!parts.is_empty()).then(|| format!("Waits not over after ten times their length: {parts}."))
}
