//! How late the worst of many more wake-ups may come, from those that were measured, and whether that may be believed.
//!
//! The values above a high threshold are described by a generalized Pareto distribution (Pickands 1975), fitted by probability-weighted
//! moments (Hosking and Wallis 1987). In go a distribution and the maxima of its rounds, out comes a [`Bound`], or why there is none.
//! There is none if the machine changed during the run, if the tail is too heavy, if the fit does not describe it, or if the samples are
//! too few. A bound from past samples says nothing of what never happened in them.

use punctual_record::{Bucket, Distribution};

/// Most values above the threshold: more would reach into the body of the distribution.
const MOST: u64 = 2000;
/// Fewer say too little of the tail.
const FEWEST: u64 = 100;
/// At most this part of the samples is the tail.
const TAIL_SHARE: u64 = 50;
/// From this shape on, the variance of the fit is not finite.
const HEAVIEST: f64 = 0.45;
/// 95 % of the normal distribution, one-sided.
const ONE_SIDED: f64 = 1.645;
/// The largest distance of the fit from the tail, times the square root of its values: above it, Kolmogorov's test rejects at 1 %.
const DISTANCE: f64 = 1.63;
/// Probability that the bound holds.
const HOLDS: f64 = 0.95;

/// A bound of later wake-ups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// None of the later samples is larger, with a probability of 95 %, if the machine stays as it was.
    pub(crate) ns: i64,
    /// The shape of the tail: below 0 it ends, at 0 it is exponential.
    pub(crate) shape: f64,
}

/// Why there is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoBound {
    /// Too few values in the tail.
    TooFew,
    /// The maxima of the rounds rise or fall.
    Drifts,
    /// The tail is too heavy.
    TooHeavy,
    /// The distribution does not describe the tail.
    Unlike,
    /// Other programs had the CPUs.
    Busy,
    /// The machine is a virtual one.
    Guest,
}

impl NoBound {
    /// The reason as the end of a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::TooFew => "the tail has too few samples",
            Self::Drifts => "the maxima of the rounds rise or fall, so the machine changed meanwhile",
            Self::TooHeavy => "the tail is so heavy that any maximum may follow",
            Self::Busy => "other programs had the CPUs, and they come and go",
            Self::Guest => "this is a virtual machine, and its host may stop it at any time and for any time",
            Self::Unlike => "the tail is that of no known distribution: it has several causes",
        }
    }
}

/// The bound of `times` as many further samples.
pub(crate) fn bound(all: &Distribution, maxima: &[i64], times: f64) -> Result<Bound, NoBound> {
    let count = all.count();
    let (threshold, excesses) = tail(all).ok_or(NoBound::TooFew)?;
    if drifts(maxima) {
        return Err(NoBound::Drifts);
    }
    let fit = Pareto::fitted(&excesses);
    let values = excesses.iter().map(|(_, count)| count).sum::<u64>() as f64;
    let deviation = (fit.shape_variance() / values).sqrt();
    let shape = fit.shape + ONE_SIDED * deviation;
    if !shape.is_finite() || shape >= HEAVIEST {
        return Err(NoBound::TooHeavy);
    }
    if fit.distance(&excesses) * values.sqrt() > DISTANCE {
        return Err(NoBound::Unlike);
    }
    // The probability that one sample is larger, so that none of the later ones is.
    let single = -(HOLDS.ln()) / (count as f64 * times);
    let careful = Pareto { shape, ..fit };
    let excess = careful.exceeded_by(single / (values / count as f64));
    let max = all.extremes().map_or(0, |(_, max)| max);
    Ok(Bound { ns: (threshold + excess as i64).max(max), shape: fit.shape })
}

