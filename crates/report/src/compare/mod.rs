//! Compares two sides: figures that are later, sooner, unchanged or undecided.
//!
//! Takes two [`Side`]s of one or several runs each and returns a [`Comparison`]. It has the difference of each common
//! series at p50, at p99 and in CPU time per operation, with a 95 % interval and a verdict, corrected for the number of
//! comparisons. It also lists series that could not be compared, and differences between machines and settings. It is plain
//! data for the exporters ([`crate::export`]) and for a [`limit`].
//!
//! Nothing is refused: an incomparable figure has its own verdict, which never counts as agreement. No random numbers
//! are used: the same files give the same result.

mod causes;
mod document;
pub mod limit;
mod outcome;
mod screen;
pub mod sequential;
mod side;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Disturbance, Host};
use serde::Serialize;
use serde_json::Value;

use crate::evidence::difference::{self, corrected};
use crate::evidence::{Draft, SCALE, Shift};
use crate::format::units;
use crate::pictures::Curve;
use outcome::Names;
use side::Measured;

pub use crate::evidence::{Figure, LEVEL};
pub use causes::{CauseComparison, CausesCompared};
pub use document::Compared;
pub use outcome::{Change, Difference, FigureComparison, Range, SeriesComparison, Verdict};
pub use side::{Side, SideError, Unmatched, WhyUnmatched};

/// The name and version of a comparison's JSON.
pub const SCHEMA: &str = "punctual.comparison/1";

/// Two sides, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// The old runs' files, each once per run.
    pub old: Vec<RunName>,
    /// The new runs'.
    pub new: Vec<RunName>,
    /// Whether old and new runs took pairs, so that they were compared in pairs.
    pub in_turns: bool,
    /// How many figures could be compared: the verdicts are corrected for it.
    pub compared: usize,
    /// The series that both sides have.
    pub series: Vec<SeriesComparison>,
    /// Those that only one side has, or each under other conditions.
    pub unmatched: Vec<Unmatched>,
    /// What is different about the machine itself and its kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<Change>,
    /// What is different about machines, programs and settings.
    pub changes: Vec<Change>,
    /// Why threads woke up late; absent where no run has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes: Option<CausesCompared>,
    /// What its series are called.
    #[serde(skip)]
    pub(crate) names: Names,
}

/// A run by its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunName {
    /// The file's name.
    pub file: String,
    /// When the run began.
    pub started: String,
    /// False: it was interrupted.
    pub complete: bool,
}

impl RunName {
    /// The file, with a word where the run was interrupted.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.complete { self.file.clone() } else { format!("{} (interrupted)", self.file) }
    }
}

/// Permitted differences between compared series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Compares series with different conditions in force: the effect of the conditions is the question.
    pub across_conditions: bool,
}

/// Compares the new runs with the old ones.
#[must_use]
pub fn compare(old: &Side, new: &Side, options: Options) -> Comparison {
    let pairs = side::pairs(old, new);
    let matched = side::matched(old, new, options.across_conditions);
    let other_clock = other_clock(old, new);
    let drafts = matched.pairs.iter().map(|pair| {
        Figure::ALL.map(|figure| match &other_clock {
            Some(why) => Err(why.clone()),
            None => draft(pair.old, pair.new, figure, pairs.as_deref()),
        })
    });
    let drafts: Vec<[Result<Draft, String>; 3]> = drafts.collect();
    // All series estimate their uncertainty together, figure by figure.
    let shifts = Figure::ALL
        .map(|figure| difference::settled(drafts.iter().map(move |series| series[figure as usize].as_ref().ok())));
    let shift = |place: usize, figure: Figure| shifts[figure as usize][place].as_ref();
    let all = (0..drafts.len()).flat_map(|place| Figure::ALL.map(|figure| (place, figure)));
    let corrected = corrected(all.map(|(place, figure)| Some(shift(place, figure)?.probability())));
    let compared = corrected.tested;
    let mut significant = corrected.significant.into_iter();
    let mut finish = |place: usize, figure: Figure| {
        let shown = significant.next() == Some(true);
        let shift = shift(place, figure);
        FigureComparison {
            figure,
            verdict: Verdict::judged(shift, shown),
            why: drafts[place][figure as usize].as_ref().err().cloned(),
            difference: shift.map(|shift| told(shift, compared)),
        }
    };
    let samples = |measured: &Measured| measured.entries.iter().fold(0, |sum: u64, e| sum.saturating_add(e.count));
    let series: Vec<SeriesComparison> = matched
        .pairs
        .into_iter()
        .enumerate()
        .map(|(place, pair)| SeriesComparison {
            experiment: pair.identity.experiment.clone(),
            subject: pair.identity.subject.clone(),
            conditions: pair.new.label.clone(),
            parameters: pair.new.parameters.clone(),
            quantity: pair.identity.quantity,
            changed: pair.changed,
            old_count: samples(pair.old),
            new_count: samples(pair.new),
            figures: Figure::ALL.map(|figure| finish(place, figure)).to_vec(),
            curves: [pair.old, pair.new].map(|measured| Curve::median(&measured.curves)),
        })
        .collect();
    Comparison {
        schema: SCHEMA,
        old: names(old),
        new: names(new),
        in_turns: pairs.is_some(),
        causes: causes::compared(old, new, pairs.as_deref(), &matched.unmatched),
        compared,
        names: Names::from_series(&series),
        series,
        unmatched: matched.unmatched,
        machine: changes_of_machine(old, new),
        changes: changes(old, new),
    }
}

