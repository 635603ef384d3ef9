//! Pacing: how well each method held a rate, the receiver's view, and in sentences which methods hold the rate, which is
//! least late, which is cheapest, and how many events a sleep lets through.

use punctual_record::experiment::pace::{DepartureClock, Measured as End, Metrics, Parameters};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::{Figure, Outcome, rounds};
use crate::family::figures::Figures;
use crate::family::shared::{ALWAYS, Family, Measured, measured, not_told_apart};
use crate::family::wait::conditions;
use crate::format::naming::AS_FOUND;
use crate::format::{grouped, listed, sanitize, spoken, unbroken, units};
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial};

pub(super) const FAMILY: Family =
    Family { experiment: "pace", title: "Events at a rate", sections, candidates, answer };

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
fn beside<'a>(all: &[Paced<'a>], series: &Series, quantity: Quantity, end: End) -> Option<Paced<'a>> {
    all.iter().copied().find(|s| {
        s.quantity == quantity
            && s.subject == series.subject
            && s.conditions == series.conditions
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
        .with(Block::Table(kept_columns(series).plain(&rows)))
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
        .summary([("late p50", ALWAYS), ("p99", ALWAYS), ("max", 60)], |s| Some(&s.summary))
        .left("departure clock", 78, |s| s.metrics.departure.map_or("mixed".to_owned(), |clock| clock.to_string()))
        .only_if(clocks_differ(all))
        .summary([("jitter p50", 70), ("p99", 65)], move |s| Some(&jitter(s)?.series.summary))
        .share("CPU", 90, |s| s.cpu_share)
        .count("not sent", 75, |s| s.metrics.not_sent)
        .count("lost", 74, |s| s.metrics.lost)
        .summary([("one-way p50", 40), ("p99", 35)], move |s| Some(&one_way(s)?.series.summary))
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
    let mut notes = vec![
        Note::always(departure),
        Note::on(
            "median [95 %]",
            "Median: the rate of the median trial, with its interval; rate reached: that of all.",
        ),
        Note::on(
            "drift [95 %]",
            "Drift: how much later departures get in the long run; 1 ppm is a microsecond every second. It tells a wrong rate from single late departures.",
        ),
        Note::on("jitter p50", "Jitter: distance between the gap of two departures and the period."),
    ];
    if rows.iter().any(|s| s.metrics.lost.is_some()) {
        notes.push(Note::on("one-way p50", "One-way: from the call of send to the receiving program."));
    }
    notes
}

/// What a receiver saw of one nominal rate.
fn received_section(rate: f64, series: &[Paced<'_>]) -> Option<Section> {
    let counts = series.iter().find(|s| s.metrics.received.is_some())?.metrics;
    let count = |n: Option<u64>| units::or_absent(n, units::count);
    let name = |s: &Paced<'_>| if s.quantity == Quantity::OneWay { "one-way latency" } else { "jitter of gaps" };
    let table = Columns::new()
        .left("arrivals", ALWAYS, |s: &Paced<'_>| name(s).to_owned())
        .count("n", 50, |s| Some(s.summary.count))
        .summary([("p50", ALWAYS), ("p99", ALWAYS), ("max", 60)], |s| Some(&s.summary))
        .plain(series);
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
fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let Some((_, rows)) = late(series).into_iter().next() else { return Answer::default() };
    let rate = rows[0].parameters.rate_per_second;
    let (mut sentences, named): (Vec<String>, Vec<Option<String>>) = kept(run, rate, &rows).into_iter().unzip();
    sentences.extend(ceiling(rate, &rows));
    let table = table(&rows).ranked("p99", named.into_iter().flatten().collect());
    Answer { table: Some(table), ..Answer::in_words(sentences) }
}

/// The least late at p99 first.
fn table(rows: &[Paced<'_>]) -> Table {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|s| s.summary.p99.unwrap_or(i64::MAX));
    Columns::new()
        .left("method", ALWAYS, |s: &Paced<'_>| name(s))
        .known("a second", ALWAYS, |s| reached(s), units::rate)
        .summary([("late p50", ALWAYS), ("p99", ALWAYS)], |s| Some(&s.summary))
        .share("CPU", 90, |s| s.cpu_share)
        .known("of asked", 80, |s| s.metrics.rate_share, |share| format!("{:.2} %", share * 100.0))
        .plain(&rows)
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
    const fn to(to: &'static str, what: &'static str) -> Self {
        Self { to, from: ABSOLUTE, cause: LATE, what, program: None, others: None }
    }
}

const CHANGES: [Change; 6] = [
    Change { from: RELATIVE, cause: "relative sleeps", ..Change::to("clock_nanosleep_abs", "an absolute deadline") },
    Change::to("hybrid", "punctual::Pacer"),
    Change { program: Some("events leave in batches"), ..Change::to("hybrid_batch", "punctual::Pacer in batches") },
    Change::to("spin", "spinning"),
    Change { others: Some("the queueing discipline fq"), ..Change::to("so_max_pacing_rate", "SO_MAX_PACING_RATE") },
    Change { others: Some("the queueing discipline fq or etf"), ..Change::to("so_txtime", "SO_TXTIME") },
];

/// Those of all rates.
fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    late(series).into_iter().flat_map(|(_, rows)| of_rate(run, &rows)).collect()
}

fn of_rate<'a>(run: &'a Run, rows: &[Paced<'a>]) -> Vec<Candidate<'a>> {
    let Some(first) = rows.first() else { return Vec::new() };
    let rate = first.parameters.rate_per_second;
    let mut all: Vec<Candidate<'a>> = CHANGES.iter().filter_map(|change| candidate(rows, change)).collect();
    let series: Vec<&'a Series> = rows.iter().map(|s| s.series).collect();
    all.extend(conditions(&Figures::new(run, (1e9 / rate).round() as i64, &series)));
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
    let trial = Trial { case: 0, name: a_second, before: from.series, after: to.series };
    Some(Candidate {
        cause: change.cause.to_owned(),
        what: change.what.to_owned(),
        price: Price { program: text(change.program), others: text(change.others), ..Price::default() },
        code: Code::of_series(&to.about, to.about.call.as_deref().map(sanitize)),
        ..Candidate::instead(Goal::SendEvenly, change.to.to_owned(), sanitize(&from.subject), trial)
    })
}

type Paced<'a> = Measured<'a, Parameters, Metrics>;

/// What a run was to do: rate, and where to.
type Task = (u64, String);

fn task(series: &Paced<'_>) -> Task {
    let Parameters { rate_per_second, to, size, .. } = series.parameters;
    let size = size.map_or(String::new(), |size| format!(", {size} bytes each"));
    (rate_per_second.to_bits(), format!("{}{size}", to.as_deref().unwrap_or_default()))
}

/// How late what was sent left, by task.
fn late<'a>(series: &[&'a Series]) -> Vec<(Task, Vec<Paced<'a>>)> {
    let mut sent = measured(series, Experiment::pace);
    sent.retain(|s| s.subject != "receive" && s.quantity == Quantity::Lateness);
    grouped(&sent, task)
}

/// How much later departures get, in ppm, and its 95 % interval.
fn drift(metrics: &Metrics) -> Option<(f64, Option<(f64, f64)>)> {
    let between = metrics.drift_ppm_low.zip(metrics.drift_ppm_high);
    metrics.drift_ppm.map(|ppm| (ppm, between))
}

/// Whether the departures of these are on different clocks: then their lateness is not comparable.
fn clocks_differ(all: &[Paced<'_>]) -> bool {
    let mut clocks = all.iter().filter(|s| s.metrics.events.is_some()).map(|s| s.metrics.departure);
    let first = clocks.next();
    clocks.any(|clock| Some(clock) != first)
}

/// Whether the rate reached is within 1 % of the one asked.
fn holds(s: &Paced<'_>) -> bool {
    s.metrics.rate_share.is_some_and(|share| (share - 1.0).abs() <= 0.01)
}

/// `hybrid`, `hybrid (SCHED_FIFO 40)`.
fn name(s: &Series) -> String {
    match s.conditions.clone() {
        conditions if conditions == AS_FOUND || conditions.is_empty() => s.subject.clone(),
        conditions => format!("{} ({})", s.subject, unbroken(&conditions)),
    }
}

/// `spin (54.0 µs at p99, 99 % of a CPU)`.
fn say(s: &Series) -> String {
    let late = unbroken(&format!("{} at p99", units::known(s.summary.p99)));
    let cpu = s.cpu_share.map_or(String::new(), |share| unbroken(&format!(", {} of a CPU", units::share(share))));
    format!("{} ({late}{cpu})", name(s))
}

/// Which method keeps the rate best, which is cheapest, and which is slowest; each with the method that it names.
fn kept(run: &Run, rate: f64, rows: &[Paced<'_>]) -> Vec<(String, Option<String>)> {
    let held: Vec<Paced<'_>> = rows.iter().filter(|s| holds(s)).copied().collect();
    let mut sentences = Vec::new();
    if held.is_empty() && !rows.is_empty() {
        sentences.push(("No method held the rate within 1 %.".to_owned(), None));
    }
    let best = least_late(run, &held);
    let cheapest = held
        .iter()
        .filter(|s| s.cpu_share.is_some())
        .min_by(|a, b| f64::total_cmp(&a.cpu_share.unwrap_or(2.0), &b.cpu_share.unwrap_or(2.0)));
    let known = best.as_ref().map(|(_, names)| names.clone()).unwrap_or_default();
    sentences.extend(best.map(|(text, names)| (text, names.into_iter().next())));
    if let Some(cheapest) = cheapest.filter(|c| held.len() > 1 && known.first() != Some(&name(c))) {
        sentences.push((format!("Cheapest of them: {}.", say(cheapest)), Some(name(cheapest))));
    }
    let slowest = rows.iter().filter_map(|s| Some((reached(s)?, s))).min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((reached, series)) = slowest.filter(|(reached, _)| *reached < rate * 0.99) {
        let text = format!(
            "Slowest: {}, with {} of {} a second.",
            name(series),
            unbroken(&units::rate(reached)),
            unbroken(&units::rate(rate))
        );
        sentences.push((text, Some(name(series))));
    }
    sentences
}

/// The least late at p99 by the same clock, and those that are not shown to be later, there or at p50. It also returns all their names.
fn least_late(run: &Run, held: &[Paced<'_>]) -> Option<(String, Vec<String>)> {
    let p99 = |s: &&Paced<'_>| s.summary.p99.or(s.summary.max).unwrap_or(i64::MAX);
    // The clock of most of them.
    let count = |clock| held.iter().filter(|s| s.metrics.departure == clock).count();
    let clock = held.iter().map(|s| s.metrics.departure).max_by_key(|&clock| count(clock))?;
    let like = |s: &&Paced<'_>| clock.is_some() && s.metrics.departure == clock;
    let best = held.iter().filter(like).min_by_key(p99)?;
    let rivals: Vec<&Paced<'_>> = held.iter().filter(like).filter(|s| !std::ptr::eq(s.series, best.series)).collect();
    let after = best.series;
    let against = |figure| rivals.iter().map(move |rival| rounds::Pair { before: rival.series, after, figure });
    let pairs: Vec<_> = against(Figure::P99).chain(against(Figure::P50)).collect();
    let effects = rounds::test(run, &pairs);
    let (p99s, p50s) = effects.split_at(rivals.len());
    // A method that is shown to be later or earlier at p50 is not equal, whatever its p99 shows.
    let which = |outcome: Outcome| -> Vec<String> {
        let matching = rivals.iter().zip(p99s).zip(p50s);
        let is_apart = |outcome: Outcome| matches!(outcome, Outcome::Better | Outcome::Worse);
        let matching = matching.filter(|((_, p99), p50)| p99.outcome == outcome && !is_apart(p50.outcome));
        matching.map(|((s, _), _)| name(s)).collect()
    };
    let (ties, untested) = (which(Outcome::NoDifference), which(Outcome::NotTested));
    let mut text = match rivals.is_empty() {
        true => format!("Held the rate within 1 %: {}", say(best)),
        false => format!("Least late of those that held the rate within 1 %: {}", say(best)),
    };
    text.push_str(&not_told_apart(&ties, &untested));
    let earlier = rivals.iter().zip(p99s.iter().zip(p50s));
    let earlier = earlier.filter(|(_, (p99, p50))| p99.outcome != Outcome::Better && p50.outcome == Outcome::Worse);
    let earlier: Vec<String> = earlier.map(|(s, _)| name(s)).collect();
    if !earlier.is_empty() {
        text.push_str(&format!("; earlier at p50: {}", listed(&earlier, 4)));
    }
    let others: Vec<String> = held.iter().filter(|s| !like(s)).map(|s| name(s)).collect();
    if !others.is_empty() {
        text.push_str(&format!("; not comparable, by another clock: {}", listed(&others, 4)));
    }
    Some((format!("{text}."), [vec![name(best)], ties].concat()))
}

/// Exact in the long run: within this many ppm. A crystal is off by more.
const EXACT_PPM: f64 = 10.0;

/// Which methods surely keep the rate in the long run.
fn exact(rows: &[Paced<'_>]) -> Option<String> {
    let is_exact = |s: &Paced<'_>| {
        let between = drift(s.metrics).and_then(|(_, between)| between);
        between.is_some_and(|(low, high)| low >= -EXACT_PPM && high <= EXACT_PPM)
    };
    // Under whatever conditions it was measured.
    let always = |s: &&Paced<'_>| rows.iter().filter(|other| other.subject == s.subject).all(is_exact);
    let mut exact: Vec<String> = rows.iter().filter(always).map(|s| s.subject.clone()).collect();
    exact.sort();
    exact.dedup();
    if exact.is_empty() {
        return None;
    }
    let within = unbroken(&format!("{EXACT_PPM} ppm"));
    Some(format!("Exact in the long run, to within {within}: {}.", listed(&exact, exact.len())))
}

/// Which methods are exact in the long run, and whether every datagram arrived.
fn long_run(rows: &[Paced<'_>]) -> Vec<String> {
    let mut sentences: Vec<String> = exact(rows).into_iter().collect();
    let sum =
        |count: fn(&Metrics) -> Option<u64>| rows.iter().filter_map(|s| count(s.metrics)).fold(0, u64::saturating_add);
    let (lost, reordered) = (sum(|metrics| metrics.lost), sum(|metrics| metrics.reordered));
    if rows.iter().any(|s| s.metrics.lost.is_some()) {
        sentences.push(match (lost, reordered) {
            (0, 0) => "Every datagram sent arrived, in order.".to_owned(),
            (lost, reordered) => {
                format!("{} datagrams were lost, {} arrived out of order.", units::count(lost), units::count(reordered))
            }
        });
    }
    sentences
}

/// The rate of all trials together, by which it is judged whether the rate was held.
fn reached(s: &Paced<'_>) -> Option<f64> {
    s.metrics.rate_reached.or(s.metrics.rate_p50)
}

/// The rate of the median trial.
fn median_rate(s: &Paced<'_>) -> Option<f64> {
    s.metrics.rate_p50.or(s.metrics.rate_reached)
}

/// The rate of the median trial with its interval: `12 100 [12 050 12 140]`.
fn usual_rate(s: &Paced<'_>) -> Option<String> {
    // Below ten a second decimals matter.
    let shown = |rate: f64| units::rate(if rate < 10.0 { rate } else { rate.round() });
    let reached = median_rate(s)?;
    let between = s.metrics.rate_p50_low.zip(s.metrics.rate_p50_high);
    let between = between.map_or(String::new(), |(low, high)| format!(" [{} {}]", shown(low), shown(high)));
    Some(unbroken(&format!("{}{between}", shown(reached))))
}

/// How many events a second one thread reaches with a sleep between. The sleep is the shortest, or lasts the whole
/// period.
fn ceiling(rate: f64, rows: &[Paced<'_>]) -> Option<String> {
    let slow = |s: &&Paced<'_>| s.metrics.rate_share.is_some_and(|share| share < 0.99);
    // Since Linux 7.2 a sleep of 1 ns returns without giving up the CPU, which is no sleep.
    let slept = |s: &&Paced<'_>| s.voluntary_switches_per_op.is_none_or(|switches| switches >= 0.01);
    // Those that reach the rate do not show their limit.
    let find = |subjects: [&str; 2]| {
        let fastest = |a: &&Paced<'_>, b: &&Paced<'_>| reached(a).unwrap_or(0.0).total_cmp(&reached(b).unwrap_or(0.0));
        let row = |subject: &str| rows.iter().filter(|s| s.subject == subject).filter(slept).max_by(fastest);
        subjects.into_iter().find_map(row).filter(slow)
    };
    let told = |s: &Paced<'_>| Some((name(s), unbroken(&units::rate(reached(s)?))));
    let period = spoken::duration(1e9 / rate);
    let lead = "With a sleep between events one thread reaches";
    match (find(["nanosleep_1ns", "usleep_1us"]).and_then(told), find(["nanosleep", "usleep"]).and_then(told)) {
        (Some((a, most)), Some((b, few))) => {
            Some(format!("{lead} {most} a second by {a}. Where it sleeps the whole {period}, it reaches {few} by {b}."))
        }
        (Some((a, most)), None) => Some(format!("{lead} {most} a second by {a}.")),
        (None, Some((b, few))) => Some(format!("{lead} {few} a second by {b}, which sleeps the whole {period}.")),
        (None, None) => None,
    }
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
