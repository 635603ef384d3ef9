//! What became of the series that both sides have: verdicts, estimates with their intervals and differences, as plain data. And
//! what each is called: what tells it from the others of its experiment, and no more.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Param, Quantity};
use serde::Serialize;

use crate::evidence::{Figure, SCALE, Shift, difference};
use crate::format::{naming, sanitize, units};
use crate::pictures::Curve;

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Shown to be larger: later, slower, more CPU time.
    Worse,
    /// Shown to be smaller.
    Better,
    /// No difference that this data can show.
    NoDifference,
    /// Cannot be compared.
    NotComparable,
}

impl Verdict {
    /// Of a difference, and whether it is shown; `None`: not tested.
    pub(super) fn judged(shift: Option<&Shift>, shown: bool) -> Self {
        match shift {
            None => Self::NotComparable,
            Some(shift) if shown && shift.by > 0.0 => Self::Worse,
            Some(_) if shown => Self::Better,
            Some(_) => Self::NoDifference,
        }
    }

    /// Whether a difference is shown.
    pub(crate) fn is_shown(self) -> bool {
        matches!(self, Self::Worse | Self::Better)
    }

    /// In words, for what the figure is of.
    #[must_use]
    pub fn word(self, figure: Figure, quantity: Quantity) -> &'static str {
        let call = matches!(
            quantity,
            Quantity::CallCost
                | Quantity::Loop
                | Quantity::FirstLoops
                | Quantity::RoundTrip
                | Quantity::Away
                | Quantity::Settling
                | Quantity::Response
        );
        match (self, figure, call) {
            (Self::Worse, Figure::Cpu, _) => "more CPU",
            (Self::Better, Figure::Cpu, _) => "less CPU",
            (Self::Worse, _, true) => "longer",
            (Self::Better, _, true) => "shorter",
            (Self::Worse, ..) => "later",
            (Self::Better, ..) => "sooner",
            (Self::NoDifference, ..) => "no difference shown",
            (Self::NotComparable, ..) => "not comparable",
        }
    }
}

/// A fact that differs between the sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name, for instance `kernel` or `cpufreq governors`.
    pub what: String,
    /// On the old side; several values where its runs differ.
    pub old: String,
    /// On the new side.
    pub new: String,
}

impl Change {
    /// `old → new`, neutralised.
    pub(super) fn in_words(&self) -> String {
        format!("{} → {}", sanitize(&self.old), sanitize(&self.new))
    }
}

/// An estimate and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One series on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesComparison {
    /// The experiment.
    pub experiment: String,
    /// The subject.
    pub subject: String,
    /// The label of its conditions in the new run.
    pub conditions: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, Param>,
    /// What its figures are.
    pub quantity: Quantity,
    /// Settings that held otherwise on the new side: the machine's, where nothing else was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Change>,
    /// Samples on the old side.
    pub old_count: u64,
    /// Samples on the new side.
    pub new_count: u64,
    /// One each of [`Figure::ALL`], in that order.
    pub figures: Vec<FigureComparison>,
    /// The percentiles of the old and the new side, for a picture.
    #[serde(skip)]
    pub(crate) curves: [Curve; 2],
}

/// One figure of one series on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureComparison {
    /// Which.
    pub figure: Figure,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The difference, where it can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// A difference, new against old.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The old figure in ns; of several runs the mean, taken on a logarithmic scale.
    pub old_ns: f64,
    /// The new figure in ns.
    pub new_ns: f64,
    /// New minus old in ns.
    pub by_ns: Range,
    /// The same as a share of the old figure; absent where that is not above zero.
    pub by_share: Option<Range>,
    /// The probability of a difference at least as large where there is none; not corrected.
    pub probability: f64,
    /// The smallest increase, in ns, that nine of ten comparisons like this one would show although nothing else differs.
    pub shows_ns: f64,
    /// The same as a share of the old figure.
    pub shows_share: Option<f64>,
    /// The variance between neighbours on the comparison's scale, and the strictest error probability of the correction.
    #[serde(skip)]
    pub(crate) noise: (f64, f64),
    /// The same on the comparison's scale, with its error.
    #[serde(skip)]
    pub(crate) shift: Shift,
}

impl Difference {
    /// The fewest interleaved runs a side that show an increase by this much, with 90 % power. `None`: no number in reach.
    #[must_use]
    pub fn runs_to_show(&self, ns: f64) -> Option<u32> {
        let by = SCALE.place(self.old_ns + ns) - SCALE.place(self.old_ns);
        difference::runs_to_show(by, self.noise.0, self.noise.1)
    }
}

/// What the series of one experiment share, and in what they differ.
#[derive(Debug, Clone, Default, PartialEq)]
struct Shared {
    /// The parameters that all have with the same value.
    parameters: BTreeMap<String, Param>,
    /// Parameters without which all names still differ: those that only some series have, with one value.
    dispensable: BTreeSet<String>,
    conditions: BTreeSet<String>,
    /// Whether the quantity tells series apart.
    by_quantity: bool,
}

/// How many names there are without these parameters, and with the quantity or without it.
fn names(series: &[&SeriesComparison], without: &BTreeSet<String>, by_quantity: bool) -> usize {
    let name = |series: &&SeriesComparison| {
        let kept: Vec<_> = series.parameters.iter().filter(|(name, _)| !without.contains(*name)).collect();
        format!("{:?}", (&series.subject, &series.conditions, kept, by_quantity.then_some(series.quantity)))
    };
    series.iter().map(name).collect::<BTreeSet<_>>().len()
}

