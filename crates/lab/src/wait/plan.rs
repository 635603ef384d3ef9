//! The plan of `wait`: what is measured, decided and checked before anything is touched.

use std::time::Duration;

use punctual::conditions::Conditions;
use punctual::format_duration;

use super::method::Method;
use crate::schedule::{Amount, CellCost, Schedule};
use crate::variant::Variant;

/// A duration for reading: two digits are enough to decide by.
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

/// Longest run that is begun without a word: ten minutes.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// Longest single wait: one day. A longer one is a slip of the hand.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
/// What a wait adds to the time asked, before anything is known of this machine: default timer slack and a wake-up.
const USUAL_OVERSHOOT_NS: f64 = 60_000.0;
/// The same for busy waiting: a few readings of the clock.
const USUAL_SPIN_OVERSHOOT_NS: f64 = 100.0;
/// Longest busy wait under a real-time policy: half of the second after which the watchdog steps in.
const LONGEST_REAL_TIME_SPIN: Duration = Duration::from_millis(500);

/// One subject, one duration, one variant: what becomes a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Index into [`Plan::methods`].
    pub method: usize,
    /// The wait asked.
    pub asked: Duration,
    /// Index into [`Plan::variants`].
    pub variant: usize,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to wait.
    pub methods: Vec<&'static Method>,
    /// What is measured, in the order of the first round.
    pub cells: Vec<Cell>,
    /// Conditions put side by side.
    pub variants: Vec<Variant>,
    /// Conditions that hold throughout.
    pub base: Conditions,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Waits at the beginning of each batch that are not recorded.
    pub warmup: u32,
    /// Name of the experiment in the record.
    pub experiment: &'static str,
    /// A refused condition is an error.
    pub require: bool,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A wait of nothing.
    #[error("a wait of 0 measures no waiting; the shortest is 1ns")]
    Zero,
    /// A wait of more than a day.
    #[error("a wait of {} is longer than a day, which is the longest measured here", format_duration(*.0))]
    TooLong(Duration),
    /// The run would take too long.
    #[error(
        "{samples} samples of {series} series would take about {}; give the time instead (--duration 60s), or fewer samples",
        rough(*.would_take)
    )]
    Endless {
        /// Samples asked for.
        samples: u64,
        /// Series they were asked of.
        series: usize,
        /// What they would take.
        would_take: Duration,
    },
    /// Nothing to measure.
    #[error("{0} must be at least 1")]
    None(&'static str),
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The ways to wait.
    pub methods: Vec<&'static Method>,
    /// The waits asked.
    pub durations: Vec<Duration>,
    /// Conditions put side by side; each method and duration is measured under each.
    pub variants: Vec<Variant>,
    /// Conditions that one method alone is measured under besides, to show what they would change.
    pub companions: Vec<(&'static Method, Variant)>,
    /// Conditions that hold throughout.
    pub base: Conditions,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Unrecorded waits per batch.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
}

impl Plan {
    /// Checks what is wanted and lays out the cells.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        for asked in &wanted.durations {
            if asked.is_zero() {
                return Err(PlanError::Zero);
            }
            if *asked > LONGEST_WAIT {
                return Err(PlanError::TooLong(*asked));
            }
        }
        if wanted.rounds == 0 {
            return Err(PlanError::None("--rounds"));
        }
        if wanted.amount == Amount::Samples(0) {
            return Err(PlanError::None("--samples"));
        }
        let plan = Self::lay_out(wanted);
        if let Amount::Samples(samples) = plan.amount {
            let would_take = plan.schedule(None).expected();
            if would_take > LONGEST_UNASKED {
                return Err(PlanError::Endless { samples, series: plan.cells.len(), would_take });
            }
        }
        Ok(plan)
    }

    /// The same under another name in the record, for an experiment that is a kind of waiting.
    #[must_use]
    pub fn named(self, experiment: &'static str) -> Self {
        Self { experiment, ..self }
    }

    fn lay_out(wanted: Wanted) -> Self {
        let mut plan = Self {
            methods: wanted.methods,
            cells: Vec::new(),
            variants: wanted.variants,
            base: wanted.base,
            amount: wanted.amount,
            rounds: wanted.rounds,
            warmup: wanted.warmup,
            require: wanted.require,
            experiment: super::EXPERIMENT,
        };
        for variant in 0..plan.variants.len() {
            for &asked in &wanted.durations {
                plan.cells.extend((0..plan.methods.len()).map(|method| Cell { method, asked, variant }));
            }
        }
        for (method, variant) in wanted.companions {
            let method = plan.position_of(method);
            let variant = plan.variants.iter().position(|v| *v == variant).unwrap_or_else(|| {
                plan.variants.push(variant);
                plan.variants.len() - 1
            });
            plan.cells.extend(wanted.durations.iter().map(|&asked| Cell { method, asked, variant }));
        }
        plan
    }

    fn position_of(&mut self, method: &'static Method) -> usize {
        self.methods.iter().position(|m| m.name == method.name).unwrap_or_else(|| {
            self.methods.push(method);
            self.methods.len() - 1
        })
    }

    /// The schedule of this plan's cells. `hz`: ticks of the kernel a second, where known.
    #[must_use]
    pub fn schedule(&self, hz: Option<u32>) -> Schedule {
        let cost = |cell: &Cell| {
            let asked_ns = cell.asked.as_nanos() as i64;
            let method = self.methods[cell.method];
            let effective_ns = method.effective_ns(asked_ns, hz);
            let overshoot = if method.kind.burns() { USUAL_SPIN_OVERSHOOT_NS } else { USUAL_OVERSHOOT_NS };
            CellCost { ideal_ns: asked_ns as f64 + overshoot, expected_ns: effective_ns as f64 + overshoot }
        };
        Schedule::new(self.amount, self.rounds, &self.cells.iter().map(cost).collect::<Vec<_>>())
    }

    /// Why this cell must not be run, if it must not.
    #[must_use]
    pub fn forbidden(&self, cell: &Cell) -> Option<(String, String)> {
        let method = self.methods[cell.method];
        (method.kind.burns() && self.variants[cell.variant].is_real_time() && cell.asked > LONGEST_REAL_TIME_SPIN).then(
            || {
                (
                    format!(
                        "a busy wait of {} under a real-time policy would hold the CPU",
                        format_duration(cell.asked)
                    ),
                    format!("ask for {} or less", format_duration(LONGEST_REAL_TIME_SPIN)),
                )
            },
        )
    }
}
