//! Pacing: how well each method kept a rate, what a sweep found as the highest rate held, what a receiver saw.

use punctual_record::{Param, Quantity, Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Note, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words::listed;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "pace", sections, advice: |_, _, _| Advice::default() };

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let (received, sent): (Vec<&Series>, Vec<&Series>) = series.iter().partition(|s| s.subject == "receive");
    let (swept, kept): (Vec<&Series>, Vec<&Series>) =
        sent.into_iter().partition(|s| s.outcome.contains_key("highest_rate_held"));
    let mut sections = Vec::new();
    for (key, group) in by_task(&kept) {
        sections.push(kept_section(run, &key, &group, style));
    }
    if !swept.is_empty() {
        sections.push(swept_section(run, &swept, style));
    }
    for (rate, group) in by_rate(&received) {
        sections.extend(received_section(rate, &group, style));
    }
    sections
}

/// A number from the outcome.
fn number(series: &Series, name: &str) -> Option<f64> {
    match series.outcome.get(name)? {
        Param::Int(n) => Some(*n as f64),
        Param::Real(n) => Some(*n),
        _ => None,
    }
}

/// A word from the outcome or the parameters.
fn word<'a>(from: &'a std::collections::BTreeMap<String, Param>, name: &str) -> Option<&'a str> {
    match from.get(name)? {
        Param::Text(text) => Some(text),
        _ => None,
    }
}

/// The nominal rate.
fn rate_of(series: &Series) -> f64 {
    match series.parameters.get("rate_per_second") {
        Some(Param::Real(rate)) => *rate,
        Some(Param::Int(rate)) => *rate as f64,
        _ => 0.0,
    }
}

/// A rate with at most three decimals and thousands set apart: `15 000`, `0.5`.
fn rate_text(rate: f64) -> String {
    if rate >= 1_000.0 {
        return units::count(rate.round().clamp(0.0, 1e18) as u64);
    }
    let text = format!("{rate:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a run was to do: rate, and where to.
type Task = (u64, String);

fn by_task<'a>(series: &[&'a Series]) -> Vec<(Task, Vec<&'a Series>)> {
    let mut groups: Vec<(Task, Vec<&'a Series>)> = Vec::new();
    for &series in series {
        let size = match series.parameters.get("size") {
            Some(Param::Int(size)) => format!(", {size} bytes each"),
            _ => String::new(),
        };
        let to = word(&series.parameters, "to").unwrap_or_default();
        let task = (rate_of(series).to_bits(), format!("{to}{size}"));
        match groups.iter_mut().find(|(its, _)| *its == task) {
            Some((_, list)) => list.push(series),
            None => groups.push((task, vec![series])),
        }
    }
    groups
}

fn by_rate<'a>(series: &[&'a Series]) -> Vec<(f64, Vec<&'a Series>)> {
    let mut groups: Vec<(f64, Vec<&'a Series>)> = Vec::new();
    for &series in series {
        let rate = rate_of(series);
        match groups.iter_mut().find(|(its, _)| its.to_bits() == rate.to_bits()) {
            Some((_, list)) => list.push(series),
            None => groups.push((rate, vec![series])),
        }
    }
    groups
}

/// The series of the same trials with another quantity, measured at that end.
fn beside<'a>(all: &[&'a Series], of: &Series, quantity: Quantity, measured: &str) -> Option<&'a Series> {
    all.iter().copied().find(|s| {
        s.quantity == quantity
            && s.subject == of.subject
            && s.conditions == of.conditions
            && word(&s.parameters, "measured") == Some(measured)
    })
}

const COLUMNS: [Column; 16] = [
    Column::left("method", Column::ALWAYS),
    Column::left("conditions", 95),
    Column::right("n", 20),
    Column::right("rate reached", Column::ALWAYS),
    Column::right("of asked", 80),
    Column::right("drift [95 %]", 72),
    Column::right("late p50", Column::ALWAYS),
    Column::right("p99", Column::ALWAYS),
    Column::right("max", 60),
    Column::right("jitter p50", 70),
    Column::right("p99", 65),
    Column::right("CPU", 90),
    Column::right("not sent", 75),
    Column::right("lost", 74),
    Column::right("one-way p50", 40),
    Column::right("p99", 35),
];

