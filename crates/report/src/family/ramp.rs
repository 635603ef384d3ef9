//! The ramp: how a fixed piece of work speeds up under each governor, as table, chart and words.
//!
//! Two questions are tested on rounds. Are the first loops after a rest slower than the others? Are the loops slower than
//! the fastest governor's? A difference counts only where something can change the frequency, and where it is larger than a
//! loop's own spread.

use punctual_record::experiment::ramp::{Metrics, Parameters};
use punctual_record::remedy::Value;
use punctual_record::statistics::lower_median;
use punctual_record::{Experiment, Quantity, Remedy, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::{Effect, Gain, Outcome, at_p50};
use crate::family::shared::{ALWAYS, Family, Measured, measured};
use crate::format::naming::{AS_FOUND, under};
use crate::format::{listed, sanitize, sentence, spoken, unbroken, units};
use crate::pictures;
use crate::pictures::course::Loops;
use crate::verdict::{Advice, Answer, Candidate, Goal, Trial};

pub(super) const FAMILY: Family =
    Family { experiment: "ramp", title: "Speed after a rest", sections, candidates, answer };
/// From this ratio of a loop to the median on, something stretched it. No change of frequency does that in the middle of a run.
const STRETCHED: f64 = 1.5;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let judged = judged(run, series);
    let Some(first) = judged.first().map(|judgement| judgement.ramp) else { return Vec::new() };
    let on = first.metrics.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let heading = format!(
        "ramp: loops of {} of fixed work{on}, {}, after a rest of {}",
        units::exact(first.parameters.work_ns),
        under(&first.conditions),
        units::exact(first.parameters.rest_ns)
    );
    let mut section = Section::new(heading).with(Block::Table(table(&judged))).with(Block::Legend(legend(&judged)));
    // Loops at one speed are scatter, in letters or in lines.
    if judged.iter().any(Judged::shows_a_change) {
        section.blocks.extend(pictures::course::ramps(judged.iter().map(loops).collect()).map(Block::Album));
    }
    let mut sections = vec![section];
    let ramps: Vec<Ramp<'_>> = judged.iter().map(|judgement| judgement.ramp).collect();
    let said: Vec<String> = ramps.iter().flat_map(words).chain(variation(&ramps)).collect();
    if !said.is_empty() {
        sections.push(Section::default().with(Block::said(said)));
    }
    sections
}

