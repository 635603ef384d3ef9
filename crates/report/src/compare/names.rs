//! Names of series in a comparison: what tells a series from the others of its experiment, and no more.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::Param;

use crate::compare::outcome::SeriesComparison;
use crate::format::{naming, sanitize, units};

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

/// Whether there are fewer names without the quantity.
fn by_quantity(series: &[&SeriesComparison]) -> bool {
    let name = |series: &SeriesComparison| format!("{:?}", (&series.subject, &series.conditions, &series.parameters));
    let without: BTreeSet<String> = series.iter().map(|series| name(series)).collect();
    let with: BTreeSet<_> = series.iter().map(|series| (name(series), series.quantity)).collect();
    without.len() < with.len()
}

fn dispensable(series: &[&SeriesComparison]) -> BTreeSet<String> {
    let mut values: BTreeMap<&String, Vec<&Param>> = BTreeMap::new();
    for (name, value) in series.iter().flat_map(|series| &series.parameters) {
        let known = values.entry(name).or_default();
        if !known.contains(&value) {
            known.push(value);
        }
    }
    let names = |without: &BTreeSet<String>| {
        let name = |series: &&SeriesComparison| {
            let kept: Vec<_> = series.parameters.iter().filter(|(name, _)| !without.contains(*name)).collect();
            format!("{:?}", (&series.subject, series.quantity, &series.conditions, kept))
        };
        series.iter().map(name).collect::<BTreeSet<_>>().len()
    };
    let (all, mut found) = (names(&BTreeSet::new()), BTreeSet::new());
    for (name, _) in values.into_iter().filter(|(_, values)| values.len() == 1) {
        found.insert(name.clone());
        if names(&found) < all {
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
            shared.by_quantity = by_quantity(&own);
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
    use super::{Short, measured};

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
