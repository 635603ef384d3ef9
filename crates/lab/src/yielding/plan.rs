//! The plan of `yield`: which methods, against whom, on which CPU; checked before anything is touched.

use std::time::Duration;

use punctual::conditions::{Conditions, CpuSet, Policy};
use punctual_linux as linux;

use super::method::Method;
use crate::crowd::{self, Kind, Restraint};
use crate::schedule::{Amount, CellCost, Schedule};
use crate::variant::Variant;
use crate::wait::rough;

/// Longest run that is begun without a word: ten minutes.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// What a call is taken to cost before anything is known: alone, a sleep with the default slack; with competitors, a part of
/// their slice.
const USUAL_NS: (f64, f64) = (20_000.0, 500_000.0);
/// The shares of time: a cell with competitors gets ten times that of one without, since a slice lasts milliseconds and a share of
/// the CPU is only known after many. The schedule takes the square root.
const IDEAL_NS: (f64, f64) = (10_000.0, 1_000_000.0);

/// Policy of the competitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// That under which `punctual` was started.
    AsFound,
    /// The caller's, in each of its variants.
    Same,
    /// This one.
    Policy(Policy),
}

/// Competitors of one sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sort {
    /// Processes or threads.
    pub kind: Kind,
    /// Their policy; none: as found.
    pub policy: Option<Policy>,
    /// Their nice value; none: as found.
    pub nice: Option<i32>,
    /// How they stand to the caller.
    pub rank: Rank,
}

/// How a competitor's policy and priority stand to the caller's. Nice values are not compared: they change shares, not precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// It runs whenever it is ready.
    Higher,
    /// Neither takes precedence.
    Same,
    /// It runs when the caller does not.
    Lower,
}

impl Rank {
    /// Its name in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Same => "same",
            Self::Lower => "lower",
        }
    }

    /// A competitor's against the caller's; none: as found.
    fn of(competitor: Option<Policy>, caller: Option<Policy>) -> Self {
        let found = Conditions::inspect().policy.unwrap_or(Policy::Other);
        let place = |policy: Option<Policy>| match policy.unwrap_or(found) {
            Policy::Idle => 0,
            Policy::Other | Policy::Batch => 1,
            Policy::RoundRobin(priority) | Policy::Fifo(priority) => 1 + i32::from(priority),
            Policy::Deadline { .. } => 1000,
        };
        match place(competitor).cmp(&place(caller)) {
            std::cmp::Ordering::Greater => Self::Higher,
            std::cmp::Ordering::Equal => Self::Same,
            std::cmp::Ordering::Less => Self::Lower,
        }
    }
}

impl Sort {
    /// How they keep from holding the CPU for ever. Only a real-time member could: against a caller of its own rank it yields after each
    /// burst, so that the caller's own yields decide who runs; otherwise it sleeps.
    #[must_use]
    pub fn restraint(&self) -> Restraint {
        match (self.policy.as_ref().is_some_and(Policy::is_real_time), self.rank) {
            (false, _) => Restraint::None,
            (true, Rank::Same) => Restraint::Yields,
            (true, _) => Restraint::Sleeps,
        }
    }

    /// Their conditions on this CPU.
    #[must_use]
    pub fn conditions(&self, cpu: usize) -> Conditions {
        Conditions { policy: self.policy, nice: self.nice, cpus: Some(CpuSet::of([cpu])), ..Conditions::default() }
    }

    /// Their policy and nice value in the record.
    #[must_use]
    pub fn label(&self) -> String {
        let policy = self.policy.map_or_else(|| "as found".to_owned(), |p| p.to_string());
        self.nice.map_or_else(|| policy.clone(), |nice| format!("{policy}, nice {nice}"))
    }
}

