//! Names of series in a comparison: what tells a series from the others of its experiment, and no more.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Param, Quantity};

use crate::compare::outcome::SeriesComparison;
use crate::format::{naming, sanitize};

/// What the series of one experiment share, and in what they differ.
#[derive(Debug, Clone, Default, PartialEq)]
struct Shared {
    /// The parameters that all have with the same value.
    parameters: BTreeMap<String, Param>,
    /// Parameters without which all names still differ: those that only some series have, with one value.
    dispensable: BTreeSet<String>,
    conditions: BTreeSet<String>,
    quantities: BTreeSet<Quantity>,
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
            shared.quantities.insert(series.quantity);
        }
        for (experiment, shared) in &mut all {
            let own: Vec<&SeriesComparison> = series.iter().filter(|series| series.experiment == *experiment).collect();
            shared.dispensable = dispensable(&own);
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
        let Some(shared) = self.0.get(&series.experiment) else { return sanitize(&series.subject) };
        let varying = |(name, _): &(&String, &Param)| {
            !shared.parameters.contains_key(*name) && !shared.dispensable.contains(*name)
        };
        let parameters =
            series.parameters.iter().filter(varying).map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut text = naming::subject(&series.subject, &parameters);
        if shared.quantities.len() > 1 {
            text.push_str(&format!(", {}", series.quantity.name().replace('_', " ")));
        }
        if shared.conditions.len() > 1 {
            text.push_str(&format!(", {}", naming::phrase(&series.conditions)));
        }
        text
    }

    /// A series anywhere: after its experiment where there are several.
    pub(crate) fn anywhere(&self, series: &SeriesComparison) -> String {
        let name = self.under_heading(series);
        if self.0.len() > 1 { format!("{} {name}", sanitize(&series.experiment)) } else { name }
    }
}
