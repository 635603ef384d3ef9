//! Whether one series of a run differs from another of the same run, tested on their interleaved rounds.
//!
//! Both series of a round see the same machine, so the test takes the difference of each round. The rounds' standard
//! error is too optimistic on machines that drift. The error is the Allan deviation of the differences
//! ([`super::noise`]), plus a floor. All tests of one call are corrected together ([`super::correction`]). A difference
//! smaller than the scatter of its rounds is never significant.

use std::collections::BTreeMap;

use punctual_record::{Distribution, RoundFigures, Run, Series};
use schemars::JsonSchema;
use serde::Serialize;

use super::correction::corrected;
use super::middle::scatter;
use super::noise::SCALE;
use super::reading::{Figure, Look, Reading, floor};
use super::{Shift, difference, noise};

/// One question: what does `after` change in this figure against `before`?
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) before: &'a Series,
    pub(crate) after: &'a Series,
    pub(crate) figure: Figure,
}

/// The verdict of a test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Shown to be smaller: earlier, shorter, less CPU time.
    Better,
    /// Shown to be larger.
    Worse,
    /// Tested, and no difference shown.
    NoDifference,
    /// Not tested: a figure is missing.
    #[default]
    NotTested,
}

/// What a change does to one figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// The verdict, corrected for the number of tests of the run.
    pub outcome: Outcome,
    /// The figure before, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_ns: Option<i64>,
    /// The figure after, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<i64>,
    /// Before minus after; absent where it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<Gain>,
    /// Why it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A gain with its 95 % interval; positive: smaller after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gain {
    /// The gain in ns.
    pub ns: i64,
    /// Lower end of its 95 % interval.
    pub low_ns: i64,
    /// Upper end.
    pub high_ns: i64,
    /// Scatter of single rounds around it, in ns: a smaller gain is never called one.
    pub scatter_ns: i64,
}

impl Gain {
    /// Whether its interval excludes none, and single rounds scatter by less.
    pub(super) fn is_clear(&self) -> bool {
        (self.low_ns > 0 || self.high_ns < 0) && self.ns.abs() > self.scatter_ns
    }
}

impl Effect {
    /// The gain, if it is shown.
    #[must_use]
    pub fn better(&self) -> Option<Gain> {
        self.gain.filter(|_| self.outcome == Outcome::Better)
    }

    /// The loss, if it is shown.
    #[must_use]
    pub fn worse(&self) -> Option<Gain> {
        let turned = |gain: Gain| Gain { ns: -gain.ns, low_ns: -gain.high_ns, high_ns: -gain.low_ns, ..gain };
        self.gain.filter(|_| self.outcome == Outcome::Worse).map(turned)
    }

    fn of(before: Option<f64>, after: Option<f64>, gain: Gain) -> Self {
        let [before_ns, after_ns] = [before, after].map(|ns| ns.map(|ns| ns.round() as i64));
        Self { outcome: Outcome::NoDifference, before_ns, after_ns, gain: Some(gain), why: None }
    }

    fn not_tested(before: Option<f64>, after: Option<f64>, why: String) -> Self {
        let [before_ns, after_ns] = [before, after].map(|ns| ns.map(|ns| ns.round() as i64));
        Self { outcome: Outcome::NotTested, before_ns, after_ns, gain: None, why: Some(why) }
    }
}