/// One method, one situation, one variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Index into [`Plan::methods`].
    pub method: usize,
    /// Index into [`Plan::variants`].
    pub variant: usize,
    /// Index into [`Plan::sorts`]; none: alone.
    pub sort: Option<usize>,
    /// How many competitors; 0: alone.
    pub competitors: u32,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to yield.
    pub methods: Vec<&'static Method>,
    /// What is measured, in the order of the first round.
    pub cells: Vec<Cell>,
    /// The sorts of competitors.
    pub sorts: Vec<Sort>,
    /// Conditions put side by side.
    pub variants: Vec<Variant>,
    /// Conditions of the caller that hold throughout; its only CPU among them.
    pub base: Conditions,
    /// The CPU that the caller and its competitors share.
    pub cpu: usize,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Calls at the beginning of each batch that are not recorded.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The ways to yield.
    pub methods: Vec<&'static Method>,
    /// Numbers of competitors; 0: alone.
    pub competitors: Vec<u32>,
    /// Processes, threads, or both.
    pub kinds: Vec<Kind>,
    /// Their policies.
    pub against: Vec<Against>,
    /// Their nice value.
    pub competitor_nice: Option<i32>,
    /// Conditions of the caller, put side by side.
    pub variants: Vec<Variant>,
    /// Conditions of the caller that hold throughout. One CPU, or none: one is chosen.
    pub base: Conditions,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Unrecorded calls per batch.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Several CPUs.
    #[error("--cpu {0}: the caller and its competitors share one CPU; name one")]
    SeveralCpus(CpuSet),
    /// A CPU that this process may not use.
    #[error(
        "--cpu {asked}: this process may run on CPU {allowed}; name one of these (offline CPUs are put online in /sys/devices/system/cpu)"
    )]
    NoSuchCpu {
        /// What was asked.
        asked: usize,
        /// Where it may run.
        allowed: CpuSet,
    },
    /// The kernel does not tell.
    #[error("the CPUs of this process: {0}")]
    Cpus(linux::Error),
    /// Too many competitors.
    #[error("--competitors {0}: at most {most} share a CPU here", most = crowd::MOST)]
    TooMany(u32),
    /// The run would take too long.
    #[error(
        "{samples} samples of {series} series could take {}; give the time instead (--duration 60s), or fewer samples",
        rough(*.would_take)
    )]
    Endless {
        /// Samples asked for.
        samples: u64,
        /// Series they were asked of.
        series: usize,
        /// What they could take.
        would_take: Duration,
    },
    /// Nothing to measure.
    #[error("{0} must be at least 1")]
    None(&'static str),
}

/// The one CPU to measure on: that asked for, or else the last one that this process may use (the first ones serve most
/// interrupts).
pub fn one_cpu(asked: Option<&CpuSet>) -> Result<usize, PlanError> {
    let allowed = CpuSet::of(linux::affinity::affinity(0).map_err(PlanError::Cpus)?);
    match asked.map(CpuSet::as_slice) {
        None => allowed.iter().last().ok_or(PlanError::None("the number of CPUs")),
        Some([cpu]) if allowed.contains(*cpu) => Ok(*cpu),
        Some([cpu]) => Err(PlanError::NoSuchCpu { asked: *cpu, allowed }),
        Some(several) => Err(PlanError::SeveralCpus(CpuSet::of(several.iter().copied()))),
    }
}

