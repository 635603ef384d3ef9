//! Whether one series of a run differs from another of the same run, tested on their interleaved rounds.
//!
//! Both series of a round see the same machine, so the test takes the difference of each round. The rounds' standard
//! error is too optimistic on machines that drift. The error is the Allan deviation of the differences
//! ([`super::noise`]), plus a floor. All tests of one call are corrected together ([`super::difference::corrected`]). A difference
//! smaller than the scatter of its rounds is never significant.
//!
//! The largest samples of rounds have a sign test. A lone maximum is no evidence; that most rounds agree is. Both maxima of a round saw the
//! same machine. The larger of two equal distributions' maxima falls to either series in proportion to its samples.

use std::collections::BTreeMap;

use punctual_record::statistics::median;
use punctual_record::{Distribution, RoundFigures, Run, Series};
use serde::Serialize;

use crate::evidence::difference::corrected;
use crate::evidence::difference::scatter;
use crate::evidence::distributions::Beta;
use crate::evidence::noise::{Figure, Look, Missing, SCALE, floor, rounding};
use crate::evidence::{Shift, difference, noise};

/// One question: what does `after` change in this figure against `before`?
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) before: &'a Series,
    pub(crate) after: &'a Series,
    pub(crate) figure: Figure,
}

/// The verdict of a test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl Outcome {
    /// Of a difference that is for the better or not, if it is shown.
    pub(crate) fn judged(shown: bool, better: bool) -> Self {
        match (shown, better) {
            (true, true) => Self::Better,
            (true, false) => Self::Worse,
            (false, _) => Self::NoDifference,
        }
    }
}

/// What a change does to one figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The largest difference that its interval leaves possible.
    pub(crate) fn most_ns(self) -> i64 {
        self.low_ns.saturating_abs().max(self.high_ns.saturating_abs())
    }

    /// Whether its interval excludes none, and single rounds scatter by less.
    fn is_clear(&self) -> bool {
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

    /// Whether no difference is shown, and none larger than this is left possible.
    pub(crate) fn is_alike(&self, within_ns: i64) -> bool {
        self.outcome == Outcome::NoDifference && self.gain.is_some_and(|gain| gain.most_ns() <= within_ns)
    }
}

