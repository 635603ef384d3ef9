//! Waiting: one table per requested duration with the best method on top, and methods against conditions. What the tables
//! say stands in the head.

pub(super) mod answer;
mod interrupted;

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{POLICY, Quantity, Remedy, Run, Series, TIMER_SLACK};

use crate::document::{Align, Block, Column, Columns, Item, Note, Paint, Row, Section, Table};
use crate::family::figures::{
    Figure, Figures, Groups, Lever, SLEEPER, best, by_asked, elapsed, error, large_slack, levers, rounds_to,
    without_slack,
};
use crate::family::shared::{ALWAYS, Family, absent_note, interval_note};
use crate::family::wait::interrupted::undisturbed;
use crate::format;
use crate::format::naming::{under, usual as usual_name};
use crate::format::{Scale, distinct, grouped, naming, spoken, units};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

pub(super) const FAMILY: Family =
    Family { experiment: "wait", title: "Waiting", sections, candidates, answer: answer::answer };

/// Characters of the drawing: as many as its heading.
const DRAWING: usize = 12;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let signalled = interrupted::sections(run, series);
    let series = &interrupted::undisturbed(series)[..];
    let groups = by_asked(series);
    let mut sections: Vec<Section> = groups.iter().map(|(asked, rows)| table_section(*asked, rows)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(series)));
    }
    sections.extend(side_by_side(&groups));
    sections.extend(suggestion(run).filter(|_| !series.is_empty()));
    sections.extend(signalled);
    sections
}

fn table_section(asked: i64, series: &[&Series]) -> Section {
    let one_set = series.iter().all(|measured| measured.conditions == series[0].conditions);
    let mut heading = format!("wait {}", units::exact(asked));
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!(", {}", under(&series[0].conditions)));
    }
    let labels: Vec<&str> = series.iter().map(|measured| measured.conditions.as_str()).collect();
    let usual = usual_name(&labels);
    if let Some(usual) = &usual {
        heading.push_str(&format!(", {} unless named", under(usual)));
    }
    let scale = scale(series);
    let usual = usual.as_deref();
    let relative = series.iter().any(|series| series.quantity == Quantity::Overshoot);
    let named = |series: &&Series| match usual {
        Some(usual) if usual == series.conditions => String::new(),
        _ => series.conditions.clone(),
    };
    let columns = Columns::new()
        .left("method", ALWAYS, |series: &&Series| series.subject.clone())
        .left("conditions", ALWAYS, named)
        .only_if(!one_set)
        .count("n", 40, |series| Some(series.summary.count))
        .ns("min", 20, |series| series.summary.min)
        .estimate("p50", (ALWAYS, 60), |series| (series.summary.p50, series.summary.ci95.p50))
        .when(relative, |columns| {
            columns.known("elapsed", 6, |series| elapsed(series), units::beyond_asked).known(
                "error",
                5,
                |series| error(series),
                units::error,
            )
        })
        .ns("p90", 10, |series| series.summary.p90)
        .estimate("p99", (ALWAYS, 30), |series| (series.summary.p99, series.summary.ci95.p99))
        .summary([("p99.9", 50), ("max", 90)], |series| Some(&series.summary))
        .fine("CPU/wait", 70, |series| series.cpu_ns_per_op)
        .share("CPU", 100, |series| series.cpu_share)
        .switches("switches", 35, |series| (series.voluntary_switches_per_op, series.involuntary_switches_per_op))
        .column(Column::drawn("distribution", 80), |series| {
            let bins = scale.and_then(|scale| format::bins(series, scale, DRAWING));
            units::or_absent(bins, |bins| format::draw(&bins))
        });
    let table = columns.table(rows(series, &columns));
    let mut section = Section::new(heading).with(Block::Table(table));
    if let Some(scale) = scale {
        let ends = [scale.low_ns, scale.high_ns].map(spoken::duration);
        let text = format!("Distribution: {} to {}, logarithmic, later to the right.", ends[0], ends[1]);
        section.blocks.push(Block::Legend(vec![Note::on("distribution", text)]));
    }
    section
}