fn figure(ns: Option<i64>, style: &Style) -> String {
    ns.map_or_else(|| style.absent().to_owned(), |ns| units::duration(ns, style))
}

fn kept_section(run: &Run, (rate, to): &Task, series: &[&Series], style: &Style) -> Section {
    let rate = f64::from_bits(*rate);
    let heading = format!("pace {} a second, {}", rate_text(rate), plain(to, style));
    let mut rows: Vec<&Series> = series.iter().copied().filter(|s| s.quantity == Quantity::Lateness).collect();
    // The rate counts first: what does not hold it is late without end.
    rows.sort_by_key(|s| {
        let misses = number(s, "rate_share").map_or(i64::MAX, |share| ((share - 1.0).abs() * 100.0) as i64);
        (misses, s.summary.p99.unwrap_or(i64::MAX))
    });
    let table =
        Table { columns: COLUMNS.to_vec(), rows: rows.iter().map(|s| kept_row(run, s, series, style)).collect() };
    let mut section = Section::new(heading).with(Block::Table(table)).with(Block::Legend(kept_legend(&rows)));
    section.blocks.extend(kept_words(rate, &rows, style).map(Block::Paragraph));
    section
}

fn kept_row(run: &Run, series: &Series, all: &[&Series], style: &Style) -> Row {
    let absent = || style.absent().to_owned();
    let count = |name: &str| number(series, name).map_or_else(absent, |n| units::count(n.max(0.0) as u64));
    let jitter = beside(all, series, Quantity::PeriodJitter, "departure").map(|s| &s.summary);
    let one_way = beside(all, series, Quantity::OneWay, "arrival").map(|s| &s.summary);
    let cells = vec![
        plain(&series.subject, style),
        conditions(run, &series.conditions, style),
        units::count(series.summary.count),
        number(series, "rate_reached").map_or_else(absent, rate_text),
        number(series, "rate_share").map_or_else(absent, |share| format!("{:.2} %", share * 100.0)),
        drift(series).map_or_else(absent, drift_text),
        figure(series.summary.p50, style),
        figure(series.summary.p99, style),
        figure(series.summary.max, style),
        figure(jitter.and_then(|s| s.p50), style),
        figure(jitter.and_then(|s| s.p99), style),
        series.cpu_share.map_or_else(absent, units::share),
        count("not_sent"),
        count("lost"),
        figure(one_way.and_then(|s| s.p50), style),
        figure(one_way.and_then(|s| s.p99), style),
    ];
    Row::Cells(cells, Paint::Plain)
}

/// How much later departures get, in ppm, and its 95 % interval.
fn drift(series: &Series) -> Option<(f64, Option<(f64, f64)>)> {
    let between = number(series, "drift_ppm_low").zip(number(series, "drift_ppm_high"));
    number(series, "drift_ppm").map(|ppm| (ppm, between))
}

/// `0.2 ppm [-0.1 to 0.4]`, and from a thousandth on in per cent: `210 %`.
fn drift_text((ppm, between): (f64, Option<(f64, f64)>)) -> String {
    let (divisor, unit) = if ppm.abs() < 1_000.0 { (1.0, "ppm") } else { (1e4, "%") };
    let number = |ppm: f64| {
        let number = ppm / divisor;
        let decimals = usize::from(number.abs() < 100.0);
        // Nothing is minus zero.
        let text = format!("{number:.decimals$}");
        if text == "-0.0" { "0.0".to_owned() } else { text }
    };
    let between = between.map_or(String::new(), |(low, high)| format!(" [{} to {}]", number(low), number(high)));
    format!("{} {unit}{between}", number(ppm))
}

/// Exact in the long run: within so many ppm. A crystal is off by more.
const EXACT_PPM: f64 = 10.0;

/// Which methods surely keep the rate in the long run.
fn exact_words(rows: &[&Series], style: &Style) -> Option<String> {
    let is_exact = |s: &&Series| {
        let between = drift(s).and_then(|(_, between)| between);
        between.is_some_and(|(low, high)| low >= -EXACT_PPM && high <= EXACT_PPM)
    };
    // Under whatever conditions it was measured.
    let always = |s: &&&Series| rows.iter().filter(|other| other.subject == s.subject).all(is_exact);
    let mut exact: Vec<String> = rows.iter().filter(always).map(|s| plain(&s.subject, style)).collect();
    exact.sort();
    exact.dedup();
    if exact.is_empty() {
        return None;
    }
    let within = unbroken(&format!("{EXACT_PPM} ppm"));
    Some(format!("Exact in the long run, to within {within}: {}.", listed(&exact, exact.len())))
}

