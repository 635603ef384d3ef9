//! Calibration: what a sleep adds, what the clock costs, and whether waits that are shortened by both take as long as asked.

use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::{Experiment, Interval, Run, Series, Summary};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::{Mean, Outcome, at_p50};
use crate::family::figures::Figures;
use crate::family::shared::{ALWAYS, Family, Measured, measured, not_told_apart};
use crate::family::wait::conditions;
use crate::format::naming::under;
use crate::format::{listed, sanitize, spoken, unbroken, units};
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial};

pub(super) const FAMILY: Family =
    Family { experiment: "calibrate", title: "What a sleep adds", sections, candidates, answer };

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::calibrate);
    let adds = with_figure(&series, Figure::SleepAdds);
    let mut sections = Vec::new();
    if !adds.is_empty() {
        sections.push(found(&adds, &series));
    }
    let proofs: Vec<Calibrated<'_>> = series.iter().copied().filter(|s| s.parameters.asked_ns.is_some()).collect();
    if let Some(asked) = proofs.first().and_then(|s| s.parameters.asked_ns) {
        sections.push(proved(asked, &proofs, &adds));
    }
    sections
}

fn found(adds: &[Calibrated<'_>], all: &[Calibrated<'_>]) -> Section {
    let table = Columns::new()
        .left("method", ALWAYS, |s: &Calibrated<'_>| s.subject.clone())
        .left("conditions", ALWAYS, |s| s.conditions.clone())
        .count("rounds", 30, |s| Some(s.summary.count))
        .estimate("a sleep adds (TN)", (ALWAYS, 60), |s| (s.summary.p50, s.summary.ci95.p50))
        .known(
            "p5 to p95",
            80,
            |s| s.metrics.p5_ns.zip(s.metrics.p95_ns),
            move |(low, high)| format!("{} to {}", units::duration(low), units::duration(high)),
        )
        .known("drift per s", 50, |s| s.metrics.drift_ns_per_s, |drift| format!("{drift:+.0} ns"))
        .estimate("clock (TS+TE)", (90, 55), |s| {
            let costs = clock_costs(all, s.series);
            (costs.and_then(|s| s.summary.p50), costs.and_then(|s| s.summary.ci95.p50))
        })
        .fine("a reading", 40, |s| s.metrics.clock_read_ns)
        .plain(adds);
    let legend = vec![
        Note::always(
            "Fitted robustly to elapsed = (TS+TE) + X (TN + T), for X from 1 to 16 sleeps of T from 10 to 200 us.",
        ),
        Note::on(
            "clock (TS+TE)",
            "Clock: two readings with no sleep between them (X = 0); one reading lies between their stamps. A reading: in a row of many.",
        ),
    ];
    Section::new("what a sleep adds").with(Block::Table(table)).with(Block::Legend(legend))
}

fn proved(asked: i64, proofs: &[Calibrated<'_>], adds: &[Calibrated<'_>]) -> Section {
    let columns = Columns::new().left("method", ALWAYS, |(s, _): &(Calibrated<'_>, &str)| s.subject.clone()).left(
        "conditions",
        ALWAYS,
        |(s, _)| s.conditions.clone(),
    );
    let rows: Vec<(Calibrated<'_>, &str)> = adds
        .iter()
        .flat_map(|add| HOW.iter().filter_map(|(figure, how)| Some((beside(proofs, add, *figure)?, *how))))
        .collect();
    let exceeds = |add: &&Calibrated<'_>| add.summary.p50.is_some_and(|ns| ns >= asked);
    let too_short = adds.iter().filter(exceeds);
    let mut too_short: Vec<String> = too_short.map(|add| add.subject.clone()).collect();
    let lead = spoken::exact(asked);
    let most = spoken::share(MOST_EARLY);
    let legend = format!(
        "Error: how long a wait took, less what was asked; negative: it was early. The library's is never early. \
                  Of waits shortened by an exact TN half are early. It works where fewer than {most} are shown to be, and the \
                  interval of the mean error lies within a tenth of TN. Measured again: before each batch of waits, on sleeps as long as theirs."
    );
    let mut section = Section::new(format!("proof: waits of {lead}"))
        .with(Block::Table(proof_columns(columns).plain(&rows)))
        .with(Block::Legend(vec![Note::always(legend)]));
    if !too_short.is_empty() {
        too_short.dedup();
        let text = format!(
            "A wait of {lead} is shorter than what {} adds, so it cannot be shortened into it. The library's hybrid sleeper spins such waits.",
            listed(&too_short, 3)
        );
        section.blocks.push(Block::Paragraph(text));
    }
    section
}

/// The answer for the first method and conditions, and the least TN of all.
fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let series = measured(series, Experiment::calibrate);
    let adds = with_figure(&series, Figure::SleepAdds);
    let Some(first) = adds.first() else { return Answer::default() };
    let summary = &first.summary;
    let tn = |ns: i64| format!("A {} adds {} (TN).", name(first), with_interval(ns, summary.ci95.p50));
    let mut sentences: Vec<String> = summary.p50.map(tn).into_iter().chain(least(run, &adds)).collect();
    sentences.extend(works(&series, first));
    sentences.extend(clock(&series, first));
    Answer { table: table(&series, first), ..Answer::in_words(sentences) }
}

/// `nanosleep under SCHED_FIFO 40`.
fn name(series: &Series) -> String {
    format!("{} {}", series.subject, under(&series.conditions))
}

fn with_interval(ns: i64, interval: Option<Interval>) -> String {
    let interval = interval.map_or(String::new(), |interval| format!(" {}", units::interval_like(interval, ns)));
    unbroken(&format!("{}{interval}", units::duration(ns)))
}

/// The least TN, if others are shown to be larger; which ones show no difference from it.
fn least(run: &Run, adds: &[Calibrated<'_>]) -> Option<String> {
    let least = adds.iter().filter(|s| s.summary.p50.is_some()).min_by_key(|s| s.summary.p50)?;
    let others: Vec<&Calibrated<'_>> = adds.iter().filter(|s| !std::ptr::eq(s.series, least.series)).collect();
    let effects = at_p50(run, others.iter().map(|other| [other.series, least.series]));
    let which = |outcome: Outcome| -> Vec<String> {
        let matching = others.iter().zip(&effects).filter(|(_, effect)| effect.outcome == outcome);
        matching.map(|(other, _)| name(other)).collect()
    };
    if which(Outcome::Better).is_empty() {
        return None;
    }
    let others = not_told_apart(&which(Outcome::NoDifference), &which(Outcome::NotTested));
    Some(format!("Least: {}, {}{others}.", name(least), with_interval(least.summary.p50?, None)))
}

/// Whether waits shortened by TN take as long as asked, and those shortened by a TN measured again.
fn works(all: &[Calibrated<'_>], first: &Series) -> Vec<String> {
    let say = |(figure, how): (Figure, &str)| {
        let series = beside(all, first, figure)?;
        let asked = series.parameters.asked_ns?;
        let lead = format!("Waits of {} shortened by {how}", spoken::exact(asked));
        let Some(proof) = Proof::from_series(series.series) else {
            return Some(format!("{lead}: not tested, too few rounds."));
        };
        let slept = series.metrics.shortened_by_ns.map(|by| unbroken(&units::about(asked as f64 - by)));
        let slept = slept.map_or_else(|| "that length".to_owned(), |slept| format!("about {slept}"));
        let verdict = match proof.judgement() {
            Judgement::Works => "It works.".to_owned(),
            Judgement::TooMuch(ns) => format!("It fails: a sleep of {slept} adds {} less.", spoken::duration(ns)),
            Judgement::TooLittle(ns) => format!("It fails: a sleep of {slept} adds {} more.", spoken::duration(ns)),
            Judgement::Undecided => "Undecided: the rounds differ too much.".to_owned(),
        };
        let share = early_text(proof.early);
        Some(format!("{lead}: {share} early, mean error {}. {verdict}", mean_text(proof.mean)))
    };
    let ways = [(Figure::Compensated, "TN"), (Figure::Remeasured, "TN measured again")];
    ways.into_iter().filter_map(say).collect()
}

/// TS+TE, beside the cost of a reading.
fn clock(all: &[Calibrated<'_>], series: &Calibrated<'_>) -> Option<String> {
    let costs = clock_costs(all, series.series)?;
    let found = with_interval(costs.summary.p50?, costs.summary.ci95.p50);
    let read = series.metrics.clock_read_ns.map(|ns| format!("; a reading takes {}", spoken::fine(ns)));
    Some(format!("TS+TE is {found}{}.", read.unwrap_or_default()))
}

/// The series of TS+TE, where it was measured by readings without a sleep. Extrapolated from sleeps, it is their scatter.
fn clock_costs<'a>(all: &[Calibrated<'a>], series: &Series) -> Option<Calibrated<'a>> {
    beside(all, series, Figure::ClockCosts).filter(|costs| costs.metrics.pairs.is_some())
}

/// What stands for a figure in the tables.
const HOW: [(Figure, &str); 4] = [
    (Figure::Plain, "nothing"),
    (Figure::Compensated, "TN"),
    (Figure::Remeasured, "TN measured again"),
    (Figure::CompensatedSleeper, "the library's Sleeper"),
];

/// The waits of the first method and conditions.
fn table(all: &[Calibrated<'_>], first: &Series) -> Option<Table> {
    let rows: Vec<(Calibrated<'_>, &str)> =
        HOW.into_iter().filter_map(|(figure, how)| Some((beside(all, first, figure)?, how))).collect();
    (!rows.is_empty()).then(|| proof_columns(Columns::new()).plain(&rows))
}

/// The columns of a proof, after those that name it.
fn proof_columns<'r>(columns: Columns<'r, (Calibrated<'r>, &'r str)>) -> Columns<'r, (Calibrated<'r>, &'r str)> {
    columns
        .left("shortened by", ALWAYS, |(_, how): &(Calibrated<'_>, &str)| (*how).to_owned())
        .right("mean error [95 %]", ALWAYS, |(s, _)| match (mean_error(s.series), s.summary.mean) {
            (Some(mean), _) => mean_text(mean),
            (None, mean) => units::known(mean),
        })
        .summary([("min", 50), ("p50", 90), ("p90", 60), ("p99", 80)], |(s, _)| Some(&s.summary))
        .share("early", 95, |(s, _)| share_early(&s.summary))
        .share("CPU", 70, |(s, _)| s.cpu_share)
}

// The remedies for what a sleep adds: compensation, the library's sleeper, other conditions, other calls.

/// Those of all methods and conditions.
fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let series = measured(series, Experiment::calibrate);
    let plain = with_figure(&series, Figure::Plain);
    let Some((first, others)) = plain.split_first() else { return Vec::new() };
    let mut all: Vec<Candidate<'a>> =
        [compensation(&series, first), sleeper(&series, first)].into_iter().flatten().collect();
    let like = others.iter().filter(|other| other.conditions == first.conditions);
    all.extend(like.filter_map(|other| {
        let name = sanitize(&other.subject);
        candidate(&format!("{name} instead of {}", first.subject), &name, first, other)
    }));
    let asked = first.parameters.asked_ns.unwrap_or_default();
    let rows: Vec<&'a Series> = plain.iter().map(|s| s.series).collect();
    all.extend(conditions(&Figures::new(run, asked, &rows)));
    all
}

fn candidate<'a>(id: &str, what: &str, before: &Calibrated<'a>, after: &Calibrated<'a>) -> Option<Candidate<'a>> {
    let case = before.parameters.asked_ns?;
    let trial = Trial { case, name: units::exact, before: before.series, after: after.series };
    let candidate = Candidate::instead(Goal::WakeOnTime, what.to_owned(), sanitize(&before.subject), trial);
    Some(Candidate { id: id.to_owned(), cause: id.to_owned(), ..candidate })
}

/// The way that is shown to work: TN measured again before each batch, or TN as fitted. Early waits are no gain.
fn compensation<'a>(all: &[Calibrated<'a>], plain: &Calibrated<'a>) -> Option<Candidate<'a>> {
    let works = |figure: Figure| {
        let after = beside(all, plain.series, figure)?;
        let proof = Proof::from_series(after.series)?;
        (proof.judgement() == Judgement::Works).then_some((after, proof.early))
    };
    let name = sanitize(&plain.subject);
    let again = works(Figure::Remeasured).map(|after| (after, format!("{name} shortened by TN measured again")));
    let ((after, early), what) =
        again.or_else(|| Some((works(Figure::Compensated)?, format!("{name} shortened by TN"))))?;
    let program = Some(format!("{} of the waits end early", spoken::share(early.value)));
    Some(Candidate { price: Price { program, ..Price::default() }, ..candidate("compensation", &what, plain, &after)? })
}

fn sleeper<'a>(all: &[Calibrated<'a>], plain: &Calibrated<'a>) -> Option<Candidate<'a>> {
    let after = beside(all, plain.series, Figure::CompensatedSleeper)?;
    let rust = Some("SleeperOptions::new().strategy(Strategy::Compensated).build()".to_owned());
    let what = "punctual::Sleeper, compensated";
    Some(Candidate { code: Code { rust, ..Code::default() }, ..candidate("sleeper", what, plain, &after)? })
}

// What a proof shows: the error of shortened waits, and whether the compensation works.

type Calibrated<'a> = Measured<'a, Parameters, Metrics>;

fn with_figure<'a>(all: &[Calibrated<'a>], figure: Figure) -> Vec<Calibrated<'a>> {
    all.iter().copied().filter(|s| s.parameters.figure == figure).collect()
}

