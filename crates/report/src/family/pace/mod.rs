//! Pacing: how well each method held a rate, the receiver's view, and in sentences which methods hold the rate, which is
//! least late, which is cheapest, and how many events a sleep lets through.

mod words;

use punctual_record::experiment::pace::{DepartureClock, Measured as End};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::family::figures::Figures;
use crate::family::pace::words::{
    Paced, Task, ceiling, clocks_differ, drift, kept, long_run, median_rate, task, usual_rate,
};
use crate::family::shared::{ALWAYS, Family, measured};
use crate::family::wait::conditions;
use crate::format::{grouped, sanitize, unbroken, units};
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial};

pub(super) const FAMILY: Family = Family { experiment: "pace", sections, candidates, answer };

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let (received, sent): (Vec<_>, Vec<_>) =
        measured(series, Experiment::pace).into_iter().partition(|s| s.subject == "receive");
    let mut sections = Vec::new();
    for (key, group) in grouped(&sent, task) {
        sections.push(kept_section(run, &key, &group));
    }
    for (rate, group) in grouped(&received, |s| s.parameters.rate_per_second.to_bits()) {
        sections.extend(received_section(f64::from_bits(rate), &group));
    }
    sections
}

/// The series of the same trials with another quantity, measured at that end.
fn beside<'a>(all: &[Paced<'a>], of: &Series, quantity: Quantity, end: End) -> Option<Paced<'a>> {
    all.iter().copied().find(|s| {
        s.quantity == quantity
            && s.subject == of.subject
            && s.conditions == of.conditions
            && s.parameters.measured == end
    })
}