impl Plan {
    /// Checks what is wanted and lays out the cells.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        let cpu = one_cpu(wanted.base.cpus.as_ref())?;
        if let Some(many) = wanted.competitors.iter().find(|n| **n > crowd::MOST) {
            return Err(PlanError::TooMany(*many));
        }
        for (empty, what) in [
            (wanted.rounds == 0, "--rounds"),
            (wanted.amount == Amount::Samples(0), "--samples"),
            (wanted.methods.is_empty(), "the number of methods"),
        ] {
            if empty {
                return Err(PlanError::None(what));
            }
        }
        let plan = Self::lay_out(wanted, cpu);
        if let Amount::Samples(samples) = plan.amount {
            let would_take = plan.schedule().expected();
            if would_take > LONGEST_UNASKED {
                return Err(PlanError::Endless { samples, series: plan.cells.len(), would_take });
            }
        }
        Ok(plan)
    }

    fn lay_out(wanted: Wanted, cpu: usize) -> Self {
        let mut plan = Self {
            methods: wanted.methods,
            cells: Vec::new(),
            sorts: Vec::new(),
            variants: wanted.variants,
            base: Conditions { cpus: Some(CpuSet::of([cpu])), ..wanted.base },
            cpu,
            amount: wanted.amount,
            rounds: wanted.rounds,
            warmup: wanted.warmup,
            require: wanted.require,
        };
        for variant in 0..plan.variants.len() {
            for &competitors in &wanted.competitors {
                let sorts = match competitors {
                    0 => vec![None],
                    _ => plan.sorts_for(variant, &wanted.kinds, &wanted.against, wanted.competitor_nice),
                };
                for sort in sorts {
                    let cell = |method| Cell { method, variant, sort, competitors };
                    plan.cells.extend((0..plan.methods.len()).map(cell));
                }
            }
        }
        plan
    }

    fn sorts_for(
        &mut self,
        variant: usize,
        kinds: &[Kind],
        against: &[Against],
        nice: Option<i32>,
    ) -> Vec<Option<usize>> {
        let mut wanted = Vec::new();
        for &kind in kinds {
            for against in against {
                let policy = match *against {
                    Against::AsFound => None,
                    Against::Same => self.variants[variant].conditions.policy,
                    Against::Policy(policy) => Some(policy),
                };
                let rank = Rank::of(policy, self.variants[variant].conditions.policy);
                let sort = Sort { kind, policy, nice, rank };
                let index = self.sorts.iter().position(|s| *s == sort).unwrap_or_else(|| {
                    self.sorts.push(sort);
                    self.sorts.len() - 1
                });
                if !wanted.contains(&Some(index)) {
                    wanted.push(Some(index));
                }
            }
        }
        wanted
    }

    /// The schedule of this plan's cells.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| match cell.competitors {
            0 => CellCost { ideal_ns: IDEAL_NS.0, expected_ns: USUAL_NS.0 },
            _ => CellCost { ideal_ns: IDEAL_NS.1, expected_ns: USUAL_NS.1 },
        };
        Schedule::new(self.amount, self.rounds, &self.cells.iter().map(cost).collect::<Vec<_>>())
    }

    /// Most competitors of this sort that any cell wants.
    #[must_use]
    pub fn most_of(&self, sort: usize) -> u32 {
        self.cells.iter().filter(|c| c.sort == Some(sort)).map(|c| c.competitors).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yielding::methods;

    fn wanted() -> Wanted {
        Wanted {
            methods: vec![methods::find("sched_yield").unwrap(), methods::find("usleep0").unwrap()],
            competitors: vec![0, 1, 3],
            kinds: vec![Kind::Process],
            against: vec![Against::AsFound],
            competitor_nice: None,
            variants: vec![Variant::as_found()],
            base: Conditions::default(),
            amount: Amount::Time(Duration::from_secs(1)),
            rounds: 10,
            warmup: 1,
            require: false,
        }
    }

    #[test]
    fn every_situation_gets_every_method() {
        let plan = Plan::new(wanted()).unwrap();
        assert_eq!((plan.cells.len(), plan.sorts.len(), plan.most_of(0)), (6, 1, 3));
        assert_eq!(plan.base.cpus, Some(CpuSet::of([plan.cpu])));
        let plan = Plan::new(Wanted { kinds: vec![Kind::Process, Kind::Thread], ..wanted() }).unwrap();
        assert_eq!((plan.cells.len(), plan.sorts.len()), (10, 2));
    }

    #[test]
    fn the_same_policy_follows_the_caller() {
        let fifo = Policy::Fifo(40);
        let variants = Variant::product(&[Policy::Other, fifo], &[]).unwrap();
        let against = vec![Against::Same, Against::Policy(fifo), Against::Policy(Policy::Idle)];
        let plan = Plan::new(Wanted { variants, against, competitors: vec![1], ..wanted() }).unwrap();
        let met = |variant: usize| {
            let mut met: Vec<String> = plan
                .cells
                .iter()
                .filter(|c| c.variant == variant && c.method == 0)
                .map(|c| plan.sorts[c.sort.unwrap()].label())
                .collect();
            met.sort();
            met
        };
        assert_eq!(met(0), ["fifo:40", "idle", "other"]);
        assert_eq!(met(1), ["fifo:40", "idle"]);
        let rank = |sort: &str, variant: Policy| Rank::of(Some(sort.parse().unwrap()), Some(variant)).name();
        assert_eq!((rank("fifo:40", fifo), rank("rr:41", fifo), rank("idle", fifo)), ("same", "higher", "lower"));
        assert_eq!((rank("batch", Policy::Other), rank("fifo:1", Policy::Other)), ("same", "higher"));
        let restraints: Vec<Restraint> = plan.sorts.iter().map(Sort::restraint).collect();
        assert!(restraints.contains(&Restraint::Yields) && restraints.contains(&Restraint::Sleeps), "{restraints:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |wanted: Wanted| Plan::new(wanted).unwrap_err().to_string();
        let base =
            |cpus: &[usize]| Conditions { cpus: Some(CpuSet::of(cpus.iter().copied())), ..Conditions::default() };
        assert!(refused(Wanted { base: base(&[0, 1]), ..wanted() }).contains("--cpu 0-1"));
        assert!(
            refused(Wanted { base: base(&[8000]), ..wanted() }).contains("--cpu 8000: this process may run on CPU")
        );
        assert!(refused(Wanted { competitors: vec![65], ..wanted() }).contains("--competitors 65: at most 64"));
        assert!(refused(Wanted { rounds: 0, ..wanted() }).contains("--rounds"));
        assert!(refused(Wanted { amount: Amount::Samples(1 << 40), ..wanted() }).contains("--duration"));
    }
}