fn kept_legend(rows: &[&Series]) -> Vec<Note> {
    let stamped = rows.iter().any(|s| word(&s.outcome, "departure") == Some("kernel's stamp"));
    let departure = if stamped {
        "Late: a departure against its ideal time, by the kernel's own stamp (in batches: by the clock before the call)."
    } else {
        "Late: an event against its ideal time."
    };
    let mut notes = vec![Note::always(departure)];
    notes.push(Note::on(
        "drift [95 %]",
        "Drift: how much later departures get in the long run; 1 ppm is a microsecond every second. It tells a wrong rate from single late departures.",
    ));
    notes.push(Note::on("jitter p50", "Jitter: distance between the gap of two departures and the period."));
    if rows.iter().any(|s| number(s, "lost").is_some()) {
        notes.push(Note::on("one-way p50", "One-way: from the call of send to the receiving program."));
    }
    notes
}

/// Which method keeps the rate best, what the first one of everybody reaches, and what they cost.
fn kept_words(rate: f64, rows: &[&Series], style: &Style) -> Option<String> {
    let holds = |s: &&&Series| number(s, "rate_share").is_some_and(|share| (share - 1.0).abs() <= 0.01);
    let p99 = |s: &Series| s.summary.p99.or(s.summary.max).unwrap_or(i64::MAX);
    let say = |s: &Series| {
        let late = unbroken(&format!("{} at p99", figure(s.summary.p99, style)));
        let cpu = s.cpu_share.map_or(String::new(), |share| unbroken(&format!(", {} of a CPU", units::share(share))));
        format!("{} ({late}{cpu})", plain(&s.subject, style))
    };
    let mut held: Vec<&Series> = rows.iter().filter(holds).copied().collect();
    held.sort_by_key(|s| p99(s));
    let mut sentences = Vec::new();
    if let Some(best) = held.first() {
        sentences.push(format!("Least late of those that held the rate within 1 %: {}.", say(best)));
    } else {
        sentences.push("No method held the rate within 1 %.".to_owned());
    }
    let cheapest = held
        .iter()
        .filter(|s| s.cpu_share.is_some())
        .min_by(|a, b| f64::total_cmp(&a.cpu_share.unwrap_or(2.0), &b.cpu_share.unwrap_or(2.0)));
    if let Some(cheapest) = cheapest.filter(|c| held.first().is_some_and(|b| b.subject != c.subject)) {
        sentences.push(format!("Cheapest of them: {}.", say(cheapest)));
    }
    let slowest = rows.iter().filter_map(|s| Some((number(s, "rate_reached")?, s))).min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((reached, series)) = slowest.filter(|(reached, _)| *reached < rate * 0.99) {
        sentences.push(format!(
            "Slowest: {}, with {} of {} a second.",
            plain(&series.subject, style),
            unbroken(&rate_text(reached)),
            unbroken(&rate_text(rate))
        ));
    }
    sentences.extend(exact_words(rows, style));
    let lost: f64 = rows.iter().filter_map(|s| number(s, "lost")).sum();
    let reordered: f64 = rows.iter().filter_map(|s| number(s, "reordered")).sum();
    if rows.iter().any(|s| number(s, "lost").is_some()) {
        sentences.push(match (lost as u64, reordered as u64) {
            (0, 0) => "Every datagram sent arrived, in order.".to_owned(),
            (lost, reordered) => {
                format!("{} datagrams were lost, {} arrived out of order.", units::count(lost), units::count(reordered))
            }
        });
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

const SWEPT: [Column; 8] = [
    Column::left("method", Column::ALWAYS),
    Column::left("conditions", 60),
    Column::right("highest rate held", Column::ALWAYS),
    Column::right("not held", 70),
    Column::right("late p50", 50),
    Column::right("p99", 80),
    Column::right("CPU", 90),
    Column::left("why not higher", 40),
];

fn swept_section(run: &Run, series: &[&Series], style: &Style) -> Section {
    let held = |s: &Series| number(s, "highest_rate_held").unwrap_or(0.0);
    let mut rows = series.to_vec();
    rows.sort_by(|a, b| held(b).total_cmp(&held(a)));
    let within = match series[0].parameters.get("within_ns") {
        Some(Param::Int(ns)) => units::exact(*ns, style),
        _ => style.absent().to_owned(),
    };
    let to = word(&series[0].parameters, "to").unwrap_or_default();
    let absent = || style.absent().to_owned();
    let row = |s: &&Series| {
        let cells = vec![
            plain(&s.subject, style),
            conditions(run, &s.conditions, style),
            rate_text(held(s)),
            number(s, "rate_not_held").map_or_else(absent, rate_text),
            figure(s.summary.p50, style),
            figure(s.summary.p99, style),
            s.cpu_share.map_or_else(absent, units::share),
            word(&s.outcome, "why_not_higher").map_or_else(absent, |why| plain(why, style)),
        ];
        Row::Cells(cells, Paint::Plain)
    };
    let table = Table { columns: SWEPT.to_vec(), rows: rows.iter().map(row).collect() };
    let legend = format!("Held: reached within 1 %, 99th percentile of lateness at most {}.", unbroken(&within));
    let mut section = Section::new(format!("highest rate held, {}", plain(to, style)))
        .with(Block::Table(table))
        .with(Block::Legend(vec![Note::always(legend)]));
    if let [best, .., least] = rows.as_slice() {
        let text = format!(
            "{} holds {} a second, {} {}.",
            plain(&best.subject, style),
            unbroken(&rate_text(held(best))),
            plain(&least.subject, style),
            unbroken(&rate_text(held(least)))
        );
        section.blocks.push(Block::Paragraph(text));
    }
    section
}

/// What a receiver saw of one nominal rate.
fn received_section(rate: f64, series: &[&Series], style: &Style) -> Option<Section> {
    let counts = series.iter().find(|s| s.outcome.contains_key("received"))?;
    let count =
        |name: &str| number(counts, name).map_or(style.absent().to_owned(), |n| units::count(n.max(0.0) as u64));
    let mut table = Table {
        columns: vec![
            Column::left("arrivals", Column::ALWAYS),
            Column::right("n", 50),
            Column::right("p50", Column::ALWAYS),
            Column::right("p99", Column::ALWAYS),
            Column::right("max", 60),
        ],
        rows: Vec::new(),
    };
    for s in series {
        let name = if s.quantity == Quantity::OneWay { "one-way latency" } else { "jitter of gaps" };
        let summary = &s.summary;
        let cells = vec![
            name.to_owned(),
            units::count(summary.count),
            figure(summary.p50, style),
            figure(summary.p99, style),
            figure(summary.max, style),
        ];
        table.rows.push(Row::Cells(cells, Paint::Plain));
    }
    let reached =
        number(counts, "rate_reached").map_or(String::new(), |r| format!(", {} a second", unbroken(&rate_text(r))));
    let text = format!(
        "{} received{reached}; {} lost, {} out of order, {} twice.",
        count("received"),
        count("lost"),
        count("reordered"),
        count("duplicates")
    );
    Some(
        Section::new(format!("received, nominal rate {} a second", rate_text(rate)))
            .with(Block::Table(table))
            .with(Block::Paragraph(text)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drifts_are_readable() {
        assert_eq!(drift_text((0.24, Some((-0.04, 12.6)))), "0.2 ppm [0.0 to 12.6]");
        assert_eq!(drift_text((-812.3, None)), "-812 ppm");
        assert_eq!(drift_text((2_100_000.0, Some((1_900_000.0, 2_300_000.0)))), "210 % [190 to 230]");
    }

    #[test]
    fn rates_are_readable() {
        assert_eq!(rate_text(15_000.0), units::count(15_000));
        assert_eq!(rate_text(0.01), "0.01");
        assert_eq!(rate_text(999.5), "999.5");
        assert_eq!(rate_text(f64::INFINITY), units::count(1_000_000_000_000_000_000));
    }
}
