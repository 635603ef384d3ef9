//! The common interface of all families, typed access to series, and the family of experiments without text of their own.

use std::ops::Deref;

use punctual_record::{Experiment, Run, Series, Summary, Typed};

use crate::document::{Block, Column, Columns, Note, Section};
use crate::evidence::MIN_ROUNDS;
use crate::format::naming::parameter;
use crate::format::{listed, units};
use crate::verdict::{Advice, Answer, Candidate};

/// One family of experiments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    /// The name in `Series::experiment`.
    pub(crate) experiment: &'static str,
    /// The title of its chapter; empty: the name of the experiment.
    pub(crate) title: &'static str,
    /// Its tables and words.
    pub(crate) sections: fn(&Run, &[&Series]) -> Vec<Section>,
    /// The remedies that its series can judge.
    pub(crate) candidates: for<'a> fn(&'a Run, &[&'a Series]) -> Vec<Candidate<'a>>,
    /// Its answer, given what became of its own candidates.
    pub(crate) answer: fn(&Run, &[&Series], &[&Advice]) -> Answer,
}

impl Family {
    /// A family without remedies and without an answer of its own.
    pub(super) const fn without_answer(
        experiment: &'static str,
        title: &'static str,
        sections: fn(&Run, &[&Series]) -> Vec<Section>,
    ) -> Self {
        Self { experiment, title, sections, candidates: |_, _| Vec::new(), answer: |_, _, _| Answer::default() }
    }
}

/// Whether a series has too few rounds for a test: then its figures are blanks of a sentence, and cells of a table.
pub(super) fn has_few_rounds(series: &Series) -> bool {
    series.rounds.len() < MIN_ROUNDS
}

/// ` No difference shown from a and b. Not tested against c.`: a sentence for each lead that has names.
pub(super) fn also<const N: usize>(all: [(&str, Vec<String>); N], most: usize) -> String {
    let said = all.iter().filter(|(_, names)| !names.is_empty());
    said.map(|(lead, names)| format!(" {lead} {}.", listed(names, most))).collect()
}

/// `; no difference shown from a and b; not tested against c`: what the best is not told apart from.
pub(super) fn not_told_apart(alike: &[String], untested: &[String]) -> String {
    let said = [("no difference shown from", alike), ("not tested against", untested)];
    let said = said.into_iter().filter(|(_, names)| !names.is_empty());
    said.map(|(said, names)| format!("; {said} {}", listed(names, 4))).collect()
}

/// For a column that stays.
pub(super) const ALWAYS: u8 = Column::ALWAYS;

/// What stands in brackets after p50.
pub(super) fn interval_note() -> Note {
    let text =
        "[\u{a0}]: the true percentile lies there with 95\u{a0}% confidence, in the unit of the figure before it.";
    Note::on("p50 [95 %]", text)
}

/// What stands for a percentile that is not there; nothing where all are.
pub(super) fn absent_note<'a>(series: impl IntoIterator<Item = &'a Series>) -> Option<Note> {
    let lacks = |Summary { p50, p90, p99, p999, .. }: &Summary| [p50, p90, p99, p999].contains(&&None);
    let lacking = series.into_iter().any(|series| lacks(&series.summary));
    lacking.then(|| Note::always(format!("{}: too few samples, or not known.", units::ABSENT)))
}

/// A series with what its experiment was asked and what came out.
#[derive(Debug)]
pub(super) struct Measured<'a, P, M> {
    pub(super) series: &'a Series,
    pub(super) parameters: &'a P,
    pub(super) metrics: &'a M,
}

impl<P, M> Clone for Measured<'_, P, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, M> Copy for Measured<'_, P, M> {}

impl<P, M> Deref for Measured<'_, P, M> {
    type Target = Series;

    fn deref(&self) -> &Series {
        self.series
    }
}

/// The series of one experiment.
pub(super) fn measured<'a, P, M: Default + PartialEq>(
    series: &[&'a Series],
    typed: impl Fn(&'a Experiment) -> Option<&'a Typed<P, M>>,
) -> Vec<Measured<'a, P, M>> {
    let one = |series: &&'a Series| {
        let Typed { parameters, metrics } = typed(&series.experiment)?;
        Some(Measured { series, parameters, metrics })
    };
    series.iter().filter_map(one).collect()
}

/// Experiments without a family of their own: all figures in a plain table, without conclusions.
pub(super) const ANY: Family = Family::without_answer("", "", plain_tables);

fn plain_tables(_: &Run, series: &[&Series]) -> Vec<Section> {
    let Some(first) = series.first() else { return Vec::new() };
    let parameters = |series: &&Series| {
        let parameters = series.experiment.parameters();
        parameters.iter().map(|(name, value)| parameter(name, value)).collect::<Vec<_>>().join(", ")
    };
    let table = Columns::new()
        .left("subject", ALWAYS, |series: &&Series| series.subject.clone())
        .left("parameters", 90, parameters)
        .left("conditions", 80, |series| series.conditions.clone())
        .left("quantity", 70, |series| series.quantity.name().replace('_', " "))
        .count("n", 10, |series| Some(series.summary.count))
        .summary([("min", 20), ("p50", ALWAYS), ("p99", ALWAYS), ("max", 60)], |series| Some(&series.summary))
        .plain(series);
    vec![Section::new(first.experiment.name().to_owned()).with(Block::Table(table))]
}