/// The threshold, and the excesses above it with their counts, ascending. `None`: too few.
fn tail(all: &Distribution) -> Option<(i64, Vec<(f64, u64)>)> {
    let (_, max) = all.extremes()?;
    let wanted = (all.count() / TAIL_SHARE).min(MOST);
    let mut taken: Vec<&Bucket> = Vec::new();
    let mut values = 0;
    for bucket in all.buckets().iter().rev() {
        if values >= wanted {
            break;
        }
        values += bucket.count;
        taken.push(bucket);
    }
    // The whole of a distribution is no tail.
    if values < FEWEST || values * 5 > all.count() {
        return None;
    }
    let threshold = taken.last()?.low;
    let middle = |bucket: &Bucket| i64::midpoint(bucket.low, bucket.high.min(max));
    let excess = |bucket: &&Bucket| (((middle(bucket) - threshold) as f64).max(0.5), bucket.count);
    Some((threshold, taken.iter().rev().map(excess).collect()))
}

/// Whether the values rise or fall in their order: Mann and Kendall's test at 5 %, by its normal approximation.
fn drifts(maxima: &[i64]) -> bool {
    let n = maxima.len() as f64;
    if maxima.len() < 4 {
        return false;
    }
    let later =
        |(at, before): (usize, &i64)| maxima[at + 1..].iter().map(|after| after.cmp(before) as i64).sum::<i64>();
    let sum: i64 = maxima.iter().enumerate().map(later).sum();
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    (sum.abs() - 1).max(0) as f64 / variance.sqrt() > 1.96
}

