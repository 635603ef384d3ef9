//! What a check-up claims, as pairs of which one is better: so that two claims can be held against each other whatever their advice is
//! called, and whichever way round it is.

use std::collections::BTreeSet;

use punctual_report::evidence::Outcome;
use punctual_report::verdict::{Advice, Case, Goal};

/// The figure of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    P50,
    P99,
    /// What is left to others.
    Share,
}

/// One thing is better than another for a goal, in a case, at a figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) goal: Goal,
    pub(crate) better: String,
    pub(crate) than: String,
    pub(crate) case: String,
    pub(crate) figure: Figure,
}

impl Claim {
    /// The claim that denies it.
    pub(crate) fn reversed(&self) -> Self {
        Self { better: self.than.clone(), than: self.better.clone(), ..self.clone() }
    }
}

/// What an advice claims; a thing that is shown to be worse makes what it replaces better.
pub(crate) fn all(advice: &Advice) -> BTreeSet<Claim> {
    advice.cases.iter().flat_map(|case| of_case(advice, case)).collect()
}

/// Its gains alone: what it is advised for.
pub(crate) fn gains(advice: &Advice) -> BTreeSet<Claim> {
    all(advice).into_iter().filter(|claim| claim.better == advice.what).collect()
}

fn of_case<'a>(advice: &'a Advice, case: &'a Case) -> impl Iterator<Item = Claim> + 'a {
    let share = case.others.as_ref().map(|others| others.outcome).unwrap_or_default();
    let share = if advice.goal == Goal::LetOthersRun { share } else { Outcome::NotTested };
    let figures = [(Figure::P50, case.p50.outcome), (Figure::P99, case.p99.outcome), (Figure::Share, share)];
    figures.into_iter().filter_map(move |(figure, outcome)| {
        let (better, than) = match outcome {
            Outcome::Better => (&advice.what, &advice.instead_of),
            Outcome::Worse => (&advice.instead_of, &advice.what),
            Outcome::NoDifference | Outcome::NotTested => return None,
        };
        let (better, than, case) = (better.clone(), than.clone(), case.case.clone());
        Some(Claim { goal: advice.goal, better, than, case, figure })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use punctual_record::Run;
    use punctual_report::Verdict;

    use super::*;

    /// A reversal is seen whatever the advice is called, and a share is a claim too.
    #[test]
    fn a_claim_is_denied_by_its_reverse() {
        let record = crate::tools::root().join("crates/cli/tests/golden/records/yield-few.json");
        let run = Run::from_json(File::open(record).unwrap()).unwrap();
        let verdict = Verdict::from_run(&run);
        let advice = &verdict.advice[0];
        let gains = gains(advice);
        assert!(gains.iter().any(|claim| claim.figure == Figure::Share), "{advice:?}");
        let turned = Advice { what: advice.instead_of.clone(), instead_of: advice.what.clone(), ..advice.clone() };
        assert!(
            gains
                .iter()
                .all(|claim| all(&turned).contains(&claim.reversed()) && !all(advice).contains(&claim.reversed()))
        );
    }
}