/// The scale of the drawings is that of the methods that do what was asked. A coarse one would flatten all others.
fn scale(series: &[&Series]) -> Option<Scale> {
    Scale::over(series.iter().copied().filter(|series| rounds_to(series).is_none()))
        .or_else(|| Scale::over(series.iter().copied()))
}

/// First those that wait as long as asked, then the coarse ones under what they round to. In each, the least late comes
/// first.
fn rows<'a>(series: &[&'a Series], columns: &Columns<'_, &'a Series>) -> Vec<Row> {
    let mut sorted = series.to_vec();
    sorted.sort_by_key(|series| {
        let late = |figure: Option<i64>| figure.unwrap_or(i64::MAX);
        let summary = &series.summary;
        (rounds_to(series), late(summary.p50), late(summary.p99))
    });
    let mut rows = Vec::new();
    for (rounded, group) in grouped(&sorted, |series| rounds_to(series)) {
        rows.extend(rounded.map(|ns| Row::Label(format!("rounds to {}:", units::exact(ns)))));
        let paint = if rounded.is_some() { Paint::Faint } else { Paint::Plain };
        rows.extend(group.iter().map(|series| columns.row(series, paint)));
    }
    rows
}

/// What the columns mean, each note only where its column is shown.
fn legend(series: &[&Series]) -> Vec<Note> {
    let mut notes = vec![
        Note::always("Figures are how late a wait ended: after its deadline, or beyond the duration asked for."),
        interval_note(),
        Note::on("error", "elapsed: duration asked + p50; error: p50 in per cent of the duration asked."),
        Note::on("CPU", "CPU: share of one CPU while waiting."),
        Note::on("switches", "switches: times per wait that the thread gave up the CPU + was preempted."),
        Note::on("distribution", "Height of a distribution: logarithmic, a step is half a decade."),
    ];
    notes.extend(absent_note(series.iter().copied()));
    notes
}

/// Methods against conditions: a row for each method, a column for each set of conditions. Nothing where fewer than two methods were measured under more than one set of conditions.
fn side_by_side(groups: &Groups<'_>) -> Option<Section> {
    let sets = distinct(groups.values().flatten().map(|measured| measured.conditions.as_str()));
    if sets.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    for (asked, series) in groups {
        let more = rows_of(series, &sets);
        if more.len() > 1 {
            rows.push(Row::Label(format!("{}:", units::exact(*asked))));
            rows.extend(more);
        }
    }
    if rows.is_empty() {
        return None;
    }
    // The first set is what the others are compared with: it stays longest.
    let keeps = (1..=sets.len()).rev().map(|place| u8::try_from(place).unwrap_or(ALWAYS - 1));
    let figures = sets.iter().zip(keeps).map(|(set, keep)| Column::new((*set).to_owned(), Align::Right, keep));
    let columns = [Column::left("method", ALWAYS)].into_iter().chain(figures).collect();
    let table = Block::Table(Table { columns, rows, ranking: None });
    Some(Section::new("side by side: p50 / p99").with(table))
}

/// A row for each method that was measured under more than one set, the least late first.
fn rows_of(series: &[&Series], sets: &[&str]) -> Vec<Row> {
    let exact: Vec<&Series> = series.iter().copied().filter(|measured| rounds_to(measured).is_none()).collect();
    let mut places: BTreeMap<(&str, &str), &Series> = BTreeMap::new();
    for measured in exact.iter().rev() {
        places.insert((&measured.subject, &measured.conditions), measured);
    }
    let find = |method: &str, set: &str| places.get(&(method, set)).copied();
    let mut methods = distinct(exact.iter().map(|measured| measured.subject.as_str()));
    methods.retain(|method| sets.iter().filter(|set| find(method, set).is_some()).count() > 1);
    let least = |method: &str| sets.iter().filter_map(|set| find(method, set)?.summary.p50).min().unwrap_or(i64::MAX);
    methods.sort_by_key(|method| least(method));
    let row = |method: &&str| {
        let cells = sets.iter().map(|set| find(method, set).map_or(String::new(), both));
        Row::Cells([(*method).to_owned()].into_iter().chain(cells).collect(), Paint::Plain)
    };
    methods.iter().map(row).collect()
}

