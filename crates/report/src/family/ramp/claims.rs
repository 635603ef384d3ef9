//! What the loops of each governor show: tested on rounds, and larger than a loop's own spread.
//!
//! Two questions are tested. Are the first loops after a rest slower than the others? Are the loops slower than the fastest
//! governor's? A difference counts only where something can change the frequency.

use punctual_record::experiment::ramp::{Metrics, Parameters};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::evidence::rounds::{Pair, test};
use crate::evidence::{Effect, Figure, Gain, Outcome};
use crate::family::shared::{Measured, measured};
use crate::format::naming::AS_FOUND;

/// The loops of one governor.
pub(super) type Ramp<'a> = Measured<'a, Parameters, Metrics>;

/// The one that the check-up tries.
pub(super) const PERFORMANCE: &str = "performance";

/// Loops within this share of each other count as one speed: 5 %, below the step between two P-states.
const ONE_SPEED: f64 = 0.05;

/// Governors that keep one speed, with any driver.
const CONSTANT: [&str; 2] = ["performance", "userspace"];

/// Drivers under which the hardware varies the speed under `powersave`.
const AUTONOMOUS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

/// The governor of a series: its name, or the one found where all CPUs agree.
pub(super) fn governor<'a>(run: &'a Run, subject: &'a str) -> Option<&'a str> {
    match run.host.cpufreq.as_ref().map(|cpufreq| cpufreq.governors.as_slice()) {
        _ if subject != AS_FOUND => Some(subject),
        Some([one]) => Some(one),
        _ => None,
    }
}

/// The 10th and the 90th percentile of the later halves of the rounds.
pub(super) fn settled_tenths(series: &Ramp<'_>) -> Option<(i64, i64)> {
    let mut settled: Vec<i64> =
        rounds(series).into_iter().flat_map(|round| round[round.len() / 2..].iter().copied()).collect();
    settled.sort_unstable();
    let at = |share: f64| settled.get(((settled.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    // Fewer than twenty values have no tenth worth the name.
    Some((at(0.1)?, at(0.9)?)).filter(|_| settled.len() >= 20)
}

/// The rounds' loops, each round in order.
pub(super) fn rounds<'a>(series: &Ramp<'a>) -> Vec<&'a [i64]> {
    let samples = series.series.samples.as_deref().unwrap_or_default();
    let loops = usize::try_from(series.parameters.loops).ok().filter(|n| *n > 0);
    samples.chunks(loops.unwrap_or(samples.len().max(1))).collect()
}

/// A governor, and what is shown of it.
pub(super) struct Judged<'a> {
    pub(super) ramp: Ramp<'a>,
    /// Whether it speeds up after a rest.
    pub(super) start: Start,
    /// What a loop loses to the fastest governor, where that is shown.
    pub(super) slower: Option<(Gain, &'a str)>,
}

/// What is known of the first loops after a rest.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Start {
    /// The kernel exposes no frequency.
    NotExposed,
    /// The governor keeps one speed.
    OneSpeed,
    /// The kernel counted no transition during the loops.
    NoTransition,
    /// They are slower, by this much.
    Slow(Gain),
    /// Tested, and not shown to be slower by more than a loop's spread.
    NotShown,
    /// Not tested, for this reason.
    NotTested(String),
}

impl Judged<'_> {
    /// Whether something is shown to change with time or with the governor.
    pub(super) fn shows_a_change(&self) -> bool {
        matches!(self.start, Start::Slow(_)) || self.slower.is_some()
    }

    /// Work until full speed, where a speed-up is shown.
    pub(super) fn to_full_speed_ns(&self) -> Option<i64> {
        match self.start {
            Start::Slow(_) => self.ramp.metrics.to_full_speed_ns.filter(|ns| *ns > 0),
            _ => None,
        }
    }
}