fn names(side: &Side) -> Vec<RunName> {
    let name = |run: &side::RunFacts| RunName {
        file: run.name.clone(),
        started: run.source.started.to_string(),
        complete: run.source.complete,
    };
    side.runs.iter().map(name).collect()
}

/// The difference of one figure, or why there is none.
fn draft(old: &Measured, new: &Measured, figure: Figure, pairs: Option<&[(usize, usize)]>) -> Result<Draft, String> {
    let [known_old, known_new] =
        [old, new].map(|side| side.entries.iter().filter_map(|entry| entry.figure(figure)).collect::<Vec<_>>());
    let missing = |side: &Measured| {
        let missing = side.entries.iter().find_map(|entry| entry.readings[figure as usize].err());
        missing.map_or_else(|| "it was not measured".to_owned(), |missing| missing.words(figure))
    };
    difference::between(&known_old, &known_new, pairs).ok_or_else(|| {
        match (known_old.is_empty(), known_new.is_empty()) {
            (true, true) => format!("{} on both sides", missing(old)),
            (true, false) => format!("{} in the old runs", missing(old)),
            _ => format!("{} in the new runs", missing(new)),
        }
    })
}

/// A shift in nanoseconds and shares, when `compared` figures are.
fn told(shift: &Shift, compared: usize) -> Difference {
    let old_ns = SCALE.figure(shift.from);
    let by = |by: f64| SCALE.figure(shift.from + by) - old_ns;
    let reach = shift.reach(LEVEL);
    let by_ns = Range { value: by(shift.by), low: by(shift.by - reach), high: by(shift.by + reach) };
    // Alone among all compared figures, a difference must pass the strictest step of the correction. A difference that
    // passes on average does so only every other time.
    let strictest = LEVEL / compared.max(1) as f64;
    let shows_ns = by(shift.shows(strictest));
    let share = |ns: f64| ns / old_ns;
    let positive = old_ns > 0.0;
    Difference {
        old_ns,
        new_ns: old_ns + by_ns.value,
        by_ns,
        by_share: positive.then(|| Range { value: share(by_ns.value), low: share(by_ns.low), high: share(by_ns.high) }),
        probability: shift.probability(),
        shows_ns,
        shows_share: positive.then(|| share(shows_ns)),
        noise: (shift.pair, strictest),
        shift: *shift,
    }
}

/// Facts that differ between any two runs and mean nothing.
const PASSING: [&str; 2] = ["load1", "name"];

/// Shares of CPU time above which a disturbance is reported.
const STEAL: f64 = 0.01;
const BUSY: f64 = 0.05;