/// Answers all questions, corrected for their number, in their order.
pub(crate) fn test(run: &Run, pairs: &[Pair<'_>]) -> Vec<Effect> {
    let one = |pair: &Pair<'_>| ([pair.before, pair.after].map(|series| whole(series, pair.figure)), draft(run, pair));
    settled(pairs.iter().map(one).collect())
}

/// The effects of each change from the first to the second series, at the median.
pub(crate) fn at_p50<'a>(run: &Run, pairs: impl IntoIterator<Item = [&'a Series; 2]>) -> Vec<Effect> {
    let pair = |[before, after]: [&'a Series; 2]| Pair { before, after, figure: Figure::P50 };
    test(run, &pairs.into_iter().map(pair).collect::<Vec<_>>())
}

/// A figure before and after, and its difference or why there is none.
pub(super) type Asked = ([Option<f64>; 2], Result<Draft, String>);

/// The effects of these figures, corrected for the number of those that were tested.
pub(super) fn settled(drafts: Vec<Asked>) -> Vec<Effect> {
    let corrected = corrected(drafts.iter().map(|(_, draft)| Some(draft.as_ref().ok()?.shift.probability())));
    let finish = |((figures, draft), significant): (Asked, bool)| {
        let [before_ns, after_ns] = figures.map(|ns| ns.map(|ns| ns.round() as i64));
        match draft.map(|draft| draft.judged(significant, corrected.miss)) {
            Err(why) => Effect { before_ns, after_ns, why: Some(why), ..Effect::default() },
            Ok((outcome, gain)) => Effect { outcome, before_ns, after_ns, gain: Some(gain), why: None },
        }
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
    fn judged(&self, significant: bool, miss: f64) -> (Outcome, Gain) {
        let Shift { from, by, .. } = self.shift;
        let gain = |by: f64| (SCALE.figure(from) - SCALE.figure(from + by)).round() as i64;
        let (gain, clear) = match self.size {
            Some(size) => (size, size.is_clear() && (size.ns > 0) == (by < 0.0)),
            None => {
                let reach = self.shift.reach(miss);
                let scatter_ns = gain(by - self.scatter).abs_diff(gain(by)).try_into().unwrap_or(i64::MAX);
                let (low_ns, high_ns) = (gain(by + reach), gain(by - reach));
                (Gain { ns: gain(by), low_ns, high_ns, scatter_ns }, by.abs() > self.scatter)
            }
        };
        (Outcome::judged(significant && clear, by < 0.0), gain)
    }
}

/// The figure over all rounds.
fn whole(series: &Series, figure: Figure) -> Option<f64> {
    figure.read(&series.summary, series.cpu_ns_per_op)
}

fn draft(run: &Run, pair: &Pair<'_>) -> Result<Draft, String> {
    let Pair { before, after, figure } = *pair;
    let missing = |series: &Series| format!("too few samples for the {} of {}", figure.name(), series.subject);
    let from = whole(before, figure).ok_or_else(|| missing(before))?;
    let to = whole(after, figure).ok_or_else(|| missing(after))?;
    let place = |round: &RoundFigures| Some(SCALE.place(figure.read(&round.summary, round.cpu_ns_per_op)?));
    let deviations = differences(before, after, place);
    if deviations.len() < noise::MIN_ROUNDS {
        return match figure {
            // Rounds seldom have the samples for their own 99th percentile.
            Figure::P99 => tails(run, before, after),
            _ => Err(format!("fewer than {} rounds in common", noise::MIN_ROUNDS)),
        };
    }
    let wandering = noise::wandering(&deviations).ok_or("fewer rounds than a test takes")?;
    let granularity = run.clock.granularity_ns;
    let more = 2.0 * floor(figure).powi(2) + rounding(granularity, from) + rounding(granularity, to);
    let shift = Shift::over_rounds([from, to].map(|ns| SCALE.place(ns)), wandering, more);
    Ok(Draft { shift, scatter: scatter(&deviations), size: None })
}

/// After minus before of a figure, for each round that has both.
pub(super) fn differences(before: &Series, after: &Series, figure: impl Fn(&RoundFigures) -> Option<f64>) -> Vec<f64> {
    in_both(before, after, figure).map(|[before, after]| after - before).collect()
}

/// What each round has of both series.
fn in_both<T>(
    before: &Series,
    after: &Series,
    figure: impl Fn(&RoundFigures) -> Option<T>,
) -> impl Iterator<Item = [T; 2]> {
    let known = |series: &Series| -> BTreeMap<u32, T> {
        series.rounds.iter().filter_map(|round| Some((round.round, figure(round)?))).collect()
    };
    let (before, mut after) = (known(before), known(after));
    before.into_iter().filter_map(move |(round, earlier)| Some([earlier, after.remove(&round)?]))
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
    let why = |missing: Missing| match missing {
        Missing::FewRounds => format!("fewer than {} rounds", noise::MIN_ROUNDS),
        other => other.words(Figure::P99),
    };
    let (before, after) = (reading(before).map_err(why)?, reading(after).map_err(why)?);
    let shift = difference::one_each(before, after);
    let same = bodies.iter().filter(|body| **body * shift.by > 0.0).count();
    let repeats = same as f64 >= AGREE * bodies.len().max(noise::MIN_ROUNDS) as f64;
    Ok(Draft { scatter: if repeats { shift.error } else { shift.by.abs().max(shift.error) }, shift, size: None })
}

/// After minus before of each round that has both: at the 90th percentile, or, with few samples, at the median.
fn bodies(before: &Series, after: &Series) -> Vec<f64> {
    let figures = in_both(before, after, |round| Some([round.summary.p90, round.summary.p50]));
    let first = |[before, after]: [[Option<i64>; 2]; 2]| {
        before.into_iter().zip(after).find_map(|(before, after)| Some((after? - before?) as f64))
    };
    figures.filter_map(first).collect()
}

/// The maxima of two series, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Maxima {
    /// The verdict, corrected for the number of pairs of the call.
    pub(crate) outcome: Outcome,
    /// The median maximum of a round before, in ns.
    pub(crate) before_ns: i64,
    /// The same after.
    pub(crate) after_ns: i64,
    /// Rounds whose maximum is smaller after.
    pub(crate) smaller: usize,
    /// Rounds that both series have, without ties.
    pub(crate) rounds: usize,
}

/// Fewer rounds cannot reach the level, even if all agree: 2 / 2^6 = 0.031.
pub(crate) const MIN_MAXIMA: usize = 6;
/// A smaller difference of the medians is no steadiness, however many rounds agree.
const LEAST_RATIO: f64 = 1.1;

/// The verdicts on pairs of before and after, in their order; `None`: too few rounds.
pub(crate) fn test_maxima(pairs: &[(&Series, &Series)]) -> Vec<Option<Maxima>> {
    let drafts: Vec<Option<(Maxima, f64)>> =
        pairs.iter().map(|(before, after)| draft_of_maxima(before, after)).collect();
    let corrected = corrected(drafts.iter().map(|draft| Some(draft.as_ref()?.1)));
    let finish = |(draft, chosen): (Option<(Maxima, f64)>, bool)| {
        let (maxima, _) = draft?;
        let (low, high) = (maxima.before_ns.min(maxima.after_ns), maxima.before_ns.max(maxima.after_ns));
        let significant = chosen && high as f64 >= low as f64 * LEAST_RATIO;
        let smaller = maxima.smaller * 2 > maxima.rounds && maxima.after_ns < maxima.before_ns;
        let larger = maxima.smaller * 2 < maxima.rounds && maxima.after_ns > maxima.before_ns;
        let outcome = Outcome::judged(significant && (smaller || larger), smaller);
        Some(Maxima { outcome, ..maxima })
    };
    drafts.into_iter().zip(corrected.significant).map(finish).collect()
}

fn draft_of_maxima(before: &Series, after: &Series) -> Option<(Maxima, f64)> {
    // The samples of a round, and the largest of them.
    let largest = in_both(before, after, |round| Some((round.summary.count, round.summary.max?)));
    let rounds: Vec<[(u64, i64); 2]> = largest.filter(|[before, after]| before.1 != after.1).collect();
    if rounds.len() < MIN_MAXIMA {
        return None;
    }
    let samples = |side: usize| rounds.iter().map(|round| round[side].0 as f64).sum::<f64>();
    let share = samples(0) / (samples(0) + samples(1)).max(1.0);
    let smaller = rounds.iter().filter(|[before, after]| after.1 < before.1).count();
    // Samples of a burst count once, so the truth lies between the share and one half.
    let probability = two_sided(smaller, rounds.len(), share).max(two_sided(smaller, rounds.len(), 0.5));
    let middle = |side: usize| {
        let all: Vec<f64> = rounds.iter().map(|round| round[side].1 as f64).collect();
        Some(median(&all)?.round() as i64)
    };
    let (before_ns, after_ns) = (middle(0)?, middle(1)?);
    let outcome = Outcome::NoDifference;
    Some((Maxima { outcome, before_ns, after_ns, smaller, rounds: rounds.len() }, probability))
}

/// Twice the smaller tail of a binomial distribution.
fn two_sided(successes: usize, trials: usize, chance: f64) -> f64 {
    let at_least = |k: usize, chance: f64| match k {
        0 => 1.0,
        _ => Beta::new(k as f64, (trials - k + 1) as f64).below(chance),
    };
    let tail = at_least(successes, chance).min(at_least(trials - successes, 1.0 - chance));
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_record::{Interval, Summary};
    use serde_json::json;
    use std::sync::LazyLock;

    /// Random numbers from a seed: uniform, and nearly normal as the sum of twelve.
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            // A plain loop: unoptimised iterators take most of a simulation's time.
            let (mut sum, mut left) = (0.0, 12);
            while left > 0 {
                sum += self.uniform();
                left -= 1;
            }
            sum - 6.0
        }
    }

    /// An empty run, as read from a file.
    fn run() -> Run {
        let value = json!({
            "schema": punctual_record::SCHEMA, "tool": { "name": "punctual", "version": "0" },
            "started": "2026-01-02T03:04:05Z", "elapsed_ns": 1, "complete": true, "command": [], "subcommand": "wait",
            "host": { "rt": {} }, "conditions": [], "series": [], "not_measured": [], "notices": [], "disturbance": {},
            "clock": { "source": "CLOCK_MONOTONIC", "read_ns": 25.0, "resolution_ns": 1, "granularity_ns": 1 },
        });
        serde_json::from_value(value).unwrap()
    }

    /// A series with these medians, a round each.
    fn series(medians: &[f64]) -> Series {
        static TEMPLATE: LazyLock<Series> = LazyLock::new(|| {
            let value = json!({
                "experiment": "wait", "parameters": { "asked_ns": 100_000 }, "metrics": {}, "subject": "nanosleep",
                "conditions": "as found", "quantity": "overshoot", "unit": "ns", "rounds": [], "count": 1000, "negative": 0,
                "overflow": 0, "min": null, "p50": null, "p90": null, "p99": null, "p999": null, "max": null, "mean": null,
                "stdev": null, "ci95": { "p50": null, "p99": null },
            });
            serde_json::from_value(value).unwrap()
        });
        let summary = |ns: f64| Summary { p50: Some(ns as i64), ..Summary::default() };
        let round = |(round, &ns): (u32, &f64)| RoundFigures { round, summary: summary(ns), ..RoundFigures::default() };
        let mut sorted = medians.to_vec();
        sorted.sort_by(f64::total_cmp);
        Series {
            rounds: (0..).zip(medians).map(round).collect(),
            summary: summary(sorted[sorted.len() / 2]),
            ..TEMPLATE.clone()
        }
    }

    /// The outcomes at p50 of pairs of series. They have 10 rounds that share a drift, the second ones larger by this
    /// factor.
    fn outcomes(seed: u64, pairs: usize, factor: f64, noise: f64) -> Vec<Effect> {
        let mut random = Random(seed);
        let mut drift = 0.0;
        let drift: Vec<f64> = (0..10)
            .map(|_| {
                drift += 0.1 * random.normal();
                drift
            })
            .collect();
        let mut one = |factor: f64| {
            let figures: Vec<f64> =
                drift.iter().map(|drift| 80_000.0 * factor * (drift + noise * random.normal()).exp()).collect();
            series(&figures)
        };
        let all: Vec<(Series, Series)> = (0..pairs).map(|_| (one(1.0), one(factor))).collect();
        let pairs: Vec<Pair<'_>> =
            all.iter().map(|(before, after)| Pair { before, after, figure: Figure::P50 }).collect();
        test(&run(), &pairs)
    }

    /// One run in twenty may claim anything where nothing differs, however much the machine drifts.
    #[test]
    fn nothing_is_claimed_where_nothing_differs() {
        for noise in [0.01, 0.05, 0.3] {
            let runs = 400;
            let any =
                |seed: u64| outcomes(seed, 20, 1.0, noise).iter().any(|effect| effect.outcome != Outcome::NoDifference);
            let wrong = (0..runs).filter(|&seed| any(seed * 7919 + 1)).count();
            assert!(wrong * 20 <= runs as usize, "{wrong} of {runs} runs at a noise of {noise}");
        }
    }

    #[test]
    fn a_third_less_is_found_and_has_the_right_sign() {
        let (mut found, mut runs) = (0, 0);
        for seed in 0..100 {
            for effect in outcomes(seed * 104_729 + 3, 10, 0.67, 0.05) {
                runs += 1;
                assert_ne!(effect.outcome, Outcome::Worse);
                if let Some(gain) = effect.better() {
                    found += 1;
                    assert!(0 < gain.low_ns && gain.low_ns <= gain.ns && gain.ns <= gain.high_ns, "{gain:?}");
                }
            }
        }
        assert!(found * 100 >= runs * 95, "{found} of {runs}");
    }

    /// Small and steady beside a scatter of single rounds that is larger: no claim.
    #[test]
    fn nothing_below_the_scatter_of_rounds() {
        let before: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 70_000.0 } else { 90_000.0 }).collect();
        let after: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 84_000.0 } else { 68_000.0 }).collect();
        let (before, after) = (series(&before), series(&after));
        let effect = &test(&run(), &[Pair { before: &before, after: &after, figure: Figure::P50 }])[0];
        assert_eq!(effect.outcome, Outcome::NoDifference);
        assert!(effect.gain.is_some_and(|gain| gain.scatter_ns > gain.ns.abs()), "{effect:?}");
    }

    #[test]
    fn without_rounds_or_figures_nothing_is_tested() {
        let few = series(&[80_000.0; 4]);
        let many = series(&[20_000.0; 10]);
        for (before, after, figure) in [
            (&few, &many, Figure::P50),
            (&many, &few, Figure::P50),
            (&many, &many, Figure::P99),
            (&many, &many, Figure::Cpu),
        ] {
            let effect = &test(&run(), &[Pair { before, after, figure }])[0];
            assert_eq!(effect.outcome, Outcome::NotTested);
            assert!(effect.why.is_some() && effect.gain.is_none(), "{effect:?}");
        }
    }

    /// A tail that one burst made: the pooled p99 differs by far, and the rounds do not repeat it.
    #[test]
    fn a_tail_counts_only_where_rounds_repeat_it() {
        let with = |p90s: &[i64], p99: i64| {
            let mut made = series(&[50_000.0; 10]);
            made.summary.p99 = Some(p99);
            made.summary.count = 1000;
            made.summary.ci95.p99 = Some(Interval { low: p99 - p99 / 50, high: p99 + p99 / 50 });
            made.rounds.iter_mut().zip(p90s).for_each(|(round, p90)| round.summary.p90 = Some(*p90));
            made
        };
        let before = with(&[60_000; 10], 80_000);
        let outcome = |after: &Series| test(&run(), &[Pair { before: &before, after, figure: Figure::P99 }])[0].outcome;
        let burst = [60_500, 59_500, 60_400, 59_600, 60_300, 59_700, 60_200, 59_800, 60_100, 59_900];
        assert_eq!(outcome(&with(&burst, 400_000)), Outcome::NoDifference);
        assert_eq!(outcome(&with(&[70_000; 10], 400_000)), Outcome::Worse);
        assert_eq!(outcome(&with(&[30_000; 10], 40_000)), Outcome::Better);
    }

    #[test]
    fn tails_of_a_binomial_distribution() {
        let near = |found: f64, known: f64| assert!((found / known - 1.0).abs() < 1e-9, "{found} {known}");
        near(two_sided(10, 10, 0.5), 2.0 / 1024.0);
        near(two_sided(0, 6, 0.5), 2.0 / 64.0);
        near(two_sided(9, 10, 0.5), 22.0 / 1024.0);
        near(two_sided(5, 10, 0.5), 1.0);
        near(two_sided(6, 6, 0.8), 2.0 * 0.8_f64.powi(6));
        near(two_sided(0, 6, 0.8), 2.0 * 0.2_f64.powi(6));
    }
}