/// All governors of a run; their tests are corrected together.
pub(super) fn judged<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Judged<'a>> {
    let of = |quantity: Quantity| series.iter().copied().filter(move |series| series.quantity == quantity);
    let ramps: Vec<Ramp<'a>> = measured(&of(Quantity::Loop).collect::<Vec<_>>(), Experiment::ramp);
    let fastest = ramps.iter().filter(|ramp| ramp.summary.p50.is_some()).min_by_key(|ramp| ramp.summary.p50).copied();
    let pair = |before: &'a Series, after: &'a Series| Pair { before, after, figure: Figure::P50 };
    let first = |ramp: &Ramp<'a>| of(Quantity::FirstLoops).find(|series| is_start_of(series, ramp.series));
    let starts: Vec<Option<Pair<'a>>> =
        ramps.iter().map(|ramp| Some(pair(first(ramp)?, ramp.series)).filter(|_| fixed(run, ramp).is_none())).collect();
    let others: Vec<Option<Pair<'a>>> = ramps
        .iter()
        .map(|ramp| {
            let fastest = fastest.filter(|fastest| fastest.subject != ramp.subject)?;
            Some(pair(ramp.series, fastest.series))
        })
        .collect();
    let pairs: Vec<Pair<'a>> = starts.iter().chain(&others).flatten().copied().collect();
    let mut effects = test(run, &pairs).into_iter();
    let mut next = |pair: Option<Pair<'a>>| pair.and_then(|_| effects.next());
    let starts: Vec<Option<Effect>> = starts.into_iter().map(&mut next).collect();
    let others: Vec<Option<Effect>> = others.into_iter().map(&mut next).collect();
    ramps
        .into_iter()
        .zip(starts.into_iter().zip(others))
        .map(|(ramp, (start, other))| Judged {
            start: fixed(run, &ramp).unwrap_or_else(|| outcome(&ramp, start)),
            slower: other
                .and_then(|effect| shown(&ramp, &effect))
                .zip(fastest.map(|fastest| fastest.series.subject.as_str())),
            ramp,
        })
        .collect()
}

/// Whether a series has the first loops of another one.
fn is_start_of(start: &Series, loops: &Series) -> bool {
    start.subject == loops.subject && start.conditions == loops.conditions && is_same_work(start, loops)
}

/// Whether two series of ramps were asked for the same loops.
pub(super) fn is_same_work(one: &Series, other: &Series) -> bool {
    one.experiment.parameters() == other.experiment.parameters()
}

/// Why the speed cannot change, where that is known without a test.
pub(super) fn fixed(run: &Run, ramp: &Ramp<'_>) -> Option<Start> {
    let metrics = ramp.metrics;
    let cpufreq = run.host.cpufreq.as_ref();
    if cpufreq.is_none() && metrics.driver.is_none() && metrics.transitions.is_none_or(|n| n == 0) {
        return Some(Start::NotExposed);
    }
    if metrics.transitions == Some(0) {
        return Some(Start::NoTransition);
    }
    let governor = governor(run, &ramp.subject)?;
    let driver =
        metrics.driver.as_deref().or(cpufreq.and_then(|cpufreq| cpufreq.driver.as_deref())).unwrap_or_default();
    let lowest = governor == "powersave" && !AUTONOMOUS.contains(&driver);
    (CONSTANT.contains(&governor) || lowest).then_some(Start::OneSpeed)
}

fn outcome(ramp: &Ramp<'_>, effect: Option<Effect>) -> Start {
    let Some(effect) = effect else { return Start::NotTested("the record has no first loops".to_owned()) };
    match effect.outcome {
        Outcome::NotTested => Start::NotTested(effect.why.unwrap_or_default()),
        _ => shown(ramp, &effect).map_or(Start::NotShown, Start::Slow),
    }
}

/// A shown gain that is more than another speed's least distance, and more than these loops' spread.
pub(super) fn shown(ramp: &Ramp<'_>, effect: &Effect) -> Option<Gain> {
    let gain = effect.better()?;
    let (low, high) = settled_tenths(ramp)?;
    let after = effect.after_ns?;
    (gain.ns > high - low && gain.ns as f64 > after as f64 * ONE_SPEED).then_some(gain)
}
