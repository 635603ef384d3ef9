//! Whether one series of a run leaves others more of the CPU than another, or than a fixed share.
//!
//! What is left to others is what the caller does not take, of the CPU time that caller and competitors had together. Foreign
//! programs take their part of the CPU from both, so on a busy machine the competitors' share alone would tell who else was there.
//!
//! Tested like the figures in ns ([`super::rounds`]), on the rounds that both series share. The error is the Allan
//! deviation of their differences plus a floor. The test is corrected for all questions of one call. Shares differ on a
//! linear scale.

use punctual_record::{Experiment, RoundFigures, Series};
use serde::Serialize;

use super::difference::{corrected, scatter};
use super::rounds::{Outcome, differences};
use super::{Shift, noise};

/// Differences between runs that no run shows by itself, as a standard deviation.
const FLOOR: f64 = 0.005;

/// Shares that differ by no more are alike: a twentieth of the time.
const ALIKE: f64 = 0.05;

/// What a series is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Baseline<'a> {
    /// Another series, round by round.
    Series(&'a Series),
    /// This share.
    Share(f64),
}

/// What a change does to the share of the CPU time that others get, of what they and the caller have together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareEffect {
    /// The verdict; better: others get more.
    pub outcome: Outcome,
    /// The share before, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// The share after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// After minus before; absent where it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<ShareGain>,
    /// Why it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A gain in share with its 95 % interval; positive: others get more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareGain {
    /// The gain.
    pub share: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Scatter of single rounds around it: a smaller gain is never called one.
    pub scatter: f64,
}

impl ShareEffect {
    /// Whether no difference is shown, and none larger than [`ALIKE`] is left possible.
    pub(crate) fn is_alike(&self) -> bool {
        let most = self.gain.map(|gain| gain.low.abs().max(gain.high.abs()));
        self.outcome == Outcome::NoDifference && most.is_some_and(|most| most <= ALIKE)
    }

    /// Whether a difference is shown.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        matches!(self.outcome, Outcome::Better | Outcome::Worse)
    }
}

/// What a series leaves to others, in all rounds.
pub(crate) fn left_to_others(series: &Series) -> Option<f64> {
    match &series.experiment {
        Experiment::Yield(typed) => left(typed.metrics.competitor_cpu_share, typed.metrics.own_cpu_share),
        Experiment::Polls(typed) => left(typed.metrics.competitor_cpu_share, typed.metrics.own_cpu_share),
        _ => None,
    }
}

/// The competitors' part of what they and the caller had.
fn left(competitors: Option<f64>, own: Option<f64>) -> Option<f64> {
    let (competitors, own) = (competitors?, own?);
    Some(competitors / (competitors + own)).filter(|share| share.is_finite())
}

/// Answers all questions, corrected for their number, in their order.
pub(crate) fn test(questions: &[(Baseline<'_>, &Series)]) -> Vec<ShareEffect> {
    let drafts: Vec<Draft> = questions.iter().map(draft).collect();
    let corrected = corrected(drafts.iter().map(|draft| Some(draft.as_ref().ok()?.0.probability())));
    let finish = |((question, draft), significant): ((&Question<'_>, Draft), &bool)| {
        let (before, after) = (share_of(question.0), left_to_others(question.1));
        match draft {
            Err(why) => ShareEffect { before, after, why: Some(why), ..ShareEffect::default() },
            Ok((shift, scatter)) => {
                let outcome = Outcome::judged(*significant && shift.by.abs() > scatter, shift.by > 0.0);
                let reach = shift.reach(corrected.miss);
                let gain = ShareGain { share: shift.by, low: shift.by - reach, high: shift.by + reach, scatter };
                ShareEffect { outcome, before, after, gain: Some(gain), why: None }
            }
        }
    };
    questions.iter().zip(drafts).zip(&corrected.significant).map(finish).collect()
}

fn share_of(baseline: Baseline<'_>) -> Option<f64> {
    match baseline {
        Baseline::Series(series) => left_to_others(series),
        Baseline::Share(share) => Some(share),
    }
}

/// A baseline and the series that is compared with it.
type Question<'a> = (Baseline<'a>, &'a Series);
/// The difference and the scatter of its rounds, or why there is none.
type Draft = Result<(Shift, f64), String>;

fn draft(&(before, after): &Question<'_>) -> Draft {
    let unknown = "what the caller left to others is not known";
    let from = share_of(before).ok_or(unknown)?;
    let to = left_to_others(after).ok_or(unknown)?;
    let share = |round: &RoundFigures| left(round.competitor_cpu_share, round.own_cpu_share);
    let deviations: Vec<f64> = match before {
        Baseline::Series(before) => differences(before, after, share),
        Baseline::Share(known) => after.rounds.iter().filter_map(|round| Some(share(round)? - known)).collect(),
    };
    let wandering = noise::wandering(&deviations)
        .ok_or_else(|| format!("fewer than {} rounds say what the caller left to others", noise::MIN_ROUNDS))?;
    Ok((Shift::over_rounds([from, to], wandering, 2.0 * FLOOR.powi(2)), scatter(&deviations)))
}