fn dispensable(series: &[&SeriesComparison]) -> BTreeSet<String> {
    let mut values: BTreeMap<&String, Vec<&Param>> = BTreeMap::new();
    for (name, value) in series.iter().flat_map(|series| &series.parameters) {
        let known = values.entry(name).or_default();
        if !known.contains(&value) {
            known.push(value);
        }
    }
    let (all, mut found) = (names(series, &BTreeSet::new(), true), BTreeSet::new());
    for (name, _) in values.into_iter().filter(|(_, values)| values.len() == 1) {
        found.insert(name.clone());
        if names(series, &found, true) < all {
            found.remove(name);
        }
    }
    found
}

/// A subject, after its experiment if the experiment measures governors and settings: `ramp as found`.
pub(super) fn measured(experiment: &str, subject: &str) -> String {
    const ON_SETTINGS: [&str; 3] = ["ramp", "switch", "boost"];
    if ON_SETTINGS.contains(&experiment) { format!("{experiment} {subject}") } else { subject.to_owned() }
}

/// A name of a first screen: the subject, and what follows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Short {
    subject: String,
    rest: String,
}

impl Short {
    pub(super) fn whole(&self) -> String {
        format!("{}{}", self.subject, self.rest)
    }

    /// The name in this many letters if that leaves some of the subject: what tells it from others of its subject stays.
    pub(super) fn within(&self, letters: usize) -> String {
        const LEAST: usize = 3;
        let room = letters.saturating_sub(self.rest.chars().count());
        if self.subject.chars().count() <= room || room <= LEAST {
            return self.whole();
        }
        format!("{}…{}", self.subject.chars().take(room - 1).collect::<String>(), self.rest)
    }
}

/// The names of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Names(BTreeMap<String, Shared>);

impl Names {
    /// From all series.
    pub(super) fn from_series(series: &[SeriesComparison]) -> Self {
        let mut all: BTreeMap<String, Shared> = BTreeMap::new();
        for series in series {
            let first = || Shared { parameters: series.parameters.clone(), ..Shared::default() };
            let shared = all.entry(series.experiment.clone()).or_insert_with(first);
            shared.parameters.retain(|name, value| series.parameters.get(name) == Some(value));
            shared.conditions.insert(series.conditions.clone());
        }
        for (experiment, shared) in &mut all {
            let own: Vec<&SeriesComparison> = series.iter().filter(|series| series.experiment == *experiment).collect();
            shared.dispensable = dispensable(&own);
            let all = BTreeSet::new();
            shared.by_quantity = names(&own, &all, false) < names(&own, &all, true);
        }
        Self(all)
    }

    /// An experiment with what all its series share: `wait, asked 100 µs`.
    pub(crate) fn heading(&self, experiment: &str) -> String {
        let nothing = BTreeMap::new();
        naming::subject(experiment, self.0.get(experiment).map_or(&nothing, |shared| &shared.parameters))
    }

    /// A series under the heading of its experiment: `nanosleep, slack 1 ns`.
    pub(crate) fn under_heading(&self, series: &SeriesComparison) -> String {
        self.parts(series, &naming::parameter).join(", ")
    }

    /// The series on a first screen, in their order: without the name of the experiment, and a wait by its length alone; if two would be
    /// called the same, as anywhere.
    pub(super) fn on_screen(&self, all: &[SeriesComparison]) -> Vec<Short> {
        let parameter = |name: &str, value: &Param| match (name, value) {
            ("asked_ns", Param::Int(ns)) => units::exact(*ns),
            _ => naming::parameter(name, value),
        };
        let short = |series: &SeriesComparison| {
            let mut parts = self.parts(series, &parameter);
            let subject = measured(&series.experiment, &parts.remove(0));
            Short { subject, rest: parts.iter().map(|part| format!(", {part}")).collect() }
        };
        let names: Vec<Short> = all.iter().map(short).collect();
        match names.iter().map(Short::whole).collect::<BTreeSet<_>>().len() == names.len() {
            true => names,
            false => all.iter().map(|series| Short { subject: self.anywhere(series), rest: String::new() }).collect(),
        }
    }

    /// The subject, and what tells the series from the others of its experiment.
    fn parts(&self, series: &SeriesComparison, parameter: &dyn Fn(&str, &Param) -> String) -> Vec<String> {
        let mut parts = vec![sanitize(&series.subject)];
        let Some(shared) = self.0.get(&series.experiment) else { return parts };
        let varying = |(name, _): &(&String, &Param)| {
            !shared.parameters.contains_key(*name) && !shared.dispensable.contains(*name)
        };
        parts.extend(series.parameters.iter().filter(varying).map(|(name, value)| parameter(name, value)));
        parts.extend(shared.by_quantity.then(|| series.quantity.name().replace('_', " ")));
        parts.extend((shared.conditions.len() > 1).then(|| naming::phrase(&series.conditions)));
        parts
    }

    /// A series anywhere: after its experiment where there are several.
    pub(crate) fn anywhere(&self, series: &SeriesComparison) -> String {
        let name = self.under_heading(series);
        if self.0.len() > 1 { format!("{} {name}", sanitize(&series.experiment)) } else { name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_name_the_subject_is_cut() {
        let name = Short { subject: "clock_nanosleep_abs".into(), rest: ", 1 ms, C-states off".into() };
        assert_eq!(name.within(27), "clock_…, 1 ms, C-states off");
        assert_eq!(name.within(60), "clock_nanosleep_abs, 1 ms, C-states off");
        assert_eq!(name.within(20), name.whole(), "without room for the subject it stays");
    }

    #[test]
    fn governors_and_settings_are_named_after_their_experiment() {
        assert_eq!(measured("ramp", "as found"), "ramp as found");
        assert_eq!(measured("wait", "nanosleep"), "nanosleep");
    }
}