/// `24.2 / 64.6 µs`, or with both units where they differ.
fn both(series: &Series) -> String {
    let (p50, p99) = (units::known(series.summary.p50), units::known(series.summary.p99));
    match (p50.split_once(' '), p99.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} / {p99}"),
        _ => format!("{p50} / {p99}"),
    }
}

/// The command that puts the one method of a run beside another one and under less timer slack. Nothing where the run has
/// several methods or sets of conditions already.
fn suggestion(run: &Run) -> Option<Section> {
    let first = run.series.first()?;
    let subject = &first.subject;
    if run.series.iter().any(|measured| measured.subject != *subject || measured.conditions != first.conditions) {
        return None;
    }
    // The name stands in a command line: one that is not a plain word is none of ours.
    if subject.is_empty() || !subject.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let other = if subject == "clock_nanosleep_abs" { "timerfd" } else { "clock_nanosleep_abs" };
    let typed = |ns: i64| units::exact(ns).replace(' ', "").replace('µ', "u");
    let asked = |measured: &Series| Some(measured.experiment.any_wait()?.parameters.asked_ns);
    let durations: BTreeSet<i64> = run.series.iter().filter_map(asked).collect();
    let durations: Vec<String> = durations.into_iter().map(typed).collect();
    let slack = run.host.timer_slack_ns.and_then(|ns| i64::try_from(ns).ok()).filter(|&ns| ns > 1).unwrap_or(50_000);
    let mut command = format!("punctual wait {subject} {other}");
    if !durations.is_empty() {
        command.push_str(&format!(" --for {}", durations.join(",")));
    }
    let item = Item {
        text: "To see what another method, or less timer slack, would change:".to_owned(),
        code: Some(format!("{command} --timer-slack {},1ns", typed(slack))),
        ..Item::default()
    };
    Some(Section::default().with(Block::Items(vec![item])))
}

/// Runs of earlier versions measured the library's sleeper beside the call that it replaces, as an experiment of its own.
pub(super) const ON_TIME: Family =
    Family { candidates, ..Family::without_answer("on_time", "Being on time", on_time_sections) };

/// The call that it is measured beside.
const CALL: &str = "clock_nanosleep_abs";

fn on_time_sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let said = |subject: &str| {
        let parts: Vec<String> = series
            .iter()
            .filter(|series| series.subject == subject)
            .filter_map(|series| on_time_part(series))
            .collect();
        (!parts.is_empty()).then(|| parts.join("; by "))
    };
    let Some(ours) = said(SLEEPER) else { return Vec::new() };
    let mut text = format!("The library's sleeper ({SLEEPER}) is late by {ours}.");
    if let Some(theirs) = said(CALL) {
        text.push_str(&format!(" Interleaved with it, {CALL} by {theirs}."));
    }
    vec![Section::new("on time").with(Block::Paragraph(text))]
}

/// How late one wait is and what it costs.
fn on_time_part(series: &Series) -> Option<String> {
    let asked = spoken::exact(series.experiment.any_wait()?.parameters.asked_ns);
    let p50 = spoken::duration(series.summary.p50?);
    let p99 = series.summary.p99.map(|ns| format!(" ({} at p99)", spoken::duration(ns)));
    let cpu = series.cpu_share.map(|share| format!(" at {} of a CPU", spoken::share(share)));
    Some(format!("{p50}{} for {asked}{}", p99.unwrap_or_default(), cpu.unwrap_or_default()))
}

// The remedies for late wake-ups that a run can judge: conditions, timers without slack, absolute deadlines, the
// library's sleeper, spinning.

/// The same for a program as it is.
const PRECISE: &str = "punctual run --precise-sleep -- PROGRAM";
/// The cause that timer slack is.
const SLACK: &str = "timer slack";

/// Those of all durations.
pub(in crate::family) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let of_duration = |(asked, series): (i64, Vec<&'a Series>)| {
        let figures = Figures::new(run, asked, &series);
        let mut all = conditions(&figures);
        all.extend(timer(&figures));
        all.extend(absolute(&figures));
        all.extend(awake(&figures));
        all
    };
    by_asked(&undisturbed(series)).into_iter().flat_map(of_duration).collect()
}

