//! The boost: deadlines met as the machine is, with the speed raised around each activation, and at full speed all the time, and at what cost.

use punctual_record::{Param, Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Item, Note, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words::int;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "boost", sections, advice: |_, _, _| Advice::default() };

/// The subjects, by their names in the record.
const AS_FOUND: &str = "as found";
const BOOST: &str = "boost";
const PERFORMANCE: &str = "performance";
/// Full speed as the kernel showed it that is so much below the upper limit is worth a word: 5 %.
const SHORT_OF_LIMIT: f64 = 0.95;

const COLUMNS: [Column; 9] = [
    Column::left("speed", Column::ALWAYS),
    Column::right("met", Column::ALWAYS),
    Column::right("p50", Column::ALWAYS),
    Column::joined("[95 %]", 40),
    Column::right("p99", 60),
    Column::right("max", Column::ALWAYS),
    Column::right("clock", 75),
    Column::right("power", 70),
    Column::right("CPU time", 50),
];

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let Some(first) = series.first() else { return Vec::new() };
    let figure = |name| int(first, name).map_or_else(|| style.absent().to_owned(), |ns| units::exact(ns, style));
    let on = int(first, "cpu").map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let heading = format!(
        "boost: {} of fixed work every {}{on}, due after {}, under {}",
        figure("work_ns"),
        figure("period_ns"),
        figure("deadline_ns"),
        conditions(run, &first.conditions, style)
    );
    let rows = series.iter().map(|series| Row::Cells(cells(series, style), Paint::Plain)).collect();
    let table = Block::Table(Table { columns: COLUMNS.to_vec(), rows });
    let legend = Block::Legend(vec![
        Note::always("p50, p99, max: response time, from the activation to the end of its work. met: deadlines."),
        Note::on("clock", "clock: mean frequency, from the time that the kernel counted at each, idle time included."),
        Note::on("power", "power: of all packages, as the CPU counts it (RAPL)."),
        Note::on(
            "CPU time",
            "CPU time: of the thread per activation; a boost's loops before activations, by which it learns, are in it.",
        ),
    ]);
    let mut sections = vec![Section::new(heading).with(table).with(legend)];
    let items: Vec<Item> = words(series, style).into_iter().map(|text| Item { text, code: None }).collect();
    if !items.is_empty() {
        sections.push(Section::default().with(Block::Items(items)));
    }
    sections
}

fn cells(series: &Series, style: &Style) -> Vec<String> {
    let summary = &series.summary;
    let absent = || style.absent().to_owned();
    let figure = |ns: Option<i64>| ns.map_or_else(absent, |ns| units::duration(ns, style));
    let interval = match (summary.p50, summary.ci95.p50) {
        (Some(p50), Some(interval)) => units::interval_like(interval, p50),
        _ => String::new(),
    };
    let name = match (series.subject.as_str(), series.parameters.get("governor")) {
        (AS_FOUND, Some(Param::Text(governor))) => format!("{AS_FOUND} ({})", plain(governor, style)),
        (subject, _) => plain(subject, style),
    };
    vec![
        name,
        met(series),
        figure(summary.p50),
        interval,
        figure(summary.p99),
        figure(summary.max),
        outcome(series, "mean_khz").map_or_else(absent, |khz| ghz(khz as i64)),
        outcome(series, "power_mw").map_or_else(absent, |mw| format!("{:.2} W", mw / 1e3)),
        series.cpu_ns_per_op.map_or_else(absent, |ns| units::duration(ns.round() as i64, style)),
    ]
}

fn outcome(series: &Series, name: &str) -> Option<f64> {
    match series.outcome.get(name)? {
        Param::Int(n) => Some(*n as f64),
        Param::Real(n) => Some(*n),
        _ => None,
    }
}

/// `99 of 100`.
fn met(series: &Series) -> String {
    let met = outcome(series, "met").unwrap_or(0.0) as u64;
    format!("{} of {}", units::count(met), units::count(series.summary.count))
}

fn ghz(khz: i64) -> String {
    format!("{:.2} GHz", khz as f64 / 1e6)
}