/// The differing facts. Most are read by name from the record, so a new fact is compared automatically.
fn changes(old: &Side, new: &Side) -> Vec<Change> {
    let (old_facts, new_facts) = (facts(old), facts(new));
    let shown = |values: Option<&BTreeSet<String>>| {
        values.map_or("unknown".to_owned(), |values| values.iter().cloned().collect::<Vec<_>>().join(" or "))
    };
    let both = side::of_both(&old_facts, &new_facts).filter(|(_, old, new)| old != new);
    let change = |(name, old, new): (&str, Option<&_>, Option<&_>)| Change {
        what: name.replace(['_', '.'], " "),
        old: shown(old),
        new: shown(new),
    };
    both.map(change).chain(disturbance(old, new)).collect()
}

/// What differs of the machine itself and its kernel.
fn changes_of_machine(old: &Side, new: &Side) -> Vec<Change> {
    type Fact = fn(&Host) -> Option<String>;
    let facts: [(&str, Fact); 6] = [
        ("CPU", |host| host.cpu_model.clone()),
        ("architecture", |host| host.architecture.clone()),
        ("number of CPUs", |host| host.cpus_present.map(|cpus| cpus.to_string())),
        ("hypervisor", |host| host.hypervisor.clone()),
        ("emulator", |host| Some(host.emulator.clone().unwrap_or_else(|| "none".to_owned()))),
        ("kernel", |host| host.kernel.clone()),
    ];
    let told = |side: &Side, fact: Fact| {
        let values: BTreeSet<String> = side.hosts().filter_map(fact).collect();
        values.into_iter().collect::<Vec<_>>().join(" or ")
    };
    let change = |(what, fact): (&str, Fact)| {
        let (old, new) = (told(old, fact), told(new, fact));
        // What one side does not know is not shown to differ.
        (old != new && !old.is_empty() && !new.is_empty()).then(|| Change { what: what.into(), old, new })
    };
    facts.into_iter().filter_map(change).collect()
}

/// All facts of a side's runs, by name.
fn facts(side: &Side) -> BTreeMap<String, BTreeSet<String>> {
    let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for host in side.hosts() {
        if let Ok(Value::Object(fields)) = serde_json::to_value(host) {
            let fields = fields.into_iter().filter(|(name, _)| !PASSING.contains(&name.as_str()));
            collect("", Value::Object(fields.collect()), &mut facts);
        }
    }
    for run in &side.runs {
        facts.entry("punctual version".into()).or_default().insert(run.source.tool.version.clone());
        facts.entry("clock read by".into()).or_default().insert(run.source.clock.source.clone());
    }
    facts
}

fn collect(name: &str, value: Value, facts: &mut BTreeMap<String, BTreeSet<String>>) {
    let text = match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let full = if name.is_empty() { field } else { format!("{name}.{field}") };
                collect(&full, value, facts);
            }
            return;
        }
        Value::Null => "unknown".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text,
        Value::Array(items) => {
            let item = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            items.iter().map(item).collect::<Vec<_>>().join("+")
        }
        other => other.to_string(),
    };
    facts.entry(name.to_owned()).or_default().insert(text);
}

/// The largest steal and the largest CPU load on either side.
fn disturbance(old: &Side, new: &Side) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut tell = |what: &str, least: f64, share: &dyn Fn(&Disturbance) -> Option<f64>| {
        let worst = |side: &Side| {
            let shares = side.runs.iter().filter_map(|run| share(&run.source.disturbance)).filter(|s| s.is_finite());
            shares.reduce(f64::max)
        };
        let (Some(a), Some(b)) = (worst(old), worst(new)) else { return };
        if a.max(b) >= least && a.max(b) > 2.0 * a.min(b) {
            changes.push(Change { what: what.into(), old: units::share(a), new: units::share(b) });
        }
    };
    tell("CPU time stolen by the hypervisor", STEAL, &|d| d.steal_share);
    tell("CPUs busy", BUSY, &|d| d.busy_share);
    changes
}

/// Why nothing can be compared: different clocks.
fn other_clock(old: &Side, new: &Side) -> Option<String> {
    let clocks = |side: &Side| side.runs.iter().map(|run| run.source.clock.source.clone()).collect::<BTreeSet<_>>();
    let (old, new) = (clocks(old), clocks(new));
    let list = |clocks: BTreeSet<String>| clocks.into_iter().collect::<Vec<_>>().join(" and ");
    (old != new || old.len() > 1).then(|| format!("other clock: {} -> {}", list(old), list(new)))
}