/// Whether the time to full speed is a column.
fn speeds_up(judged: &[Judged<'_>]) -> bool {
    judged.iter().any(|judgement| judgement.to_full_speed_ns().is_some())
}

fn legend(judged: &[Judged<'_>]) -> Vec<Note> {
    let mut notes = vec![
        Note::always("first, final: median over the rounds of the first and the last loop."),
        Note::on("spread", "spread: (p90 - p10) / p50 of the later half of the loops, with what interrupted them."),
        Note::on(
            "transitions",
            "transitions: changes of frequency that the kernel counted during the loops, all rounds together.",
        ),
        Note::on("last set", "last set: what the kernel asked for last, after the last loop."),
    ];
    if speeds_up(judged) {
        let text = "to full speed: until loops take at most 5 % longer than the fastest governor's later loops, median over the rounds.";
        notes.push(Note::on("to full speed", text));
    }
    notes
}

fn table(judged: &[Judged<'_>]) -> Table {
    Columns::new()
        .left("governor", ALWAYS, |judgement: &Judged<'_>| judgement.ramp.subject.clone())
        .ns("first", ALWAYS, |judgement| judgement.ramp.metrics.first_ns)
        .ns("final", ALWAYS, |judgement| judgement.ramp.metrics.final_ns)
        .estimate("p50", (ALWAYS, 40), |judgement| (judgement.ramp.summary.p50, judgement.ramp.summary.ci95.p50))
        .ns("max", 50, |judgement| judgement.ramp.summary.max)
        .share("spread", 60, |judgement| spread(&judgement.ramp))
        .count("transitions", 70, |judgement| judgement.ramp.metrics.transitions)
        .known("last set", 75, |judgement| judgement.ramp.metrics.ended_khz, units::gigahertz)
        .when(speeds_up(judged), |columns| columns.ns("to full speed", 80, Judged::to_full_speed_ns))
        .plain(judged)
}

/// The table of a first screen: the fastest governor first.
fn screen(all: &[Judged<'_>]) -> Option<Table> {
    let mut sorted: Vec<&Judged<'_>> = all.iter().collect();
    sorted.sort_by_key(|judgement| judgement.ramp.summary.p50.unwrap_or(i64::MAX));
    let speeds_up = speeds_up(all);
    let table = Columns::new()
        .left("governor", ALWAYS, |judgement: &&Judged<'_>| judgement.ramp.subject.clone())
        .ns("first loop", ALWAYS, |judgement| judgement.ramp.metrics.first_ns)
        .ns("last loop", ALWAYS, |judgement| judgement.ramp.metrics.final_ns)
        .ns("p50", ALWAYS, |judgement| judgement.ramp.summary.p50)
        .ns("max", 50, |judgement| judgement.ramp.summary.max)
        .when(speeds_up, |columns| columns.ns("to full speed", 80, |judgement| judgement.to_full_speed_ns()))
        .plain(&sorted);
    let named = sorted.iter().filter(|claim| claim.shows_a_change()).map(|claim| claim.ramp.subject.clone()).collect();
    (!sorted.is_empty()).then(|| table.ranked("p50", named))
}

fn loops(judgement: &Judged<'_>) -> Loops {
    Loops {
        name: judgement.ramp.subject.clone(),
        typical: typical(&judgement.ramp),
        to_full_speed_ns: judgement.to_full_speed_ns(),
        p50: judgement.ramp.summary.p50,
    }
}

/// Loop by loop the middle one of all rounds.
fn typical(series: &Ramp<'_>) -> Vec<i64> {
    let rounds = rounds(series);
    let loops = rounds.iter().map(|round| round.len()).max().unwrap_or(0);
    let middle =
        |index: usize| lower_median(&rounds.iter().filter_map(|round| round.get(index).copied()).collect::<Vec<i64>>());
    (0..loops).filter_map(middle).collect()
}

/// How much the settled loops vary.
fn spread(series: &Ramp<'_>) -> Option<f64> {
    let (low, high) = settled_tenths(series)?;
    let p50 = series.summary.p50.filter(|ns| *ns > 0)?;
    Some((high - low) as f64 / p50 as f64)
}

/// What is to be said of a series beside the answer.
fn words(series: &Ramp<'_>) -> Vec<String> {
    let name = series.subject.clone();
    let mut said = Vec::new();
    // The kernel asked for less than the highest frequency allowed after the last loop.
    let low = series.metrics.ended_khz.zip(series.metrics.max_khz).is_some_and(|(ended, max)| ended < max);
    if let Some(why) = series.metrics.why.as_ref().filter(|_| low) {
        said.push(format!("{name} ended below the highest frequency: {why}."));
    }
    let in_threads = ["ondemand", "conservative", "schedutil"].contains(&series.subject.as_str());
    if let Some(raised) = series.metrics.raised.as_ref().filter(|_| in_threads) {
        said.push(format!("For the run of {name} these kernel threads were raised, and put back: {raised}."));
    }
    let typical = series.summary.p50.unwrap_or(i64::MAX) as f64;
    let samples = series.samples.as_deref().unwrap_or_default();
    let stretched = samples.iter().filter(|ns| **ns as f64 > typical * STRETCHED).count();
    if series.subject == AS_FOUND && stretched > 0 {
        let share = units::share(stretched as f64 / samples.len() as f64);
        said.push(format!(
            "{stretched} of {} loops ({share}) took more than half as long again as the median: a lower clock, the hypervisor, or \
             others on this CPU.",
            units::count(samples.len() as u64)
        ));
    }
    said
}

/// What of the spread is the work's own, and what interrupted it: one sentence for all governors.
fn variation(all: &[Ramp<'_>]) -> Option<String> {
    let told: Vec<&Ramp<'_>> = all.iter().filter(|series| series.metrics.own_spread.is_some()).collect();
    // The figure, under its governor where there are several.
    let each = |figure: &dyn Fn(&Metrics) -> Option<String>| {
        let one = |series: &&Ramp<'_>| {
            let figure = unbroken(&figure(series.metrics)?);
            Some(if told.len() > 1 { format!("{figure} ({})", series.subject) } else { figure })
        };
        told.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let own = each(&|metrics| metrics.own_spread.map(units::share));
    if own.is_empty() {
        return None;
    }
    let name = if let [one] = told[..] { format!("{}: without", one.subject) } else { "Without".to_owned() };
    let own = format!("{name} interruptions the loops vary by {own}");
    let took = each(&|metrics| metrics.interruption_ns.map(units::duration));
    if took.is_empty() {
        return Some(format!("{own}; none was interrupted."));
    }
    Some(format!(
        "{own}; {} were interrupted, for {took} at the median: the timer's tick, other interrupts, or the hypervisor. What slows all of \
         a loop alike, a lower clock or a busy sibling of the core, is not taken out.",
        each(&|metrics| metrics.interrupted_share.map(units::share))
    ))
}

/// Whether a run is one of ramps alone.
pub(crate) fn is_all(run: &Run) -> bool {
    let has_samples = |series: &Series| series.quantity != Quantity::Loop || series.samples.is_some();
    !run.series.is_empty() && run.series.iter().all(|series| series.experiment.ramp().is_some() && has_samples(series))
}

/// Each governor, and the durations of its loops in ns: loop by loop the middle one of all rounds.
pub(crate) fn lines(run: &Run) -> Vec<(&str, Vec<i64>)> {
    let series: Vec<&Series> = run.series.iter().filter(|series| series.quantity == Quantity::Loop).collect();
    measured(&series, Experiment::ramp).iter().map(|ramp| (ramp.series.subject.as_str(), typical(ramp))).collect()
}

/// The answer to: how soon is the CPU at full speed? A check-up says only what is shown.
fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let all = judged(run, series);
    let mut sentences: Vec<String> = all.iter().filter_map(slow_start).collect();
    sentences.extend(all.iter().filter_map(slower));
    if run.is_checkup() {
        return Answer::in_words(sentences);
    }
    sentences.extend(unshown(&all));
    Answer { table: screen(&all), ..Answer::in_words(sentences) }
}

/// `ondemand: full speed after 12.3 ms of work. The first loops take 1.40 ms, all loops 750 µs (p50).`
fn slow_start(judgement: &Judged<'_>) -> Option<String> {
    let Start::Slow(gain) = judgement.start else { return None };
    let name = judgement.ramp.subject.clone();
    let after = judgement.ramp.summary.p50?;
    let loops = format!(
        "the first loops after a rest take {}, all loops {} (p50)",
        spoken::duration(after + gain.ns),
        spoken::duration(after)
    );
    Some(match judgement.to_full_speed_ns() {
        Some(ns) => format!("{name} reaches full speed after {} of work: {loops}.", spoken::duration(ns)),
        None => format!("{name}: {loops}."),
    })
}

/// `powersave stays slower than performance: a loop takes 2.25 ms, not 750 µs. It keeps the lowest frequency, by design.`
fn slower(judgement: &Judged<'_>) -> Option<String> {
    let (gain, fastest) = &judgement.slower?;
    let p50 = judgement.ramp.summary.p50?;
    let (name, fastest) = (judgement.ramp.subject.clone(), fastest.to_owned());
    let text = format!(
        "{name} is slower than {fastest}: a loop takes {}, not {}",
        spoken::duration(p50),
        spoken::duration(p50 - gain.ns)
    );
    Some(match judgement.ramp.metrics.why.clone() {
        Some(why) => format!("{text}; {}", sentence(&why)),
        None => format!("{text}."),
    })
}

/// What nothing is claimed of, and why.
fn unshown(all: &[Judged<'_>]) -> Vec<String> {
    let names = |what: &dyn Fn(&Start) -> bool| {
        let those = all.iter().filter(|judgement| what(&judgement.start));
        let names: Vec<String> = those.map(|judgement| judgement.ramp.subject.clone()).collect();
        (!names.is_empty()).then(|| listed(&names, 6))
    };
    let mut said = Vec::new();
    if names(&|start| *start == Start::NotExposed).is_some() {
        said.push("Whether the CPU's frequency changes is not known: the kernel exposes none.".to_owned());
    }
    for (outcome, words) in [
        (Start::OneSpeed, "One speed by design, so no speed-up:"),
        (Start::NoTransition, "The kernel counted no change of frequency under"),
        (Start::NotShown, "No speed-up after a rest is shown for"),
    ] {
        said.extend(names(&|start| *start == outcome).map(|names| format!("{words} {names}.")));
    }
    let reason = all.iter().find_map(|judgement| match &judgement.start {
        Start::NotTested(why) => Some(why),
        _ => None,
    });
    if let (Some(why), Some(names)) = (reason, names(&|start| matches!(start, Start::NotTested(_)))) {
        said.push(format!("Speed-up after a rest was not tested for {names}: {}", sentence(why)));
    }
    said
}

// The remedy for a slow start that a run can judge: the governor `performance`.

/// `performance` instead of what was found, where both were measured.
fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    // Without cpufreq no governor was set, whatever the series are called.
    let Some(cpufreq) = &run.host.cpufreq else { return Vec::new() };
    let first = || series.iter().copied().filter(|series| series.quantity == Quantity::FirstLoops);
    let is_found = |series: &&Series| match cpufreq.governors.as_slice() {
        _ if series.subject == AS_FOUND => governor(run, AS_FOUND) != Some(PERFORMANCE),
        [one] => *one == series.subject && one != PERFORMANCE,
        _ => false,
    };
    let one = |before: &'a Series| {
        let work_ns = before.experiment.ramp()?.parameters.work_ns;
        let after = first().find(|loops| loops.subject == PERFORMANCE && is_same_work(loops, before))?;
        let remedy = Remedy::for_value(&Value::Governor(PERFORMANCE.to_owned()));
        let (what, instead_of) = ("governor performance".to_owned(), sanitize(&cpufreq.governors.join(", ")));
        let trial = Trial { case: work_ns, name: case, before, after };
        Some(Candidate {
            id: what.clone(),
            cause: "governor".to_owned(),
            price: remedy.price,
            code: remedy.code,
            ..Candidate::instead(Goal::SpeedUp, what, instead_of, trial)
        })
    };
    first().filter(is_found).filter_map(one).collect()
}

fn case(work_ns: i64) -> String {
    format!("for {} of work after a rest", units::exact(work_ns))
}

/// The loops of one governor.
type Ramp<'a> = Measured<'a, Parameters, Metrics>;

/// The one that the check-up tries.
const PERFORMANCE: &str = "performance";

/// Loops within this share of each other count as one speed: 5 %, below the step between two P-states.
const ONE_SPEED: f64 = 0.05;

/// Governors that keep one speed, with any driver.
const CONSTANT: [&str; 2] = ["performance", "userspace"];

/// Drivers under which the hardware varies the speed under `powersave`.
const AUTONOMOUS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

/// The governor of a series: its name, or the one found where all CPUs agree.
fn governor<'a>(run: &'a Run, subject: &'a str) -> Option<&'a str> {
    match run.host.cpufreq.as_ref().map(|cpufreq| cpufreq.governors.as_slice()) {
        _ if subject != AS_FOUND => Some(subject),
        Some([one]) => Some(one),
        _ => None,
    }
}

/// The 10th and the 90th percentile of the later halves of the rounds.
fn settled_tenths(series: &Ramp<'_>) -> Option<(i64, i64)> {
    let mut settled: Vec<i64> =
        rounds(series).into_iter().flat_map(|round| round[round.len() / 2..].iter().copied()).collect();
    settled.sort_unstable();
    let at = |share: f64| settled.get(((settled.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    // Fewer than twenty values have no tenth worth the name.
    Some((at(0.1)?, at(0.9)?)).filter(|_| settled.len() >= 20)
}

/// The rounds' loops, each round in order.
fn rounds<'a>(series: &Ramp<'a>) -> Vec<&'a [i64]> {
    let samples = series.series.samples.as_deref().unwrap_or_default();
    let loops = usize::try_from(series.parameters.loops).ok().filter(|n| *n > 0);
    samples.chunks(loops.unwrap_or(samples.len().max(1))).collect()
}

/// A governor, and what is shown of it.
struct Judged<'a> {
    ramp: Ramp<'a>,
    /// Whether it speeds up after a rest.
    start: Start,
    /// What a loop loses to the fastest governor, where that is shown.
    slower: Option<(Gain, &'a str)>,
}

/// What is known of the first loops after a rest.
#[derive(Debug, Clone, PartialEq)]
enum Start {
    /// The kernel exposes no frequency.
    NotExposed,
    /// The governor keeps one speed.
    OneSpeed,
    /// The kernel counted no transition during the loops.
    NoTransition,
    /// They are slower, by this much.
    Slow(Gain),
    /// Tested, and not shown to be slower by more than a loop's spread.
    NotShown,
    /// Not tested, for this reason.
    NotTested(String),
}

impl Judged<'_> {
    /// Whether something is shown to change with time or with the governor.
    fn shows_a_change(&self) -> bool {
        matches!(self.start, Start::Slow(_)) || self.slower.is_some()
    }

    /// Work until full speed, where a speed-up is shown.
    fn to_full_speed_ns(&self) -> Option<i64> {
        match self.start {
            Start::Slow(_) => self.ramp.metrics.to_full_speed_ns.filter(|ns| *ns > 0),
            _ => None,
        }
    }
}

/// All governors of a run; their tests are corrected together.
fn judged<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Judged<'a>> {
    let measuring = |quantity: Quantity| series.iter().copied().filter(move |series| series.quantity == quantity);
    let ramps: Vec<Ramp<'a>> = measured(&measuring(Quantity::Loop).collect::<Vec<_>>(), Experiment::ramp);
    let fastest = ramps.iter().filter(|ramp| ramp.summary.p50.is_some()).min_by_key(|ramp| ramp.summary.p50).copied();
    let first = |ramp: &Ramp<'a>| {
        let alike = |series: &Series| series.subject == ramp.subject && series.conditions == ramp.conditions;
        measuring(Quantity::FirstLoops).find(|series| alike(series) && is_same_work(series, ramp.series))
    };
    let pairs = |ramp: &Ramp<'a>| {
        let first = first(ramp).filter(|_| fixed(run, ramp).is_none());
        let fastest = fastest.filter(|fastest| fastest.subject != ramp.subject);
        [first.map(|first| [first, ramp.series]), fastest.map(|fastest| [ramp.series, fastest.series])]
    };
    let asked: Vec<[Option<[&'a Series; 2]>; 2]> = ramps.iter().map(pairs).collect();
    let mut effects = at_p50(run, asked.iter().flatten().flatten().copied()).into_iter();
    let judge = |(ramp, pairs): (Ramp<'a>, [Option<[&'a Series; 2]>; 2])| {
        let [start, other] = pairs.map(|pair| pair.and_then(|_| effects.next()));
        let start = fixed(run, &ramp).unwrap_or_else(|| outcome(&ramp, start));
        let slower = other.and_then(|effect| shown(&ramp, &effect));
        Judged { start, slower: slower.zip(fastest.map(|fastest| fastest.series.subject.as_str())), ramp }
    };
    ramps.into_iter().zip(asked).map(judge).collect()
}

/// Whether two series of ramps were asked for the same loops.
fn is_same_work(one: &Series, other: &Series) -> bool {
    one.experiment.parameters() == other.experiment.parameters()
}

/// Why the speed cannot change, where that is known without a test.
fn fixed(run: &Run, ramp: &Ramp<'_>) -> Option<Start> {
    let metrics = ramp.metrics;
    let cpufreq = run.host.cpufreq.as_ref();
    if cpufreq.is_none() && metrics.driver.is_none() && metrics.transitions.is_none_or(|n| n == 0) {
        return Some(Start::NotExposed);
    }
    if metrics.transitions == Some(0) {
        return Some(Start::NoTransition);
    }
    let governor = governor(run, &ramp.subject)?;
    let driver =
        metrics.driver.as_deref().or(cpufreq.and_then(|cpufreq| cpufreq.driver.as_deref())).unwrap_or_default();
    let lowest = governor == "powersave" && !AUTONOMOUS.contains(&driver);
    (CONSTANT.contains(&governor) || lowest).then_some(Start::OneSpeed)
}

fn outcome(ramp: &Ramp<'_>, effect: Option<Effect>) -> Start {
    let Some(effect) = effect else { return Start::NotTested("the record has no first loops".to_owned()) };
    match effect.outcome {
        Outcome::NotTested => Start::NotTested(effect.why.unwrap_or_default()),
        _ => shown(ramp, &effect).map_or(Start::NotShown, Start::Slow),
    }
}

/// A shown gain that is more than another speed's least distance, and more than these loops' spread.
fn shown(ramp: &Ramp<'_>, effect: &Effect) -> Option<Gain> {
    let gain = effect.better()?;
    let (low, high) = settled_tenths(ramp)?;
    let after = effect.after_ns?;
    (gain.ns > high - low && gain.ns as f64 > after as f64 * ONE_SPEED).then_some(gain)
}