/// What is to be said: what the boost was, what it was good for, and where each was in time.
fn words(series: &[&Series], style: &Style) -> Vec<String> {
    let of = |name: &str| series.iter().copied().find(|series| series.subject == name);
    let mut said = Vec::new();
    if let Some(boost) = of(BOOST) {
        said.push(how(boost, style));
        said.extend(full_speed(boost));
        said.extend(worth(boost, of(AS_FOUND), of(PERFORMANCE)));
    }
    let states =
        series.iter().filter_map(|series| Some(format!("{}: {}", plain(&series.subject, style), states(series)?)));
    let states: Vec<String> = states.collect();
    if !states.is_empty() {
        said.push(format!("Time at each frequency, idle time included. {}.", states.join("; ")));
    }
    said
}

/// By what, how early, and what that took.
fn how(boost: &Series, style: &Style) -> String {
    let lever = match boost.outcome.get("lever") {
        Some(Param::Text(lever)) => plain(lever, style),
        _ => "an unknown lever".to_owned(),
    };
    let time = |name: &str| {
        outcome(boost, name)
            .map_or_else(|| style.absent().to_owned(), |ns| unbroken(&units::duration(ns.round() as i64, style)))
    };
    let share = |name: &str| outcome(boost, name).map_or_else(|| style.absent().to_owned(), units::share);
    format!(
        "The boost used the {lever}, raised {} before each activation, as it learned; each raising and letting go took {}, and the speed \
         was raised for {} of the time. Learning took {} of the time.",
        time("lead_ns"),
        time("switching_ns"),
        share("raised_share"),
        share("learning_share")
    )
}

/// Where full speed was not what it should be, or not there in time.
fn full_speed(boost: &Series) -> Vec<String> {
    let mut said = Vec::new();
    let (learned, short) = (outcome(boost, "learned"), outcome(boost, "not_at_full_speed"));
    if let (Some(learned), Some(short)) = (learned, short.filter(|n| *n > 0.0)) {
        said.push(format!(
            "Before {short} of {learned} activations that were looked at, full speed was not there in time."
        ));
    }
    let limits = outcome(boost, "full_khz").zip(int(boost, "max_khz"));
    if let Some((full, max)) = limits.filter(|(full, max)| *full < *max as f64 * SHORT_OF_LIMIT) {
        let (full, max) = (ghz(full as i64), ghz(max));
        said.push(format!("While raised, the kernel showed {full} of {max}: another lever may do more (--by)."));
    }
    said
}

/// Deadlines beside the others'.
fn worth(boost: &Series, found: Option<&Series>, performance: Option<&Series>) -> Vec<String> {
    let share =
        |series: &Series| outcome(series, "met").map(|met| met / (series.summary.count.max(1) as f64)).unwrap_or(0.0);
    let Some(found) = found else { return Vec::new() };
    let beside = performance.map_or(String::new(), |series| format!("; performance all the time {}", met(series)));
    if share(found) >= share(boost) {
        return vec![format!(
            "It met no more deadlines than without it: {} against {}{beside}. On this machine a boost is not worth its price for this task.",
            met(boost),
            met(found)
        )];
    }
    vec![format!("Deadlines met: {} with the boost, {} without{beside}.", met(boost), met(found))]
}

/// `1.00 GHz 93 %, 3.00 GHz 7 %`, the lowest first.
fn states(series: &Series) -> Option<String> {
    let state = |(name, share): (&String, &Param)| {
        let khz: i64 = name.strip_prefix("khz_")?.strip_suffix("_share")?.parse().ok()?;
        match share {
            Param::Real(share) => Some((khz, *share)),
            _ => None,
        }
    };
    let mut states: Vec<(i64, f64)> = series.outcome.iter().filter_map(state).collect();
    states.sort_by_key(|(khz, _)| *khz);
    let text: Vec<String> =
        states.iter().map(|(khz, share)| unbroken(&format!("{} {}", ghz(*khz), units::share(*share)))).collect();
    (!text.is_empty()).then(|| text.join(", "))
}