/// A generalized Pareto distribution of excesses.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    /// Fitted to excesses with their counts, ascending.
    fn fitted(excesses: &[(f64, u64)]) -> Self {
        let values = excesses.iter().map(|(_, count)| count).sum::<u64>() as f64;
        let (mut mean, mut weighted, mut before) = (0.0, 0.0, 0.0);
        for (excess, count) in excesses {
            let count = *count as f64;
            // The mean of 1 - (i - 0.35) / n over the ranks of these equal values.
            let weight = 1.0 - (before + (count + 1.0) / 2.0 - 0.35) / values;
            mean += excess * count / values;
            weighted += excess * count * weight / values;
            before += count;
        }
        let rest = mean - 2.0 * weighted;
        Self { shape: 2.0 - mean / rest, scale: 2.0 * mean * weighted / rest }
    }

    /// The variance of the fitted shape, times the number of values.
    fn shape_variance(&self) -> f64 {
        let k = -self.shape;
        (1.0 + k) * (2.0 + k).powi(2) * (1.0 + k + 2.0 * k * k) / ((1.0 + 2.0 * k) * (3.0 + 2.0 * k))
    }

    /// The share of excesses above this one.
    fn above(&self, excess: f64) -> f64 {
        let scaled = excess / self.scale;
        if self.shape.abs() < 1e-9 {
            return (-scaled).exp();
        }
        (1.0 + self.shape * scaled).max(0.0).powf(-1.0 / self.shape)
    }

    /// The excess above which this share is.
    fn exceeded_by(&self, share: f64) -> f64 {
        if self.shape.abs() < 1e-9 {
            -self.scale * share.ln()
        } else {
            self.scale / self.shape * (share.powf(-self.shape) - 1.0)
        }
    }

    /// The largest distance between the shares of the excesses and those of the fit, at the middle of each bucket.
    fn distance(&self, excesses: &[(f64, u64)]) -> f64 {
        let values = excesses.iter().map(|(_, count)| count).sum::<u64>() as f64;
        let mut before = 0.0;
        let mut largest = 0.0_f64;
        for (excess, count) in excesses {
            let middle = (before + *count as f64 / 2.0) / values;
            largest = largest.max((1.0 - self.above(*excess) - middle).abs());
            before += *count as f64;
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use punctual_record::Recorder;

    use super::*;

    /// Quantiles of SciPy 1.17 (`scipy.stats.genpareto.isf(tail, c=shape, loc=threshold, scale=scale)`).
    #[test]
    fn quantiles_are_those_of_scipy() {
        let known = [
            (0.2, 3000.0, 50_000.0, 1e-5, 185_000.000_000_000_03),
            (0.0, 3000.0, 50_000.0, 1e-5, 84_538.776_394_910_69),
            (-0.3, 3000.0, 50_000.0, 1e-5, 59_683.772_233_982_17),
            (0.35, 800.0, 12_000.0, 3e-7, 448_274.775_775_346_7),
        ];
        for (shape, scale, threshold, share, expected) in known {
            let pareto = Pareto { shape, scale };
            let quantile: f64 = threshold + pareto.exceeded_by(share);
            assert!((quantile / expected - 1.0).abs() < 1e-9, "{shape}: {quantile}");
            assert!((pareto.above(quantile - threshold) / share - 1.0).abs() < 1e-6, "{shape}");
        }
    }

    /// Of the quantiles at (i - 0.35) / 1000: the same moments by NumPy. SciPy's maximum likelihood is within 0.002 of these shapes.
    #[test]
    fn fits_are_those_of_numpy() {
        let known = [
            (0.2, 3000.0, 0.202_031_416_378_922_97, 2_996.624_004_607_037),
            (-0.2, 5000.0, -0.198_161_782_217_671_33, 4_995.825_843_966_165),
            (0.0, 1000.0, 0.002_096_606_709_818_704_7, 998.953_024_411_051_6),
        ];
        for (shape, scale, fitted_shape, fitted_scale) in known {
            let pareto = Pareto { shape, scale };
            let excess = |i: u32| (pareto.exceeded_by(1.0 - (f64::from(i) - 0.35) / 1000.0), 1);
            let fit = Pareto::fitted(&(1..=1000).map(excess).collect::<Vec<_>>());
            assert!((fit.shape - fitted_shape).abs() < 1e-9, "{shape}: {fit:?}");
            assert!((fit.scale / fitted_scale - 1.0).abs() < 1e-9, "{shape}: {fit:?}");
        }
    }

    #[test]
    fn a_trend_is_seen_and_disorder_is_none() {
        assert!(drifts(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
        assert!(drifts(&[10, 9, 8, 1, 7, 6, 5, 4, 3, 2]), "SciPy's exact Kendall test: p = 0.002");
        assert!(!drifts(&[3, 1, 4, 2, 9, 2, 6, 5, 8, 7]), "p = 0.07 there");
        assert!(!drifts(&[1, 2, 3]));
    }

    /// xorshift64*, from 0 to 1, neither included.
    fn uniform(state: &mut u64) -> f64 {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        ((state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Of series whose next samples are known: in how many the bound holds, and how many times the true maximum it is at the median.
    fn out_of_sample(shape: f64, series: u32) -> (u32, u32, f64) {
        const SAMPLES: usize = 20_000;
        let body = Pareto { shape, scale: 3000.0 };
        let (mut state, mut held, mut judged, mut ratios) = (0x9E37_79B9_7F4A_7C15, 0, 0, Vec::new());
        let mut recorder = Recorder::new();
        for _ in 0..series {
            recorder.clear();
            let mut draw = || 20_000 + body.exceeded_by(uniform(&mut state)) as i64;
            (0..SAMPLES).for_each(|_| recorder.record(draw()));
            let next = (0..SAMPLES * 3).map(|_| draw()).max().unwrap_or(0);
            if let Ok(bound) = bound(&recorder.distribution(), &[], 3.0) {
                judged += 1;
                held += u32::from(bound.ns >= next);
                ratios.push(bound.ns as f64 / next as f64);
            }
        }
        ratios.sort_by(f64::total_cmp);
        (held, judged, ratios[ratios.len() / 2])
    }

    #[test]
    fn the_bound_holds_for_samples_that_it_has_not_seen() {
        for shape in [-0.3, 0.0, 0.1, 0.2] {
            let (held, judged, ratio) = out_of_sample(shape, 200);
            assert!(judged >= 150, "shape {shape}: {judged} judged");
            assert!(f64::from(held) >= 0.95 * f64::from(judged), "shape {shape}: {held} of {judged}");
            assert!(ratio <= 3.0, "shape {shape}: {ratio:.2} times the next maximum");
        }
    }

    /// The samples of a line, the maxima of its rounds, and how many later samples had which maximum.
    fn recorded(line: &str, recorder: &mut Recorder) -> (Distribution, Vec<i64>, (u64, i64)) {
        let parts: Vec<&str> = line.split("; ").collect();
        let numbers = |part: &str| part.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<i64>>();
        let (known, later) = (numbers(parts[1]), numbers(parts[4]));
        recorder.clear();
        let mut below = known[0].unsigned_abs();
        for (at, bucket) in parts[3].split(' ').enumerate() {
            let (low, count) = bucket.split_once(':').unwrap();
            let (low, count): (i64, u64) = (low.parse().unwrap(), count.parse().unwrap());
            below -= count;
            recorder.record_times(low, count - u64::from(at == 0));
            if at == 0 {
                recorder.record(known[1]);
            }
        }
        // Those below are no part of a tail.
        recorder.record_times(1, below);
        (recorder.distribution(), numbers(parts[2]), (later[0].unsigned_abs(), later[1]))
    }

    #[test]
    #[ignore = "PUNCTUAL_TAILS names a file with what cargo xtask tails printed on an idle machine"]
    fn by_hand_the_bound_holds_for_what_came_after_recorded_series() {
        let recorded_lines = std::fs::read_to_string(std::env::var_os("PUNCTUAL_TAILS").unwrap()).unwrap();
        let mut recorder = Recorder::new();
        let (mut held, mut ratios, mut without) = (0, Vec::new(), std::collections::BTreeMap::<&str, u32>::new());
        for line in recorded_lines.lines() {
            let (samples, maxima, (later, max)) = recorded(line, &mut recorder);
            match bound(&samples, &maxima, later as f64 / samples.count() as f64) {
                Ok(bound) => {
                    held += usize::from(bound.ns >= max);
                    ratios.push(bound.ns as f64 / max as f64);
                }
                Err(why) => *without.entry(why.words()).or_default() += 1,
            }
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        println!(
            "{held} of {} hold, {median:.2} times the later maximum at the median, without: {without:?}",
            ratios.len()
        );
        assert!(held * 100 >= ratios.len() * 95, "{held} of {}", ratios.len());
        assert!(median <= 3.0, "{median}");
    }

    #[test]
    fn what_cannot_be_believed_has_its_reason() {
        let mut recorder = Recorder::new();
        let recorded = |recorder: &mut Recorder, values: &mut dyn Iterator<Item = i64>| {
            recorder.clear();
            values.for_each(|value| recorder.record(value));
            recorder.distribution()
        };
        let few = recorded(&mut recorder, &mut (0..4000));
        assert_eq!(bound(&few, &[], 10.0), Err(NoBound::TooFew));
        let mut state = 7;
        let heavy = recorded(&mut recorder, &mut (0..20_000).map(|_| (1e4 / uniform(&mut state).powf(0.8)) as i64));
        assert_eq!(bound(&heavy, &[], 10.0), Err(NoBound::TooHeavy));
        let even = recorded(&mut recorder, &mut (0..50_000).map(|i| 10_000 + i % 1000));
        assert_eq!(bound(&even, &[1, 2, 3, 4, 5, 6, 7, 8], 10.0), Err(NoBound::Drifts));
        // A second cause, far from the first one.
        let far = |i: i64| if i % 400 == 0 { 900_000 + i % 7 } else { 10_000 + i % 3000 };
        let two = recorded(&mut recorder, &mut (0..50_000).map(far));
        assert!(matches!(bound(&two, &[], 10.0), Err(NoBound::Unlike | NoBound::TooHeavy)));
    }
}