/// The changes of conditions that these figures can judge.
pub(in crate::family) fn conditions<'a>(figures: &Figures<'a>) -> Vec<Candidate<'a>> {
    levers(figures).iter().filter_map(|lever| condition(figures, lever)).collect()
}

fn trial<'a>(figures: &Figures<'a>, before: &Figure<'a>, after: &Figure<'a>) -> Trial<'a> {
    Trial { case: figures.asked_ns, name: units::exact, before: before.series, after: after.series }
}

/// A change of conditions, shown by the call that programs use most.
fn condition<'a>(figures: &Figures<'a>, lever: &Lever<'_, 'a>) -> Option<Candidate<'a>> {
    let (from, to) = lever.leader()?;
    let setting = lever.setting;
    let slack = setting.condition == TIMER_SLACK || (setting.condition == POLICY && large_slack(lever.from).is_some());
    let remedy = Remedy::of_setting(setting);
    let (price, code) = remedy.map(|remedy| (remedy.price, remedy.code)).unwrap_or_default();
    let (what, instead_of) = (naming::phrase(&setting.phrase), lever.from.label.clone());
    Some(Candidate {
        id: format!("{} {}", setting.condition, lever.name()),
        cause: if slack { SLACK.to_owned() } else { setting.condition.clone() },
        price,
        code,
        ..Candidate::instead(Goal::WakeOnTime, what, instead_of, trial(figures, from, to))
    })
}

/// A timer without slack instead of a sleeping call, under the same conditions.
fn timer<'a>(figures: &Figures<'a>) -> Option<Candidate<'a>> {
    let (from, to) = without_slack(figures)?;
    Some(Candidate {
        cause: SLACK.to_owned(),
        price: Price { program: Some("a file descriptor".to_owned()), ..Price::default() },
        ..call(figures, from, to)
    })
}

/// An absolute deadline instead of a duration, by the same call under the same conditions.
fn absolute<'a>(figures: &Figures<'a>) -> Option<Candidate<'a>> {
    let relative = |to: &Figure<'_>| {
        let name = to.series.about.relative.as_deref()?;
        let same = |row: &&Figure<'_>| row.conditions == to.conditions && row.series.subject == name;
        figures.sleeping().filter(same).find(|row| row.series.quantity == Quantity::Overshoot)
    };
    let to = figures.sleeping().find(|row| row.series.quantity == Quantity::Lateness && relative(row).is_some())?;
    Some(Candidate { cause: "relative durations".to_owned(), ..call(figures, relative(to)?, to) })
}

/// One call instead of another.
fn call<'a>(figures: &Figures<'a>, from: &Figure<'a>, to: &Figure<'a>) -> Candidate<'a> {
    let code = Code::of_series(&to.series.about, to.about.code.clone());
    let (what, instead_of) = (to.subject.clone(), from.subject.clone());
    Candidate { code, ..Candidate::instead(Goal::WakeOnTime, what, instead_of, trial(figures, from, to)) }
}

/// Spinning for the last part of a wait, by the library's sleeper. Where that was not measured, spinning for all of it.
fn awake<'a>(figures: &Figures<'a>) -> Option<Candidate<'a>> {
    let from = figures.reference()?;
    let like = |row: &&Figure<'_>| row.conditions == from.conditions;
    if let Some(to) = figures.exact().filter(like).find(|row| row.subject == SLEEPER) {
        let call = call(figures, from, to);
        return Some(Candidate {
            id: "sleeper".to_owned(),
            what: "punctual::Sleeper".to_owned(),
            price: Price { program: Some("the crate punctual".to_owned()), ..Price::default() },
            code: Code { shell: Some(PRECISE.to_owned()), ..call.code },
            ..call
        });
    }
    let to = best(figures.exact().filter(like).filter(|row| row.sleeps() == Some(false)))?;
    Some(Candidate { id: "spinning".to_owned(), cause: "spinning".to_owned(), ..call(figures, from, to) })
}
