//! The plan of `calibrate`, checked before anything is touched.

use std::time::Duration;

use punctual::conditions::Conditions;

use super::proof::WAITS;
use crate::schedule::Amount;
use crate::variant::Variant;
use crate::wait::method::{Kind, Method, Unit};

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The ways to sleep.
    pub methods: Vec<&'static Method>,
    /// Conditions put side by side.
    pub variants: Vec<Variant>,
    /// Conditions that hold throughout.
    pub base: Conditions,
    /// How long, or how many rounds (a sample each).
    pub amount: Amount,
    /// The wait by which the calibration is proved.
    pub check: Duration,
    /// A refused condition is an error.
    pub require: bool,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) wanted: Wanted,
    /// Index of method, index of variant.
    pub(super) cells: Vec<(usize, usize)>,
}

/// Why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A method that cannot be calibrated.
    #[error("{0} cannot be calibrated: {1}; nanosleep, usleep and select can")]
    NotThis(&'static str, &'static str),
    /// Too few rounds.
    #[error("--samples {0} is too few rounds to see a spread; 5 and more do")]
    TooFew(u64),
    /// A check that takes too long, or nothing.
    #[error("--check takes 1us to 100ms")]
    Check,
}

/// Fewest rounds that show a spread.
const FEWEST: u64 = 5;
/// What one round of one cell takes: the sums of all X and T, and what the sleeps add.
const ROUND: Duration = Duration::from_millis(20);
/// Share of the time that the rounds get; the rest is for the proof.
const ROUNDS_SHARE: f64 = 0.85;

/// Why a method cannot be calibrated; none: it can.
pub fn can_be_calibrated(method: &Method) -> Result<(), &'static str> {
    match (method.absolute, method.kind, method.unit) {
        (_, Kind::Spin | Kind::UserWait, _) => Err("it does not sleep"),
        (_, Kind::Library, _) => Err("it calibrates itself"),
        (true, ..) => Err("it takes a deadline, and what sleeps add does not add up"),
        (_, _, Unit::Nanosecond | Unit::Microsecond) => Ok(()),
        _ => Err("its unit is coarser than what is measured here"),
    }
}

impl Plan {
    /// Checks what is wanted.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        for method in &wanted.methods {
            can_be_calibrated(method).map_err(|why| PlanError::NotThis(method.name, why))?;
        }
        if let Amount::Samples(n) = wanted.amount
            && n < FEWEST
        {
            return Err(PlanError::TooFew(n));
        }
        if !(Duration::from_micros(1)..=Duration::from_millis(100)).contains(&wanted.check) {
            return Err(PlanError::Check);
        }
        let cells = (0..wanted.variants.len()).flat_map(|v| (0..wanted.methods.len()).map(move |m| (m, v))).collect();
        Ok(Self { wanted, cells })
    }

    /// How long all of it takes, roughly.
    pub(super) fn takes(&self) -> Duration {
        match self.wanted.amount {
            Amount::Time(time) => time,
            Amount::Samples(n) => ROUND * u32::try_from(n).unwrap_or(u32::MAX) * self.cells.len() as u32,
        }
    }

    /// How long all of it may take: a number of rounds takes what it takes, but not several times as long as usual.
    pub(super) fn at_most(&self) -> Duration {
        match self.wanted.amount {
            Amount::Time(time) => time,
            Amount::Samples(_) => self.takes().saturating_mul(3).saturating_add(Duration::from_secs(20)),
        }
    }

    /// How long one round or one proof takes, roughly, in ns.
    pub(super) fn step_ns(&self, proving: bool) -> u64 {
        let step = if proving { self.wanted.check.saturating_mul(3 * WAITS) } else { ROUND };
        step.as_nanos() as u64
    }

    /// Whether that many rounds in that time are enough.
    pub(super) fn enough(&self, rounds: usize, gone: Duration) -> bool {
        match self.wanted.amount {
            Amount::Time(time) => rounds as u64 >= FEWEST && gone >= time.mul_f64(ROUNDS_SHARE),
            Amount::Samples(n) => rounds as u64 >= n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::methods;

    fn wanted(name: &str) -> Wanted {
        Wanted {
            methods: vec![methods::find(name).unwrap()],
            variants: vec![Variant::as_found()],
            base: Conditions::default(),
            amount: Amount::Time(Duration::from_secs(1)),
            check: Duration::from_micros(100),
            require: false,
        }
    }

    #[test]
    fn what_takes_a_duration_can_be_calibrated() {
        for name in ["nanosleep", "usleep", "select", "clock_nanosleep", "futex"] {
            assert!(Plan::new(wanted(name)).is_ok(), "{name}");
        }
        for name in ["clock_nanosleep_abs", "spin_clock", "hybrid", "sleep", "poll"] {
            let refusal = Plan::new(wanted(name)).unwrap_err();
            assert!(matches!(refusal, PlanError::NotThis(..)), "{name}: {refusal}");
        }
    }

    #[test]
    fn too_little_is_refused() {
        assert!(Plan::new(Wanted { amount: Amount::Samples(4), ..wanted("nanosleep") }).is_err());
        assert!(Plan::new(Wanted { check: Duration::ZERO, ..wanted("nanosleep") }).is_err());
        assert!(Plan::new(Wanted { check: Duration::from_secs(1), ..wanted("nanosleep") }).is_err());
    }
}
