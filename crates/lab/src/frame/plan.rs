//! What is asked for: the part of a request that all families share ([`Request`]), the condition sets that it compares
//! ([`Variant`]), and why a plan cannot be made of it ([`PlanError`]).
//!
//! Conditions have two parts. The *base* is applied once and holds for the whole run. Each compared condition set is
//! a *variant*. Variants take turns as the subjects do: each is applied and restored in every round.
//!
//! A refusal names the part of the request that is wrong, the constraint, and a valid example. The command adds the
//! flag's name.

use std::fmt;
use std::time::Duration;

use punctual::conditions::{Conditions, Value};
use punctual_record::remedy::phrase_of;

use super::schedule::{Amount, Schedule};

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// Number of turns of each cell.
    Rounds,
    /// Number of samples of each series.
    Samples,
    /// Total time.
    Time,
    /// Methods, mechanisms or governors.
    Methods,
    /// The measured wait.
    Wait,
    /// The CPU of the measured thread.
    Cpu,
    /// The policy of the measured threads.
    Policy,
    /// The CPU of the sender.
    SenderCpu,
    /// Number of competitors.
    Competitors,
    /// Polls before a yield.
    Polls,
    /// Bytes of a message.
    Size,
    /// Messages that may be in flight.
    Depth,
    /// The CPUs of sender and receiver.
    Places,
    /// The CPUs of which each pair is measured.
    Matrix,
    /// Time from one message to the next.
    Interval,
    /// Number of datagrams.
    Datagrams,
    /// Destination of datagrams.
    Target,
    /// The range of a search for the highest rate.
    Sweep,
    /// The wait that verifies a calibration.
    Check,
    /// Loops per round.
    Loops,
    /// The work of a loop or an activation.
    Work,
    /// Activations per round.
    Periods,
    /// Deadline of an activation's work, relative to the activation.
    Deadline,
    /// Governor switches per round.
    Switches,
}

impl Input {
    /// Its name in a message if no flag sets it.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Rounds => "number of rounds",
            Self::Samples => "number of samples",
            Self::Time => "duration of the run",
            Self::Methods => "method",
            Self::Wait => "wait",
            Self::Cpu => "CPU",
            Self::Policy => "policy",
            Self::SenderCpu => "CPU of the sender",
            Self::Competitors => "number of competitors",
            Self::Polls => "number of polls",
            Self::Size => "size",
            Self::Depth => "queue depth",
            Self::Places => "CPUs",
            Self::Matrix => "matrix",
            Self::Interval => "interval",
            Self::Datagrams => "number of datagrams",
            Self::Target => "address",
            Self::Sweep => "range of rates",
            Self::Check => "check",
            Self::Loops => "number of loops",
            Self::Work => "work",
            Self::Periods => "number of periods",
            Self::Deadline => "deadline",
            Self::Switches => "number of switches",
        }
    }

    /// Refuses what does not hold, for this reason.
    pub(crate) fn check(self, holds: bool, why: impl FnOnce() -> String) -> Result<(), PlanError> {
        if holds { Ok(()) } else { Err(PlanError::new(self, why())) }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.noun())
    }
}

/// Why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {input}: {why}")]
pub struct PlanError {
    /// The part of the request that is wrong.
    pub input: Input,
    /// The constraint, and an example.
    pub why: String,
}

impl PlanError {
    pub(crate) fn new(input: Input, why: impl Into<String>) -> Self {
        Self { input, why: why.into() }
    }
}

