//! The verdict on a run: collects what its families propose, tests it, and lets them answer.

use punctual_record::{Notice, Run};

use super::legible::legible;
use crate::causes;
use crate::family;
use crate::format::naming;
use crate::format::sanitize;
use crate::run::paths;
use crate::trials;
use crate::verdict::gate::Gate;
use crate::verdict::{Answer, Standing, Trust, Untried, Verdict, rank, tested};

impl Verdict {
    /// The verdict on a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        answered(&legible(run), Gate::of(run)).0
    }
}

/// The verdict on a run and on its limits, and each family's answer.
pub(super) fn answered(run: &Run, gate: Option<Gate>) -> (Verdict, Vec<Answer>) {
    let experiments = family::experiments(run);
    let candidates =
        experiments.iter().map(|(name, series)| (*name, (family::of(name).candidates)(run, series))).collect();
    let mut all = tested(run, candidates);
    all.extend(trials::advice(run));
    rank(run, &mut all);
    let answers: Vec<Answer> = experiments
        .iter()
        .map(|(name, series)| {
            let own: Vec<_> = all.iter().filter(|advice| advice.experiment == *name).collect();
            (family::of(name).answer)(run, series, &own)
        })
        .collect();
    let trust = Trust::of(run, &all);
    let (advice, tried) = all.into_iter().partition(|advice| advice.standing == Standing::Advised);
    let answer = answer(run, answers.iter().flat_map(|answer| answer.sentences.iter().cloned()).collect());
    let verdict = Verdict { gate, answer, trust, advice, tried, untried: untried(run) };
    (verdict, answers)
}

/// The sentences of the families with those on causes: alone where causes are the question, else after the first. A check-up has them in
/// its first.
fn answer(run: &Run, mut sentences: Vec<String>) -> Vec<String> {
    sentences.extend(paths::sentences(run));
    let why = causes::sentences(run);
    if why.is_empty() || run.is_checkup() {
        return sentences;
    }
    if causes::asked(run) {
        return why;
    }
    sentences.splice(sentences.len().min(1)..sentences.len().min(1), why);
    sentences
}

/// The sets of conditions that the kernel refused, and what they would need.
fn untried(run: &Run) -> Vec<Untried> {
    let said = |notice: &Notice| {
        let Notice::ConditionsSkipped { conditions, refusal } = notice else { return None };
        Some(Untried::of(naming::phrase(conditions), &sanitize(&refusal.why), Some(&sanitize(&refusal.remedy))))
    };
    let causes = causes::refused(run).map(|refused| {
        let (what, why) = refused.parts();
        Untried::of(sanitize(what), &sanitize(why), refused.remedy.as_deref().map(sanitize).as_deref())
    });
    let mut said: Vec<Untried> =
        run.notices.iter().filter_map(said).chain(causes).chain(trials::untried(run)).collect();
    said.dedup();
    said
}