/// The series of the same method and conditions with another figure.
fn beside<'a>(all: &[Calibrated<'a>], series: &Series, figure: Figure) -> Option<Calibrated<'a>> {
    let same = |s: &Calibrated<'_>| s.subject == series.subject && s.conditions == series.conditions;
    all.iter().copied().find(|s| same(s) && s.parameters.figure == figure)
}

/// The error of the waits of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Proof {
    /// Mean error over the rounds.
    mean: Mean,
    /// Mean of the rounds' median errors.
    median: Mean,
    /// Share of early waits over the rounds.
    early: Mean,
    /// What was taken off each wait, in ns.
    shortened_by: f64,
}

/// Whether waits shortened by TN take as long as asked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Judgement {
    /// Fewer are shown to be early than [`MOST_EARLY`], and the mean error is shown to be small.
    Works,
    /// Too many are early: TN is too large for sleeps of that length, by this many ns.
    TooMuch(f64),
    /// Too few are early: TN is too small, by this many ns.
    TooLittle(f64),
    /// The rounds differ too much to say.
    Undecided,
}

/// Of waits shortened by an exact TN, half are early. Two thirds or more are not what it promises.
const MOST_EARLY: f64 = 2.0 / 3.0;
/// If fewer are early, TN misses what most sleeps add.
const FEWEST_EARLY: f64 = 0.2;
/// The mean error may leave this part of what was taken off.
const LEFT: f64 = 0.1;