fn kept_section(run: &Run, (rate, to): &Task, series: &[Paced<'_>]) -> Section {
    let rate = f64::from_bits(*rate);
    let heading = format!("pace {} a second, {}", units::rate(rate), to);
    let mut rows: Vec<Paced<'_>> = series.iter().copied().filter(|s| s.quantity == Quantity::Lateness).collect();
    // The rate counts first: what does not hold it is late without end.
    rows.sort_by_key(|s| {
        let misses = s.metrics.rate_share.map_or(i64::MAX, |share| ((share - 1.0).abs() * 100.0) as i64);
        (misses, s.summary.p99.unwrap_or(i64::MAX))
    });
    let mut section = Section::new(heading)
        .with(Block::Table(kept_columns(series).of(&rows)))
        .with(Block::Legend(kept_legend(&rows)));
    let said: Vec<String> = kept(run, rate, &rows).into_iter().map(|(text, _)| text).chain(long_run(&rows)).collect();
    if !said.is_empty() {
        section.blocks.push(Block::Paragraph(said.join(" ")));
    }
    section
}

fn kept_columns<'r>(all: &'r [Paced<'r>]) -> Columns<'r, Paced<'r>> {
    let jitter = |s: &Paced<'_>| beside(all, s, Quantity::PeriodJitter, End::Departure);
    let one_way = |s: &Paced<'_>| beside(all, s, Quantity::OneWay, End::Arrival);
    Columns::new()
        .left("method", ALWAYS, |s: &Paced<'_>| s.subject.clone())
        .left("conditions", 95, |s| s.conditions.clone())
        .count("n", 20, |s| Some(s.summary.count))
        .known("rate reached", ALWAYS, |s| s.metrics.rate_reached, units::rate)
        .known("median [95 %]", 71, |s| usual_rate(s), |rate| rate)
        .known("of asked", 80, |s| s.metrics.rate_share, |share| format!("{:.2} %", share * 100.0))
        .known("drift [95 %]", 72, |s| drift(s.metrics), drift_text)
        .ns("late p50", ALWAYS, |s| s.summary.p50)
        .ns("p99", ALWAYS, |s| s.summary.p99)
        .ns("max", 60, |s| s.summary.max)
        .left("departure clock", 78, |s| s.metrics.departure.map_or("mixed".to_owned(), |clock| clock.to_string()))
        .only_if(clocks_differ(all))
        .ns("jitter p50", 70, move |s| jitter(s)?.summary.p50)
        .ns("p99", 65, move |s| jitter(s)?.summary.p99)
        .share("CPU", 90, |s| s.cpu_share)
        .count("not sent", 75, |s| s.metrics.not_sent)
        .count("lost", 74, |s| s.metrics.lost)
        .ns("one-way p50", 40, move |s| one_way(s)?.summary.p50)
        .ns("p99", 35, move |s| one_way(s)?.summary.p99)
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

fn kept_legend(rows: &[Paced<'_>]) -> Vec<Note> {
    let by = |clock: DepartureClock| rows.iter().any(|s| s.metrics.departure == Some(clock));
    let departure = match (by(DepartureClock::KernelStamp), by(DepartureClock::BeforeCall)) {
        (true, false) => "Late: a departure against its ideal time, by the kernel's own stamp.",
        (true, true) => {
            "Late: a departure against its ideal time, by the kernel's own stamp, or by a clock reading before the call \
             (departure clock). The two are not comparable: the call itself takes time."
        }
        (false, _) => "Late: an event against its ideal time.",
    };
    let mut notes = vec![Note::always(departure)];
    notes.push(Note::on(
        "median [95 %]",
        "Median: the rate of the median trial, with its interval; rate reached: that of all.",
    ));
    notes.push(Note::on(
        "drift [95 %]",
        "Drift: how much later departures get in the long run; 1 ppm is a microsecond every second. It tells a wrong rate from single late departures.",
    ));
    notes.push(Note::on("jitter p50", "Jitter: distance between the gap of two departures and the period."));
    if rows.iter().any(|s| s.metrics.lost.is_some()) {
        notes.push(Note::on("one-way p50", "One-way: from the call of send to the receiving program."));
    }
    notes
}

/// What a receiver saw of one nominal rate.
fn received_section(rate: f64, series: &[Paced<'_>]) -> Option<Section> {
    let counts = series.iter().find(|s| s.metrics.received.is_some())?.metrics;
    let count = |n: Option<u64>| n.map_or_else(|| units::ABSENT.to_owned(), units::count);
    let name = |s: &Paced<'_>| if s.quantity == Quantity::OneWay { "one-way latency" } else { "jitter of gaps" };
    let table = Columns::new()
        .left("arrivals", ALWAYS, |s: &Paced<'_>| name(s).to_owned())
        .count("n", 50, |s| Some(s.summary.count))
        .ns("p50", ALWAYS, |s| s.summary.p50)
        .ns("p99", ALWAYS, |s| s.summary.p99)
        .ns("max", 60, |s| s.summary.max)
        .of(series);
    let reached = counts.rate_reached.map_or(String::new(), |r| format!(", {} a second", unbroken(&units::rate(r))));
    let text = format!(
        "{} received{reached}; {} lost, {} out of order, {} twice.",
        count(counts.received),
        count(counts.lost),
        count(counts.reordered),
        count(counts.duplicates)
    );
    Some(
        Section::new(format!("received, nominal rate {} a second", units::rate(rate)))
            .with(Block::Table(table))
            .with(Block::Paragraph(text)),
    )
}

/// The answer for the first rate that was sent at.
pub(in crate::family) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let late: Vec<Paced<'_>> = measured(series, Experiment::pace)
        .into_iter()
        .filter(|s| s.subject != "receive" && s.quantity == Quantity::Lateness)
        .collect();
    let Some((_, rows)) = grouped(&late, task).into_iter().next() else { return Answer::default() };
    let rate = rows[0].parameters.rate_per_second;
    let (mut sentences, named): (Vec<String>, Vec<Option<String>>) = kept(run, rate, &rows).into_iter().unzip();
    sentences.extend(ceiling(rate, &rows));
    let table = table(&rows).ranked("p99", named.into_iter().flatten().collect());
    Answer { table: Some(table), ..Answer::of(sentences) }
}

/// The least late at p99 first.
fn table(rows: &[Paced<'_>]) -> Table {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|s| s.summary.p99.unwrap_or(i64::MAX));
    Columns::new()
        .left("method", ALWAYS, |s: &Paced<'_>| words::name(s))
        .known("a second", ALWAYS, |s| median_rate(s), units::rate)
        .ns("late p50", ALWAYS, |s| s.summary.p50)
        .ns("p99", ALWAYS, |s| s.summary.p99)
        .share("CPU", 90, |s| s.cpu_share)
        .known("of asked", 80, |s| s.metrics.rate_share, |share| format!("{:.2} %", share * 100.0))
        .of(&rows)
}

// The remedies for uneven departures: absolute deadlines, the library's pacer, spinning, the kernel, other conditions.

/// A method instead of another: what removes which cause.
struct Change {
    to: &'static str,
    from: &'static [&'static str],
    cause: &'static str,
    what: &'static str,
    program: Option<&'static str>,
    others: Option<&'static str>,
}

const RELATIVE: &[&str] = &["nanosleep", "usleep"];
const ABSOLUTE: &[&str] = &["clock_nanosleep_abs"];
const LATE: &str = "late wake-ups";

impl Change {
    const fn of(to: &'static str, what: &'static str) -> Self {
        Self { to, from: ABSOLUTE, cause: LATE, what, program: None, others: None }
    }
}

const CHANGES: [Change; 6] = [
    Change { from: RELATIVE, cause: "relative sleeps", ..Change::of("clock_nanosleep_abs", "an absolute deadline") },
    Change::of("hybrid", "punctual::Pacer"),
    Change { program: Some("events leave in batches"), ..Change::of("hybrid_batch", "punctual::Pacer in batches") },
    Change::of("spin", "spinning"),
    Change { others: Some("the queueing discipline fq"), ..Change::of("so_max_pacing_rate", "SO_MAX_PACING_RATE") },
    Change { others: Some("the queueing discipline fq or etf"), ..Change::of("so_txtime", "SO_TXTIME") },
];

/// Those of all rates.
pub(in crate::family) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let late: Vec<Paced<'a>> = measured(series, Experiment::pace)
        .into_iter()
        .filter(|s| s.subject != "receive" && s.quantity == Quantity::Lateness)
        .collect();
    grouped(&late, task).into_iter().flat_map(|(_, rows)| of_rate(run, &rows)).collect()
}

fn of_rate<'a>(run: &'a Run, rows: &[Paced<'a>]) -> Vec<Candidate<'a>> {
    let Some(first) = rows.first() else { return Vec::new() };
    let rate = first.parameters.rate_per_second;
    let mut all: Vec<Candidate<'a>> = CHANGES.iter().filter_map(|change| candidate(rows, change)).collect();
    let series: Vec<&'a Series> = rows.iter().map(|s| s.series).collect();
    all.extend(conditions(&Figures::of(run, (1e9 / rate).round() as i64, &series)));
    for candidate in &mut all {
        candidate.goal = Goal::SendEvenly;
        for trial in &mut candidate.trials {
            (trial.case, trial.name) = (rate.round() as i64, a_second);
        }
    }
    all
}

fn a_second(rate: i64) -> String {
    format!("{} a second", units::rate(rate as f64))
}

/// Under the first conditions, and by the same clock: a reading before the call is earlier than the kernel's stamp.
fn candidate<'a>(rows: &[Paced<'a>], change: &Change) -> Option<Candidate<'a>> {
    let find = |subject: &str| rows.iter().find(|s| s.subject == subject);
    let from = change.from.iter().find_map(|subject| find(subject))?;
    let to = rows.iter().find(|s| s.subject == change.to && s.conditions == from.conditions)?;
    if from.metrics.departure.is_none() || to.metrics.departure != from.metrics.departure {
        return None;
    }
    let text = |text: Option<&str>| text.map(str::to_owned);
    Some(Candidate {
        id: format!("{} instead of {}", change.to, sanitize(&from.subject)),
        goal: Goal::SendEvenly,
        cause: change.cause.to_owned(),
        what: change.what.to_owned(),
        instead_of: sanitize(&from.subject),
        trials: vec![Trial { case: 0, name: a_second, before: from.series, after: to.series }],
        price: Price { program: text(change.program), others: text(change.others), ..Price::default() },
        code: Code::of_series(&to.about, to.about.call.as_deref().map(sanitize)),
    })
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
}