/// Answers all questions, corrected for their number, in their order.
pub(crate) fn test(run: &Run, pairs: &[Pair<'_>]) -> Vec<Effect> {
    let one = |pair: &Pair<'_>| ([pair.before, pair.after].map(|series| whole(series, pair.figure)), draft(run, pair));
    settled(pairs.iter().map(one).collect())
}

/// A figure before and after, and its difference or why there is none.
pub(super) type Asked = ([Option<f64>; 2], Result<Draft, String>);

/// The effects of these figures, corrected for the number of those that were tested.
pub(super) fn settled(drafts: Vec<Asked>) -> Vec<Effect> {
    let corrected = corrected(drafts.iter().map(|(_, draft)| Some(draft.as_ref().ok()?.shift.probability())));
    let finish = |(([before, after], draft), significant): (Asked, bool)| match draft {
        Err(why) => Effect::not_tested(before, after, why),
        Ok(draft) => draft.effect(before, after, significant, corrected.miss),
    };
    drafts.into_iter().zip(corrected.significant.iter().copied()).map(finish).collect()
}

/// A difference before the correction.
pub(super) struct Draft {
    pub(super) shift: Shift,
    pub(super) scatter: f64,
    /// Its size, where that is not the shift itself. It has to be as clear as the shift.
    pub(super) size: Option<Gain>,
}

impl Draft {
    fn effect(&self, before: Option<f64>, after: Option<f64>, significant: bool, miss: f64) -> Effect {
        let reach = self.shift.reach(miss);
        let from = SCALE.figure(self.shift.from);
        if let Some(size) = self.size {
            let outcome = match significant && size.is_clear() && (size.ns > 0) == (self.shift.by < 0.0) {
                true if size.ns > 0 => Outcome::Better,
                true => Outcome::Worse,
                false => Outcome::NoDifference,
            };
            return Effect { outcome, ..Effect::of(before, after, size) };
        }
        let gain = |by: f64| (from - SCALE.figure(self.shift.from + by)).round() as i64;
        let by = self.shift.by;
        let outcome = match significant && by.abs() > self.scatter {
            true if by < 0.0 => Outcome::Better,
            true => Outcome::Worse,
            false => Outcome::NoDifference,
        };
        let scatter_ns = gain(by - self.scatter).abs_diff(gain(by)).try_into().unwrap_or(i64::MAX);
        let gain = Gain { ns: gain(by), low_ns: gain(by + reach), high_ns: gain(by - reach), scatter_ns };
        Effect { outcome, ..Effect::of(before, after, gain) }
    }
}

/// The figure over all rounds.
fn whole(series: &Series, figure: Figure) -> Option<f64> {
    figure.of(&series.summary, series.cpu_ns_per_op)
}

fn draft(run: &Run, pair: &Pair<'_>) -> Result<Draft, String> {
    let Pair { before, after, figure } = *pair;
    let missing = |series: &Series| format!("too few samples for the {} of {}", figure.name(), series.subject);
    let from = whole(before, figure).ok_or_else(|| missing(before))?;
    let to = whole(after, figure).ok_or_else(|| missing(after))?;
    let place = |round: &RoundFigures| Some(SCALE.place(figure.of(&round.summary, round.cpu_ns_per_op)?));
    let deviations = differences(before, after, place);
    if deviations.len() < noise::MIN_ROUNDS {
        return match figure {
            // Rounds seldom have the samples for their own 99th percentile.
            Figure::P99 => tails(run, before, after),
            _ => Err(format!("fewer than {} rounds in common", noise::MIN_ROUNDS)),
        };
    }
    let wandering = noise::wandering(&deviations).ok_or("fewer rounds than a test takes")?;
    let more = 2.0 * floor(figure).powi(2) + rounding(run, from) + rounding(run, to);
    let shift = Shift::over_rounds([from, to].map(|ns| SCALE.place(ns)), wandering, more);
    Ok(Draft { shift, scatter: scatter(&deviations), size: None })
}

/// A clock with a coarse step rounds each figure: a uniform error of one step has the variance step^2 / 12.
fn rounding(run: &Run, ns: f64) -> f64 {
    (SCALE.step(ns) * run.clock.granularity_ns as f64).powi(2) / 12.0
}

/// After minus before of a figure, for each round that has both.
pub(super) fn differences(before: &Series, after: &Series, of: impl Fn(&RoundFigures) -> Option<f64>) -> Vec<f64> {
    let known = |series: &Series| -> BTreeMap<u32, f64> {
        series.rounds.iter().filter_map(|round| Some((round.round, of(round)?))).collect()
    };
    let (before, after) = (known(before), known(after));
    before.iter().filter_map(|(round, its)| Some(after.get(round)? - its)).collect()
}

/// Share of the rounds whose bodies must agree with a difference of tails.
const AGREE: f64 = 0.8;

/// The 99th percentiles of the pooled samples, each with its own noise. One burst can make a tail, and nothing of it
/// repeats. The difference counts only if most rounds have one of the same sign in their bodies.
fn tails(run: &Run, before: &Series, after: &Series) -> Result<Draft, String> {
    let reading = |series: &Series| {
        let granularity = run.clock.granularity_ns;
        let look = Look { summary: &series.summary, cpu: None, rounds: &series.rounds, granularity };
        let distribution = Distribution::from_series(series).ok();
        look.readings(distribution.as_ref())[Figure::P99 as usize]
    };
    let bodies = bodies(before, after);
    let (before, after) = (reading(before), reading(after));
    let why = |reading: &Reading| match reading {
        Reading::FewRounds => Some(format!("fewer than {} rounds", noise::MIN_ROUNDS)),
        Reading::FewSamples => Some("too few samples for p99".to_owned()),
        Reading::Absent => Some("p99 was not measured".to_owned()),
        Reading::Known { .. } => None,
    };
    if let Some(why) = why(&before).or_else(|| why(&after)) {
        return Err(why);
    }
    let draft = difference::apart(&[before], &[after]).ok_or("p99 was not measured")?;
    let shift = draft.settled(None);
    let same = bodies.iter().filter(|body| **body * shift.by > 0.0).count();
    let repeats = same as f64 >= AGREE * bodies.len().max(noise::MIN_ROUNDS) as f64;
    Ok(Draft { scatter: if repeats { shift.error } else { shift.by.abs().max(shift.error) }, shift, size: None })
}

/// After minus before of each round that has both: at the 90th percentile, or, with few samples, at the median.
fn bodies(before: &Series, after: &Series) -> Vec<f64> {
    let figures = |round: &RoundFigures| [round.summary.p90, round.summary.p50];
    let one = |round: &RoundFigures| {
        let (before, after) = (figures(round), figures(after.rounds.iter().find(|its| its.round == round.round)?));
        before.into_iter().zip(after).find_map(|(before, after)| Some((after? - before?) as f64))
    };
    before.rounds.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests;