impl Proof {
    /// `None`: fewer rounds than a test takes.
    fn from_series(series: &Series) -> Option<Self> {
        let mean = mean_error(series)?;
        let median = Mean::of_rounds(series, |round| round.summary.p50.map(|ns| ns as f64))?;
        let shortened_by = series.experiment.calibrate()?.metrics.shortened_by_ns?;
        let early = Mean::of_rounds(series, |round| share_early(&round.summary))?;
        Some(Self { mean, median, early, shortened_by })
    }

    /// Whether the mean error is shown to be a small part of what was taken off. On a busy machine it is not.
    fn is_small(&self) -> bool {
        self.mean.low.abs().max(self.mean.high.abs()) < self.shortened_by * LEFT
    }

    fn judgement(&self) -> Judgement {
        let Mean { value, low, high } = self.median;
        let early = self.early.value;
        if self.early.high < MOST_EARLY && early >= FEWEST_EARLY && self.is_small() {
            Judgement::Works
        } else if early > MOST_EARLY && high < 0.0 {
            Judgement::TooMuch(-value)
        } else if early < FEWEST_EARLY && low > 0.0 {
            Judgement::TooLittle(value)
        } else {
            Judgement::Undecided
        }
    }
}

/// Mean error over the rounds.
fn mean_error(series: &Series) -> Option<Mean> {
    Mean::of_rounds(series, |round| round.summary.mean)
}

/// Share of early waits.
fn share_early(summary: &Summary) -> Option<f64> {
    (summary.count > 0).then(|| summary.negative as f64 / summary.count as f64)
}

/// `57 % [42 72]`.
fn early_text(early: Mean) -> String {
    let [low, high] = [early.low, early.high].map(|share| (100.0 * share).clamp(0.0, 100.0));
    unbroken(&format!("{} [{low:.0} {high:.0}]", units::share(early.value)))
}

/// `-3.90 µs [-4.51 -3.30]`.
fn mean_text(mean: Mean) -> String {
    let ns = mean.value.round() as i64;
    let interval = Interval { low: mean.low.round() as i64, high: mean.high.round() as i64 };
    unbroken(&format!("{} {}", units::duration(ns), units::interval_like(interval, ns)))
}