/// A duration as text, to two digits.
pub(crate) fn rough(duration: Duration) -> String {
    let s = duration.as_secs_f64();
    match s {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// Longest run without explicit consent: ten minutes.
pub(crate) const LONGEST_UNASKED: Duration = Duration::from_secs(600);

/// The part of a request that all families share.
#[derive(Debug, Clone)]
pub struct Request {
    /// Compared condition sets.
    pub variants: Vec<Variant>,
    /// Conditions of the whole run.
    pub base: Conditions,
    /// How much to measure.
    pub amount: Amount,
    /// Number of rounds.
    pub rounds: u32,
    /// Operations at the beginning of each batch that are not recorded.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
    /// Whether the measuring thread is watched.
    pub watch: Watched,
}

/// Whether the measuring thread is watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watched {
    /// The thread is not watched.
    #[default]
    Never,
    /// In every second round: the figures come from the others, the causes from these.
    Half,
    /// In every second round, for the causes alone: where they cannot be had, nothing is measured.
    ForCauses,
}

/// The place of a value in a list, to which it is added if it is not there yet.
pub(crate) fn place_of<T>(list: &mut Vec<T>, value: T, is_same: impl Fn(&T, &T) -> bool) -> usize {
    list.iter().position(|known| is_same(known, &value)).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// A cell that is one method under one variant: indices into those of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodCell {
    pub(crate) method: usize,
    pub(crate) variant: usize,
}

impl Request {
    /// Each method, of this many, under each variant.
    pub(crate) fn each_of(&self, methods: usize) -> Vec<MethodCell> {
        let under = |variant| (0..methods).map(move |method| MethodCell { method, variant });
        (0..self.variants.len()).flat_map(under).collect()
    }

    /// A request of this amount in this many rounds, under the conditions as found.
    #[must_use]
    pub fn as_found(amount: Amount, rounds: u32) -> Self {
        let (variants, base) = (vec![Variant::as_found()], Conditions::new());
        Self { variants, base, amount, rounds, warmup: 1, require: false, watch: Watched::Never }
    }

    /// The same, watched if `wanted`: with as many rounds for the causes as for the figures.
    #[must_use]
    pub fn watched(self, wanted: bool) -> Self {
        if !wanted {
            return self;
        }
        let amount = match self.amount {
            Amount::Samples(samples) => Amount::Samples(samples.saturating_mul(2)),
            time @ Amount::Time(_) => time,
        };
        Self { amount, rounds: self.rounds.saturating_mul(2), watch: Watched::Half, ..self }
    }

    /// The same for the causes alone.
    pub(crate) fn for_causes(self) -> Self {
        Self { watch: Watched::ForCauses, ..self.watched(true) }
    }

    /// Whether a thread under one of the variants can monopolise a CPU.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.variants.iter().any(Variant::is_real_time)
    }

    /// Refuses an amount of zero.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        at_least_one(Input::Rounds, self.rounds)?;
        match self.amount {
            Amount::Samples(samples) => at_least_one(Input::Samples, u32::try_from(samples).unwrap_or(u32::MAX)),
            Amount::Time(_) => Ok(()),
        }
    }

    /// Refuses a number of samples that would take too long.
    pub(crate) fn check_time(&self, schedule: &Schedule, series: usize) -> Result<(), PlanError> {
        let Amount::Samples(samples) = self.amount else { return Ok(()) };
        let would_take = schedule.expected();
        Input::Samples.check(would_take <= LONGEST_UNASKED, || {
            let [would_take, longest] = [would_take, LONGEST_UNASKED].map(rough);
            format!(
                "{samples} of {series} series would take about {would_take}, longest {longest}; \
                 give the time instead, or fewer samples"
            )
        })
    }
}

/// Refuses zero.
pub(crate) fn at_least_one(input: Input, number: u32) -> Result<(), PlanError> {
    input.check(number > 0, || "must be at least 1".to_owned())
}

/// One of the condition sets compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Short name, for instance `SCHED_FIFO 40, slack 1 ns`.
    pub label: String,
    /// The conditions it adds to the base.
    pub conditions: Conditions,
}

/// Two variants were equal.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is asked for twice")]
pub struct BadVariant(pub String);

impl Variant {
    /// The thread as it was found.
    #[must_use]
    pub fn as_found() -> Self {
        Self::new(Conditions::new())
    }

    /// A variant labelled by its conditions.
    #[must_use]
    pub fn new(conditions: Conditions) -> Self {
        let label = if conditions.is_empty() { "as found".to_owned() } else { phrase_of(&conditions) };
        Self { label, conditions }
    }

    /// All combinations of the values of these lists. A condition with an empty list is left as found.
    pub fn product(lists: &[Vec<Value>]) -> Result<Vec<Self>, BadVariant> {
        let mut all = vec![Conditions::new()];
        for values in lists.iter().filter(|values| !values.is_empty()) {
            let with = |former: &Conditions| -> Vec<Conditions> {
                values.iter().map(|value| former.clone().with(value.clone())).collect()
            };
            all = all.iter().flat_map(with).collect();
        }
        let variants: Vec<Self> = all.into_iter().map(Self::new).collect();
        for (index, variant) in variants.iter().enumerate() {
            if variants[..index].contains(variant) {
                return Err(BadVariant(variant.label.clone()));
            }
        }
        Ok(variants)
    }

    /// Base and variant together: the conditions requested for this variant.
    pub fn over(&self, base: &Conditions) -> Conditions {
        self.conditions.clone().over(base)
    }

    /// Whether a thread under this variant can monopolise a CPU.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.conditions.get_policy().is_some_and(|policy| policy.is_real_time())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::conditions::Condition;

    use super::*;

    #[test]
    fn every_policy_meets_every_slack() {
        let typed = |condition: Condition, values: &[&str]| -> Vec<Value> {
            values.iter().map(|value| condition.parse(value).unwrap()).collect()
        };
        let slacks = || typed(Condition::TIMER_SLACK, &["50us", "1ns"]);
        let variants = Variant::product(&[typed(Condition::POLICY, &["other", "fifo:40"]), slacks()]).unwrap();
        let labels: Vec<&str> = variants.iter().map(|v| v.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "SCHED_OTHER, slack 50 us",
                "SCHED_OTHER, slack 1 ns",
                "SCHED_FIFO 40, slack 50 us",
                "SCHED_FIFO 40, slack 1 ns"
            ]
        );
        assert_eq!(Variant::product(&[]).unwrap(), [Variant::as_found()]);
        assert!(Variant::product(&[typed(Condition::POLICY, &["fifo:1", "fifo:1"])]).is_err());
    }

    #[test]
    fn a_variant_goes_before_the_base() {
        let base = Conditions::new().nice(5).timer_slack(Duration::from_nanos(7));
        let both = Variant::new(Conditions::new().nice(-1).lock_memory()).over(&base);
        assert_eq!((both.get_nice(), both.get_lock_memory()), (Some(-1), Some(true)));
        assert_eq!(both.get_timer_slack(), Some(Duration::from_nanos(7)));
    }
}
